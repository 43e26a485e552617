//! A simulated store without files: real keys, plans and edits, but tables are vectors in memory. It executes
//! jobs as an engine does, several at a time and installed in any order, and knows the correct result of
//! every read.

use esker_base::{FileNumber, KeyspaceId, PartId, SeqNo, TableUid};
use esker_env::SeededRandom;
use esker_strategy::*;
use esker_version::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The size of every entry.
pub(crate) const ENTRY_BYTES: u64 = 100;
const KEYSPACE: KeyspaceId = KeyspaceId(0);

/// One version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: u32,
    pub(crate) seqno: u64,
    pub(crate) deleted: bool,
}

/// A job between planning and install: its output is computed from immutable inputs at once.
pub(crate) struct Running {
    id: JobId,
    plan: CompactionPlan,
    tables: Vec<Vec<Entry>>,
}

/// The newest version of each key.
type Model = BTreeMap<u32, Entry>;

pub(crate) struct SimulatedStore {
    pub(crate) strategy: Strategy,
    pub(crate) options: StrategyOptions,
    pub(crate) state: DatabaseState,
    pub(crate) busy: Busy,
    pub(crate) running: Vec<Running>,
    contents: BTreeMap<FileNumber, Arc<Vec<Entry>>>,
    memtable: BTreeMap<u32, Entry>,
    model: Model,
    /// A snapshot and the data visible to it.
    pub(crate) snapshot: Option<(u64, Model)>,
    seqno: u64,
    /// An unfinished change of strategy.
    pub(crate) migration: Option<Migration>,
    /// Whether the strategy drops data: then a key may be missing, but an older version must never reappear.
    pub(crate) may_lose: bool,
    /// Whether scans justify merging the runs above the last level.
    pub(crate) is_scanned: bool,
    pub(crate) flushed_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) installs: u64,
}

/// When an entry was written: each takes a second.
fn moment_ms(seqno: u64) -> u64 {
    seqno * 1000
}

pub(crate) fn key_bytes(key: u32) -> Vec<u8> {
    format!("{key:08}").into_bytes()
}

impl SimulatedStore {
    pub(crate) fn new(strategy: Strategy, options: StrategyOptions) -> SimulatedStore {
        let mut state = DatabaseState::new([0; 16]);
        let mut edit = VersionEdit::new();
        edit.push(EditOp::CreateKeyspace { id: KEYSPACE, name: "k".into(), options: Arc::default() });
        state.apply(&edit).unwrap();
        SimulatedStore {
            strategy,
            options,
            state,
            busy: Busy::new(),
            running: Vec::new(),
            contents: BTreeMap::new(),
            memtable: BTreeMap::new(),
            model: Model::new(),
            snapshot: None,
            seqno: 0,
            migration: None,
            may_lose: false,
            is_scanned: false,
            flushed_bytes: 0,
            written_bytes: 0,
            installs: 0,
        }
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        self.state.keyspaces[&KEYSPACE].version.clone()
    }

