//! `load`: writes a file of pairs into the database, batch by batch, or as a whole by a bulk load.

use super::{Context, write_json};
use crate::args::{FileFormat, LoadArgs, OnError};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::human_count;
use crate::interrupt::Interrupt;
use crate::records::{ReadError, Record, RecordReader};
use esker::ingest::BulkLoader;
use esker::parts::base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker::{Database, Expiry, Keyspace, WriteBatch};
use indicatif::ProgressBar;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Bytes at which a batch ends in any case: it must fit into its part of the memory budget.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Pairs of a bulk load between two updates of the progress bar.
const PAIRS_PER_TOLD: u64 = 4096;

/// Bad lines that are printed; more are only counted.
const MAX_SHOWN_LINES: u64 = 100;

pub(super) fn run(context: &mut Context<'_>, args: &LoadArgs) -> Result<Exit, Failure> {
    let format = known_format(&context.caller, args.format, &args.file, args.header)?;
    let input = context.caller.open_input(&args.file)?;
    let progress = context.caller.progress_bar(input.len);
    let interrupt = Interrupt::of(&context.caller)?;
    let keyspace = context.keyspace()?;
    let loader = args.bulk.then(|| keyspace.bulk_load()).transpose()?;
    let mut load = Load {
        reader: format.reader(input.reader, &context.shape, args.header),
        database: context.database,
        caller: &context.caller,
        keyspace,
        loader,
        name: &args.file,
        format,
        on_error: args.on_error,
        batch_size: args.batch_size as usize,
        ttl: args.ttl,
        progress: &progress,
        interrupt: &interrupt,
        loaded: 0,
        skipped: 0,
        batch: Vec::new(),
        batch_bytes: 0,
        batch_start: 1,
    };
    let result = load.run();
    let (loaded, skipped) = (load.loaded, load.skipped);
    progress.finish_and_clear();
    result?;
    if context.shape.json {
        let members = [("loaded", loaded), ("skipped", skipped)];
        write_json(context.out, members.map(|(name, count)| (name.to_owned(), count.into())))?;
    } else {
        let skipped = match skipped {
            0 => String::new(),
            skipped => format!(", {} bad {}(s) skipped", human_count(skipped), format.unit()),
        };
        writeln!(context.out, "{} pairs loaded{skipped}", human_count(loaded))?;
    }
    Ok(Exit::Done)
}

/// The format of an existing file of pairs: the one that was named, or the one of its extension.
pub(super) fn known_format(
    caller: &Caller,
    named: Option<FileFormat>,
    file: &Path,
    header: bool,
) -> Result<FileFormat, Failure> {
    // First, so that a missing file is reported as missing, not as one of unknown format.
    caller.find_input(file)?;
    let format = named.or_else(|| FileFormat::of(file)).ok_or_else(|| {
        Failure::usage(format!("cannot tell the format of {} by its name", file.display()))
            .advise("name it with --format csv, tsv, jsonl or pairs")
    })?;
    if header && format.header().is_none() {
        return Err(Failure::usage("--header is for CSV and TSV files"));
    }
    Ok(format)
}

struct Load<'a> {
    reader: Box<dyn RecordReader + 'a>,
    database: &'a Database,
    caller: &'a Caller,
    keyspace: Keyspace,
    /// The bulk load, which takes the place of batches.
    loader: Option<BulkLoader>,
    name: &'a Path,
    format: FileFormat,
    on_error: OnError,
    batch_size: usize,
    ttl: Option<Duration>,
    progress: &'a ProgressBar,
    interrupt: &'a Interrupt,
    loaded: u64,
    skipped: u64,
    batch: Vec<Record>,
    batch_bytes: usize,
    /// Number of the first line of the batch.
    batch_start: u64,
}

