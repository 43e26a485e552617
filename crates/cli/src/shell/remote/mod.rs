//! The shell on a server: sends lines unchanged and prints the answers.
//!
//! Every command has one line of answer except `s`, whose answer ends with an empty line, and `q`, which ends
//! the connection; blank lines have none. [`session`] is a person at a terminal, [`pipeline`] a file of
//! commands.

mod answer;
mod connection;
mod pipeline;
mod report;
mod session;

use super::shows_prompt;
use crate::args::{RemoteArgs, ShellArgs};
use crate::failure::{Exit, Failure};
use crate::host;
use connection::Connection;
use report::{AnswerFormat, Report};
use std::io::{BufReader, Write};
use std::path::Path;

const HELP: &str = "\
The commands of the server:
  p KEY VALUE   put              r START END   the pairs from START up to END
  g KEY         get              l \"FILE\"      load a file that lies with the server
  d KEY         delete           s [LIMIT]     show counts and contents by level
  use [NAME]    work on another keyspace, without a name on the protocol's own pairs
  q             quit
Keys and values are integers or \"strings\".
";

pub(super) fn run(address: &str, args: &ShellArgs, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let RemoteArgs { timing, wait } = args.remote;
    let file = args.file.as_deref();
    let input = match file {
        Some(path) => Some(host::open_input(path)?),
        None => None,
    };
    let connection = Connection::open(address, wait)?;
    let report = Report::new(AnswerFormat { json, timing });
    if shows_prompt(file) {
        return session::run(connection, report, out);
    }
    let input = match input {
        Some(input) => input,
        None => host::open_input(Path::new("-"))?,
    };
    pipeline::run(connection, BufReader::new(input.reader), report, out)
}