    pub(crate) fn shape<'v>(&self, version: &'v Version, idle: bool) -> Shape<'v> {
        let oldest_snapshot = self.snapshot.as_ref().map_or(SeqNo::MAX, |(seqno, _)| SeqNo::new(*seqno));
        let (now_ms, migration) = (moment_ms(self.seqno), self.migration);
        Shape { oldest_snapshot, now_ms, idle, migration, is_scanned: self.is_scanned, ..Shape::new(version) }
    }

    /// Changes the strategy, as an engine does.
    pub(crate) fn switch(&mut self, strategy: Strategy, is_paused: bool) {
        self.strategy = strategy;
        self.migration = Some(Migration { first_new: self.state.next_file, is_paused });
        self.end_migration();
    }

    /// Clears a migration that has ended.
    pub(crate) fn end_migration(&mut self) {
        let version = self.version();
        if self.strategy.misplaced_bytes(&self.shape(&version, false), &self.options) == 0 {
            self.migration = None;
        }
    }

    /// Writes a key; flushes when the memtable is full.
    pub(crate) fn write(&mut self, key: u32, deleted: bool) {
        self.seqno += 1;
        let entry = Entry { key, seqno: self.seqno, deleted };
        if let Some(old) = self.memtable.insert(key, entry)
            && self.snapshot.as_ref().is_some_and(|(seqno, _)| old.seqno <= *seqno)
        {
            // The snapshot needs the old version: the memtable is flushed with it, before the new one.
            self.memtable.insert(key, old);
            self.flush();
            self.memtable.insert(key, entry);
        }
        self.model.insert(key, entry);
        if self.memtable.len() as u64 * ENTRY_BYTES >= self.options.memtable_bytes {
            self.flush();
        }
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.flush();
        self.snapshot = Some((self.seqno, self.model.clone()));
    }

    pub(crate) fn flush(&mut self) {
        let entries: Vec<Entry> = std::mem::take(&mut self.memtable).into_values().collect();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let hull = KeyRange::inclusive(key_bytes(first.key), key_bytes(last.key));
        let version = self.version();
        let to = self.strategy.flush_placement(&version, &hull, &self.busy);
        let cut = Cut::for_output(&version, to, &self.options);
        let tables = cut_tables(&cut, entries);
        self.flushed_bytes += bytes_of(&tables);
        let mut edit = VersionEdit::new();
        self.add_tables(&mut edit, to, tables);
        self.install(&edit);
    }

    fn add_tables(&mut self, edit: &mut VersionEdit, to: Position, tables: Vec<Vec<Entry>>) {
        let version = self.version();
        let place = to.place(&version, self.state.take_run_id());
        edit.push(EditOp::LastSeqno(SeqNo::new(self.seqno)));
        for entries in tables {
            let file = self.state.take_file_number();
            let part = describe(self.state.take_part_id(), file, &entries);
            self.written_bytes += part.bytes;
            self.contents.insert(file, Arc::new(entries));
            edit.add_part(KEYSPACE, place, Arc::new(part));
        }
    }

    fn install(&mut self, edit: &VersionEdit) {
        let applied = self.state.apply(edit).unwrap_or_else(|error| panic!("{error}\n{edit}"));
        for file in applied.obsolete_files {
            assert!(self.contents.remove(&file).is_some(), "file {file} is deleted twice");
        }
        self.installs += 1;
    }

    /// Begins a job: computes its output.
    pub(crate) fn begin(&mut self, plan: CompactionPlan) {
        let version = self.version();
        validate(&version, &self.busy, &plan).unwrap_or_else(|error| panic!("{error}"));
        let tables = if plan.kind == PlanKind::Merge { self.merge(&version, &plan) } else { Vec::new() };
        let id = self.busy.add(&plan);
        self.running.push(Running { id, plan, tables });
    }

    /// Ends a job: installs its output, or discards it.
    pub(crate) fn end(&mut self, at: usize, succeeds: bool) {
        let Running { id, plan, tables } = self.running.swap_remove(at);
        self.busy.remove(id);
        if !succeeds {
            return;
        }
        let mut edit = VersionEdit::new();
        if plan.kind == PlanKind::Merge {
            plan.remove_inputs(KEYSPACE, &mut edit, || self.state.take_part_id());
            self.add_tables(&mut edit, plan.to, tables);
        } else {
            let new_run = self.state.take_run_id();
            edit = plan.edit_without_output(KEYSPACE, &self.version(), new_run, || self.state.take_part_id());
        }
        self.install(&edit);
    }

    /// Merges the inputs of a plan by the rules for dropping versions and tombstones.
    fn merge(&self, version: &Version, plan: &CompactionPlan) -> Vec<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        for (_, consumed) in plan.parts() {
            let held = &self.contents[&consumed.part.file];
            let range = consumed.range();
            let from = held.partition_point(|entry| *key_bytes(entry.key) < *range.start);
            let to = held.partition_point(|entry| range.end.covers(&key_bytes(entry.key)));
            entries.extend_from_slice(&held[from..to]);
        }
        entries.sort_unstable_by_key(|entry| (entry.key, std::cmp::Reverse(entry.seqno)));
        let boundary = self.snapshot.as_ref().map(|(seqno, _)| *seqno);
        let oldest = boundary.unwrap_or(self.seqno);
        let inputs: Vec<PartId> = plan.parts().map(|(_, consumed)| consumed.part.id).collect();
        let mut kept: Vec<Entry> = Vec::new();
        for versions in entries.chunk_by(|a, b| a.key == b.key) {
            let from = kept.len();
            for entry in versions {
                let newer = kept[from..].last();
                let same_stripe =
                    newer.is_some_and(|newer| !boundary.is_some_and(|b| entry.seqno <= b && b < newer.seqno));
                if !same_stripe {
                    kept.push(*entry);
                }
            }
            let last = kept[kept.len() - 1];
            if last.deleted && last.seqno <= oldest && !is_covered(version, &inputs, last) {
                kept.pop();
            }
        }
        cut_tables(&plan.cut, kept)
    }

    /// Executes plans one at a time until there is none; returns their number.
    pub(crate) fn drain(&mut self, idle: bool) -> u32 {
        self.flush();
        while !self.running.is_empty() {
            self.end(0, true);
        }
        self.migration = self.migration.map(|migration| Migration { is_paused: false, ..migration });
        let mut plans = 0;
        loop {
            let version = self.version();
            let shape = self.shape(&version, idle);
            let plan = self.strategy.plan(&shape, &self.busy, &self.options);
            if !idle {
                let debt = self.strategy.debt(&shape, &self.options);
                assert_eq!(debt == 0, plan.is_none(), "debt {debt} with {plan:?}");
            }
            let Some(plan) = plan else {
                let misplaced = self.strategy.misplaced_bytes(&shape, &self.options);
                assert_eq!(misplaced, 0, "{}: a migration does not end", self.strategy);
                self.migration = None;
                self.check_limits(&shape);
                return plans;
            };
            self.begin(plan);
            self.end(0, true);
            plans += 1;
            assert!(
                plans < 5_000,
                "{}: compaction does not end, {} runs",
                self.strategy,
                version.run_count()
            );
        }
    }

    /// No level of a tree that needs no compaction is beyond its limit. FIFO is excepted, because a snapshot
    /// keeps what it would drop, and the partitioned strategy, because it waits while a merge does not pay.
    fn check_limits(&self, shape: &Shape<'_>) {
        if matches!(self.strategy, Strategy::Fifo(_) | Strategy::Partitioned) {
            return;
        }
        for (index, limit) in self.strategy.level_limits(shape, &self.options) {
            let (runs, bytes) = (
                shape.version.runs_of(index).len() as u64,
                shape.version.level(index).map_or(0, Level::bytes),
            );
            let is_within = limit.runs.is_none_or(|most| runs <= u64::from(most))
                && limit.bytes.is_none_or(|most| bytes <= most);
            assert!(is_within, "{}, level {index:?}: {runs} runs, {bytes} bytes, {limit:?}", self.strategy);
        }
    }

    /// Parts with deleted data that a delete-persistence target says must be merged by now.
    pub(crate) fn overdue(&self) -> usize {
        let is_due = |part: &PartMeta| {
            let due_ms = part.oldest_delete_ms.and_then(|ms| self.options.delete_due_ms(ms));
            due_ms.is_some_and(|due_ms| due_ms <= moment_ms(self.seqno))
        };
        self.version().parts().filter(|(.., part)| is_due(part)).count()
    }

    /// Bytes of all tables against bytes of live keys.
    pub(crate) fn space_percent(&self) -> u64 {
        let live = self.model.values().filter(|entry| !entry.deleted).count() as u64 * ENTRY_BYTES;
        self.version().bytes() * 100 / live.max(1)
    }

    /// Checks the structure, and every key: versions get older in reading order, and the newest version and
    /// the snapshot's are right.
    pub(crate) fn check(&self) {
        assert_eq!(self.state.problems(), Vec::<String>::new());
        let version = self.version();
        for (key, newest) in &self.model {
            let bytes = key_bytes(*key);
            let mut found: Vec<Entry> = self.memtable.get(key).copied().into_iter().collect();
            for (_, run) in version.runs() {
                let Some(part) = run.part_for(&bytes) else { continue };
                let held = &self.contents[&part.file];
                let from = held.partition_point(|entry| entry.key < *key);
                found.extend(held[from..].iter().take_while(|entry| entry.key == *key));
            }
            assert!(
                found.is_sorted_by(|a, b| a.seqno > b.seqno),
                "versions of {key} out of order: {found:?}"
            );
            if !(self.may_lose && found.is_empty()) {
                check_answer(newest, found.first(), u64::MAX);
            }
            if let Some((seqno, model)) = &self.snapshot
                && let Some(expected) = model.get(key)
            {
                check_answer(expected, found.iter().find(|entry| entry.seqno <= *seqno), *seqno);
            }
        }
    }
}

