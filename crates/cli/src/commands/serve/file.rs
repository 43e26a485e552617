//! The section `[serve]` of a configuration file: each entry stands for the option of that name.
//!
//! Entries become words of the command line, so that an option means the same in both places and an option
//! that is added later is known in the file as well. What the command line says comes before what the file
//! says. [`differences`] compares what counts with what counted before, for a file that is read again.

use crate::args::{self, Cli, Command};
use crate::config_file::{ConfigFile, Setting, SettingValue};
use crate::failure::Failure;
use crate::host;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;

/// Options that make no sense in the file that they name or check.
const NOT_IN_A_FILE: [&str; 10] = [
    "config",
    "check_config",
    "help",
    "version",
    "connect",
    "token_file",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
];

/// Options of which the command line has one and the file the other: the command line decides.
const ALTERNATIVES: [(&str, &str); 3] =
    [("redis", "redis_conf"), ("redis_conf", "redis"), ("data", "directory")];

/// The option whose values are names with values.
const NAMED: &str = "redis_set";

/// The option that takes all words behind it.
const LAST: &str = "redis_conf";

/// What an entry stands for.
struct Words {
    /// The option's name in the program.
    id: String,
    words: Vec<OsString>,
}

/// The command line as it counts.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) cli: Cli,
    words: Vec<OsString>,
}

/// The command line, and that of `serve` completed by the file that it names.
///
/// # Errors
/// All entries of the section that are wrong, and else the first other mistake of the file.
pub(crate) fn complete(words: &[OsString], matches: &ArgMatches) -> Result<CommandLine, Failure> {
    let cli = Cli::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    let (Command::Serve(args), Some(path)) = (&cli.command, &cli.global.config) else {
        return Ok(CommandLine { cli, words: words.to_vec() });
    };
    if host::can_be_read_once(path) {
        let what = format!("--config {}: `serve` reads its file again at SIGHUP", path.display());
        return Err(Failure::usage(what).advise("name a file instead of standard input or a pipe"));
    }
    let file = ConfigFile::read(path)?;
    let matches = matches.subcommand_matches("serve").unwrap_or(matches);
    let set_here: Vec<&str> = args.redis_set.chunks_exact(2).map(|pair| pair[0].as_str()).collect();
    let (mut added, mut wrong) = (Vec::new(), Vec::new());
    for setting in file.serve() {
        match words_of(setting, &set_here) {
            Ok(words) if !is_given(matches, &words.id) => added.push(words),
            Ok(_) => {}
            Err(reason) => wrong.push(file.wrong(setting.line, reason)),
        }
    }
    wrong.extend(file.options().err());
    if let Some(failure) = Failure::all(wrong) {
        return Err(failure);
    }
    let words = joined(words, added);
    let cli = Cli::try_parse_from(&words).map_err(|error| {
        Failure::usage(format!("{}, section [serve]: {}", path.display(), reason_of(&error)))
    })?;
    Ok(CommandLine { cli, words })
}

/// The same command line, completed by what its file says now.
///
/// # Errors
/// Those of [`complete`].
pub(super) fn complete_anew(words: &[OsString]) -> Result<CommandLine, Failure> {
    let matches = Cli::command().try_get_matches_from(words);
    complete(words, &matches.map_err(|error| Failure::usage(reason_of(&error)))?)
}

/// The options of `serve`, as a file names them, that have other values in one command line than in another.
pub(super) fn differences(before: &CommandLine, now: &CommandLine) -> Vec<String> {
    let (before, now) = (values(&before.words), values(&now.words));
    let differ = before.into_iter().zip(now).filter(|((_, before), (_, now))| before != now);
    differ.map(|((name, _), _)| name).collect()
}

/// The options of `serve` with their values.
fn values(words: &[OsString]) -> Vec<(String, Vec<OsString>)> {
    let mut command = Cli::command();
    command.build();
    let options = command.find_subcommand("serve").map(|serve| serve.get_arguments().cloned().collect());
    let options: Vec<clap::Arg> = options.unwrap_or_default();
    let matches = command.try_get_matches_from(words).ok();
    let serve = matches.as_ref().and_then(|matches| matches.subcommand_matches("serve"));
    let value = |option: &clap::Arg| {
        let raw = serve.and_then(|serve| serve.try_get_raw(option.get_id().as_str()).ok().flatten());
        raw.map(|values| values.map(OsString::from).collect()).unwrap_or_default()
    };
    options.iter().map(|option| (option.get_id().to_string(), value(option))).collect()
}

