//! The simulated tree: real plans, edits and metadata; the tables are intervals.

use crate::content::{Ages, SPAN, Segment, clipped, merged};
use crate::scenario::Scenario;
use crate::source::Source;
use crate::tables::{Sizes, Table, cut, key_at, position_of};
use esker_base::{FileNumber, KeyspaceId, PartId, SeqNo, TableUid};
use esker_strategy::{
    Busy, CompactionPlan, Cut, IDLE_BUDGET_BYTES, JobId, PlanKind, Position, RunPosition, Shape, Strategy,
    StrategyOptions, validate,
};
use esker_version::{DatabaseState, EditOp, KeyRange, LevelIndex, PartMeta, Place, Version, VersionEdit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const KEYSPACE: KeyspaceId = KeyspaceId(0);

/// A file: its contents and bytes, of which slices may be dead.
#[derive(Debug)]
struct File {
    segments: Vec<Segment>,
    bytes: u64,
    /// Its overwrite ratio in 1/1000, where the store would know it.
    overwrite_permille: Option<u32>,
}

/// A job between planning and install.
#[derive(Debug)]
pub(crate) struct Job {
    id: JobId,
    pub(crate) plan: CompactionPlan,
    tables: Vec<Table>,
    pub(crate) out_bytes: u64,
}

/// A tree and the executor of its plans.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) source: Source,
    pub(crate) strategy: Strategy,
    pub(crate) options: StrategyOptions,
    sizes: Sizes,
    state: DatabaseState,
    files: BTreeMap<FileNumber, File>,
    busy: Busy,
    /// Bytes of all files, dead slices included.
    pub(crate) file_bytes: u64,
    /// Everything before this moment, in operations, is in tables.
    pub(crate) flushed_to: f64,
    /// Elapsed seconds, with a clock.
    pub(crate) now_s: f64,
}

impl Tree {
    /// The initial tree of a scenario: empty, or with all keys in one run.
    pub(crate) fn new(scenario: &Scenario, options: StrategyOptions) -> Result<Tree, String> {
        let mut state = DatabaseState::new([0; 16]);
        let mut edit = VersionEdit::new();
        edit.push(EditOp::CreateKeyspace { id: KEYSPACE, name: "simulated".into(), options: Arc::default() });
        state.apply(&edit).map_err(|error| error.to_string())?;
        let workload = scenario.workload;
        let mut tree = Tree {
            source: Source::new(workload),
            strategy: scenario.strategy,
            options,
            sizes: Sizes {
                value: workload.entry_bytes() * scenario.table_overhead,
                tombstone: f64::from(workload.key_bytes) * scenario.table_overhead,
            },
            state,
            files: BTreeMap::new(),
            busy: Busy::new(),
            file_bytes: 0,
            flushed_to: -(workload.keys.max(1) as f64),
            now_s: 0.0,
        };
        if !workload.input.starts_empty() {
            let loaded = tree.source.loaded();
            tree.flushed_to = 0.0;
            let to = if tree.strategy == Strategy::None { LevelIndex::FLUSH } else { LevelIndex::LAST };
            tree.install_new(Position::Front(to), &[loaded], 0)?;
        }
        Ok(tree)
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        self.state.keyspaces.get(&KEYSPACE).map(|keyspace| Arc::clone(&keyspace.version)).unwrap_or_default()
    }

    /// Writes the operations since [`Tree::flushed_to`] as tables; returns their bytes.
    pub(crate) fn flush(&mut self, to: f64, now_ms: u64) -> Result<u64, String> {
        let ages = Ages::new(self.flushed_to, to).without_expired(self.source.alive_from(to));
        let written = self.source.written(ages);
        self.flushed_to = to;
        let (Some(first), Some(last)) = (written.first(), written.last()) else { return Ok(0) };
        let hull = KeyRange::inclusive(key_at(first.start), key_at(last.end - 1));
        let place = self.strategy.flush_placement(&self.version(), &hull, &self.busy);
        self.install_new(place, &written, now_ms)
    }

    /// Bytes that a flush up to a moment would write.
    pub(crate) fn flush_bytes(&self, to: f64) -> u64 {
        let written = self.source.written(Ages::new(self.flushed_to, to));
        written.iter().map(|segment| self.sizes.bytes(self.source.held(segment))).sum::<f64>() as u64
    }

