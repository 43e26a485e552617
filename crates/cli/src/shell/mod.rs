//! `shell`: reads commands from a prompt, a pipe or a file, and runs them on a database or on a server.

mod local;
mod prompt;
mod remote;
mod split;
mod typed_lines;

use self::typed_lines::TypedLines;
use crate::args::{Connect, Global, Shape, ShellArgs};
use crate::caller::Caller;
use crate::control::listen::SharedRun;
use crate::failure::{Exit, Failure};
use crate::host;
use esker::Database;
use std::io::{Read, Write};
use std::path::Path;

pub(crate) fn run(
    global: &Global,
    args: &ShellArgs,
    shared: SharedRun,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    match &global.connect {
        Some(Connect::Server(address)) => remote::run(address, args, global.shape.json, out),
        _ => local::run(global, args.file.as_deref(), shared, out),
    }
}

/// Runs the commands of another process on a database that is open.
pub(crate) fn run_shared(
    database: &Database,
    args: &ShellArgs,
    shape: Shape,
    caller: &Caller,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    local::run_shared(database, args.file.as_deref(), shape, caller, out)
}

/// The lines that are typed, for a shell that another process executes.
pub(crate) fn typed_lines() -> Result<Box<dyn Read>, Failure> {
    if shows_prompt(None) {
        Ok(Box::new(TypedLines::new(local::names())?))
    } else {
        Ok(Box::new(host::stdin()))
    }
}

/// Whether commands are typed at a terminal.
fn shows_prompt(file: Option<&Path>) -> bool {
    file.is_none() && host::is_interactive()
}
