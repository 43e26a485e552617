//! Times of use: a table of fixed size that says when a key was used last, and how often under an LFU policy.
//!
//! Keys may be more than fit memory, so none has an entry of its own. A key has two places in one cache line,
//! chosen by its hash, and each use writes the time into both; the older of the two is the time of its last
//! use. Other keys that share a place can only make it newer. So, with one exception, what holds:
//! * UT1. A key never counts as idle for longer than it is. The exception is a key that shares a place with
//!   one that `RESTORE IDLETIME` made older.
//! * UT2. A key that was not used since uses are noted counts as used when that began.
//!
//! Uses are noted once a client has asked for a time of use or set one, or when an LRU or LFU policy is
//! selected. Noting them always was tried: the table is larger than what the second-level cache has room for
//! beside the data, and its misses were a seventh of the processor time of a GET in a pipeline.

use esker_redis_store::layout::PhysicalDb;
use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// Places of a cache line of 64 bytes.
const PLACES_OF_A_LINE: usize = 64 / size_of::<u32>();

/// Lines of a part of the table, which is 64 KiB and made when a key first needs it.
const LINES_OF_A_PART: usize = 1 << 10;

/// Parts of the table, 8 MiB in all. Of `N` keys that were used after a key both of its places are among
/// theirs with a probability of about `(1 - e^(-N / 2^20))^2`: of 100,000 keys 0.8 %, of a million 38 %.
const PARTS: usize = 1 << 7;

/// What Redis gives a new key as its counter of uses.
const FIRST_COUNT: u8 = 5;

/// One less: the first use makes a counter [`FIRST_COUNT`].
const UNUSED_COUNT: u8 = FIRST_COUNT - 1;

/// Seconds of a minute, in which counters decay.
const MINUTE_S: u32 = 60;

/// A part of the table, by place.
#[derive(Debug)]
struct Part {
    /// In seconds since 1970; zero for never.
    seconds: Box<[AtomicU32]>,
    /// Counters of uses, once there was an LFU policy.
    counts: OnceLock<Box<[AtomicU8]>>,
}

impl Part {
    fn new() -> Self {
        let seconds = (0..LINES_OF_A_PART * PLACES_OF_A_LINE).map(|_| AtomicU32::new(0)).collect();
        Self { seconds, counts: OnceLock::new() }
    }

    fn counts(&self) -> &[AtomicU8] {
        self.counts.get_or_init(|| self.seconds.iter().map(|_| AtomicU8::new(UNUSED_COUNT)).collect())
    }
}

/// When keys were used, and how often.
#[derive(Debug)]
pub(crate) struct KeyUses {
    parts: Box<[OnceLock<Part>]>,
    /// Whether uses are counted, as an LFU policy says.
    is_counting: AtomicBool,
    /// `lfu-decay-time`.
    decay_minutes: AtomicU32,
    /// `lfu-log-factor`.
    log_factor: AtomicU32,
    hasher: RandomState,
    /// Whether a policy needs uses to be noted.
    is_needed: AtomicBool,
    /// Since when uses are noted, in seconds since 1970.
    since_s: OnceLock<u32>,
}

impl KeyUses {
    /// No use is noted yet.
    pub(crate) fn new() -> Self {
        Self {
            parts: (0..PARTS).map(|_| OnceLock::new()).collect(),
            is_counting: AtomicBool::new(false),
            decay_minutes: AtomicU32::new(1),
            log_factor: AtomicU32::new(10),
            hasher: RandomState::default(),
            is_needed: AtomicBool::new(false),
            since_s: OnceLock::new(),
        }
    }

    /// Notes uses from now on, in seconds since 1970; since when it does.
    fn begin(&self, now_s: u32) -> u32 {
        *self.since_s.get_or_init(|| now_s)
    }

    /// Whether uses are noted.
    #[inline]
    pub(crate) fn is_noting(&self) -> bool {
        self.since_s.get().is_some() || self.is_needed.load(Ordering::Relaxed)
    }

    /// An LRU or LFU policy is selected, which needs uses to be noted; or is not any more.
    pub(crate) fn set_needed(&self, is_needed: bool) {
        self.is_needed.store(is_needed, Ordering::Relaxed);
    }

    /// Whether an LFU policy is selected.
    pub(crate) fn is_counting(&self) -> bool {
        self.is_counting.load(Ordering::Relaxed)
    }

    /// Counts uses from now on, or does not.
    pub(crate) fn set_counting(&self, is_counting: bool) {
        self.is_counting.store(is_counting, Ordering::Relaxed);
    }

