//! A session with a server at the terminal: one command at a time, connected again when the server went away.

use super::HELP;
use super::answer::{Form, Lost};
use super::connection::{Answers, Connection};
use super::report::Report;
use crate::failure::{Exit, Failure};
use crate::shell::prompt::Prompt;
use esker_protocol::command::USAGE;
use std::io::Write;

struct Session {
    connection: Connection,
    /// `None` after the connection was lost.
    answers: Option<Answers>,
    report: Report,
    lines: u64,
}

pub(super) fn run(connection: Connection, report: Report, out: &mut dyn Write) -> Result<Exit, Failure> {
    let names = USAGE.iter().map(|(letter, _)| (*letter).to_owned()).chain(["help".to_owned()]);
    let mut prompt = Prompt::new(names.collect())?;
    let shown = format!("{}> ", connection.address());
    let answers = Some(connection.answers()?);
    let mut session = Session { connection, answers, report, lines: 0 };
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
            Ok(_) => {
                self.answers = Some(answers);
                self.report.time_of(&sent, out)
            }
            Err(Lost::Output(failure)) => Err(failure),
            Err(Lost::Connection(error)) => {
                writeln!(
                    out,
                    "Error: the server broke off ({error}); the command may have been carried out"
                )?;
                Ok(())
            }
        }
    }

    /// The answers of the connection, which is made again if it was lost.
    fn take_answers(&mut self) -> std::io::Result<Answers> {
        match self.answers.take() {
            Some(answers) => Ok(answers),
            None => self.connection.connect_again(),
        }
    }
}