/// Whether a part that is not an input may hold an older version.
fn is_covered(version: &Version, inputs: &[PartId], entry: Entry) -> bool {
    let key = key_bytes(entry.key);
    let may_hold = |part: &PartMeta| part.min_seqno.get() <= entry.seqno && part.contains(&key);
    version.parts().any(|(.., part)| !inputs.contains(&part.id) && may_hold(part))
}

fn check_answer(expected: &Entry, found: Option<&Entry>, at: u64) {
    match found {
        Some(found) => assert_eq!(found, expected, "read at {at}"),
        None => assert!(expected.deleted, "{expected:?} is gone, read at {at}"),
    }
}

fn bytes_of(tables: &[Vec<Entry>]) -> u64 {
    tables.iter().map(|table| table.len() as u64 * ENTRY_BYTES).sum()
}

/// Cuts entries into tables as the executor does: never inside a key.
fn cut_tables(cut: &Cut, entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut tables: Vec<Vec<Entry>> = Vec::new();
    let mut cutter = Cutter::new(cut);
    let mut left = entries.len() as u64;
    let mut key = None;
    for entry in entries {
        if key != Some(entry.key) {
            key = Some(entry.key);
            let written = tables.last().map_or(0, |table| table.len() as u64) * ENTRY_BYTES;
            if cutter.ends_before(&key_bytes(entry.key), written, left * ENTRY_BYTES) || tables.is_empty() {
                tables.push(Vec::new());
            }
        }
        tables.last_mut().unwrap().push(entry);
        left -= 1;
    }
    tables
}

