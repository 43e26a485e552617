//! The commands, a file each, and what commands on an open database share.

pub(crate) mod advise;
mod amplification;
pub(crate) mod bench;
mod changes;
pub(crate) mod copies;
mod dump;
pub(crate) mod exec;
pub(crate) mod experiment;
mod explain;
pub(crate) mod generate;
pub(crate) mod ingest;
pub(crate) mod inspect;
mod keyspaces;
mod levels;
mod load;
mod maintain;
mod merging;
pub(crate) mod options;
pub(crate) mod over_http;
pub(crate) mod pages;
mod point;
pub(crate) mod portable;
mod quarantine;
pub(crate) mod repair;
mod report_texts;
mod scan;
pub(crate) mod serve;
pub(crate) mod simulate;
mod stalls;
mod stats;
mod strategy;
pub(crate) mod top;
mod watch;

use crate::args::{DataCommand, Global, RangeArgs, Shape, StatsArgs};
use crate::caller::Caller;
use crate::config_file::ConfigFile;
use crate::control::listen::{ControlListener, SharedRun};
use crate::failure::{Exit, Failure};
pub(crate) use crate::json::{unprintable, write_json, write_json_pair};
use esker::parts::base::key::prefix_successor;
use esker::{Cursor, Database, Keyspace, Options};
use std::io::Write;
use std::ops::Bound;

pub(crate) struct Context<'a> {
    pub(crate) database: &'a Database,
    pub(crate) shape: Shape,
    /// The keyspace, if the command line of this command names one.
    pub(crate) only: Option<String>,
    /// The database is open for reading only because the command does not write.
    pub(crate) for_reading: bool,
    pub(crate) caller: Caller,
    pub(crate) out: &'a mut dyn Write,
}

/// Opens the database, runs one command on it and closes it.
pub(crate) fn run_alone(
    global: &Global,
    command: &DataCommand,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if let DataCommand::Advise(args) = command
        && args.entries.is_some()
    {
        let shape = global.shape.or(&Shape::default());
        return advise::stated(args, global.memory, shape.json, out);
    }
    if let DataCommand::Verify(args) = command {
        return repair::verify_alone(global, args, out);
    }
    let (database, for_reading) = match command {
        DataCommand::Get(_)
        | DataCommand::Ttl(_)
        | DataCommand::Scan(_)
        | DataCommand::Count(_)
        | DataCommand::Dump(_)
        | DataCommand::Export(_)
        | DataCommand::Stats(StatsArgs { watch: None, .. })
        | DataCommand::Stalls
        | DataCommand::Explain(_)
        | DataCommand::Levels(_)
        | DataCommand::Verify(_) => (open_for_reading(global)?, true),
        DataCommand::Quarantine(args) if args.replace_from.is_none() => {
            (open_existing(global, |options| quarantine::options(options).read_only(true))?, true)
        }
        DataCommand::Quarantine(_) => (open_existing(global, quarantine::options)?, false),
        DataCommand::Keyspaces(args) if args.only_shows() => (open_for_reading(global)?, true),
        DataCommand::Strategy(args) if args.only_shows() => (open_for_reading(global)?, true),
        DataCommand::Advise(args) if !args.apply => (open_for_reading(global)?, true),
        DataCommand::Changes(args) if args.only_shows() => (open_for_reading(global)?, true),
        // A single pair is not flushed at close: it stays in the log until there is more.
        DataCommand::Put(_) | DataCommand::Incr(_) | DataCommand::Append(_) => {
            (open(global, |options| options.flush_on_close(false))?, false)
        }
        DataCommand::Delete(_) | DataCommand::DeleteRange(_) | DataCommand::Changes(_) => {
            (open_existing(global, |options| options.flush_on_close(false))?, false)
        }
        DataCommand::Keyspaces(args) if args.creates() => (open(global, |options| options)?, false),
        // The input is checked first: a bad input must not create a database.
        DataCommand::Load(args) => {
            load::known_format(&Caller::default(), args.format, &args.file, args.header)?;
            (open(global, |options| options)?, false)
        }
        DataCommand::Ingest(args) => {
            args.files.iter().try_for_each(|file| Caller::default().find_input(file))?;
            (open(global, |options| options)?, false)
        }
        DataCommand::Advise(_)
        | DataCommand::Strategy(_)
        | DataCommand::Keyspaces(_)
        | DataCommand::Compact(_)
        | DataCommand::Checkpoint(_)
        | DataCommand::Stats(_) => (open_existing(global, |options| options)?, false),
    };
    let shape = global.shape.or(&Shape::default());
    let (only, caller) = (global.shape.keyspace.clone(), Caller::default());
    let mut context = Context { database: &database, shape, only, for_reading, caller, out };
    let result = run(&mut context, command);
    let closed = database.close();
    let exit = result?;
    closed?;
    Ok(exit)
}

