//! The shell on a server: sends lines unchanged and prints the answers.
//!
//! Every command has one line of answer except `s`, whose answer ends with an empty line, and `q`, which ends
//! the connection; blank lines have none. From a file or a pipe, commands are sent without waiting for
//! answers, while a second thread reads the answers. Waiting after each command would cost a round trip, and
//! not reading while sending could deadlock both sides once the buffers between them are full.

use super::prompt::Prompt;
use super::shows_prompt;
use crate::failure::{Exit, Failure};
use crate::host;
use esker::parts::env::Env;
use esker_protocol::command::USAGE;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

const HELP: &str = "\
The commands of the server:
  p KEY VALUE   put              r START END   the pairs from START up to END
  g KEY         get              l \"FILE\"      load a file that lies with the server
  d KEY         delete           s [LIMIT]     show counts and contents by level
  q             quit
Keys and values are integers or \"strings\".
";

/// Most commands under way, which bounds the memory for their kinds.
const MAX_UNDER_WAY: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Line,
    /// Lines up to an empty one, or an error of one line.
    Lines,
    /// No answer: the server closes the connection.
    End,
}

/// Messages from the sending thread to the reading one.
#[derive(Debug)]
enum Expect {
    /// A command was sent that has this form of answer.
    Answer(Answer),
    /// Sending ended early.
    Failure(Failed, io::Error),
}

/// Where sending failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Input,
    Connection,
}

pub(super) fn run(address: &str, file: Option<&Path>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let input = match file {
        Some(path) => Some(host::open_input(path)?),
        None => None,
    };
    let cannot = |error: io::Error| Failure::system(format_args!("cannot talk to {address}"), &error);
    let stream = TcpStream::connect(address).map_err(|error| {
        cannot(error).advise("is a server running there? `esker serve` starts one on 127.0.0.1:8080")
    })?;
    stream.set_nodelay(true).map_err(cannot)?;
    let answers = BufReader::with_capacity(64 << 10, stream.try_clone().map_err(cannot)?);
    if shows_prompt(file) {
        return run_session(address, &stream, answers, out);
    }
    let input = match input {
        Some(input) => input,
        None => host::open_input(Path::new("-"))?,
    };
    run_all(address, stream, answers, BufReader::new(input.reader), out)
}

/// The form of the answer to a line, `None` for a line without one.
fn answer_to(line: &[u8]) -> Option<Answer> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match (words.next()?, words.next()) {
        (b"s", _) => Some(Answer::Lines),
        (b"q", None) => Some(Answer::End),
        _ => Some(Answer::Line),
    }
}

fn run_session(
    address: &str,
    mut stream: &TcpStream,
    mut answers: impl BufRead,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let names = USAGE.iter().map(|(letter, _)| (*letter).to_owned()).chain(["help".to_owned()]);
    let mut prompt = Prompt::new(names.collect())?;
    let shown = format!("{address}> ");
    let cannot = |error: io::Error| Failure::system(format_args!("cannot talk to {address}"), &error);
    while let Some(line) = prompt.line(&shown)? {
        match line.trim() {
            "help" => out.write_all(HELP.as_bytes())?,
            "" => {}
            line => {
                stream.write_all(format!("{line}\n").as_bytes()).map_err(cannot)?;
                let answer = answer_to(line.as_bytes()).unwrap_or(Answer::Line);
                copy_answer(&mut answers, answer, out)?;
                if answer == Answer::End {
                    break;
                }
            }
        }
        out.flush()?;
    }
    Ok(Exit::Done)
}

fn run_all(
    address: &str,
    stream: TcpStream,
    mut answers: BufReader<TcpStream>,
    input: BufReader<Box<dyn Read + Send>>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (expect, expected) = sync_channel(MAX_UNDER_WAY);
    // This thread is not joined: after the server has closed, it may still block on the terminal. Its errors
    // arrive through the channel.
    let _sender = Env::real().spawn("esker-sender", move || send_all(&stream, input, &expect))?;
    let mut exit = Exit::Done;
    while let Ok(next) = expected.recv() {
        match next {
            Expect::Answer(answer) => {
                if copy_answer(&mut answers, answer, out)? {
                    exit = Exit::Refused;
                }
            }
            Expect::Failure(what, error) => {
                out.flush()?;
                let what = if what == Failed::Input { "the commands".to_owned() } else { address.to_owned() };
                return Err(Failure::system(format_args!("cannot go on with {what}"), &error));
            }
        }
        if answers.buffer().is_empty() {
            out.flush()?;
        }
    }
    Ok(exit)
}

/// Sends every line, and reports the form of its answer.
fn send_all(stream: &TcpStream, mut input: BufReader<Box<dyn Read + Send>>, expect: &SyncSender<Expect>) {
    let mut out = BufWriter::with_capacity(32 << 10, stream);
    let mut line = Vec::new();
    let result = loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => break out.flush(),
            Ok(_) => {}
            Err(error) => {
                // A failed send means that the receiver has ended.
                let _result = expect.send(Expect::Failure(Failed::Input, error));
                return;
            }
        }
        let Some(answer) = answer_to(&line) else { continue };
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if expect.send(Expect::Answer(answer)).is_err() {
            return;
        }
        let mut sent = out.write_all(&line);
        if input.buffer().is_empty() {
            // The next line may take long to arrive, so this one is flushed now.
            sent = sent.and_then(|()| out.flush());
        }
        if sent.is_err() || answer == Answer::End {
            break sent.and_then(|()| out.flush());
        }
    };
    if let Err(error) = result {
        let _result = expect.send(Expect::Failure(Failed::Connection, error));
    }
}

/// Copies one answer; returns whether it is an error.
fn copy_answer(answers: &mut impl BufRead, answer: Answer, out: &mut dyn Write) -> Result<bool, Failure> {
    if answer == Answer::End {
        return Ok(false);
    }
    let mut is_first = true;
    loop {
        let line = copy_line(answers, out)?;
        let is_error = line == CopiedLine::Error;
        if answer == Answer::Line || line == CopiedLine::Empty || is_first && is_error {
            return Ok(is_first && is_error);
        }
        is_first = false;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CopiedLine {
    Empty,
    Error,
    Other,
}

/// Copies one line of any length without holding it in memory.
fn copy_line(answers: &mut impl BufRead, out: &mut dyn Write) -> Result<CopiedLine, Failure> {
    let lost = |error: io::Error| Failure::system("the server broke off", &error);
    let mut start: Vec<u8> = Vec::new();
    loop {
        let available = answers.fill_buf().map_err(lost)?;
        if available.is_empty() {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        let end = available.iter().position(|&byte| byte == b'\n');
        let piece = available.get(..end.map_or(available.len(), |end| end + 1)).unwrap_or_default();
        out.write_all(piece)?;
        start.extend(piece.iter().take(8_usize.saturating_sub(start.len())));
        let len = piece.len();
        answers.consume(len);
        if end.is_some() {
            return Ok(match start.as_slice() {
                b"\n" => CopiedLine::Empty,
                start if start.starts_with(b"Error:") => CopiedLine::Error,
                _ => CopiedLine::Other,
            });
        }
    }
}
