//! `shell`: reads commands from a prompt, a pipe or a file, and runs them on a database or on a server.

mod local;
mod prompt;
mod remote;
mod split;

use crate::args::{Global, ShellArgs};
use crate::failure::{Exit, Failure};
use crate::host;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(global: &Global, args: &ShellArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.connect {
        Some(address) => remote::run(address, args, global.shape.json, out),
        None => local::run(global, args.file.as_deref(), out),
    }
}

/// Whether commands are typed at a terminal.
fn shows_prompt(file: Option<&Path>) -> bool {
    file.is_none() && host::is_interactive()
}