impl Load<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            match self.reader.next().and_then(|record| self.check(record)) {
                Ok(Some(record)) if self.loader.is_some() => self.add(&record)?,
                Ok(None) if self.loader.is_some() => return self.finish(),
                Ok(Some(record)) => {
                    self.batch_bytes += record.key.len() + record.value.len();
                    self.batch.push(record);
                    if self.batch.len() >= self.batch_size || self.batch_bytes >= MAX_BATCH_BYTES {
                        self.apply()?;
                    }
                }
                Ok(None) => return self.apply(),
                Err(ReadError::Bad { number, reason }) => self.bad(number, &reason)?,
                Err(ReadError::Io(error)) => {
                    // A caller that was interrupted gives no more input.
                    self.stop_if_interrupted()?;
                    return Err(Failure::system(
                        format_args!("cannot read {} any further: {}", self.name.display(), self.so_far()),
                        &error,
                    ));
                }
            }
        }
    }

    /// Reports a pair that the database would refuse as an error of its line.
    fn check(&self, record: Option<Record>) -> Result<Option<Record>, ReadError> {
        let Some(found) = &record else { return Ok(None) };
        for (what, len, limit) in
            [("key", found.key.len(), MAX_KEY_LEN), ("value", found.value.len(), MAX_VALUE_LEN)]
        {
            if len > limit {
                let reason = format!("the {what} has {len} bytes, {limit} are allowed");
                return Err(ReadError::Bad { number: self.reader.number(), reason });
            }
        }
        Ok(record)
    }

    fn bad(&mut self, number: u64, reason: &str) -> Result<(), Failure> {
        let (name, unit) = (self.name.display(), self.format.unit());
        if self.on_error == OnError::Stop {
            let failure = Failure::input(format!("{name}: {unit} {number}: {reason}"));
            if self.loader.is_some() {
                let mend = format!("mend the {unit}, or skip bad ones with --on-error skip");
                return Err(failure.advise(format!("nothing was loaded; {mend}")));
            }
            return Err(failure.advise(format!(
                "{}; nothing of its batch, from {unit} {} on, was applied. Mend the {unit}, or skip bad ones with \
                 --on-error skip",
                self.so_far(),
                self.batch_start
            )));
        }
        self.skipped += 1;
        if self.skipped <= MAX_SHOWN_LINES {
            self.progress.suspend(|| {
                // A missing standard error is no failure; the count is in the answer.
                let mut errors = self.caller.errors();
                let _result = writeln!(errors, "esker: {name}: {unit} {number} skipped: {reason}");
                if self.skipped == MAX_SHOWN_LINES {
                    let _result = writeln!(errors, "esker: further bad {unit}s are only counted");
                }
            });
        }
        Ok(())
    }

    fn so_far(&self) -> String {
        let loaded = if self.loader.is_some() { 0 } else { self.loaded };
        format!("{} pairs were loaded before", human_count(loaded))
    }

    fn add(&mut self, record: &Record) -> Result<(), Failure> {
        let Some(loader) = &mut self.loader else { return Ok(()) };
        match self.ttl {
            None => loader.add(&record.key, &record.value)?,
            Some(ttl) => loader.add_with(&record.key, &record.value, Expiry::After(ttl))?,
        }
        self.loaded += 1;
        if self.loaded.is_multiple_of(PAIRS_PER_TOLD) {
            self.stop_if_interrupted()?;
            self.progress.set_position(self.reader.position());
            self.progress.set_message(format!("{} pairs", human_count(self.loaded)));
        }
        Ok(())
    }

    /// Makes everything that was added part of the keyspace.
    fn finish(&mut self) -> Result<(), Failure> {
        let Some(loader) = self.loader.take() else { return Ok(()) };
        self.progress.set_position(self.reader.position());
        let finished = self.interrupt.during(|| {
            loader.finish_with(&mut |progress| {
                if !self.caller.is_remote() {
                    // What was written has no name yet. The next open deletes it, and nothing before.
                    self.interrupt.leave_if_set();
                }
                let (merged, total) = (human_count(progress.merged), human_count(progress.total));
                self.progress.set_message(format!("{merged} of {total} pairs sorted"));
            })
        });
        finished.ok_or_else(|| Failure::interrupted("nothing was loaded"))??;
        Ok(())
    }

    fn stop_if_interrupted(&self) -> Result<(), Failure> {
        if !self.interrupt.is_set() {
            return Ok(());
        }
        self.progress.finish_and_clear();
        Err(Failure::interrupted(match self.loader {
            Some(_) => "nothing was loaded".to_owned(),
            None => format!("{} pairs were loaded, and stay", human_count(self.loaded)),
        }))
    }

    fn apply(&mut self) -> Result<(), Failure> {
        let mut batch: WriteBatch = self.database.batch();
        for record in self.batch.drain(..) {
            match self.ttl {
                None => batch.put(&self.keyspace, &record.key, &record.value),
                Some(ttl) => batch.put_with(&self.keyspace, &record.key, &record.value, Expiry::After(ttl)),
            }
            self.loaded += 1;
        }
        self.database.write(&batch)?;
        self.batch_bytes = 0;
        self.batch_start = self.reader.number() + 1;
        self.progress.set_position(self.reader.position());
        self.progress.set_message(format!("{} pairs", human_count(self.loaded)));
        self.stop_if_interrupted()
    }
}
