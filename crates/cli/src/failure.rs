//! Results of a command: exit codes, and errors as a sentence with advice.

use esker::Error;
use esker_bench::BenchError;
use esker_server::ServeError;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   the key has no value (get)
  2   the command line is wrong, or names a database or keyspace that does not exist
  3   stored data is damaged, or was written by a newer version
  4   the system refused: I/O error, database in use, no room, no connection
  5   part of the input was refused: a bad line, a command that was an error
  6   an experiment found something else than its page says
  130 interrupted by Ctrl-C or SIGTERM; the message says what was done
  70  a defect of esker itself; please report it";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// There is no value.
    Absent,
    /// Damage was found, and has been reported.
    Damage,
    /// Part of the input was refused and reported.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    advice: Option<String>,
    /// Another process has the database open.
    is_locked: bool,
}

/// The system refused.
pub(crate) const SYSTEM_CODE: u8 = SYSTEM;

/// The command line is wrong.
pub(crate) const USAGE_CODE: u8 = USAGE;

/// The user interrupted the command: what shells have for SIGINT.
pub(crate) const INTERRUPTED_CODE: u8 = 130;

const USAGE: u8 = 2;
const DATA: u8 = 3;
const SYSTEM: u8 = 4;
const INPUT: u8 = 5;
const FINDING: u8 = 6;
const DEFECT: u8 = 70;

/// Stands for a closed output pipe, which is no failure: the reader has read enough.
const READER_LEFT: u8 = 0;

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Absent => 1,
            Exit::Damage => DATA,
            Exit::Refused => INPUT,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { code: USAGE, message: message.into(), advice: None, is_locked: false }
    }

    /// The user's input is wrong.
    pub(crate) fn input(message: impl Into<String>) -> Failure {
        Failure { code: INPUT, message: message.into(), advice: None, is_locked: false }
    }

    /// The operating system refused something to do with `what`.
    pub(crate) fn system(what: impl std::fmt::Display, error: &io::Error) -> Failure {
        Failure { code: SYSTEM, message: format!("{what}: {error}"), advice: None, is_locked: false }
    }

    /// The user interrupted the command; `so_far` says what it did.
    pub(crate) fn interrupted(so_far: impl std::fmt::Display) -> Failure {
        let message = format!("interrupted: {so_far}");
        Failure { code: INTERRUPTED_CODE, message, advice: None, is_locked: false }
    }

    /// Nothing answers.
    pub(crate) fn unreachable(message: impl Into<String>) -> Failure {
        Failure { code: SYSTEM, message: message.into(), advice: None, is_locked: false }
    }

    /// What another process would have printed and ended with.
    pub(crate) fn told(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), advice: None, is_locked: false }
    }

    /// An experiment found something else than its page says.
    pub(crate) fn finding(message: impl Into<String>) -> Failure {
        Failure { code: FINDING, message: message.into(), advice: None, is_locked: false }
    }

    /// A defect of this program.
    pub(crate) fn defect(message: impl Into<String>) -> Failure {
        Failure { code: DEFECT, message: message.into(), advice: None, is_locked: false }
    }

    /// Several errors as one, with the code of the first; `None` if there are none.
    pub(crate) fn all(failures: Vec<Failure>) -> Option<Failure> {
        let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
        let message = messages.join("\nesker: ");
        let first = failures.into_iter().next()?;
        Some(Failure { message, ..first })
    }

    /// The same error, prefixed with its subject.
    #[must_use]
    pub(crate) fn about(mut self, what: impl std::fmt::Display) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Failure {
        self.advice = Some(advice.into());
        self
    }

    /// Prints the sentence and the advice, and returns the exit code.
    pub(crate) fn report(&self, out: &mut impl Write) -> ExitCode {
        if self.code != READER_LEFT {
            // A missing standard error is no failure.
            let _result = writeln!(out, "esker: {}", self.message);
            if let Some(advice) = &self.advice {
                let _result = writeln!(out, "  {advice}");
            }
        }
        ExitCode::from(self.code)
    }

    /// What [`Failure::report`] prints, and the exit code.
    pub(crate) fn message_and_code(&self) -> (u8, Vec<u8>) {
        let mut message = Vec::new();
        self.report(&mut message);
        (self.code, message)
    }

    /// The sentence, and the advice in a line of its own; and the exit code.
    pub(crate) fn sentence_and_code(self) -> (String, u8) {
        let advice = self.advice.map(|advice| format!("\n  {advice}")).unwrap_or_default();
        (format!("{}{advice}", self.message), self.code)
    }

    /// Whether another process has the database open.
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// The sentence, for a prompt that continues.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (code, advice) = match &error {
            Error::Corruption(_) => (
                DATA,
                Some("`esker verify` lists all damage, `esker repair` makes a new database of the rest"),
            ),
            Error::Unsupported(_) => (DATA, Some("a newer esker may read it")),
            Error::InvalidArgument(_) | Error::NotFound(_) => (USAGE, None),
            Error::Locked { .. } => (
                SYSTEM,
                Some(
                    "it does not listen on its control socket: let it end first, or talk to a server: `esker shell --connect HOST:PORT`",
                ),
            ),
            Error::Full(_) => {
                (SYSTEM, Some("free room on the disk, or give more with --memory, and try again"))
            }
            Error::Internal(_) => (DEFECT, None),
            _ => (SYSTEM, None),
        };
        let is_locked = matches!(error, Error::Locked { .. });
        Failure { code, message: error.to_string(), advice: advice.map(str::to_owned), is_locked }
    }
}

/// Errors of writing output; those of files the user named become [`Failure::system`] with the name.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { code: READER_LEFT, message: String::new(), advice: None, is_locked: false };
        }
        Failure::system("cannot write the output", &error)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let message = error.to_string();
        match error {
            ServeError::Database(error) => error.into(),
            ServeError::Listen { address, source } => Failure::system(
                format_args!("cannot listen on {address} for the text protocol"),
                &source,
            )
            .advise(
                "choose another address with --dsl HOST:PORT, another port with SERVER_PORT, or --dsl off",
            ),
            ServeError::Start(_) => Failure { code: SYSTEM, message, advice: None, is_locked: false },
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        let message = error.to_string();
        match error {
            BenchError::Database(error) => error.into(),
            BenchError::Io(error) => error.into(),
            BenchError::Settings(_) => Failure::usage(message),
            BenchError::WrongAnswer { .. } | BenchError::OutOfBounds(_) => {
                Failure { code: DEFECT, message, advice: None, is_locked: false }
            }
        }
    }
}
