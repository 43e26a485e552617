//! Command executor. Short commands are answered at once; long ones become a [`LongAnswer`] that advances in
//! pieces, so that the caller chooses the thread and can stop between pieces.

use super::PIECE_BYTES;
use super::load::Load;
use super::range::Range;
use super::show::Show;
use crate::load_file::LoadFiles;
use esker::{Database, Error, Keyspace, WriteBatch, WriteOptions};
use esker_protocol::{Command, Kind, Layout, Scalar, answer, is_blank, parse_line};
use std::io::{self, Write};

/// Executes the commands of one conversation on a database. A clone begins as the original stands.
#[derive(Clone, Debug)]
pub struct Executor {
    database: Database,
    integers: Keyspace,
    texts: Keyspace,
    /// The keyspace of the last `use`, if it named one.
    used: Option<Keyspace>,
    load_files: LoadFiles,
}

/// The name of the keyspaces that hold what clients of Redis see. Their entries refer to each other.
const REDIS_PREFIX: &str = "redis/";

/// Most names of keyspaces in an error.
const MAX_NAMES: usize = 20;

/// State of a command after [`Executor::begin`].
#[derive(Debug)]
pub enum Begun {
    /// The answer, or an error, is complete.
    Answered,
    /// The answer takes long, or may have to wait: call [`LongAnswer::advance`].
    Long(LongAnswer),
    /// `q`: there is no answer.
    Quit,
}

/// State of a long answer.
#[derive(Debug)]
pub enum Progress {
    /// More is to come.
    More,
    /// The answer is complete.
    Finished,
    /// Part of the answer is out and the rest failed. No further bytes can make it right; close the
    /// connection, so that the client does not take it for complete.
    Broken(Error),
}

/// An answer in progress. Holds no lock, table or memtable between two calls.
#[derive(Debug)]
pub struct LongAnswer(Long);

#[derive(Debug)]
enum Long {
    Write {
        database: Database,
        /// Taken when it is written.
        batch: Option<WriteBatch>,
    },
    Range(Range),
    Show(Show),
    Load(Load),
}

/// Result of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The line was `q`.
    pub quit: bool,
    /// The answer is an error.
    pub refused: bool,
}

impl Executor {
    /// An executor on `database`, whose two keyspaces it creates if they are missing.
    ///
    /// # Errors
    /// Those of opening a keyspace.
    pub fn new(database: Database, load_files: LoadFiles) -> esker::Result<Executor> {
        let integers = database.keyspace(Kind::Integer.keyspace())?;
        let texts = database.keyspace(Kind::Text.keyspace())?;
        Ok(Executor { database, integers, texts, used: None, load_files })
    }

    /// The keyspace of pairs whose keys are of this kind, and how it stores them.
    pub(crate) fn keyspace(&self, keys: Kind) -> (&Keyspace, Layout) {
        match (&self.used, keys) {
            (Some(used), _) => (used, Layout::Text),
            (None, Kind::Integer) => (&self.integers, Layout::Own(keys)),
            (None, Kind::Text) => (&self.texts, Layout::Own(keys)),
        }
    }

    /// All keyspaces in use: the one of the last `use`, or both of the protocol.
    pub(crate) fn keyspaces(&self) -> Vec<(Keyspace, Layout)> {
        let kinds = if self.used.is_some() { &Kind::ALL[..1] } else { &Kind::ALL[..] };
        kinds.iter().map(|kind| self.keyspace(*kind)).map(|(of, layout)| (of.clone(), layout)).collect()
    }

