//! Audit of events: a listener that records them, and a check that they agree with each other and with what
//! the database reports about itself when it is closed.

use crate::{Failure, Outcome, ensure};
use esker::events::{CompactionJob, Event, FileInfo, FileKind, JobOutput, KeyspaceRef, PlanKind};
use esker::metrics::{KeyspaceLevels, KeyspaceMetrics};
use esker::parts::base::{FileNumber, KeyspaceId};
use esker::{Database, Options};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// A file of a keyspace.
type OwnedFile = (KeyspaceId, FileNumber);

/// The events of one open of a database whose background work is stepped.
#[derive(Clone, Debug, Default)]
pub struct EventAudit(Arc<Mutex<Vec<Event>>>);

/// What events have told about one keyspace.
#[derive(Debug, Default)]
struct Told {
    name: String,
    is_flushing: bool,
    flushes: u64,
    flushed_bytes: u64,
    merges: u64,
    merged_bytes: u64,
    moves: u64,
}

/// The state that follows from the events so far.
#[derive(Debug, Default)]
struct Replayed {
    keyspaces: HashMap<KeyspaceId, Told>,
    files: BTreeSet<OwnedFile>,
    compactions: HashMap<u64, CompactionJob>,
    has_failures: bool,
}

impl EventAudit {
    /// Options with this listener.
    pub fn watch(&self, options: Options) -> Options {
        let events = Arc::clone(&self.0);
        options.listener(Arc::new(move |event: &Event| {
            events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        }))
    }

    /// The files of a database, for [`EventAudit::check`] when it has just been opened.
    pub fn files(db: &Database) -> BTreeSet<FileNumber> {
        db.levels().iter().flat_map(files_of).collect()
    }

    /// Checks the events of a database that was closed, and had these files when it was opened.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, db: &Database, at_open: &BTreeSet<FileNumber>) -> Outcome {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = Replayed::default();
        for (number, event) in events.iter().enumerate() {
            let noted = state.note(event, at_open);
            noted.map_err(|failure| failure.during(format_args!("event {number}, {event:?}")))?;
        }
        state.check_end(db, at_open)
    }
}

impl Replayed {
    fn of(&mut self, keyspace: &KeyspaceRef) -> &mut Told {
        let told = self.keyspaces.entry(keyspace.id).or_default();
        told.name = keyspace.name.to_string();
        told
    }

    fn note(&mut self, event: &Event, at_open: &BTreeSet<FileNumber>) -> Outcome {
        if let Some(keyspace) = event.keyspace() {
            self.of(keyspace);
        }
        match event {
            Event::FlushBegun(job) => {
                let was_flushing = std::mem::replace(&mut self.of(&job.keyspace).is_flushing, true);
                ensure!(!was_flushing, "two flushes of a keyspace at once");
                ensure!(job.memtables > 0, "a flush of nothing");
            }
            Event::FlushEnded { job, result, .. } => {
                self.has_failures |= result.is_err();
                let told = self.of(&job.keyspace);
                ensure!(std::mem::take(&mut told.is_flushing), "a flush ends that did not begin");
                if let Ok(output) = result {
                    told.flushes += 1;
                    told.flushed_bytes += output.table_bytes;
                    let id = job.keyspace.id;
                    self.check_output(id, output)?;
                }
            }
            Event::CompactionBegun(job) => {
                ensure!(!job.inputs.is_empty(), "a compaction of nothing");
                let before = self.compactions.insert(job.number, job.clone());
                ensure!(before.is_none(), "two compactions with one number");
            }
            Event::CompactionEnded { job, result, .. } => self.end_compaction(job, result.as_ref().ok())?,
            Event::FilesChanged { keyspace, created, deleted, .. } => {
                self.change_files(keyspace.id, created, deleted, at_open)?;
            }
            Event::BackgroundError { .. } | Event::TurnedReadOnly { .. } => self.has_failures = true,
            Event::KeyspaceDropped(keyspace) => {
                let left = self.files.iter().find(|(id, _)| *id == keyspace.id);
                ensure!(left.is_none(), "{left:?} outlives its keyspace");
                self.keyspaces.remove(&keyspace.id);
            }
            Event::EventsLost { count } => return Err(Failure::new(format!("{count} events were lost"))),
            _ => {}
        }
        Ok(())
    }

