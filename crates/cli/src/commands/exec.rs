//! `exec`: runs a file of DSL commands.

use crate::args::{ExecArgs, Global};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::host::Input;
use esker::Database;
use esker_protocol::{Line, LineBuffer, answer};
use esker_server::LoadFiles;
use esker_server::dsl::{Executor, Outcome};
use std::io::{self, Read, Write};

/// Longest line of a file of commands. The server's default is lower, because its clients are not trusted.
const MAX_LINE_BYTES: usize = 1 << 30;

const READ_BYTES: usize = 64 << 10;

pub(crate) fn run(global: &Global, args: &ExecArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    // Before the database is opened: recovery is wasted if the file is missing.
    let input = Caller::default().open_input(&args.file)?;
    let database = super::open(global, |options| options)?;
    let executor = Executor::new(database.clone(), LoadFiles::Anywhere)?;
    let result = run_file(executor, input, &args.file.display(), out);
    let closed = database.close();
    let exit = result?;
    closed?;
    Ok(exit)
}

/// Runs a file on a database that is open.
pub(crate) fn run_open(
    database: &Database,
    caller: &Caller,
    args: &ExecArgs,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let input = caller.open_input(&args.file)?;
    let executor = Executor::new(database.clone(), LoadFiles::Anywhere)?;
    run_file(executor, input, &args.file.display(), out)
}

pub(crate) fn run_file(
    mut executor: Executor,
    mut input: Input,
    name: &dyn std::fmt::Display,
    mut out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let mut note = |outcome: Outcome| {
        if outcome.refused {
            exit = Exit::Refused;
        }
        outcome.quit
    };
    let mut lines = LineBuffer::new(MAX_LINE_BYTES);
    loop {
        // A reader at the other end of a pipe gets each answer before the next command is read.
        out.flush()?;
        let read = read_some(&mut *input.reader, lines.input(READ_BYTES));
        if read.map_err(|error| Failure::system(format_args!("cannot read {name}"), &error))? == 0 {
            break;
        }
        while let Some(line) = lines.next_line() {
            let outcome = match line {
                Line::Complete(line) => executor.run_line(line, &mut out)?,
                Line::TooLong => {
                    let mut error = Vec::new();
                    answer::error(format_args!("the line is longer than {MAX_LINE_BYTES} bytes"), &mut error);
                    out.write_all(&error)?;
                    Outcome { quit: false, refused: true }
                }
            };
            if note(outcome) {
                return Ok(exit);
            }
        }
    }
    // A file, unlike a connection, may end without a line end.
    note(executor.run_line(lines.rest(), &mut out)?);
    Ok(exit)
}

fn read_some(reader: &mut (dyn Read + Send), buffer: &mut Vec<u8>) -> io::Result<usize> {
    let before = buffer.len();
    buffer.resize(before + READ_BYTES, 0);
    let read = loop {
        match reader.read(buffer.get_mut(before..).unwrap_or_default()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    buffer.truncate(before + read.as_ref().copied().unwrap_or(0));
    read
}