    fn install_new(&mut self, to: Position, segments: &[Segment], now_ms: u64) -> Result<u64, String> {
        let tables = {
            let version = self.version();
            let rules = Cut::for_output(&version, to, &self.options);
            cut(&rules, segments, &self.source, &self.sizes)
        };
        let mut edit = VersionEdit::new();
        let bytes = self.add_tables(&mut edit, to, tables, now_ms);
        self.install(&edit)?;
        Ok(bytes)
    }

    pub(crate) fn begin(&mut self, idle: bool, now_ms: u64) -> Result<Option<Job>, String> {
        let version = self.version();
        let expired_ms = self.moment_ms(self.flushed_to);
        let overwrite_ratios = self.overwrite_ratios(&version);
        let shape = Shape {
            overwrite_ratios: &overwrite_ratios,
            now_ms: clock_ms(now_ms),
            expired_ms,
            idle,
            ..Shape::new(&version)
        };
        // As in the engine: within its idle budget, an idle store converges completely.
        let is_at_leisure = idle && self.file_bytes <= IDLE_BUDGET_BYTES;
        let idle_permille = if is_at_leisure { 0 } else { self.options.idle_permille };
        let options = StrategyOptions { idle_permille, ..self.options.clone() };
        let Some(plan) = self.strategy.plan(&shape, &self.busy, &options) else { return Ok(None) };
        validate(&version, &self.busy, &plan)?;
        let tables = if plan.kind == PlanKind::Merge { self.merge(&version, &plan) } else { Vec::new() };
        let out_bytes = tables.iter().map(|table| whole(table.bytes)).sum();
        let id = self.busy.add(&plan);
        Ok(Some(Job { id, plan, tables, out_bytes }))
    }

    /// The overwrite ratios of parts: exact, where the store samples filters.
    fn overwrite_ratios(&self, version: &Version) -> Vec<(PartId, u32)> {
        if !self.strategy.uses_overwrite_ratios() {
            return Vec::new();
        }
        let share = |part: &PartMeta| Some((part.id, self.files.get(&part.file)?.overwrite_permille?));
        let mut overwrite_permille: Vec<(PartId, u32)> =
            version.parts().filter_map(|(_, _, part)| share(part)).collect();
        overwrite_permille.sort_unstable();
        overwrite_permille
    }

    /// The merged contents of the inputs, as tables.
    fn merge(&self, version: &Version, plan: &CompactionPlan) -> Vec<Table> {
        let lists: Vec<Vec<Segment>> = plan
            .inputs
            .iter()
            .map(|input| {
                let parts = input.parts.iter().filter_map(|consumed| {
                    let file = self.files.get(&consumed.part.file)?;
                    let (start, end) = extent(consumed.range());
                    Some(clipped(&file.segments, start, end))
                });
                parts.flatten().collect()
            })
            .collect();
        let expires = self.source.workload.ttl_passes.is_some();
        let alive_from = self.source.alive_from(self.flushed_to);
        let older = if expires { older_parts(version, plan) } else { Vec::new() };
        let merged = merged(&lists).into_iter().map(|segment| {
            let mut ages = segment.ages.without_expired(alive_from);
            if expires && !older.iter().any(|&(start, end)| start < segment.end && segment.start < end) {
                // Older entries have expired and their tables have been dropped whole.
                ages = self.source.back_to_the_beginning(ages);
            }
            self.source.normal(Segment { ages, ..segment })
        });
        let mut segments: Vec<Segment> = merged.collect();
        segments.dedup_by(|next, last| {
            let joins = last.end == next.start && last.ages == next.ages;
            if joins {
                last.end = next.end;
            }
            joins
        });
        cut(&plan.cut, &segments, &self.source, &self.sizes)
    }

    pub(crate) fn end(&mut self, job: Job, now_ms: u64) -> Result<(), String> {
        let Job { id, plan, tables, .. } = job;
        self.busy.remove(id);
        let mut edit = VersionEdit::new();
        if plan.kind == PlanKind::Merge {
            plan.remove_inputs(KEYSPACE, &mut edit, || self.state.take_part_id());
            self.add_tables(&mut edit, plan.to, tables, now_ms);
        } else {
            let new_run = self.state.take_run_id();
            let version = self.version();
            edit = plan.edit_without_output(KEYSPACE, &version, new_run, || self.state.take_part_id());
        }
        // The plan references the run that its output was aligned to, which would be copied on change.
        drop(plan);
        self.install(&edit)
    }

