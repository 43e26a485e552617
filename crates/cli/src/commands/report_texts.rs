//! Texts of reports for the admin address: the words and options of a path become the command line that they
//! stand for, and the command prints into the answer.
//!
//! So the text is the command's own. Only commands that read figures are executed, and of the global options
//! only those of the keyspace and of formats are taken.

use super::{Context, run};
use crate::args::{self, Cli, Command, OVER_HTTP, Shape};
use crate::caller::Caller;
use crate::failure::Failure;
use clap::Parser;
use esker::Database;
use esker_admin::{Refusal, Texts};
use std::ffi::OsString;

/// Makes texts by the commands of this program.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportTexts;

impl Texts for ReportTexts {
    fn text(
        &self,
        database: &Database,
        words: &[&str],
        options: &[(String, Option<String>)],
    ) -> Result<String, Refusal> {
        let cli = parsed(words, options).map_err(refused)?;
        if args::refusal_over_http(&cli.command).is_some() {
            return Err(unknown());
        }
        let Command::Data(command) = &cli.command else { return Err(unknown()) };
        check(&cli).map_err(refused)?;
        let mut text = Vec::new();
        let mut context = Context {
            database,
            shape: cli.global.shape.or(&Shape::default()),
            only: cli.global.shape.keyspace.clone(),
            for_reading: false,
            caller: Caller::default(),
            out: &mut text,
        };
        run(&mut context, command).map_err(refused)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The command line that the words and options stand for.
fn parsed(words: &[&str], options: &[(String, Option<String>)]) -> Result<Cli, Failure> {
    let option = |(name, value): &(String, Option<String>)| match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    };
    // A word of a path is no option.
    let words = words.iter().map(|word| word.trim_start_matches('-').to_owned());
    let line = std::iter::once("esker".to_owned()).chain(words).chain(options.iter().map(option));
    Cli::try_parse_from(line.map(OsString::from)).map_err(|error| {
        let text = error.render().to_string();
        Failure::usage(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })
}

/// Refuses options that the command would ignore, and those of files and processes.
fn check(cli: &Cli) -> Result<(), Failure> {
    let global = &cli.global;
    let is_foreign = global.data.is_some()
        || global.connect.is_some()
        || global.token_file.is_some()
        || global.tls.tls
        || global.config.is_some()
        || global.memory.is_some()
        || global.log.is_some();
    if is_foreign {
        return Err(Failure::usage("over HTTP there are no options of databases, files and logs"));
    }
    args::check_options(cli).map_err(Failure::usage)
}

fn refused(failure: Failure) -> Refusal {
    let (sentence, code) = failure.sentence_and_code();
    Refusal { sentence, exit_code: Some(code) }
}

fn unknown() -> Refusal {
    Refusal { sentence: format!("there is no such text; there are {OVER_HTTP}"), exit_code: None }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_made_and_only_of_this_database() {
        let dir = std::env::temp_dir().join(format!("esker-cli-texts-{}", std::process::id()));
        let database = Database::open(&dir).unwrap();
        let ask = |words: &str, options: &[(&str, Option<&str>)]| {
            let options: Vec<_> =
                options.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect();
            ReportTexts.text(&database, &words.split('/').collect::<Vec<_>>(), &options)
        };
        assert!(ask("levels", &[]).unwrap().contains("default, partitioned"));
        let json = ask("stats", &[("json", None)]).unwrap();
        assert!(
            serde_json::from_str::<serde_json::Value>(&json).is_ok_and(|told| told.is_object()),
            "{json}"
        );
        for (words, options) in [
            ("compact", &[][..]),
            ("put/a/1", &[]),
            ("get/a", &[]),
            ("advise", &[("apply", None)]),
            ("stats", &[("watch", Some("1s"))]),
            ("explain/get/a", &[]),
            ("serve", &[]),
            ("top", &[]),
        ] {
            let refused = ask(words, options).unwrap_err();
            assert!(refused.exit_code.is_none() && refused.sentence.contains("there are stats"), "{words}");
        }
        for (words, options) in [
            ("nonsense", &[][..]),
            ("", &[]),
            ("--help", &[]),
            ("levels", &[("help", None)]),
            ("levels", &[("nonsense", None)]),
            ("levels/--json", &[]),
            ("levels", &[("config", Some("/etc/passwd"))]),
            ("levels", &[("data", Some("/tmp"))]),
            ("levels", &[("connect", Some("./d"))]),
            ("levels", &[("memory", Some("1GiB"))]),
            ("levels", &[("log", Some("trace"))]),
            ("stats", &[("key", Some("hex"))]),
            ("levels", &[("keyspace", Some("nowhere"))]),
        ] {
            let refused = ask(words, options);
            assert!(
                refused.as_ref().is_err_and(|refused| refused.exit_code == Some(2)),
                "{words}: {refused:?}"
            );
        }
        database.close().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
