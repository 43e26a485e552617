//! Sources of an observed read: the memtables and runs of a view, in the order in which they are searched.

use crate::super_version::{MemtableView, SuperVersion};
use crate::tree::{TreePart, TreeRun};
use esker_version::LevelIndex;
use std::sync::Arc;

/// A source of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePlace {
    /// A memtable.
    Memtable {
        /// Whether writers fill it.
        is_active: bool,
        /// Its entries, superseded versions and tombstones included.
        entries: u64,
    },
    /// Ingested tables that are not in the tree yet.
    Ingested {
        /// The number of tables.
        tables: usize,
    },
    /// A run of the tree.
    Run {
        /// Its level.
        level: LevelIndex,
        /// Its place among the runs of the level, the newest first.
        number: usize,
        /// The number of its tables.
        tables: usize,
        /// Their bytes.
        bytes: u64,
    },
}

/// A source and the run to search in, if it is one.
pub(super) struct ViewSource<'v> {
    pub(super) place: SourcePlace,
    pub(super) run: Option<&'v Arc<TreeRun>>,
}

impl ViewSource<'_> {
    /// All sources, newest first: memtables, then runs.
    pub(super) fn all_of(view: &SuperVersion) -> Vec<ViewSource<'_>> {
        let memtables = view.memtables().enumerate().map(|(at, memtable)| of_memtable(memtable, at == 0));
        let mut number = 0;
        let mut before = None;
        let runs = view.tree.runs.iter().map(|run| {
            number = if before == Some(run.level) { number + 1 } else { 0 };
            before = Some(run.level);
            let bytes = run.parts.iter().map(|part| part.meta.bytes).sum();
            let place = SourcePlace::Run { level: run.level, number, tables: run.parts.len(), bytes };
            ViewSource { place, run: Some(run) }
        });
        memtables.chain(runs).collect()
    }

    /// The part that may hold `key`.
    pub(super) fn part_for(&self, key: &[u8]) -> Option<&TreePart> {
        self.run.and_then(|run| run.part_for(key))
    }
}

fn of_memtable(view: &MemtableView, is_active: bool) -> ViewSource<'_> {
    let place = match &view.ingested {
        None => SourcePlace::Memtable { is_active, entries: view.memtable.len() },
        Some(run) => SourcePlace::Ingested { tables: run.parts.len() },
    };
    ViewSource { place, run: view.ingested.as_ref() }
}
