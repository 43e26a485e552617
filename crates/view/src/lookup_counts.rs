//! Counters of traced lookups, by keyspace and level: what a tree carries and [`crate::lookup_tracer`] fills.

use esker_filter::watch::SAMPLE;
use esker_version::{KeyspaceFigures, LevelFigures, LevelIndex, LookupFigures};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of reads that a sampled lookup represents.
pub const LOOKUP_READS: u64 = SAMPLE;

/// The number of levels.
const LEVELS: usize = LevelIndex::LAST.get() as usize + 1;

/// The traced lookups of one keyspace. Takes a few bytes until the first of them.
#[derive(Debug, Default)]
pub struct LookupStats(OnceLock<Box<Counts>>);

#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) lookups: AtomicU64,
    pub(crate) memtables: AtomicU64,
    pub(crate) found_in_memtables: AtomicU64,
    /// Grouped lookups, which are not traced: those that found a value, and those that did not.
    pub(crate) grouped_present: AtomicU64,
    pub(crate) grouped_absent: AtomicU64,
    pub(crate) levels: [LevelCounts; LEVELS],
}

#[derive(Debug, Default)]
pub(crate) struct LevelCounts {
    pub(crate) probed: AtomicU64,
    pub(crate) searched: AtomicU64,
    pub(crate) found: AtomicU64,
}

/// The counts of one level.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelSeen {
    /// Lookups that found a table whose range has their key.
    pub probed: u64,
    /// Tables searched, because the filter let the lookup pass or there is none.
    pub searched: u64,
    /// Searches that found the key.
    pub found: u64,
}

/// Sampled lookups by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupsSeen {
    /// Lookups that found their key.
    pub present: u64,
    /// Lookups that found nothing.
    pub absent: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            lookups: AtomicU64::new(0),
            memtables: AtomicU64::new(0),
            found_in_memtables: AtomicU64::new(0),
            grouped_present: AtomicU64::new(0),
            grouped_absent: AtomicU64::new(0),
            levels: std::array::from_fn(|_| LevelCounts::default()),
        }
    }
}

impl LookupStats {
    /// The counts; `None` before the first traced lookup.
    pub(crate) fn counts(&self) -> Option<&Counts> {
        self.0.get().map(|counts| &**counts)
    }

    /// The counts, which exist from now on.
    pub(crate) fn counts_for_update(&self) -> &Counts {
        self.0.get_or_init(Box::default)
    }

    /// Counts some sampled keys of a grouped lookup.
    #[cold]
    pub fn note_group(&self, present: u64, absent: u64) {
        let counts = self.0.get_or_init(Box::default);
        counts.grouped_present.fetch_add(present, Relaxed);
        counts.grouped_absent.fetch_add(absent, Relaxed);
    }

    /// The outcomes of sampled lookups. Deleted keys count as found: the search ended there.
    pub fn seen_lookups(&self) -> LookupsSeen {
        let Some(counts) = self.0.get() else { return LookupsSeen::default() };
        let in_tables: u64 = counts.levels.iter().map(|level| level.found.load(Relaxed)).sum();
        let found = in_tables + counts.found_in_memtables.load(Relaxed);
        LookupsSeen {
            present: found + counts.grouped_present.load(Relaxed),
            absent: counts.lookups.load(Relaxed).saturating_sub(found) + counts.grouped_absent.load(Relaxed),
        }
    }

    /// The totals, except those of single levels.
    pub fn figures(&self) -> LookupFigures {
        let Some(counts) = self.0.get() else { return LookupFigures::default() };
        LookupFigures {
            lookups: counts.lookups.load(Relaxed),
            memtables: counts.memtables.load(Relaxed),
            found_in_memtables: counts.found_in_memtables.load(Relaxed),
            grouped_present: counts.grouped_present.load(Relaxed),
            grouped_absent: counts.grouped_absent.load(Relaxed),
        }
    }

    /// Adds what earlier opens of the database counted.
    pub fn restore(&self, figures: &KeyspaceFigures) {
        let is_read = |level: &LevelFigures| level.probed + level.searched + level.found > 0;
        if figures.lookups == LookupFigures::default() && !figures.levels.iter().any(is_read) {
            return;
        }
        let (counts, of) = (self.counts_for_update(), &figures.lookups);
        counts.lookups.fetch_add(of.lookups, Relaxed);
        counts.memtables.fetch_add(of.memtables, Relaxed);
        counts.found_in_memtables.fetch_add(of.found_in_memtables, Relaxed);
        counts.grouped_present.fetch_add(of.grouped_present, Relaxed);
        counts.grouped_absent.fetch_add(of.grouped_absent, Relaxed);
        for of in &figures.levels {
            let level = &counts.levels[usize::from(of.level.get())];
            level.probed.fetch_add(of.probed, Relaxed);
            level.searched.fetch_add(of.searched, Relaxed);
            level.found.fetch_add(of.found, Relaxed);
        }
    }

    /// The counts of one level.
    pub fn level(&self, level: LevelIndex) -> LevelSeen {
        let counts = self.0.get().and_then(|counts| counts.levels.get(usize::from(level.get())));
        counts.map_or_else(LevelSeen::default, |counts| LevelSeen {
            probed: counts.probed.load(Relaxed),
            searched: counts.searched.load(Relaxed),
            found: counts.found.load(Relaxed),
        })
    }
}
