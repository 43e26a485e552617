//! Commands on a database that another process has open, executed by that process.

use crate::args::{self, BackupCommand, Cli, Command, Shape};
use crate::caller::Caller;
use crate::commands::{self, Context};
use crate::control::held::Held;
use crate::failure::{Exit, Failure};
use crate::shell;
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;

/// Runs a command of another process on a database that this process has open.
pub(crate) fn run(
    held: &Held,
    arguments: &[OsString],
    caller: Caller,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let cli = Cli::try_parse_from(arguments).map_err(|error| Failure::usage(error.render().to_string()))?;
    args::check_options(&cli).map_err(Failure::usage)?;
    let database = &held.database;
    let shape = cli.global.shape.or(&Shape::default());
    match &cli.command {
        Command::Data(command) => {
            let only = cli.global.shape.keyspace.clone();
            commands::run(&mut Context { database, shape, only, for_reading: false, caller, out }, command)
        }
        Command::Backup(args) if let BackupCommand::Create(create) = &args.command => {
            commands::copies::create_open(database, &caller, create, shape.json, out)
        }
        Command::Import(args) => commands::portable::import_open(database, &caller, args, shape.json, out),
        Command::Exec(args) => commands::exec::run_open(database, &caller, args, out),
        Command::Shell(args) => shell::run_shared(database, args, shape, &caller, out),
        Command::Options(args) => commands::options::run_open(database, args, &shape, out),
        Command::Top(_) if shape.json => commands::top::print_json(&held.observer(), out),
        Command::Top(_) => Err(Failure::usage("only the figures of `top` are told to other processes")
            .advise("ask for them with `esker top --json`")),
        _ => Err(Failure::usage("this command needs a database that no other process has open")
            .advise("let the process that has it open end first")),
    }
}
