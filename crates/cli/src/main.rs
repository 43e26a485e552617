//! The `esker` command: the library and the server on the command line.
//!
//! The program uses the public library only. [`args`] defines the command line; `commands` has a file for
//! each command; `records` reads and writes the files of `load` and `dump`; `shell` is the prompt;
//! [`failure`] turns errors into a sentence, advice and an exit code; only [`host`] and [`output`] touch the
//! user's files, terminal and environment, and [`log`] writes the log, limited by
//! [`log_limit`].

#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod format;
mod host;
mod json;
mod log;
mod log_limit;
mod output;
mod records;
mod shell;

use args::{Cli, Command};
use clap::Parser;
use failure::{Exit, Failure};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The database derives its limit on open tables from that of the process, whose default is low.
    esker::parts::env::host::raise_open_files_limit();
    esker::parts::env::c_heap::keep_little();
    let level = cli.global.log.unwrap_or(commands::default_log_level(&cli.command));
    let log = match host::start_log(level) {
        Ok(log) => log,
        Err(failure) => return failure.report(&mut host::stderr()),
    };
    let mut out = host::stdout();
    let result = run(&cli, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    log.finish();
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // Answers are printed before the error; a failure to print them is ignored here.
            let _flushed = out.flush();
            failure.report(&mut host::stderr())
        }
    }
}

fn run(cli: &Cli, out: &mut dyn Write) -> Result<Exit, Failure> {
    args::check_options(cli).map_err(Failure::usage)?;
    let global = &cli.global;
    match &cli.command {
        Command::Serve(args) => commands::serve::run(global, args, out),
        Command::Shell(args) => shell::run(global, args, out),
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
    }
}