    fn end_compaction(&mut self, job: &CompactionJob, output: Option<&JobOutput>) -> Outcome {
        let begun = self.compactions.remove(&job.number);
        ensure!(begun.as_ref() == Some(job), "a compaction ends that did not begin so: {begun:?}");
        let Some(output) = output else {
            self.has_failures = true;
            return Ok(());
        };
        self.check_output(job.keyspace.id, output)?;
        let told = self.of(&job.keyspace);
        if job.kind == PlanKind::Merge {
            told.merges += 1;
            told.merged_bytes += output.table_bytes;
        } else {
            told.moves += 1;
            ensure!(*output == JobOutput::default(), "a move writes {output:?}");
        }
        Ok(())
    }

    /// The output was installed before its job ended, and nothing else has run since.
    fn check_output(&self, keyspace: KeyspaceId, output: &JobOutput) -> Outcome {
        let missing = output.tables.iter().find(|&&file| !self.files.contains(&(keyspace, file)));
        ensure!(missing.is_none(), "the output {missing:?} was never created");
        Ok(())
    }

    fn change_files(
        &mut self,
        keyspace: KeyspaceId,
        created: &[FileInfo],
        deleted: &[FileInfo],
        at_open: &BTreeSet<FileNumber>,
    ) -> Outcome {
        for file in created {
            ensure!(file.bytes > 0, "a file without bytes: {file:?}");
            ensure!(file.level.is_some() == (file.kind == FileKind::Table), "the level of {file:?}");
            let is_new = self.files.insert((keyspace, file.number)) && !at_open.contains(&file.number);
            ensure!(is_new, "{file:?} is created twice");
        }
        for file in deleted {
            let was_there = self.files.remove(&(keyspace, file.number)) || at_open.contains(&file.number);
            ensure!(was_there, "{file:?} is deleted and was never there");
        }
        Ok(())
    }

    /// What is left when everything has ended.
    fn check_end(&self, db: &Database, at_open: &BTreeSet<FileNumber>) -> Outcome {
        ensure!(self.compactions.is_empty(), "compactions without end: {:?}", self.compactions);
        let flushing = self.keyspaces.values().find(|told| told.is_flushing);
        ensure!(flushing.is_none(), "a flush without end: {flushing:?}");
        let present = EventAudit::files(db);
        let unknown = present.iter().find(|&&file| {
            !at_open.contains(&file) && !self.files.iter().any(|(_, created)| *created == file)
        });
        ensure!(unknown.is_none(), "file {unknown:?} is there, and no event tells of it");
        let gone = self.files.iter().find(|(_, file)| !present.contains(file));
        ensure!(gone.is_none(), "file {gone:?} is gone, and no event tells of it");
        for metrics in &db.metrics().keyspaces {
            let told = self.keyspaces.values().find(|told| told.name == metrics.name);
            self.check_sums(told.unwrap_or(&Told::default()), metrics)?;
        }
        Ok(())
    }

    /// The metrics count a job when its tables are written; with failures they count more than was installed.
    fn check_sums(&self, told: &Told, metrics: &KeyspaceMetrics) -> Outcome {
        let events = [told.flushes, told.flushed_bytes, told.merges, told.merged_bytes, told.moves];
        let counted = [
            metrics.flushes,
            metrics.flushed_bytes,
            metrics.compactions,
            metrics.compacted_out_bytes,
            metrics.trivial_moves,
        ];
        let agree = events == counted
            || self.has_failures && events.iter().zip(&counted).all(|(event, counted)| event <= counted);
        ensure!(agree, "keyspace {}: events say {events:?}, metrics {counted:?}", metrics.name);
        Ok(())
    }
}

fn files_of(levels: &KeyspaceLevels) -> Vec<FileNumber> {
    let runs = levels.levels.iter().flat_map(|level| &level.runs);
    let tables = runs.flat_map(|run| &run.tables).map(|table| table.file);
    tables.chain(levels.blob_files.iter().map(|blob| blob.file)).collect()
}