    /// Lets the next commands work on this keyspace, or on the protocol's own pairs.
    ///
    /// # Errors
    /// A sentence about why the keyspace cannot be used. The one in use stays.
    pub fn use_keyspace(&mut self, name: Option<&str>) -> Result<(), String> {
        let Some(name) = name else {
            self.used = None;
            return Ok(());
        };
        if name.starts_with(REDIS_PREFIX) {
            return Err(format!(
                "the keyspace '{}' holds entries of Redis; read and write them by the protocol of Redis",
                name.escape_debug()
            ));
        }
        if Kind::ALL.iter().any(|kind| kind.keyspace() == name) {
            return Err(format!("'{name}' holds the protocol's own pairs; write use without a name"));
        }
        match self.database.open_keyspace(name) {
            Ok(keyspace) => {
                self.used = Some(keyspace);
                Ok(())
            }
            Err(Error::NotFound(_)) => Err(self.no_keyspace(name)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn no_keyspace(&self, name: &str) -> String {
        let is_usable = |name: &String| {
            !name.starts_with(REDIS_PREFIX) && Kind::ALL.iter().all(|kind| kind.keyspace() != name)
        };
        let all: Vec<String> = self.database.keyspaces().into_iter().filter(is_usable).collect();
        let names = all.iter().take(MAX_NAMES).map(|name| name.escape_debug().to_string());
        let mut known = names.collect::<Vec<_>>().join(", ");
        if all.len() > MAX_NAMES {
            known.push_str(&format!(" and {} more", all.len() - MAX_NAMES));
        }
        format!("there is no keyspace '{}'; there are: {known}", name.escape_debug())
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Begins a command and appends a short answer to `out`. Does not wait: a write that would stall becomes
    /// a long answer.
    pub fn begin(&mut self, command: Command, out: &mut Vec<u8>) -> Begun {
        let long = match command {
            Command::Put { key, value } => return self.put(&key, &value, out),
            Command::Delete { key } => return self.delete(&key, out),
            Command::Get { key } => {
                self.get(&key, out);
                return Begun::Answered;
            }
            Command::Use { keyspace } => {
                match self.use_keyspace(keyspace.as_deref()) {
                    Ok(()) => answer::ok(out),
                    Err(reason) => answer::error(reason, out),
                }
                return Begun::Answered;
            }
            Command::Quit => return Begun::Quit,
            Command::Range { start, end } => Long::Range(Range::new(self, &start, &end)),
            Command::Show { limit } => Long::Show(Show::new(self, limit)),
            Command::Load { path } => match Load::new(self, &self.load_files, &path) {
                Ok(load) => Long::Load(load),
                Err(reason) => {
                    answer::error(reason, out);
                    return Begun::Answered;
                }
            },
        };
        Begun::Long(LongAnswer(long))
    }

    fn put(&self, key: &Scalar, value: &Scalar, out: &mut Vec<u8>) -> Begun {
        let (keyspace, layout) = self.keyspace(key.kind());
        let mut batch = self.database.batch();
        batch.put(keyspace, layout.key_bytes(key.borrowed()), layout.value_bytes(value.borrowed()));
        self.write(batch, out)
    }

    fn delete(&self, key: &Scalar, out: &mut Vec<u8>) -> Begun {
        let (keyspace, layout) = self.keyspace(key.kind());
        let mut batch = self.database.batch();
        batch.delete(keyspace, layout.key_bytes(key.borrowed()));
        self.write(batch, out)
    }

    fn write(&self, batch: WriteBatch, out: &mut Vec<u8>) -> Begun {
        match self.database.write_with(&batch, WriteOptions::new().no_stall()) {
            Err(Error::WouldStall { .. }) => {
                Begun::Long(LongAnswer(Long::Write { database: self.database.clone(), batch: Some(batch) }))
            }
            result => {
                answer_write(result.map(drop), out);
                Begun::Answered
            }
        }
    }

    fn get(&self, key: &Scalar, out: &mut Vec<u8>) {
        let (keyspace, layout) = self.keyspace(key.kind());
        let before = out.len();
        let found = keyspace.get_with(layout.key_bytes(key.borrowed()), |value| {
            if let Some(value) = value {
                answer::scalar(layout.value(value), out);
            }
            answer::end_of_line(out);
        });
        if let Err(error) = found {
            out.truncate(before);
            answer::error(error, out);
        }
    }

    /// Runs one line to its end on this thread and writes the answer: for the shell and for command files.
    ///
    /// # Errors
    /// Those of writing to `output`, and an answer that failed half-way. Errors of the command are answers.
    pub fn run_line(&mut self, line: &[u8], output: &mut impl Write) -> io::Result<Outcome> {
        let mut out = Vec::new();
        if is_blank(line) {
            return Ok(Outcome::default());
        }
        let begun = match parse_line(line) {
            Ok(command) => self.begin(command, &mut out),
            Err(error) => {
                answer::error(error, &mut out);
                Begun::Answered
            }
        };
        let mut long = match begun {
            Begun::Quit => return Ok(Outcome { quit: true, refused: false }),
            Begun::Answered => None,
            Begun::Long(long) => Some(long),
        };
        let mut progress = Progress::Finished;
        let mut refused = None;
        loop {
            if let Some(long) = &mut long {
                progress = long.advance(&mut out);
            }
            if !out.is_empty() {
                // No other answer begins so, because strings with a colon are quoted.
                refused.get_or_insert_with(|| out.starts_with(b"Error:"));
            }
            output.write_all(&out)?;
            out.clear();
            match progress {
                Progress::More => {}
                Progress::Finished => return Ok(Outcome { quit: false, refused: refused == Some(true) }),
                Progress::Broken(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl LongAnswer {
    /// Advances the answer until about [`PIECE_BYTES`] were appended to `out` or a bounded amount of work was
    /// done. May block on the disk or in a write stall.
    pub fn advance(&mut self, out: &mut Vec<u8>) -> Progress {
        match &mut self.0 {
            Long::Write { database, batch } => {
                if let Some(batch) = batch.take() {
                    answer_write(database.write(&batch).map(drop), out);
                }
                Progress::Finished
            }
            Long::Range(range) => range.advance(out),
            Long::Show(show) => show.advance(out),
            Long::Load(load) => load.advance(out),
        }
    }

    /// Whether it writes, and so may stall.
    pub fn is_write(&self) -> bool {
        matches!(self.0, Long::Write { .. } | Long::Load(_))
    }
}

fn answer_write(result: esker::Result<()>, out: &mut Vec<u8>) {
    match result {
        Ok(()) => answer::ok(out),
        Err(error) => answer::error(error, out),
    }
}

pub(super) fn is_full(out: &[u8]) -> bool {
    out.len() >= PIECE_BYTES
}
