//! The `esker` command: the library and the server on the command line, and [`ControlSocket`] for programs
//! whose database the command is to work on.
//!
//! The program uses the public library only. [`args`] defines the command line; `commands` has a file for
//! each command; `records` reads and writes the files of `load` and `dump`; `shell` is the prompt;
//! [`failure`] turns errors into a sentence, advice and an exit code; only [`host`] and [`output`] touch the
//! user's files, terminal and environment, and [`log`] writes the log, in
//! the form of [`log_lines`], limited by [`log_limit`]; [`shared`] executes commands of other processes, and
//! [`http_client`] asks a server.

#![forbid(unsafe_code)]

mod args;
mod caller;
mod commands;
mod config_file;
mod control;
mod embedded;
mod failure;
mod format;
mod host;
mod http_client;
mod interrupt;
mod json;
mod log;
mod log_limit;
mod log_lines;
mod output;
mod records;
mod shared;
mod shell;

pub use embedded::ControlSocket;

use args::{Cli, Command, Connect};
use clap::CommandFactory;
use clap::error::ErrorKind;
use commands::serve::Plan;
use failure::{Exit, Failure, USAGE_CODE};
use log::LogSettings;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use tracing::level_filters::LevelFilter;

/// Runs the command line of this process to its end.
#[must_use]
pub fn main() -> ExitCode {
    let words = host::arguments();
    let matches = Cli::command().try_get_matches_from(&words).unwrap_or_else(|error| {
        if error.kind() == ErrorKind::InvalidUtf8 {
            let advised = Failure::usage("the command line has bytes that are no UTF-8");
            let advised = advised
                .advise("write keys and values of any bytes as hexadecimal digits: --key hex, --value hex");
            advised.report(&mut host::stderr());
            std::process::exit(USAGE_CODE.into());
        }
        error.exit()
    });
    let cli = match commands::serve::complete(&words, &matches) {
        Ok(line) => line.cli,
        Err(failure) => return failure.report(&mut host::stderr()),
    };
    // The database derives its limit on open tables from that of the process, whose default is low.
    esker::parts::env::host::raise_open_files_limit();
    esker::parts::env::c_heap::keep_little();
    let started = prepare(&cli).and_then(|(serve, log)| Ok((serve, host::start_log(&log)?)));
    let (serve, log) = match started {
        Ok(started) => started,
        Err(failure) => return failure.report(&mut host::stderr()),
    };
    let mut out = host::stdout();
    let result = match (&cli.command, &cli.global.connect) {
        // It draws here, whatever tells it the figures.
        (Command::Top(_), _) => run(&cli, serve.as_ref(), &mut out).map(ExitCode::from),
        (_, Some(Connect::Socket(path))) => forward_to(&cli, path, &mut out),
        (Command::Data(_), Some(Connect::Server(address))) => {
            let asked = commands::over_http::run(&cli.global, address, &matches, &mut out);
            asked.map(ExitCode::from)
        }
        _ => {
            let result = run(&cli, serve.as_ref(), &mut out);
            result.map(ExitCode::from).or_else(|failure| forward(&cli, failure, &mut out))
        }
    };
    let result = result.and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    log.finish();
    match result {
        Ok(code) => code,
        Err(failure) => {
            // Answers are printed before the error; a failure to print them is ignored here.
            let _flushed = out.flush();
            failure.report(&mut host::stderr())
        }
    }
}

/// Lets the process that has the database open execute the command, if that is why it failed.
fn forward(cli: &Cli, failure: Failure, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    if !failure.is_locked() {
        return Err(failure);
    }
    if !cli.command.can_be_shared() {
        return Err(
            failure.advise("this command needs a database that no process has open: let that one end first")
        );
    }
    control::forward::forward(cli.global.data(), &mut *typed(cli)?, out)?.ok_or(failure)
}

/// Lets the process behind a control socket execute the command. The path may be that of the directory.
fn forward_to(cli: &Cli, path: &Path, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let code = control::forward::forward(path, &mut *typed(cli)?, out)?;
    code.ok_or_else(|| {
        if !path.exists() {
            return Failure::unreachable(format!("there is no {}", path.display()))
                .advise("--connect takes the directory of a database, or its control socket");
        }
        Failure::unreachable(format!("no process listens on the control socket of {}", path.display())).advise(
            "`esker serve`, `esker shell` and programs that ask for it listen there while they have a database open",
        )
    })
}

/// Standard input, or the lines that are typed into a shell.
fn typed(cli: &Cli) -> Result<Box<dyn Read>, Failure> {
    match &cli.command {
        Command::Shell(args) if args.file.is_none() => shell::typed_lines(),
        _ => Ok(Box::new(host::stdin())),
    }
}

/// What must be known before the log begins: how it is written, which a file of `serve` may say.
fn prepare(cli: &Cli) -> Result<(Option<Plan>, LogSettings), Failure> {
    args::check_options(cli).map_err(Failure::usage)?;
    if let Command::Serve(args) = &cli.command {
        let plan = Plan::new(&cli.global, args)?;
        let log = plan.log.clone();
        return Ok((Some(plan), log));
    }
    // Lines of the log would stand between the figures of a dashboard until it is drawn anew.
    let otherwise = if matches!(cli.command, Command::Top(_)) { LevelFilter::OFF } else { LevelFilter::WARN };
    Ok((None, LogSettings::plain(cli.global.log.unwrap_or(otherwise))))
}

fn run(cli: &Cli, serve: Option<&Plan>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let global = &cli.global;
    if let Some(plan) = serve {
        return commands::serve::run(global, plan, shared::run, out);
    }
    match &cli.command {
        Command::Serve(_) => Err(Failure::defect("`serve` has no plan")),
        Command::Shell(args) => shell::run(global, args, shared::run, out),
        Command::Top(args) => commands::top::run(global, args, shared::run, out),
        Command::Data(command) => commands::run_alone(global, command, out),
        Command::Backup(args) => commands::copies::backup(global, &args.command, out),
        Command::Restore(args) => commands::copies::restore(global, args, out),
        Command::Repair(args) => commands::repair::repair(global, args, out),
        Command::Import(args) => commands::portable::import(global, args, out),
        Command::BuildTable(args) => commands::ingest::build_table(global, args, out),
        Command::Inspect(args) => commands::inspect::run(global, args, out),
        Command::Bench(args) => commands::bench::run(global, args, out),
        Command::Experiment(args) => commands::experiment::run(global, args, out),
        Command::Simulate(args) => commands::simulate::run(global, args, out),
        Command::Options(args) => commands::options::run(global, args, out),
        Command::Generate(args) => commands::generate::run(args, out),
        Command::Exec(args) => commands::exec::run(global, args, out),
        Command::Completions(args) => commands::pages::completions(args, out),
        Command::Man(args) => commands::pages::man(args, out),
    }
}