/// The words that an entry stands for.
///
/// # Errors
/// Why there is no such option, or why it does not take the value.
fn words_of(setting: &Setting, set_here: &[&str]) -> Result<Words, String> {
    let (id, long) = option(&setting.name)?;
    let flag = format!("--{long}");
    let mut words = Vec::new();
    match &setting.value {
        SettingValue::Named(pairs) if id == NAMED => {
            for (name, values) in pairs.iter().filter(|(name, _)| !set_here.contains(&name.as_str())) {
                for value in values {
                    words.extend([&flag, name, value].map(OsString::from));
                }
            }
        }
        _ if id == NAMED => return Err(format!("{} is a section of directives of redis.conf", setting.name)),
        SettingValue::Named(_) => return Err(format!("{} takes a value, and is no section", setting.name)),
        SettingValue::Is(_) => words.push(flag.into()),
        SettingValue::One(value) => words.push(format!("{flag}={value}").into()),
        SettingValue::Several(values) => {
            words.push(flag.into());
            words.extend(values.iter().map(OsString::from));
        }
    }
    let alone = ["esker".into(), "serve".into()].into_iter().chain(words.iter().cloned());
    let cli = Cli::try_parse_from(alone).map_err(|error| reason_of(&error))?;
    args::check_options(&cli)?;
    if setting.value == SettingValue::Is(false) {
        words.clear();
    }
    Ok(Words { id, words })
}

/// The option of `serve` with this name, in the program and on the command line. Names have `_` or `-`.
fn option(name: &str) -> Result<(String, String), String> {
    let wanted = name.replace('_', "-");
    let mut command = Cli::command();
    command.build();
    let serve = command.find_subcommand("serve").ok_or("there is no command serve")?;
    if wanted == "directory" {
        return Ok(("data".to_owned(), "data".to_owned()));
    }
    let names = |arg: &clap::Arg| -> Vec<String> {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect()
    };
    let options = || serve.get_arguments().filter(|arg| !NOT_IN_A_FILE.contains(&arg.get_id().as_str()));
    match options().find(|arg| names(arg).contains(&wanted)) {
        Some(arg) => Ok((arg.get_id().to_string(), arg.get_long().unwrap_or_default().to_owned())),
        None => {
            let own = options().filter(|arg| !arg.is_global_set()).filter_map(|arg| arg.get_long());
            let own: Vec<String> = own.map(|long| long.replace('-', "_")).collect();
            Err(format!("`serve` has no option {name}; there are data, memory, log, {}", own.join(", ")))
        }
    }
}

/// Whether the command line has the option, or one that takes its place.
fn is_given(matches: &ArgMatches, id: &str) -> bool {
    let others = ALTERNATIVES.iter().filter(|(one, _)| *one == id).map(|(_, other)| *other);
    let is_set = |id: &str| {
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    id != NAMED && std::iter::once(id).chain(others).any(is_set)
}

/// The command line with the words of the file, those of `--redis-conf` at the end.
fn joined(words: &[OsString], added: Vec<Words>) -> Vec<OsString> {
    let (last, others): (Vec<Words>, Vec<Words>) = added.into_iter().partition(|words| words.id == LAST);
    let is_last =
        |word: &OsString| word == "--redis-conf" || word.as_encoded_bytes().starts_with(b"--redis-conf=");
    let at = words.iter().position(is_last).unwrap_or(words.len());
    let (before, behind) = words.split_at(at);
    let of_file = |words: Vec<Words>| words.into_iter().flat_map(|words| words.words);
    before.iter().cloned().chain(of_file(others)).chain(behind.iter().cloned()).chain(of_file(last)).collect()
}

/// The reason of an error, in one line.
fn reason_of(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let lines: Vec<&str> = rendered.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let reason = lines.join(" ");
    reason.strip_prefix("error: ").unwrap_or(&reason).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option of `serve` can be set in a file.
    #[test]
    fn no_option_is_missing() {
        let mut command = Cli::command();
        command.build();
        let serve = command.find_subcommand("serve").expect("it is there");
        let mut seen = 0;
        for arg in serve.get_arguments().filter(|arg| !NOT_IN_A_FILE.contains(&arg.get_id().as_str())) {
            let Some(long) = arg.get_long() else {
                assert_eq!(arg.get_id(), "directory", "it stands for --data");
                continue;
            };
            let name = long.replace('-', "_");
            assert_eq!(option(&name).map(|(id, _)| id), Ok(arg.get_id().to_string()), "{name}");
            seen += 1;
        }
        assert!(seen > 10);
        for (name, id) in [("directory", "data"), ("text", "dsl"), ("max-line", "max_line")] {
            assert_eq!(option(name).map(|(id, _)| id), Ok(id.to_owned()));
        }
        let line = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            CommandLine { cli: Cli::try_parse_from(&words).expect(text), words }
        };
        let before = line("esker serve --redis off --max-clients 7 --admin-tls --memory 1GiB");
        let now = line("esker serve --redis off --max-clients 8 --watch 1s --memory 2GiB");
        assert_eq!(differences(&before, &now), ["admin_tls", "max_clients", "watch", "memory"]);
        assert!(differences(&now, &now).is_empty());
        for name in ["config", "check_config", "help", "nothing"] {
            let reason = option(name).expect_err(name);
            assert!(reason.contains("max_clients") && !reason.contains("check_config,"), "{reason}");
        }
    }
}