    /// Sets after how many minutes without a use a counter is one less; zero for never.
    pub(crate) fn set_decay_minutes(&self, minutes: u32) {
        self.decay_minutes.store(minutes, Ordering::Relaxed);
    }

    /// Sets how much less probable further uses are to be counted.
    pub(crate) fn set_log_factor(&self, factor: u32) {
        self.log_factor.store(factor, Ordering::Relaxed);
    }

    /// The part that a key is in, and its two places there.
    fn places(&self, db: PhysicalDb, key: &[u8]) -> (&Part, [usize; 2]) {
        let hash = self.hasher.hash_one((db.0, key)) as usize;
        let (part, rest) = (hash % PARTS, hash / PARTS);
        let (line, rest) = (rest % LINES_OF_A_PART, rest / LINES_OF_A_PART);
        let (first, rest) = (rest % PLACES_OF_A_LINE, rest / PLACES_OF_A_LINE);
        // Another one of the same line.
        let second = (first + 1 + rest % (PLACES_OF_A_LINE - 1)) % PLACES_OF_A_LINE;
        let places = [first, second].map(|place| line * PLACES_OF_A_LINE + place);
        (self.parts[part].get_or_init(Part::new), places)
    }

    /// A key is used at this time, in seconds since 1970; `random` decides whether it is counted.
    pub(crate) fn note(&self, db: PhysicalDb, key: &[u8], now_s: u32, random: impl FnOnce() -> u64) {
        if !self.is_noting() {
            return;
        }
        self.begin(now_s);
        let (part, places) = self.places(db, key);
        if self.is_counting() {
            let counted = self.incremented(self.count_at(part, places, now_s), random());
            for place in places {
                let before = self.decayed(part, place, now_s);
                part.counts()[place].store(before.max(counted), Ordering::Relaxed);
            }
        }
        for place in places {
            // A line that many threads read is written once a second.
            if part.seconds[place].load(Ordering::Relaxed) != now_s {
                part.seconds[place].store(now_s, Ordering::Relaxed);
            }
        }
    }

    /// Sets for how many seconds a key has not been used (UT1).
    pub(crate) fn set_idle_s(&self, db: PhysicalDb, key: &[u8], now_s: u32, idle_s: u32) {
        self.begin(now_s);
        let (part, places) = self.places(db, key);
        let used_s = now_s.saturating_sub(idle_s).max(1);
        places.iter().for_each(|place| part.seconds[*place].store(used_s, Ordering::Relaxed));
    }

    /// Sets the counter of a key, which counts as used now.
    pub(crate) fn set_count(&self, db: PhysicalDb, key: &[u8], now_s: u32, count: u8) {
        let (part, places) = self.places(db, key);
        places.iter().for_each(|place| part.counts()[*place].store(count, Ordering::Relaxed));
        self.set_idle_s(db, key, now_s, 0);
    }

    /// For how many seconds a key has not been used, as far as that is known (UT1, UT2).
    pub(crate) fn idle_s(&self, db: PhysicalDb, key: &[u8], now_s: u32) -> u32 {
        let (part, places) = self.places(db, key);
        let idle = places.iter().map(|place| self.idle_at(part, *place, now_s));
        idle.max().unwrap_or_default()
    }

    /// The counter of a key's uses, as far as it is known.
    pub(crate) fn count(&self, db: PhysicalDb, key: &[u8], now_s: u32) -> u8 {
        let (part, places) = self.places(db, key);
        self.count_at(part, places, now_s)
    }

    fn idle_at(&self, part: &Part, place: usize, now_s: u32) -> u32 {
        let used_s = match part.seconds[place].load(Ordering::Relaxed) {
            0 => self.begin(now_s),
            used_s => used_s,
        };
        now_s.saturating_sub(used_s)
    }

    fn count_at(&self, part: &Part, places: [usize; 2], now_s: u32) -> u8 {
        places.map(|place| self.decayed(part, place, now_s)).into_iter().min().unwrap_or_default()
    }

    /// A counter less one for every so many minutes without a use.
    fn decayed(&self, part: &Part, place: usize, now_s: u32) -> u8 {
        let count = part.counts()[place].load(Ordering::Relaxed);
        let minutes = self.idle_at(part, place, now_s) / MINUTE_S;
        let periods = minutes.checked_div(self.decay_minutes.load(Ordering::Relaxed)).unwrap_or(0);
        count.saturating_sub(u8::try_from(periods).unwrap_or(u8::MAX))
    }

