//! Background traffic: bytes that jobs read and write, by cause and by level.
//!
//! A job is recorded once, when its tables are written, whether or not they are installed: the device has
//! done the work either way. So no atomics are needed, and the lock is taken a few times a second.

use esker_build::filters::keys_of;
use esker_build::pending_outputs::Moved;
use esker_strategy::{CompactionPlan, PlanInput, Reason};
use esker_version::{JobFigures, KeyspaceFigures, LevelFigures, LevelIndex, WriteFigures};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// The weight of older measurements of the overwriting share after another merge of the same size: a change
/// of the workload shows after a handful of merges.
const MEMORY: f64 = 0.75;

/// The cause of background writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A flush of memtables.
    Flush,
    /// An ingest or a bulk load.
    Ingest,
    /// A compaction, with its reason.
    Compaction(Reason),
}

impl Cause {
    /// The name for programs: `flush`, `ingest`, else the reason, such as `dense-window`.
    pub fn name(&self) -> String {
        match self {
            Cause::Flush => "flush".to_owned(),
            Cause::Ingest => "ingest".to_owned(),
            Cause::Compaction(reason) => kebab(&format!("{reason:?}")),
        }
    }

    /// The cause with this name; `None` if a later build has introduced it.
    pub fn named(name: &str) -> Option<Cause> {
        let compactions = Reason::ALL.into_iter().map(Cause::Compaction);
        [Cause::Flush, Cause::Ingest].into_iter().chain(compactions).find(|cause| cause.name() == name)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Flush => f.pad("flush"),
            Cause::Ingest => f.pad("ingest"),
            Cause::Compaction(reason) => f.pad(&reason.to_string()),
        }
    }
}

/// `DenseWindow` as `dense-window`.
fn kebab(camel: &str) -> String {
    let mut out = String::new();
    for (at, letter) in camel.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// The traffic of jobs with one cause.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CauseInfo {
    /// The cause.
    pub cause: Cause,
    /// Jobs.
    pub jobs: u64,
    /// Bytes of tables that they read; an estimate for slices.
    pub read_bytes: u64,
    /// Bytes of tables that they wrote.
    pub written_bytes: u64,
    /// Bytes of blob files that they wrote.
    pub blob_bytes: u64,
    /// Their total duration.
    pub busy: Duration,
    /// The most bytes one of them read and wrote, tables and blob files together.
    pub largest_job_bytes: u64,
}

impl CauseInfo {
    fn new(cause: Cause) -> CauseInfo {
        CauseInfo {
            cause,
            jobs: 0,
            read_bytes: 0,
            written_bytes: 0,
            blob_bytes: 0,
            busy: Duration::ZERO,
            largest_job_bytes: 0,
        }
    }
}

/// Entries before and after flushes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flushed {
    /// Entries of the memtables: one for each operation.
    pub operations: u64,
    /// Entries of the tables.
    pub entries: u64,
    /// Tombstones of the tables.
    pub tombstones: u64,
}

/// Bytes of one level.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelTraffic {
    /// Bytes of tables written for the level.
    pub written_bytes: u64,
    /// Bytes of its tables that compactions read.
    pub read_bytes: u64,
}

/// The background traffic of one keyspace.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<TrafficCounters>);

/// A copy of the counters of [`Traffic`].
#[derive(Clone, Debug, Default)]
pub struct TrafficCounters {
    causes: Vec<(CauseInfo, u64)>,
    levels: BTreeMap<LevelIndex, LevelTraffic>,
    /// What users put before the open; what they put since is counted under the commit lock.
    earlier_put_bytes: u64,
    ingested_bytes: u64,
    moves: u64,
    flushed: Flushed,
    /// Entries that recent merges brought onto the oldest data of their keys, and those of them that
    /// overwrote or removed one there.
    arrived: f64,
    overwritten: f64,
}

impl Traffic {
    /// [`TrafficCounters::overwritten_share`] without copying the rest.
    pub fn overwritten_share(&self) -> Option<f64> {
        self.0.lock().overwritten_share()
    }

    /// The present counters.
    pub fn book(&self) -> TrafficCounters {
        self.0.lock().clone()
    }

    /// Key and value bytes that users put before the open.
    pub(crate) fn earlier_put_bytes(&self) -> u64 {
        self.0.lock().earlier_put_bytes
    }

    /// Adds what earlier opens of the database counted, but for `replayed` operations that are in memtables
    /// again.
    pub fn restore(&self, figures: &KeyspaceFigures, replayed: u64) {
        let (mut book, writes) = (self.0.lock(), &figures.writes);
        book.earlier_put_bytes = writes.put_bytes;
        book.ingested_bytes += writes.ingested_bytes;
        book.moves += writes.moves;
        book.flushed.operations += writes.operations.saturating_sub(replayed);
        book.flushed.entries += writes.flushed_entries;
        book.flushed.tombstones += writes.flushed_tombstones;
        (book.arrived, book.overwritten) = (writes.arrived as f64, writes.overwritten as f64);
        for level in &figures.levels {
            let LevelFigures { written_bytes, read_bytes, .. } = *level;
            if written_bytes + read_bytes > 0 {
                book.levels.insert(level.level, LevelTraffic { written_bytes, read_bytes });
            }
        }
        book.causes.extend(figures.jobs.iter().filter_map(restored_cause));
    }