    fn add_tables(&mut self, edit: &mut VersionEdit, to: Position, tables: Vec<Table>, now_ms: u64) -> u64 {
        let place: Place = to.place(&self.version(), self.state.take_run_id());
        edit.push(EditOp::LastSeqno(self.seqno_before(self.flushed_to)));
        let mut written_bytes = 0;
        for table in tables {
            let file = self.state.take_file_number();
            let part = self.describe(file, &table, now_ms);
            written_bytes += part.bytes;
            self.file_bytes += part.bytes;
            let overwrite_permille =
                self.source.overwrite_permille(&table.segments).filter(|_| part.tombstones == 0);
            self.files.insert(file, File { segments: table.segments, bytes: part.bytes, overwrite_permille });
            edit.add_part(KEYSPACE, place, Arc::new(part));
        }
        written_bytes
    }

    fn describe(&mut self, file: FileNumber, table: &Table, now_ms: u64) -> PartMeta {
        let (start, end) = match (table.segments.first(), table.segments.last()) {
            (Some(first), Some(last)) => (first.start, last.end),
            _ => (0, 1),
        };
        let range = KeyRange::inclusive(key_at(start), key_at(end - 1));
        let bytes = whole(table.bytes);
        let mut part = PartMeta::new(self.state.take_part_id(), file, bytes, TableUid(file.get()), range);
        let ages = table.segments.iter().map(|segment| segment.ages);
        let ages = ages.reduce(Ages::hull).unwrap_or(Ages::new(0.0, 0.0));
        part.raw_bytes = bytes;
        part.entries = whole(table.held.entries());
        part.tombstones = table.held.tombstones.round() as u64;
        part.max_seqno = self.seqno_before(ages.to);
        // Where nothing is older, expired entries are dropped, and with them the first writes of the
        // interval.
        let oldest = table.segments.iter().map(|segment| self.source.first_write(segment.ages));
        let oldest = oldest.fold(ages.to, f64::min);
        part.min_seqno = SeqNo::new(self.seqno_before(oldest).get() + 1).min(part.max_seqno);
        part.created_ms = clock_ms(now_ms);
        if let Some(lifetime) = self.source.workload.lifetime()
            && table.held.values >= 0.5
        {
            part.expiring = (table.held.values.round() as u64).min(part.entries);
            // Live data expires after now, even within one millisecond; otherwise rewritten data would be due
            // again.
            let expiry_ms = |time: f64| Some(self.moment_ms(time + lifetime) + 1);
            part.min_expiry_ms = expiry_ms(ages.alive_from.max(ages.from));
            part.latest_expiry_ms = expiry_ms(ages.to);
            part.max_expiry_ms = part.latest_expiry_ms.filter(|_| part.tombstones == 0);
        }
        part
    }

    /// A timestamp for expiry, which counts in operations: each takes a millisecond.
    fn moment_ms(&self, time: f64) -> u64 {
        (time - self.source.loaded().ages.from).max(0.0) as u64
    }

    /// The sequence number of the last operation before a moment.
    fn seqno_before(&self, time: f64) -> SeqNo {
        SeqNo::new((time - self.source.loaded().ages.from).max(0.0) as u64 + 1)
    }

    fn install(&mut self, edit: &VersionEdit) -> Result<(), String> {
        let applied = self.state.apply(edit).map_err(|error| error.to_string())?;
        for number in applied.obsolete_files {
            if let Some(file) = self.files.remove(&number) {
                self.file_bytes -= file.bytes;
            }
        }
        Ok(())
    }

    /// Bytes of tables that hold only live data.
    pub(crate) fn live_bytes(&self) -> f64 {
        let everything = Segment {
            start: 0,
            end: SPAN,
            ages: Ages::new(self.source.loaded().ages.from, self.flushed_to)
                .without_expired(self.source.alive_from(self.flushed_to)),
        };
        if self.source.workload.input == crate::workload::Input::Sequential {
            // The part that the sweep has passed.
            let passed = (self.flushed_to - everything.ages.from) / self.source.workload.keys.max(1) as f64;
            let alive = passed.min(1.0).min(self.source.workload.ttl_passes.unwrap_or(1.0));
            let all = Ages { alive_from: everything.ages.from, ..everything.ages };
            return self.sizes.bytes(self.source.held(&Segment { ages: all, ..everything })) * alive;
        }
        self.sizes.bytes(self.source.held_across(&everything))
    }

