//! Table cache: which open tables are closed, and when.
//!
//! # Targets
//! Two quantities bound the open tables: their number, because each has a descriptor, and bytes of metadata,
//! a share of the memory budget. Both are *targets*: a table that is needed is opened whatever the numbers
//! say, and eviction, a step of the log worker, restores them. The target of bytes is raised while memtables
//! lend memory, and lowered when they take it back. By the number of open tables:
//!
//! | open | a table that is opened |
//! |---|---|
//! | up to the limit | stays open and is reached without a lock: its cell is filled |
//! | up to a quarter more, the headroom | stays open and is reached under its identity's lock meanwhile |
//! | beyond | is lent to its reader and closed after it, unless hardly any evictable table stays open |
//!
//! So, whatever readers do and however late eviction runs, never more than limit and headroom stay open. In
//! addition there is only what readers hold at this moment: one table for each run that a cursor or a
//! compaction iterates over, one for each lookup in progress. Metadata has no such second bound: memory may
//! be exceeded for a moment, descriptors not.
//!
//! An old tree keeps the tables of its filled cells open as long as a reader holds it. So cells are filled
//! within the limit alone that holds at all times; what is open by lent memory is reached under its
//! identity's lock, and can be closed whatever readers hold.
//!
//! # Eviction
//! CLOCK (Corbató 1968) over the tables that identities keep: a table used since the hand passed is skipped
//! once, another one is closed. Tables enter behind the hand, so that each has a whole round to be used
//! again. Eviction continues to an eighth below the target, so that it is worth the trees it publishes. It is
//! requested when a file is opened while a target is exceeded, once a sixteenth of the open tables was opened
//! since the last eviction.
//!
//! Tables held open by old views count, but closing them frees nothing. So that a forgotten cursor does not
//! make eviction close everything else, an eighth of the target is reserved for current readers, within which
//! the hand proceeds.
//!
//! # Rejected
//! * Least recently used: an exact order is a lock and a list on every lookup.
//! * A hand that proceeds in the order of file numbers: a scan in the same direction loses its tables from
//!   behind, and earlier ones stay.
//! * Closing in the thread that opens: it would publish trees, with locks of installs, from inside of a
//!   lookup.

use super::table_handle::FileIdentity;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// How far below a target eviction proceeds: one in so many of it.
const SLACK_DIVISOR: u64 = 8;
/// How many tables may stay open beyond the limit until eviction runs: one in so many of it. With the default
/// limit, less than half of the process's descriptors, that leaves three eighths of them and more to
/// everything else.
const HEADROOM_DIVISOR: usize = 4;
/// The share of a target reserved for evictable tables, whatever else is open: an eighth, half of the
/// headroom.
const FLOOR_DIVISOR: u64 = 8;
/// Eviction is worthwhile when this share of the open tables was opened since the last one.
const TURNOVER_DIVISOR: u64 = 16;
/// This many tables are never closed because of their metadata: a lookup searches about as many runs, and
/// reading their indexes anew for each would cost more than all blocks.
const FEWEST_FOR_METADATA: usize = 8;

/// A number of open tables and the bytes of their indexes and filters: a limit, an amount open, an amount
/// closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAmount {
    /// Open tables.
    pub tables: usize,
    /// Memory that they take.
    pub bytes: u64,
}

/// Whether a requested table may stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeepOpen {
    /// In its cell.
    pub(super) may_fill: bool,
    /// At all.
    pub(super) may_keep: bool,
}

/// The tables that are kept open.
#[derive(Debug)]
pub(super) struct EvictionClock {
    /// What may be open at all times.
    limit: OpenAmount,
    /// The target of bytes at present: those of the limit, or more by lent memory.
    target_bytes: AtomicU64,
    /// Whether the target was lowered since the last eviction.
    is_lowered: AtomicBool,
    /// Files opened so far.
    openings: AtomicU64,
    /// Their number at the last eviction.
    swept_openings: AtomicU64,
    ring: Mutex<Ring>,
}

/// The kept tables by position: the hand stands before the first; a new or skipped table goes behind the
/// last.
#[derive(Debug, Default)]
struct Ring {
    last_place: u64,
    kept: BTreeMap<u64, Weak<FileIdentity>>,
}

/// The position of a file in the ring, 0 if it has none. Changed only under the ring's lock.
#[derive(Debug, Default)]
pub(super) struct RingPosition(AtomicU64);

impl Ring {
    fn enter(&mut self, place: &RingPosition, file: Weak<FileIdentity>) {
        self.last_place += 1;
        place.0.store(self.last_place, Ordering::Relaxed);
        self.kept.insert(self.last_place, file);
    }

    fn leave(&mut self, place: &RingPosition) -> Option<Weak<FileIdentity>> {
        self.kept.remove(&place.0.swap(0, Ordering::Relaxed))
    }
}

