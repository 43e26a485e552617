//! How answers are shown: as the server wrote them or as JSON, with or without their times.

use super::answer::{self, Form, Lost};
use crate::failure::Failure;
use crate::format::human_count;
use crate::host;
use esker::parts::env::{Clock, SystemClock};
use serde_json::{Map, Value};
use std::io::{BufRead, Write};
use std::sync::Arc;

/// What the user chose.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerFormat {
    /// Each answer is a JSON object.
    pub(super) json: bool,
    /// Times are shown; JSON has them anyway.
    pub(super) timing: bool,
}

/// A command under way.
#[derive(Debug)]
pub(super) struct Sent {
    /// Form of its answer.
    pub(super) form: Form,
    /// Its number among the lines of the input, from 1 on.
    pub(super) line: u64,
    /// Its text, where that is shown.
    command: String,
    sent_ns: u64,
}

/// Makes [`Sent`] records; a copy for each thread.
#[derive(Clone, Debug)]
pub(super) struct Stopwatch {
    clock: Arc<SystemClock>,
    keeps_text: bool,
}

impl Stopwatch {
    pub(super) fn sends(&self, form: Form, line: u64, command: &[u8]) -> Sent {
        let text = if self.keeps_text {
            String::from_utf8_lossy(command.trim_ascii()).into_owned()
        } else {
            String::new()
        };
        Sent { form, line, command: text, sent_ns: self.clock.monotonic_ns() }
    }

    fn since_ms(&self, sent: &Sent) -> f64 {
        self.clock.monotonic_ns().saturating_sub(sent.sent_ns) as f64 / 1e6
    }
}

/// Prints answers and adds up what they took.
#[derive(Debug)]
pub(super) struct Report {
    format: AnswerFormat,
    stopwatch: Stopwatch,
    begun_ns: u64,
    commands: u64,
    errors: u64,
    longest_ms: f64,
}

impl Report {
    pub(super) fn new(format: AnswerFormat) -> Report {
        let clock = Arc::new(SystemClock::new());
        let begun_ns = clock.monotonic_ns();
        let stopwatch = Stopwatch { clock, keeps_text: format.json };
        Report { format, stopwatch, begun_ns, commands: 0, errors: 0, longest_ms: 0.0 }
    }

    pub(super) fn stopwatch(&self) -> Stopwatch {
        self.stopwatch.clone()
    }

    /// Answers that arrived.
    pub(super) fn commands(&self) -> u64 {
        self.commands
    }

    /// Reads and prints one answer; returns whether it is an error.
    pub(super) fn answer(
        &mut self,
        answers: &mut impl BufRead,
        sent: &Sent,
        out: &mut dyn Write,
    ) -> Result<bool, Lost> {
        let mut text = Vec::new();
        let target: &mut dyn Write = if self.format.json { &mut text } else { out };
        let is_error = answer::copy(answers, sent.form, target)?;
        let ms = self.stopwatch.since_ms(sent);
        self.commands += 1;
        self.errors += u64::from(is_error);
        self.longest_ms = self.longest_ms.max(ms);
        if self.format.json {
            let object = object(sent, &text, is_error, ms);
            writeln!(out, "{object}").map_err(|error| Lost::Output(error.into()))?;
        }
        Ok(is_error)
    }

    /// Prints the time of the command that was just answered, at a prompt.
    pub(super) fn time_of(&self, sent: &Sent, out: &mut dyn Write) -> Result<(), Failure> {
        if self.format.timing && !self.format.json && sent.form != Form::End {
            writeln!(out, "({:.3} ms)", self.stopwatch.since_ms(sent))?;
        }
        Ok(())
    }

    /// Prints the sums of a whole file to standard error, apart from the answers.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        if !self.format.timing {
            return Ok(());
        }
        let seconds = self.stopwatch.clock.monotonic_ns().saturating_sub(self.begun_ns) as f64 / 1e9;
        let rate = (self.commands as f64 / seconds.max(1e-9)) as u64;
        writeln!(
            host::stderr(),
            "{} commands in {seconds:.3} s, {} a second; {} errors; longest wait for an answer {:.3} ms",
            human_count(self.commands),
            human_count(rate),
            human_count(self.errors),
            self.longest_ms
        )?;
        Ok(())
    }
}

/// An answer as JSON: `answer` is a line, `null` for the empty line of an absent key, or the lines of `s`; an
/// error has `error` instead.
fn object(sent: &Sent, text: &[u8], is_error: bool, ms: f64) -> Value {
    let text = String::from_utf8_lossy(text);
    let mut members = Map::new();
    members.insert("line".into(), sent.line.into());
    members.insert("command".into(), sent.command.as_str().into());
    let line = text.trim_end_matches('\n');
    if is_error {
        members.insert("error".into(), line.trim_start_matches("Error:").trim_start().into());
    } else {
        let answer = match sent.form {
            Form::Lines => line.lines().map(Value::from).collect(),
            Form::Line if line.is_empty() => Value::Null,
            Form::Line | Form::End => line.into(),
        };
        members.insert("answer".into(), answer);
    }
    members.insert("ms".into(), (((ms * 1e3).round()) / 1e3).into());
    Value::Object(members)
}