    /// A counter after one more use: the greater it is, the less probable it grows, as in Redis.
    fn incremented(&self, count: u8, random: u64) -> u8 {
        let above = u64::from(count.saturating_sub(FIRST_COUNT));
        let one_of = above * u64::from(self.log_factor.load(Ordering::Relaxed)) + 1;
        if random.is_multiple_of(one_of) { count.saturating_add(1) } else { count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_S: u32 = 1_000_000;
    const DB: PhysicalDb = PhysicalDb(3);

    fn noting() -> KeyUses {
        let uses = KeyUses::new();
        uses.begin(START_S);
        uses
    }

    #[test]
    fn uses_are_noted_once_they_are_asked_for_or_a_policy_needs_them() {
        let uses = KeyUses::new();
        uses.note(DB, b"a", START_S, || 0);
        assert!(!uses.is_noting());
        // UT2: what is not known counts as used when noting began.
        assert_eq!(uses.idle_s(DB, b"a", START_S + 50), 0);
        assert_eq!(uses.idle_s(DB, b"a", START_S + 70), 20);
        uses.note(DB, b"a", START_S + 80, || 0);
        assert_eq!(uses.idle_s(DB, b"a", START_S + 90), 10);

        let needed = KeyUses::new();
        needed.set_needed(true);
        needed.note(DB, b"a", START_S, || 0);
        assert_eq!(needed.idle_s(DB, b"a", START_S + 5), 5);
    }

    fn key(number: u32) -> [u8; 4] {
        number.to_le_bytes()
    }

    #[test]
    fn idle_time_is_that_since_the_last_use_or_the_start() {
        let uses = noting();
        assert_eq!(uses.idle_s(DB, b"a", START_S + 7), 7);
        uses.note(DB, b"a", START_S + 10, || 0);
        assert_eq!(uses.idle_s(DB, b"a", START_S + 10), 0);
        assert_eq!(uses.idle_s(DB, b"a", START_S + 25), 15);
        assert_eq!(uses.idle_s(PhysicalDb(4), b"a", START_S + 25), 25);
        uses.set_idle_s(DB, b"a", START_S + 25, 1_000);
        assert_eq!(uses.idle_s(DB, b"a", START_S + 26), 1_001);
        // Clocks may be set back.
        assert_eq!(uses.idle_s(DB, b"a", 5), 0);
    }

    /// UT1, and how often other keys make a key newer than it is.
    #[test]
    fn other_keys_make_few_keys_newer_and_none_older() {
        const OLD: u32 = 10_000;
        let uses = noting();
        (0..OLD).for_each(|number| uses.note(DB, &key(number), START_S + 100, || 0));
        (OLD..OLD + 100_000).for_each(|number| uses.note(DB, &key(number), START_S + 200, || 0));
        let idle = (0..OLD).map(|number| uses.idle_s(DB, &key(number), START_S + 300));
        let (mut right, mut newer) = (0, 0);
        for idle_s in idle {
            match idle_s {
                200 => right += 1,
                100 => newer += 1,
                other => panic!("idle for {other} s"),
            }
        }
        // 0.8 % are expected, 83 with a deviation of 9.
        assert!(newer < 200, "{right} are right, {newer} are newer");
    }

    #[test]
    fn counters_grow_ever_slower_and_decay() {
        let uses = noting();
        uses.set_counting(true);
        uses.note(DB, b"a", START_S, || 0);
        assert_eq!(uses.count(DB, b"a", START_S), FIRST_COUNT);
        uses.note(DB, b"a", START_S, || 1);
        assert_eq!(uses.count(DB, b"a", START_S), 6);
        // One above the first: one use of eleven counts.
        uses.note(DB, b"a", START_S, || 1);
        assert_eq!(uses.count(DB, b"a", START_S), 6);
        uses.note(DB, b"a", START_S, || 11);
        assert_eq!(uses.count(DB, b"a", START_S), 7);
        assert_eq!(uses.count(DB, b"a", START_S + 2 * MINUTE_S), 5);
        assert_eq!(uses.count(DB, b"a", START_S + 2_000 * MINUTE_S), 0);
        uses.set_decay_minutes(0);
        assert_eq!(uses.count(DB, b"a", START_S + 2_000 * MINUTE_S), 7);
        uses.set_count(DB, b"a", START_S, u8::MAX);
        uses.note(DB, b"a", START_S, || 0);
        assert_eq!(uses.count(DB, b"a", START_S), u8::MAX);
    }
}
