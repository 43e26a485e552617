//! A session with a server at the terminal: one command at a time, connected again when the server went away.

use super::HELP;
use super::answer::{self, Form, Lost};
use super::connection::{Answers, Connection};
use super::report::Report;
use crate::failure::{Exit, Failure};
use crate::shell::prompt::Prompt;
use esker_protocol::command::USAGE;
use std::io::{self, Write};

struct Session {
    connection: Connection,
    /// `None` after the connection was lost.
    answers: Option<Answers>,
    report: Report,
    lines: u64,
    /// The last `use` that the server took. A new connection begins with it.
    used: Option<String>,
}

pub(super) fn run(connection: Connection, report: Report, out: &mut dyn Write) -> Result<Exit, Failure> {
    let names = USAGE.iter().map(|(letter, _)| (*letter).to_owned()).chain(["help".to_owned()]);
    let mut prompt = Prompt::new(names.collect())?;
    let shown = format!("{}> ", connection.address());
    let answers = Some(connection.answers()?);
    let mut session = Session { connection, answers, report, lines: 0, used: None };
    while let Some(line) = prompt.line(&shown)? {
        session.lines += 1;
        let line = line.trim();
        match (line, Form::of(line.as_bytes())) {
            ("help", _) => out.write_all(HELP.as_bytes())?,
            (_, None) => {}
            (line, Some(form)) => session.command(line, form, out)?,
        }
        out.flush()?;
        if Form::of(line.as_bytes()) == Some(Form::End) {
            break;
        }
    }
    Ok(Exit::Done)
}

impl Session {
    /// Sends one command and prints its answer, or why there is none. A command is never sent again: the
    /// server may have carried it out before the connection was lost.
    fn command(&mut self, line: &str, form: Form, out: &mut dyn Write) -> Result<(), Failure> {
        let mut answers = match self.take_answers() {
            Ok(answers) => answers,
            Err(error) => {
                writeln!(out, "Error: no server answers at {} ({error})", self.connection.address())?;
                return Ok(());
            }
        };
        let sent = self.report.stopwatch().sends(form, self.lines, line.as_bytes());
        let answered = match self.connection.send(line) {
            Ok(()) => self.report.answer(&mut answers, &sent, out),
            Err(error) => Err(Lost::Connection(error)),
        };
        match answered {
            Ok(is_error) => {
                self.answers = Some(answers);
                if !is_error && line.split_ascii_whitespace().next() == Some("use") {
                    self.used = Some(line.to_owned());
                }
                self.report.time_of(&sent, out)
            }
            Err(lost @ (Lost::Protocol | Lost::Output(_))) => Err(lost.into()),
            Err(Lost::Connection(error)) => {
                writeln!(
                    out,
                    "Error: the server broke off ({error}); the command may have been carried out"
                )?;
                Ok(())
            }
        }
    }

    /// The answers of the connection, which is made again if it was lost. Then the server is told which
    /// keyspace is in use: without that, the next put would go to another one.
    fn take_answers(&mut self) -> io::Result<Answers> {
        if let Some(answers) = self.answers.take() {
            return Ok(answers);
        }
        let mut answers = self.connection.connect_again()?;
        if let Some(used) = &self.used {
            self.connection.send(used)?;
            let mut said = Vec::new();
            match answer::copy(&mut answers, Form::Line, &mut said) {
                Ok(false) => {}
                Ok(true) => {
                    let said = String::from_utf8_lossy(&said);
                    return Err(io::Error::other(format!("`{used}` was answered with {}", said.trim_end())));
                }
                Err(Lost::Connection(error)) => return Err(error),
                Err(lost) => return Err(io::Error::other(Failure::from(lost).message().to_owned())),
            }
        }
        Ok(answers)
    }
}
