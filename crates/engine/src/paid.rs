//! Merges that scans pay for.
//!
//! A scan seeks in every run, however few of its entries lie there. A tree that was just written to has a few small runs above the last
//! level, and as long as writes go on, if only slowly, it is not idle and keeps them: no strategy merges them before there are enough of
//! them for a tier. Scans that go on meanwhile pay for them each time.
//!
//! So a scan puts down [`RUN_BYTES`] of merging for each run above the last level beyond the first, and what was put down is what the
//! strategy may merge (`Shape::paid_bytes`): who does not know how long scans will go on buys when as much was spent on rent. Then never more than
//! twice as much is spent as by somebody who knew.
//!
//! # What holds
//! * SA1. Merges for scans read no more bytes than scans have put down, and an account never holds more than lies above the last level.
//! * SA2. Scans pay by what is counted of them anyway ([`crate::advice`]): nothing is added to a scan but the question whether there is an
//!   account and another [`LOOK_EVERY_SCANS`] are full. Then the compaction lane is asked to look.
//! * SA3. Strategies are asked again only when a [`STEPS`]th of what the account may hold was added.
//!
//! Lookups do not pay: a run that does not have their key costs them a look at a filter, a tenth of a seek.

use crate::scheduler::{Lane, Scheduler};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// What a scan puts down for a run: seeking in a small run takes a quarter of a microsecond of somebody who waits, in which two threads that nobody
/// waits for merge about so many bytes.
pub(crate) const RUN_BYTES: u64 = 512;

/// The compaction lane is asked to look when so many scans more were counted. A power of two.
pub(crate) const LOOK_EVERY_SCANS: u64 = 4096;

/// In so many steps an account fills, as far as strategies can see.
const STEPS: u64 = 16;

/// What the scans of a keyspace have put down.
#[derive(Debug, Default)]
pub(crate) struct ScanAccount {
    /// Who is told that there may be work.
    scheduler: OnceLock<Arc<Scheduler>>,
    /// Whether scans pay at present.
    is_open: AtomicBool,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Scans that have paid.
    scans: u64,
    /// Runs that each pays for.
    runs: u64,
    most_bytes: u64,
    paid_bytes: u64,
}

impl Book {
    /// So many scans have been counted; those that are new pay for the runs there were until now.
    fn settle(&mut self, scans: u64) {
        let new = scans.saturating_sub(self.scans);
        self.scans = self.scans.max(scans);
        let put_down = new.saturating_mul(self.runs).saturating_mul(RUN_BYTES);
        self.paid_bytes = self.paid_bytes.saturating_add(put_down).min(self.most_bytes);
    }
}

impl ScanAccount {
    /// From now on this scheduler is told.
    pub(crate) fn tell(&self, scheduler: &Arc<Scheduler>) {
        self.scheduler.get_or_init(|| Arc::clone(scheduler));
    }

    /// The tree has changed: so many runs and bytes lie above its last level now.
    pub(crate) fn note_shape(&self, scans: u64, upper_runs: u64, upper_bytes: u64) {
        let mut book = self.book.lock();
        book.settle(scans);
        book.runs = upper_runs.saturating_sub(1);
        book.most_bytes = if book.runs > 0 { upper_bytes } else { 0 };
        book.paid_bytes = book.paid_bytes.min(book.most_bytes);
        self.is_open.store(book.runs > 0, Relaxed);
    }

    /// `more` scans came to `before` that had been counted.
    #[inline]
    pub(crate) fn counted(&self, before: u64, more: u64) {
        if self.is_open.load(Relaxed) && before ^ before.wrapping_add(more) >= LOOK_EVERY_SCANS {
            self.ask_for_a_look();
        }
    }

    #[cold]
    fn ask_for_a_look(&self) {
        if let Some(scheduler) = self.scheduler.get() {
            scheduler.request(Lane::Compaction);
        }
    }

    /// Bytes of merging that so many scans have paid for, in steps (SA3).
    pub(crate) fn paid_bytes(&self, scans: u64) -> u64 {
        let mut book = self.book.lock();
        book.settle(scans);
        match book.most_bytes / STEPS {
            _ if book.paid_bytes == book.most_bytes => book.paid_bytes,
            0 => 0,
            step => book.paid_bytes / step * step,
        }
    }

    /// A merge begins for which scans have paid.
    pub(crate) fn spend(&self, bytes: u64) {
        let mut book = self.book.lock();
        book.paid_bytes = book.paid_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_pay_for_all_runs_but_one_and_never_too_much() {
        let account = ScanAccount::default();
        account.note_shape(100, 1, 1 << 20);
        assert_eq!(account.paid_bytes(1_000), 0, "one run more is the least there is");
        account.note_shape(1_000, 4, 1 << 20);
        assert_eq!(account.paid_bytes(1_100), 3 * 100 * RUN_BYTES / (1 << 16) * (1 << 16));
        assert_eq!(account.paid_bytes(1_128), 3 << 16, "in steps of a sixteenth");
        // Those before the change pay for the runs there were.
        account.note_shape(1_256, 2, 1 << 20);
        assert_eq!(account.paid_bytes(1_256 + 128), 7 << 16);
        assert_eq!(account.paid_bytes(1_000_000), 1 << 20, "never more than all there is");
        account.spend(1 << 19);
        assert_eq!(account.paid_bytes(1_000_000), 1 << 19);
        account.note_shape(1_000_000, 2, 1 << 18);
        assert_eq!(account.paid_bytes(1_000_000), 1 << 18);
        account.note_shape(1_000_000, 0, 0);
        assert_eq!(account.paid_bytes(2_000_000), 0, "nothing is left to be paid for");
    }
}