    /// For each run in reading order its entries and its share of the key space.
    pub(crate) fn runs(&self) -> Vec<RunExtent> {
        let version = self.version();
        let runs = version.runs().map(|(_, run)| {
            let covered = run.parts().iter().map(|part| {
                let (start, end) = extent(&part.range);
                (end - start) as f64 / SPAN as f64
            });
            RunExtent { entries: run.parts().iter().map(|part| part.entries).sum(), covered: covered.sum() }
        });
        runs.collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunExtent {
    pub(crate) entries: u64,
    pub(crate) covered: f64,
}

/// The extents of parts older than the output of a plan that are not its inputs.
fn older_parts(version: &Version, plan: &CompactionPlan) -> Vec<(u64, u64)> {
    let target = plan.to.in_reading_order();
    let taken: BTreeSet<PartId> = plan.parts().map(|(_, input)| input.part.id).collect();
    let older =
        version.runs().filter(|(level, run)| RunPosition { level: *level, order: run.order } > target);
    let parts = older.flat_map(|(_, run)| run.overlapping(&plan.hull));
    parts.filter(|part| !taken.contains(&part.id)).map(|part| extent(&part.range)).collect()
}

/// The clock after this many milliseconds; 0 would mean that the time is not known.
fn clock_ms(passed_ms: u64) -> u64 {
    passed_ms.saturating_add(1)
}

fn whole(count: f64) -> u64 {
    (count.round() as u64).max(1)
}

/// The first position of a range and the first behind it.
fn extent(range: &KeyRange) -> (u64, u64) {
    let start = position_of(&range.start);
    let end = match &range.end {
        esker_version::KeyEnd::Included(key) => position_of(key) + 1,
        esker_version::KeyEnd::Excluded(key) => position_of(key),
        esker_version::KeyEnd::Unbounded => SPAN,
    };
    (start.min(SPAN), end.min(SPAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Input, Workload};

    /// Several jobs at a time, installed in another order than begun.
    fn work(strategy: &str, input: Input) -> Tree {
        let workload = Workload { keys: 1_000_000, input, deleted_share: 0.2, ..Workload::default() };
        let scenario = Scenario::new(strategy.parse().unwrap(), workload);
        let options = StrategyOptions {
            memtable_bytes: 4 << 20,
            table_bytes: Some(1 << 20),
            max_job_bytes: Some(4 << 20),
            small_garbage_bytes: 0,
            ..StrategyOptions::default()
        };
        let mut tree = Tree::new(&scenario, options).unwrap();
        let mut running: Vec<Job> = Vec::new();
        for flush in 0..150 {
            tree.flush(tree.flushed_to + 30_000.0, flush).unwrap();
            while let Some(job) = tree.begin(flush % 10 == 0, flush).unwrap() {
                running.push(job);
                if running.len() > 2 {
                    let at = flush as usize % 2;
                    tree.end(running.swap_remove(at), flush).unwrap();
                    assert_eq!(tree.state.problems(), Vec::<String>::new(), "{strategy}");
                }
            }
        }
        for job in running {
            tree.end(job, 200).unwrap();
        }
        tree
    }

    #[test]
    fn trees_stay_complete_with_concurrent_jobs() {
        for strategy in [
            "leveled:4",
            "tiered:4",
            "lazy-leveled:4",
            "fluid:10,3,2",
            "partial:4",
            "golden-ratio",
            "partitioned",
        ] {
            for input in Input::ALL {
                let mut tree = work(strategy, input);
                assert_eq!(tree.state.problems(), Vec::<String>::new(), "{strategy} {input}");
                // Every moment is in the tree exactly once at every position: merged, everything is there.
                while let Some(job) = tree.begin(false, 0).unwrap() {
                    tree.end(job, 0).unwrap();
                }
                let version = tree.version();
                let lists: Vec<Vec<Segment>> = version
                    .runs()
                    .map(|(_, run)| {
                        let parts = run.parts().iter().flat_map(|part| {
                            let (start, end) = extent(&part.range);
                            clipped(&tree.files[&part.file].segments, start, end)
                        });
                        parts.collect()
                    })
                    .collect();
                let merged: f64 = merged(&lists)
                    .iter()
                    .map(|segment| tree.sizes.bytes(tree.source.held_across(segment)))
                    .sum();
                let live = tree.live_bytes();
                assert!((merged / live - 1.0).abs() < 1e-3, "{strategy} {input}: {merged} of {live}");
                let dead = tree.file_bytes as f64 / version.bytes() as f64;
                assert!((0.999..1.5).contains(&dead), "{strategy} {input}: {dead} of the bytes of tables");
            }
        }
    }
}
