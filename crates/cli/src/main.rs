//! The `esker` command: the library and the server for people.
//!
//! Everything here is a thin user of the facade. [`args`] says what can be typed; `commands` has a file for
//! each thing that can be asked; `records` reads and writes the files of `load` and `dump`; `shell` is the
//! prompt; [`failure`] turns errors into a sentence, an advice and an exit code; [`host`] is the only place
//! that touches the user's files, terminal and environment.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod format;
mod host;
mod records;
mod shell;

use args::{Cli, Command};
use clap::Parser;
use failure::{Exit, Failure};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The database's limit on open tables follows from that of the process, and the usual one is small.
    esker::parts::env::host::raise_open_files_limit();
    host::start_log(cli.global.log.unwrap_or(commands::default_log_level(&cli.command)));
    let mut out = host::stdout();
    let result = run(&cli, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // What was already answered comes before the complaint; if it cannot be written, that is no news
            // now.
            let _flushed = out.flush();
            failure.report(&mut host::stderr())
        }
    }
}

fn run(cli: &Cli, out: &mut dyn Write) -> Result<Exit, Failure> {
    let global = &cli.global;
    match &cli.command {
        Command::Serve(args) => commands::serve::run(global, args, out),
        Command::Shell(args) => shell::run(global, args, out),
        Command::Data(command) => commands::run_alone(global, command, out),
        Command::Backup(args) => commands::copies::backup(global, &args.command, out),
        Command::Restore(args) => commands::copies::restore(global, args, out),
        Command::Import(args) => commands::portable::import(global, args, out),
        Command::BuildTable(args) => commands::ingest::build_table(global, args, out),
        Command::Inspect(args) => commands::inspect::run(global, args, out),
        Command::Bench(args) => commands::bench::run(global, args, out),
        Command::Experiment(args) => commands::experiment::run(global, args, out),
        Command::Simulate(args) => commands::simulate::run(global, args, out),
        Command::Options(args) => commands::options::run(global, args, out),
        Command::Exec(args) => commands::exec::run(global, args, out),
    }
}