fn describe(id: PartId, file: FileNumber, entries: &[Entry]) -> PartMeta {
    let range = KeyRange::inclusive(key_bytes(entries[0].key), key_bytes(entries[entries.len() - 1].key));
    let mut part = PartMeta::new(id, file, entries.len() as u64 * ENTRY_BYTES, TableUid(file.get()), range);
    part.entries = entries.len() as u64;
    let deletes = || entries.iter().filter(|entry| entry.deleted);
    part.tombstones = deletes().count() as u64;
    part.oldest_delete_ms = deletes().map(|entry| moment_ms(entry.seqno)).min();
    part.min_seqno = SeqNo::new(entries.iter().map(|entry| entry.seqno).min().unwrap());
    part.max_seqno = SeqNo::new(entries.iter().map(|entry| entry.seqno).max().unwrap());
    part
}

/// One of the strategies, with parameters of every size.
pub(crate) fn some_strategy(random: &SeededRandom) -> Strategy {
    let permille = [1500, 1618, 2000, 3000, 4000, 10_000, 32_000][random.below(7) as usize];
    let size_ratio = SizeRatio::from_permille(permille).unwrap();
    match random.below(10) {
        0 => Strategy::Leveled { size_ratio },
        1 => Strategy::Tiered { size_ratio },
        2 => Strategy::LazyLeveled { size_ratio },
        3 => {
            let runs = || 1 + random.below(5) as u32;
            let upper_runs = RunsPerLevel::each(&[runs(), runs(), runs()]).unwrap();
            Strategy::Fluid { size_ratio, upper_runs, last_runs: runs() }
        }
        4 => Strategy::TieredLeveled { size_ratio },
        5 | 6 => Strategy::Partial { size_ratio, pick: CompactionPriority::ALL[random.below(5) as usize] },
        7 => Strategy::GoldenRatio,
        8 if random.below(3) == 0 => "fifo:1TiB,merge".parse().unwrap(),
        _ => Strategy::Partitioned,
    }
}

/// Options small enough that a few hundred keys make a deep tree.
pub(crate) fn some_options(random: &SeededRandom) -> StrategyOptions {
    let entries = |least: u64, most: u64| (least + random.below(most - least)) * ENTRY_BYTES;
    StrategyOptions {
        memtable_bytes: entries(5, 40),
        table_bytes: Some(entries(3, 40)),
        max_job_bytes: (random.below(3) > 0).then(|| entries(4, 200)),
        level0_trigger_runs: (random.below(2) == 0).then(|| 1 + random.below(5) as u32),
        max_job_runs: (random.below(4) == 0).then(|| 1 + random.below(5) as u32),
        level0_hard_runs: 6 + random.below(20) as u32,
        tier_runs: 2 + random.below(7) as u32,
        garbage_permille: [50, 100, 250, 500, 1000][random.below(5) as usize],
        small_garbage_bytes: entries(0, 100) * random.below(2),
        idle_permille: [0, 100, 400][random.below(3) as usize],
        slices: random.below(4) > 0,
        max_space_amp_permille: (random.below(4) == 0).then(|| 1050 + random.below(1500)),
        jobs: 1 + random.below(3) as u32,
        delete_within_ms: (random.below(4) == 0).then(|| (50 + random.below(1000)) * 1000),
        ..StrategyOptions::default()
    }
}