    /// Records a flush.
    pub fn note_flush(&self, level: LevelIndex, flushed: Flushed, moved: Moved) {
        let mut book = self.0.lock();
        book.flushed.operations += flushed.operations;
        book.flushed.entries += flushed.entries;
        book.flushed.tombstones += flushed.tombstones;
        book.note(Cause::Flush, moved);
        book.levels.entry(level).or_default().written_bytes += moved.written_bytes;
    }

    /// Records ingested tables with `raw_bytes` of keys and values.
    pub(crate) fn note_ingest(&self, raw_bytes: u64, tables: impl Iterator<Item = (LevelIndex, u64)>) {
        let mut book = self.0.lock();
        let mut moved = Moved::default();
        for (level, bytes) in tables {
            moved.written_bytes += bytes;
            book.levels.entry(level).or_default().written_bytes += bytes;
        }
        book.ingested_bytes += raw_bytes;
        book.note(Cause::Ingest, moved);
    }

    /// Records the merge of a plan, with the entries of its inputs and outputs.
    pub(crate) fn note_merge(&self, plan: &CompactionPlan, entries_in: u64, entries_out: u64, moved: Moved) {
        let mut book = self.0.lock();
        book.note(Cause::Compaction(plan.reason), moved);
        book.levels.entry(plan.to.level()).or_default().written_bytes += moved.written_bytes;
        for (input, part) in plan.parts() {
            book.levels.entry(input.level).or_default().read_bytes += part.bytes();
        }
        let runs: BTreeSet<_> = plan.inputs.iter().map(|input| input.run).collect();
        if plan.bottom && runs.len() > 1 {
            book.note_overwritten(plan, entries_in, entries_out);
        }
    }

    /// Records a plan executed without writing.
    pub(crate) fn note_move(&self) {
        self.0.lock().moves += 1;
    }
}

impl TrafficCounters {
    fn note(&mut self, cause: Cause, moved: Moved) {
        let at = self.causes.iter().position(|(known, _)| known.cause == cause);
        let at = at.unwrap_or_else(|| {
            self.causes.push((CauseInfo::new(cause), 0));
            self.causes.len() - 1
        });
        let (info, busy_ns) = &mut self.causes[at];
        info.jobs += 1;
        info.read_bytes += moved.read_bytes;
        info.written_bytes += moved.written_bytes;
        info.blob_bytes += moved.blob_bytes;
        let job_bytes = moved.read_bytes + moved.written_bytes + moved.blob_bytes;
        info.largest_job_bytes = info.largest_job_bytes.max(job_bytes);
        *busy_ns += moved.took_ns;
        info.busy = Duration::from_nanos(*busy_ns);
    }

    /// Records a merge onto the oldest data. Its oldest run stays; entries of newer ones add to it or
    /// overwrite.
    fn note_overwritten(&mut self, plan: &CompactionPlan, entries_in: u64, entries_out: u64) {
        let oldest = plan.inputs.iter().map(PlanInput::position).max();
        let of_oldest = |input: &&PlanInput| Some(input.position()) == oldest;
        let base: u64 =
            plan.inputs.iter().filter(of_oldest).flat_map(|input| &input.parts).map(keys_of).sum();
        let arrived = entries_in.saturating_sub(base);
        let overwritten = entries_in.saturating_sub(entries_out).min(arrived);
        self.arrived = self.arrived * MEMORY + arrived as f64;
        self.overwritten = self.overwritten * MEMORY + overwritten as f64;
    }

    /// The share of entries above the oldest data that overwrite something; `None` before a merge has
    /// measured it.
    pub fn overwritten_share(&self) -> Option<f64> {
        (self.arrived > 0.0).then(|| self.overwritten / self.arrived)
    }

    /// The figures of writes, with `put_bytes` put since the open and `in_memtables` operations that are not
    /// flushed yet.
    pub fn write_figures(&self, put_bytes: u64, in_memtables: u64) -> WriteFigures {
        WriteFigures {
            put_bytes: self.earlier_put_bytes + put_bytes,
            ingested_bytes: self.ingested_bytes,
            operations: self.flushed.operations + in_memtables,
            flushed_entries: self.flushed.entries,
            flushed_tombstones: self.flushed.tombstones,
            moves: self.moves,
            arrived: self.arrived.round() as u64,
            overwritten: self.overwritten.round() as u64,
        }
    }

    /// The figures of jobs, by cause.
    pub(crate) fn job_figures(&self) -> Vec<JobFigures> {
        let of = |(info, busy_ns): &(CauseInfo, u64)| JobFigures {
            cause: info.cause.name().into(),
            jobs: info.jobs,
            read_bytes: info.read_bytes,
            written_bytes: info.written_bytes,
            blob_bytes: info.blob_bytes,
            busy_us: busy_ns / 1000,
            largest_job_bytes: info.largest_job_bytes,
        };
        self.causes.iter().map(of).collect()
    }