impl EvictionClock {
    pub(super) fn new(limit: OpenAmount) -> EvictionClock {
        EvictionClock {
            limit,
            target_bytes: AtomicU64::new(limit.bytes),
            is_lowered: AtomicBool::new(false),
            openings: AtomicU64::new(0),
            swept_openings: AtomicU64::new(0),
            ring: Mutex::default(),
        }
    }

    /// The limits that hold at all times.
    pub(super) fn limit(&self) -> OpenAmount {
        self.limit
    }

    /// The targets at present.
    pub(super) fn target(&self) -> OpenAmount {
        OpenAmount { bytes: self.target_bytes.load(Ordering::Relaxed), ..self.limit }
    }

    /// Lets metadata have so many bytes for the present, at least those of the limit.
    pub(super) fn set_target_bytes(&self, bytes: u64) {
        let bytes = bytes.max(self.limit.bytes);
        if self.target_bytes.swap(bytes, Ordering::Relaxed) > bytes {
            self.is_lowered.store(true, Ordering::Relaxed);
        }
    }

    /// Files opened so far.
    pub(super) fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// Whether a requested table, which is counted in `open`, may stay open.
    pub(super) fn room(&self, open: OpenAmount) -> KeepOpen {
        let headroom = self.limit.tables / HEADROOM_DIVISOR;
        KeepOpen {
            // A table that is not closed because of its metadata may as well be in its cell.
            may_fill: open.tables <= self.limit.tables
                && (open.bytes <= self.limit.bytes || open.tables <= FEWEST_FOR_METADATA),
            may_keep: open.tables <= self.limit.tables + headroom
                || (self.ring.lock().kept.len() as u64) < self.limit.tables as u64 / FLOOR_DIVISOR,
        }
    }

    /// Adds a table that is kept open from now on. Called with the lock of its openings held.
    pub(super) fn enter(&self, file: &Arc<FileIdentity>) {
        self.ring.lock().enter(file.place(), Arc::downgrade(file));
    }

    /// Removes a table.
    pub(super) fn leave(&self, file: &FileIdentity) {
        self.ring.lock().leave(file.place());
    }

    /// Moves a table behind the hand.
    fn pass_over(&self, file: &FileIdentity) {
        let mut ring = self.ring.lock();
        if let Some(kept) = ring.leave(file.place()) {
            ring.enter(file.place(), kept);
        }
    }

    /// Counts an opened file; whether eviction is due.
    pub(super) fn note_opening(&self, open: OpenAmount) -> bool {
        self.openings.fetch_add(1, Ordering::Relaxed);
        self.is_due(open)
    }

    fn is_due(&self, open: OpenAmount) -> bool {
        let target = self.target();
        let exceeds = open.tables > target.tables || open.bytes > target.bytes;
        let opened = self.openings().saturating_sub(self.swept_openings.load(Ordering::Relaxed));
        let is_worthwhile = opened * TURNOVER_DIVISOR >= open.tables as u64;
        exceeds && (is_worthwhile || self.is_lowered.load(Ordering::Relaxed))
    }

    /// The tables to be closed, if eviction is due.
    pub(super) fn choose_cold(&self, open: OpenAmount) -> Vec<Arc<FileIdentity>> {
        if !self.is_due(open) {
            return Vec::new();
        }
        self.swept_openings.store(self.openings(), Ordering::Relaxed);
        self.is_lowered.store(false, Ordering::Relaxed);
        let mut candidates = self.candidates();
        let bytes = candidates.iter().map(|(_, bytes)| bytes).sum();
        let goal = EvictionGoal::new(self.target(), open, OpenAmount { tables: candidates.len(), bytes });
        let mut cold = Vec::new();
        let mut closed = OpenAmount::default();
        // The first round skips tables used since the last pass, the second those used since the first.
        for _ in 0..2 {
            let mut passed_over = Vec::new();
            for (file, bytes) in std::mem::take(&mut candidates) {
                if goal.is_met(closed) {
                    break;
                }
                if file.take_use() {
                    self.pass_over(&file);
                    passed_over.push((file, bytes));
                } else {
                    closed.tables += 1;
                    closed.bytes += bytes;
                    cold.push(file);
                }
            }
            candidates = passed_over;
        }
        cold
    }

    /// All kept tables, from the hand on, with their bytes.
    fn candidates(&self) -> Vec<(Arc<FileIdentity>, u64)> {
        let files: Vec<_> = self.ring.lock().kept.values().filter_map(Weak::upgrade).collect();
        // A kept table is not being opened, so its lock is free soon.
        files.into_iter().filter_map(|file| file.kept_bytes().map(|bytes| (file, bytes))).collect()
    }
}

/// The goal of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EvictionGoal {
    /// At least this many tables, and at least this many bytes.
    least: OpenAmount,
    /// The most tables closed because of the bytes.
    most_for_bytes: usize,
}

