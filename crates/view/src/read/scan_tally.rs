//! Scan statistics: the number of scans and their lengths.
//!
//! A cursor counts the entries it returns, one addition each, and reports to the keyspace when it is dropped,
//! or after some dozen scans: a seek begins another scan. So concurrent scans share no cache line. A scan is
//! short if it returned no more entries than a block of each run holds, because then it read only those
//! blocks.
//!
//! Where many scans call for background work, every [`NOTIFY_EVERY`] of them call a function of the engine.

use crate::tree::Tree;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A cursor that is used for many seeks reports to its keyspace after this many.
const TOLD_TOGETHER: u64 = 64;

/// Watched scans call the engine after this many: some ten milliseconds of scanning.
pub const NOTIFY_EVERY: u64 = 4096;

/// The scans of one keyspace. They carry no other data: relaxed additions suffice.
#[derive(Debug, Default)]
pub struct ScanCounts {
    /// The most entries of a short scan, less one.
    short_entries_less_one: AtomicU64,
    short: AtomicU64,
    short_entries: AtomicU64,
    long: AtomicU64,
    long_entries: AtomicU64,
    /// Whether further scans are reported to `notify`.
    is_watched: AtomicBool,
    notify: OnceLock<Notify>,
}

/// A function of the engine.
struct Notify(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify")
    }
}

/// [`ScanCounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scans {
    /// Scans that returned about a block of each run, or less.
    pub short: u64,
    /// What these returned.
    pub short_entries: u64,
    /// Scans that returned more.
    pub long: u64,
    /// What these returned.
    pub long_entries: u64,
}

impl ScanCounts {
    /// Updates the length of short scans after a change of the tree.
    pub fn note_shape(&self, tree: &Tree, block_size_bytes: usize) {
        let (mut bytes, mut entries) = (0, 0);
        for part in tree.parts() {
            bytes += part.meta.raw_bytes;
            entries += part.meta.entries;
        }
        let in_block = (block_size_bytes as u64).saturating_mul(entries) / bytes.max(1);
        let short = in_block.max(1).saturating_mul(tree.runs.len().max(1) as u64);
        self.short_entries_less_one.store(short - 1, Relaxed);
    }

    /// Sets the function that is called after every [`NOTIFY_EVERY`] scans while they are watched.
    pub fn set_notify(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.notify.get_or_init(|| Notify(Box::new(notify)));
    }

    /// Whether further scans are watched.
    pub fn watch(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Relaxed);
    }

    /// All scans so far.
    pub fn total(&self) -> u64 {
        self.short.load(Relaxed) + self.long.load(Relaxed)
    }

    /// The counts so far.
    pub fn seen(&self) -> Scans {
        Scans {
            short: self.short.load(Relaxed),
            short_entries: self.short_entries.load(Relaxed),
            long: self.long.load(Relaxed),
            long_entries: self.long_entries.load(Relaxed),
        }
    }

    /// Adds what earlier opens of the database counted.
    pub fn restore(&self, scans: &Scans) {
        self.add_counts(scans);
    }

    fn add(&self, scans: &Scans) {
        self.add_counts(scans);
        if self.is_watched.load(Relaxed) && self.total() % NOTIFY_EVERY < scans.short + scans.long {
            self.notify();
        }
    }

    fn add_counts(&self, scans: &Scans) {
        for (counter, more) in [
            (&self.short, scans.short),
            (&self.short_entries, scans.short_entries),
            (&self.long, scans.long),
            (&self.long_entries, scans.long_entries),
        ] {
            if more > 0 {
                counter.fetch_add(more, Relaxed);
            }
        }
    }

    #[cold]
    fn notify(&self) {
        if let Some(notify) = self.notify.get() {
            notify.0();
        }
    }
}

/// The counts of one cursor. Counts nothing without a keyspace.
#[derive(Debug, Default)]
pub struct ScanTally {
    counts: Option<Arc<ScanCounts>>,
    has_begun: bool,
    /// Of the current scan.
    entries: u64,
    /// Of previous scans not reported yet.
    ended: Scans,
}

impl ScanTally {
    /// A tally that is added to `counts`.
    pub fn new(counts: &Arc<ScanCounts>) -> ScanTally {
        ScanTally { counts: Some(Arc::clone(counts)), ..ScanTally::default() }
    }

    /// Begins another scan.
    #[inline]
    pub fn begin(&mut self) {
        if self.has_begun {
            self.end();
        }
        self.has_begun = true;
    }

    /// Counts a result of a range's next entry.
    #[inline]
    pub fn returned(&mut self, is_entry: bool) {
        self.has_begun = true;
        self.entries += u64::from(is_entry);
    }

    /// Counts a step of a cursor.
    #[inline]
    pub fn count(&mut self) {
        self.entries += 1;
    }

    fn end(&mut self) {
        let Some(counts) = &self.counts else { return };
        let ended = &mut self.ended;
        if self.entries <= counts.short_entries_less_one.load(Relaxed).saturating_add(1) {
            ended.short += 1;
            ended.short_entries += self.entries;
        } else {
            ended.long += 1;
            ended.long_entries += self.entries;
        }
        self.entries = 0;
        if ended.short + ended.long >= TOLD_TOGETHER {
            counts.add(ended);
            *ended = Scans::default();
        }
    }
}

impl Drop for ScanTally {
    fn drop(&mut self) {
        if self.has_begun {
            self.end();
        }
        if let Some(counts) = &self.counts {
            counts.add(&self.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_are_classified_by_their_length() {
        let counts = Arc::new(ScanCounts::default());
        counts.short_entries_less_one.store(2, Relaxed);
        let mut tally = ScanTally::new(&counts);
        for entries in [3, 4, 0] {
            tally.begin();
            (0..entries).for_each(|_| tally.count());
        }
        assert_eq!(counts.seen(), Scans::default(), "told when it goes");
        drop(tally);
        let seen = Scans { short: 2, short_entries: 3, long: 1, long_entries: 4 };
        assert_eq!(counts.seen(), seen);
        drop(ScanTally::new(&counts));
        assert_eq!(counts.seen(), seen, "what was never asked is no scan");
        let mut tally = ScanTally::new(&counts);
        (0..=TOLD_TOGETHER).for_each(|_| tally.begin());
        assert_eq!(counts.seen().short, 2 + TOLD_TOGETHER, "a cursor that lives long tells in between");
    }
}