pub(crate) fn run(context: &mut Context<'_>, command: &DataCommand) -> Result<Exit, Failure> {
    match command {
        DataCommand::Get(args) => point::get(context, args),
        DataCommand::Put(args) => point::put(context, args),
        DataCommand::Incr(args) => merging::incr(context, args),
        DataCommand::Append(args) => merging::append(context, args),
        DataCommand::Delete(args) => point::delete(context, args),
        DataCommand::Ttl(args) => point::ttl(context, args),
        DataCommand::DeleteRange(args) => point::delete_range(context, args),
        DataCommand::Scan(args) => scan::scan(context, args),
        DataCommand::Count(args) => scan::count(context, args),
        DataCommand::Load(args) => load::run(context, args),
        DataCommand::Ingest(args) => ingest::run(context, args),
        DataCommand::Dump(args) => dump::run(context, args),
        DataCommand::Stats(args) => stats::run(context, args),
        DataCommand::Stalls => stalls::run(context),
        DataCommand::Explain(args) => explain::run(context, args),
        DataCommand::Levels(args) => levels::run(context, args),
        DataCommand::Compact(args) => maintain::compact(context, args),
        DataCommand::Verify(args) => repair::verify_open(context, args),
        DataCommand::Quarantine(args) => quarantine::run(context, args),
        DataCommand::Keyspaces(args) => keyspaces::run(context, args),
        DataCommand::Strategy(args) => strategy::run(context, args),
        DataCommand::Advise(args) => advise::run(context, args),
        DataCommand::Export(args) => portable::export(context, args),
        DataCommand::Changes(args) => changes::run(context, args),
        DataCommand::Checkpoint(args) => copies::checkpoint(context, args),
    }
}

/// Opens the database for reading and writing, creating it if it is missing.
pub(crate) fn open(global: &Global, choose: impl FnOnce(Options) -> Options) -> Result<Database, Failure> {
    // This program lacks the operators of applications; it can still read everything else.
    let options = configured(global)?.allow_missing_operators(true);
    let data = global.data();
    if data.exists() && !data.is_dir() {
        return Err(Failure::usage(format!("{} is no directory", data.display()))
            .advise("name the directory of the database with --data DIR"));
    }
    Ok(Database::open_with(data, choose(options))?)
}

/// As [`open`], for commands that need an existing database: a mistyped name must not create one.
pub(crate) fn open_existing(
    global: &Global,
    choose: impl FnOnce(Options) -> Options,
) -> Result<Database, Failure> {
    open(global, |options| choose(options).create_if_missing(false)).map_err(|failure| {
        if global.data().exists() {
            return failure;
        }
        Failure::usage(format!("there is no directory {}", global.data().display()))
            .advise("name the database with --data DIR; `put` and `load` create it")
    })
}

/// The options that were given, in a file or on the command line.
pub(crate) fn configured(global: &Global) -> Result<Options, Failure> {
    let options = match &global.config {
        Some(path) => ConfigFile::read(path)?.options()?,
        None => Options::default(),
    };
    Ok(global.memory.into_iter().fold(options, Options::memory_budget))
}

/// Lets commands of other processes work on a database that is open here, until the socket is dropped.
pub(crate) fn listen(global: &Global, database: &Database, run: SharedRun) -> Option<ControlListener> {
    let directory = global.data();
    let opened = ControlListener::open(database, directory, run);
    opened
        .inspect_err(|error| {
            let what = "no commands of other processes: the control socket cannot be opened";
            tracing::warn!("{what} in {}: {error}", directory.display());
        })
        .ok()
}

/// Opens the database without changing anything.
pub(crate) fn open_for_reading(global: &Global) -> Result<Database, Failure> {
    open_existing(global, |options| options.read_only(true))
}

impl Context<'_> {
    pub(crate) fn existing_keyspace(&self) -> Result<Keyspace, Failure> {
        existing_keyspace(self.database, &self.shape.keyspace)
    }

    /// The chosen keyspace, created if it does not exist.
    pub(crate) fn keyspace(&self) -> Result<Keyspace, Failure> {
        Ok(self.database.keyspace(&self.shape.keyspace)?)
    }

    pub(crate) fn parse_key(&self, written: &str) -> Result<Vec<u8>, Failure> {
        self.shape.key.parse(written.as_bytes()).map_err(|reason| Failure::usage(format!("key: {reason}")))
    }

    pub(crate) fn parse_range(&self, range: &RangeArgs) -> Result<KeyRange, Failure> {
        let parse = |key: &Option<String>| key.as_deref().map(|key| self.parse_key(key)).transpose();
        let (mut start, mut end) = (parse(&range.start)?.unwrap_or_default(), parse(&range.end)?);
        if let Some(prefix) = parse(&range.prefix)? {
            let successor = prefix_successor(&prefix);
            end = match (end, successor) {
                (Some(end), Some(successor)) => Some(end.min(successor)),
                (end, successor) => end.or(successor),
            };
            start = start.max(prefix);
        }
        Ok(KeyRange { start, end })
    }
}

/// The keys from `start` up to but not including `end`.
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl KeyRange {
    pub(crate) fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let end = self.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(self.start.clone()), end)
    }

    /// Calls `visit` with the pairs of the range, in key order or reverse, until it returns false.
    pub(crate) fn walk(
        &self,
        mut cursor: Cursor,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        match (&self.end, reverse) {
            (_, false) => cursor.seek(&self.start)?,
            (None, true) => cursor.seek_to_last()?,
            (Some(end), true) => {
                cursor.seek_for_prev(end)?;
                if cursor.entry().is_some_and(|(key, _)| key == end.as_slice()) {
                    cursor.retreat()?;
                }
            }
        }
        while let Some((key, value)) = cursor.entry() {
            let outside = if reverse {
                key < self.start.as_slice()
            } else {
                self.end.as_ref().is_some_and(|end| key >= end.as_slice())
            };
            if outside || !visit(key, value)? {
                return Ok(());
            }
            if reverse {
                cursor.retreat()?;
            } else {
                cursor.advance()?;
            }
        }
        Ok(())
    }
}

fn existing_keyspace(database: &Database, name: &str) -> Result<Keyspace, Failure> {
    database.open_keyspace(name).map_err(|error| {
        let names = database.keyspaces();
        let failure = Failure::from(error);
        if names.iter().any(|known| known == name) {
            failure
        } else {
            failure.advise(format!("there are: {}", names.join(", ")))
        }
    })
}