impl EvictionGoal {
    /// The goal with `open` tables, of which `kept` are evictable.
    fn new(limit: OpenAmount, open: OpenAmount, kept: OpenAmount) -> EvictionGoal {
        let least = |limit: u64, open: u64, kept: u64| {
            let excess = if open > limit { open - (limit - limit / SLACK_DIVISOR) } else { 0 };
            // At least one: the next opened table replaces it.
            excess.min(kept.saturating_sub(limit / FLOOR_DIVISOR).max(1))
        };
        let tables = least(limit.tables as u64, open.tables as u64, kept.tables as u64) as usize;
        let bytes = least(limit.bytes, open.bytes, kept.bytes);
        let most_for_bytes = kept.tables.saturating_sub(FEWEST_FOR_METADATA);
        EvictionGoal { least: OpenAmount { tables, bytes }, most_for_bytes }
    }

    fn is_met(&self, closed: OpenAmount) -> bool {
        let bytes_are = closed.bytes >= self.least.bytes || closed.tables >= self.most_for_bytes;
        closed.tables >= self.least.tables && bytes_are
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(tables: usize, bytes: u64) -> OpenAmount {
        OpenAmount { tables, bytes }
    }

    const LIMIT: OpenAmount = OpenAmount { tables: 80, bytes: 8_000 };

    /// The least amount closed for these amounts.
    fn least(open: OpenAmount, kept: OpenAmount) -> OpenAmount {
        EvictionGoal::new(LIMIT, open, kept).least
    }

    #[test]
    fn eviction_closes_the_excess_and_a_little_more() {
        assert_eq!(least(amount(80, 8_000), amount(80, 8_000)), amount(0, 0));
        assert_eq!(least(amount(81, 4_000), amount(81, 4_000)), amount(11, 0));
        assert_eq!(least(amount(40, 9_000), amount(40, 9_000)), amount(0, 2_000));
        // Unevictable tables are compensated for, but not at the price of everything.
        assert_eq!(least(amount(100, 1), amount(60, 1)), amount(30, 0));
        assert_eq!(least(amount(100, 1), amount(25, 1)), amount(15, 0));
        assert_eq!(least(amount(100, 1), amount(9, 1)), amount(1, 0));
        assert_eq!(least(amount(20, 90_000), amount(20, 7_000)), amount(0, 6_000));
    }

    #[test]
    fn a_few_tables_stay_open_however_large_they_are() {
        let goal = EvictionGoal::new(LIMIT, amount(10, 90_000), amount(10, 90_000));
        assert!(!goal.is_met(amount(1, 9_000)));
        assert!(goal.is_met(amount(2, 18_000)), "{FEWEST_FOR_METADATA} are left");
        assert!(EvictionGoal::new(LIMIT, amount(8, 90_000), amount(8, 90_000)).is_met(amount(0, 0)));
    }

    #[test]
    fn room_ends_at_the_limit_and_after_the_headroom() {
        let clock = EvictionClock::new(LIMIT);
        let room = |tables, bytes| {
            let room = clock.room(amount(tables, bytes));
            (room.may_fill, room.may_keep)
        };
        assert_eq!(room(80, 8_000), (true, true));
        assert_eq!(room(81, 8_000), (false, true));
        assert_eq!(room(100, 8_000), (false, true));
        assert_eq!(room(101, 8_000), (false, true), "none can be closed: what is open is held by old views");
        assert_eq!(room(9, 8_001), (false, true), "memory is soft");
        assert_eq!(room(8, 8_001), (true, true), "these are not closed for it");
    }

    #[test]
    fn lent_memory_keeps_tables_open_outside_of_their_cells_until_it_is_taken_back() {
        let clock = EvictionClock::new(LIMIT);
        clock.set_target_bytes(20_000);
        for _ in 0..80 {
            assert!(!clock.note_opening(amount(60, 20_000)));
        }
        assert!(clock.note_opening(amount(60, 20_001)));
        assert!(!clock.room(amount(60, 8_001)).may_fill, "an old tree would keep it open");
        clock.swept_openings.store(clock.openings(), Ordering::Relaxed);
        assert!(!clock.is_due(amount(60, 20_001)), "nothing was opened since");
        clock.set_target_bytes(10_000);
        assert!(clock.is_due(amount(60, 10_001)));
        assert!(clock.choose_cold(amount(60, 10_001)).is_empty(), "the ring is empty");
        assert!(!clock.is_due(amount(60, 10_001)), "an eviction for the lower target has run");
        clock.set_target_bytes(10);
        assert_eq!(clock.target(), LIMIT, "the limit is the least target");
    }

    #[test]
    fn a_sweep_is_due_when_it_is_worthwhile() {
        let clock = EvictionClock::new(LIMIT);
        for _ in 0..80 {
            assert!(!clock.note_opening(amount(80, 0)));
        }
        assert!(clock.note_opening(amount(81, 0)));
        clock.swept_openings.store(clock.openings(), Ordering::Relaxed);
        for _ in 0..5 {
            assert!(!clock.note_opening(amount(96, 0)));
        }
        assert!(clock.note_opening(amount(96, 0)), "a sixteenth was opened");
        assert!(clock.note_opening(amount(10, 8_001)));
    }
}