    /// Levels with traffic.
    pub fn levels(&self) -> impl Iterator<Item = LevelIndex> {
        self.levels.keys().copied()
    }

    /// The traffic of a level.
    pub fn level(&self, level: LevelIndex) -> LevelTraffic {
        self.levels.get(&level).copied().unwrap_or_default()
    }

    /// Bytes of keys and values that users ingested.
    pub fn ingested_bytes(&self) -> u64 {
        self.ingested_bytes
    }

    /// Operations whose memtables were flushed.
    pub fn flushed_entries(&self) -> u64 {
        self.flushed.operations
    }

    /// The share of deletes in the output of flushes.
    pub fn flushed_tombstones_share(&self) -> f64 {
        self.flushed.tombstones as f64 / self.flushed.entries.max(1) as f64
    }

    /// Plans that moved or dropped tables without writing any.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// The traffic of flushes.
    pub fn flushes(&self) -> CauseInfo {
        let flush = self.causes.iter().find(|(info, _)| info.cause == Cause::Flush);
        flush.map_or_else(|| CauseInfo::new(Cause::Flush), |(info, _)| *info)
    }

    /// The total traffic of compactions; the cause is that of one of them.
    pub fn compactions(&self) -> CauseInfo {
        let of_compactions = self
            .causes
            .iter()
            .map(|(info, _)| info)
            .filter(|info| matches!(info.cause, Cause::Compaction(_)));
        of_compactions.fold(CauseInfo::new(Cause::Compaction(Reason::Manual)), |sum, info| CauseInfo {
            cause: sum.cause,
            jobs: sum.jobs + info.jobs,
            read_bytes: sum.read_bytes + info.read_bytes,
            written_bytes: sum.written_bytes + info.written_bytes,
            blob_bytes: sum.blob_bytes + info.blob_bytes,
            busy: sum.busy + info.busy,
            largest_job_bytes: sum.largest_job_bytes.max(info.largest_job_bytes),
        })
    }

    /// The causes, most written first.
    pub(crate) fn into_causes(self) -> Vec<CauseInfo> {
        let mut causes: Vec<CauseInfo> = self.causes.into_iter().map(|(info, _)| info).collect();
        causes.sort_by_key(|info| std::cmp::Reverse(info.written_bytes + info.blob_bytes));
        causes
    }
}

/// The counters of a cause; `None` if this build does not know it.
fn restored_cause(jobs: &JobFigures) -> Option<(CauseInfo, u64)> {
    let busy_ns = jobs.busy_us.saturating_mul(1000);
    let info = CauseInfo {
        cause: Cause::named(&jobs.cause)?,
        jobs: jobs.jobs,
        read_bytes: jobs.read_bytes,
        written_bytes: jobs.written_bytes,
        blob_bytes: jobs.blob_bytes,
        busy: Duration::from_nanos(busy_ns),
        largest_job_bytes: jobs.largest_job_bytes,
    };
    Some((info, busy_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_found_by_its_name() {
        for reason in Reason::ALL {
            let cause = Cause::Compaction(reason);
            assert_eq!(Cause::named(&cause.name()), Some(cause));
        }
        assert_eq!((Cause::named("flush"), Cause::named("of a later build")), (Some(Cause::Flush), None));
    }

    #[test]
    fn names_are_words_for_programs() {
        assert_eq!(Cause::Flush.name(), "flush");
        assert_eq!(Cause::Compaction(Reason::Level0Runs).name(), "level0-runs");
        assert_eq!(Cause::Compaction(Reason::DenseWindow).name(), "dense-window");
    }

    #[test]
    fn jobs_add_up_by_cause() {
        let traffic = Traffic::default();
        let moved = |bytes| Moved { written_bytes: bytes, took_ns: 600_000, ..Moved::default() };
        let flushed = Flushed { operations: 8, entries: 6, tombstones: 3 };
        traffic.note_flush(LevelIndex::FLUSH, flushed, moved(10));
        traffic.note_flush(LevelIndex::LAST, flushed, moved(30));
        traffic.note_ingest(90, [(LevelIndex::LAST, 100)].into_iter());
        let book = traffic.book();
        assert_eq!((book.level(LevelIndex::LAST).written_bytes, book.ingested_bytes()), (130, 90));
        assert_eq!((book.flushed_entries(), book.flushed_tombstones_share()), (16, 0.5));
        let flushes = book.flushes();
        assert_eq!((flushes.jobs, flushes.written_bytes, flushes.largest_job_bytes), (2, 40, 30));
        assert_eq!(flushes.busy.as_millis(), 1, "parts of milliseconds are not lost");
        let causes = book.into_causes();
        assert_eq!(causes.iter().map(|info| info.cause).collect::<Vec<_>>(), [Cause::Ingest, Cause::Flush]);
    }
}
