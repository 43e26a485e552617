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

/// What a database had when it was opened: its files, and the jobs that its metrics tell of earlier opens.
#[derive(Debug, Default)]
pub struct AtOpen {
    files: BTreeSet<FileNumber>,
    jobs: HashMap<KeyspaceId, (String, [u64; 5])>,
}

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

    /// What a database has that was just opened, for [`EventAudit::check`].
    ///
    /// # Errors
    /// If a keyspace that the metrics name cannot be opened.
    pub fn at_open(db: &Database) -> esker::Result<AtOpen> {
        let job = |metrics: &KeyspaceMetrics| {
            let id = db.open_keyspace(&metrics.name)?.id();
            Ok((id, (metrics.name.clone(), jobs_of(metrics))))
        };
        let jobs = db.metrics().keyspaces.iter().map(job).collect::<esker::Result<_>>()?;
        Ok(AtOpen { files: files_in(db), jobs })
    }

    /// Checks the events of a database that was closed, and had this when it was opened.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, db: &Database, at_open: &AtOpen) -> Outcome {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = Replayed::default();
        for (number, event) in events.iter().enumerate() {
            let noted = state.note(event, &at_open.files);
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
    fn check_end(&self, db: &Database, at_open: &AtOpen) -> Outcome {
        ensure!(self.compactions.is_empty(), "compactions without end: {:?}", self.compactions);
        let flushing = self.keyspaces.values().find(|told| told.is_flushing);
        ensure!(flushing.is_none(), "a flush without end: {flushing:?}");
        let present = files_in(db);
        let unknown = present.iter().find(|&&file| {
            !at_open.files.contains(&file) && !self.files.iter().any(|(_, created)| *created == file)
        });
        ensure!(unknown.is_none(), "file {unknown:?} is there, and no event tells of it");
        let gone = self.files.iter().find(|(_, file)| !present.contains(file));
        ensure!(gone.is_none(), "file {gone:?} is gone, and no event tells of it");
        for metrics in &db.metrics().keyspaces {
            let told = self.keyspaces.iter().find(|(_, told)| told.name == metrics.name);
            let earlier = match told {
                Some((id, _)) => at_open.jobs.get(id),
                // No event tells of it, so it has the name that it had.
                None => at_open.jobs.values().find(|(name, _)| *name == metrics.name),
            };
            let earlier = earlier.map_or([0; 5], |(_, jobs)| *jobs);
            self.check_sums(told.map_or(&Told::default(), |(_, told)| told), earlier, metrics)?;
        }
        Ok(())
    }

    /// The metrics count a job when its tables are written; with failures they count more than was installed.
    fn check_sums(&self, told: &Told, earlier: [u64; 5], metrics: &KeyspaceMetrics) -> Outcome {
        let events = [told.flushes, told.flushed_bytes, told.merges, told.merged_bytes, told.moves];
        let expected: [u64; 5] = std::array::from_fn(|at| earlier[at] + events[at]);
        let counted = jobs_of(metrics);
        let agree = expected == counted
            || self.has_failures && expected.iter().zip(&counted).all(|(event, counted)| event <= counted);
        let name = &metrics.name;
        ensure!(agree, "keyspace {name}: events say {events:?} after {earlier:?}, metrics {counted:?}");
        Ok(())
    }
}

/// The jobs in the life of a keyspace, in the order in which events are summed.
fn jobs_of(metrics: &KeyspaceMetrics) -> [u64; 5] {
    let KeyspaceMetrics { flushes, flushed_bytes, compactions, compacted_out_bytes, trivial_moves, .. } =
        *metrics;
    [flushes, flushed_bytes, compactions, compacted_out_bytes, trivial_moves]
}

fn files_in(db: &Database) -> BTreeSet<FileNumber> {
    db.levels().iter().flat_map(files_of).collect()
}

fn files_of(levels: &KeyspaceLevels) -> Vec<FileNumber> {
    let runs = levels.levels.iter().flat_map(|level| &level.runs);
    let tables = runs.flat_map(|run| &run.tables).map(|table| table.file);
    tables.chain(levels.blob_files.iter().map(|blob| blob.file)).collect()
}
