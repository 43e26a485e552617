//! Commands from a file or a pipe: sent without waiting for answers, which a second thread reads meanwhile.
//!
//! Waiting after each command would cost a round trip, and not reading while sending could deadlock both
//! sides once the buffers between them are full.

use super::answer::{Form, Lost};
use super::connection::Connection;
use super::report::{Report, Sent, Stopwatch};
use crate::failure::{Exit, Failure};
use esker::parts::env::Env;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Most commands under way, which bounds the memory for what is kept of them.
const MAX_UNDER_WAY: usize = 64 << 10;

/// Messages from the sending thread to the reading one.
#[derive(Debug)]
enum Expect {
    /// A command was sent.
    Answer(Sent),
    /// Sending ended early.
    Failure(Failed, io::Error),
}

/// Where sending failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Input,
    Connection,
}

pub(super) fn run(
    connection: Connection,
    input: BufReader<Box<dyn Read + Send>>,
    mut report: Report,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (expect, expected) = sync_channel(MAX_UNDER_WAY);
    let address = connection.address().to_owned();
    let mut answers = connection.answers()?;
    let (stream, stopwatch) = (connection.into_stream(), report.stopwatch());
    // This thread is not joined: after the server has closed, it may still block on the terminal. Its errors
    // arrive through the channel.
    let _sender = Env::real().spawn("esker-sender", move || send_all(&stream, input, &stopwatch, &expect))?;
    let mut exit = Exit::Done;
    while let Ok(next) = expected.recv() {
        match next {
            Expect::Answer(sent) => match report.answer(&mut answers, &sent, out) {
                Ok(is_error) => {
                    if is_error {
                        exit = Exit::Refused;
                    }
                }
                Err(lost @ Lost::Connection(_)) => {
                    out.flush()?;
                    return Err(Failure::from(lost).advise(format!(
                        "{} commands were answered; the one of line {} and later ones may or may not have been carried out",
                        report.commands(),
                        sent.line
                    )));
                }
                Err(lost @ (Lost::Protocol | Lost::Output(_))) => return Err(lost.into()),
            },
            Expect::Failure(what, error) => {
                out.flush()?;
                let what = if what == Failed::Input { "the commands".to_owned() } else { address };
                return Err(Failure::system(format_args!("cannot go on with {what}"), &error));
            }
        }
        if answers.buffer().is_empty() {
            out.flush()?;
        }
    }
    out.flush()?;
    report.finish()?;
    Ok(exit)
}

/// Sends every line, and reports what was sent.
fn send_all(
    stream: &TcpStream,
    mut input: BufReader<Box<dyn Read + Send>>,
    stopwatch: &Stopwatch,
    expect: &SyncSender<Expect>,
) {
    let mut out = BufWriter::with_capacity(32 << 10, stream);
    let mut line = Vec::new();
    let mut number = 0;
    let result = loop {
        line.clear();
        number += 1;
        match input.read_until(b'\n', &mut line) {
            Ok(0) => break out.flush(),
            Ok(_) => {}
            Err(error) => {
                // A failed send means that the receiver has ended.
                let _result = expect.send(Expect::Failure(Failed::Input, error));
                return;
            }
        }
        let Some(form) = Form::of(&line) else { continue };
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if expect.send(Expect::Answer(stopwatch.sends(form, number, &line))).is_err() {
            return;
        }
        let mut sent = out.write_all(&line);
        if input.buffer().is_empty() {
            // The next line may take long to arrive, so this one is flushed now.
            sent = sent.and_then(|()| out.flush());
        }
        if sent.is_err() || form == Form::End {
            break sent.and_then(|()| out.flush());
        }
    };
    if let Err(error) = result {
        let _result = expect.send(Expect::Failure(Failed::Connection, error));
    }
}
