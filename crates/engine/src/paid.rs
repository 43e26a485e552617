//! Merges that scans pay for.
//!
//! A scan seeks in every run, however few of its entries lie there. A tree that was just written to has a few
//! small runs above the last level, and as long as writes go on, if only slowly, it is not idle and keeps
//! them: no strategy merges them before there are enough of them for a tier. Scans that go on meanwhile pay
//! for them each time.
//!
//! So a scan puts down [`RUN_BYTES`] of merging for each run above the last level beyond the first, and what
//! was put down is what the strategy may merge (`Shape::paid_bytes`): who does not know how long scans will
//! go on buys when as much was spent on rent. Then never more than twice as much is spent as by somebody who
//! knew.
//!
//! # Credit
//! Who scanned will scan again. A scan that meets no run too many puts down as much as for one, and from this
//! is merged what writes bring before the next scans come: these would meet small runs from the first on, and
//! be over when they have paid. If they come, the same merge is done sooner; if they do not, it is
//! [`CREDIT_BYTES`] for nothing, once. Credit goes further where more runs become one, so it waits for
//! [`LEAST_CREDIT_RUNS`], or until writers pause ([`crate::wanted`]), or for the first who scan fewer. In a
//! pause the memtable is flushed first, if there is credit for that and for merging it with all others:
//! seeking in a memtable costs as much as in a run.
//!
//! # The last level
//! Even one small run costs a scan a sixth or so, but to merge it with the last level reads several times
//! what it has, which few scans have paid for. As long as somebody writes they never do: the next memtable
//! would have it all read again. In a pause of the writers, however, an idle database would do it anyway, ten
//! seconds later and from an allowance ([`crate::leisure`]). So in a pause the tree converges at once, window
//! by window, until somebody writes, if the allowance suffices for all that this reads and scans pay for what
//! lies above the last level. This is little if few keys were written, and three keys in each pause would
//! have a store rewritten in each, by scans that are long over. So they pay no less than one
//! [`UNDER_SHARE`]th of what lies under it, up to all the credit there may be. They pay when the first window
//! begins: what was paid for is noted (`bought_bytes`), and needs no second payment if a write comes between.
//!
//! # What holds
//! * SA1. Merges for scans read of what lies above the last level, and flushes for them write, no more bytes
//!   than scans have put down, and an account never holds more than lies above the last level or, if that is
//!   less, [`CREDIT_BYTES`]. Who does not scan has nothing merged for scans.
//! * SA2. Scans pay by what is counted of them anyway ([`crate::advice`]): nothing is added to a scan but the
//!   question whether there is an account and another [`LOOK_EVERY_SCANS`] are full. Then the compaction lane
//!   is asked to look.
//! * SA3. Strategies are asked again only when a [`STEPS`]th of what lies above the last level was added.
//! * SA4. Fewer than [`LEAST_CREDIT_RUNS`] runs are merged only if writers pause or there was a scan since
//!   the tree has changed.
//! * SA5. The last level is merged for scans only if writers pause, nothing of theirs waits to be flushed,
//!   half of the allowance is left when it is done, from which all that it reads is taken, and scans pay for
//!   all above it that they have not bought yet, at least one sixteenth of what lies under it. So scans that
//!   are over have [`UNDER_SHARE`] times [`CREDIT_BYTES`] read in vain at most, or the store once.
//!
//! Lookups do not pay: a run that does not have their key costs them a look at a filter, a tenth of a seek.

use crate::scheduler::{Lane, Scheduler};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// What a scan puts down for a run: seeking in a small run takes a quarter of a microsecond of somebody who
/// waits, in which two threads that nobody waits for merge about so many bytes.
pub(crate) const RUN_BYTES: u64 = 512;

/// The compaction lane is asked to look when so many scans more were counted. A power of two.
pub(crate) const LOOK_EVERY_SCANS: u64 = 4096;

/// What scans that are over may have put down for those to come: what 131,072 scans pay for one run.
const CREDIT_BYTES: u64 = 64 << 20;

/// Credit alone is not spent on fewer runs above the last level: half of what makes a tier without it.
const LEAST_CREDIT_RUNS: u64 = 4;

/// Less than this is not flushed for scans: a table of a few entries is not worth its file, however often
/// scans and pauses take turns.
const LEAST_FLUSH_BYTES: u64 = 1 << 20;

/// For so many bytes of the last level that converging rewrites, scans pay one at least: bytes that one scan
/// a pause puts down are a loan on many to come, and all of them lend no more than a store of 1 GiB once.
const UNDER_SHARE: u64 = 16;

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
    /// Whether one of them came since the tree has changed.
    is_scanned: bool,
    /// Runs above the last level but one.
    runs: u64,
    /// What they and that one have.
    upper_bytes: u64,
    /// How much of this may be merged into the last level for nothing, because scans have paid for that.
    bought_bytes: u64,
    paid_bytes: u64,
}

impl Book {
    /// So many scans have been counted; those that are new pay for the runs there were until now.
    fn settle(&mut self, scans: u64) {
        let new = scans.saturating_sub(self.scans);
        self.scans = self.scans.max(scans);
        self.is_scanned |= new > 0;
        let put_down = new.saturating_mul(self.runs.max(1)).saturating_mul(RUN_BYTES);
        self.paid_bytes = self.paid_bytes.saturating_add(put_down).min(self.most_bytes());
    }

    /// An account never holds more (SA1).
    fn most_bytes(&self) -> u64 {
        self.upper_bytes.max(CREDIT_BYTES)
    }

    /// Whether scans that come now can make something possible: more runs than one are merged at any time,
    /// one is in a pause, once there is enough for it. Who has all that an account may hold needs no more.
    fn is_filling(&self) -> bool {
        self.runs > 0 || (self.upper_bytes > 0 && self.paid_bytes < self.most_bytes())
    }

    /// What scans pay for merging all into a last level that has so many bytes under it (SA5).
    fn price_of_all(&self, under_bytes: u64) -> u64 {
        match self.upper_bytes.saturating_sub(self.bought_bytes) {
            0 => 0,
            unbought => unbought.max((under_bytes / UNDER_SHARE).min(CREDIT_BYTES)),
        }
    }

    /// What may be merged now (SA4).
    fn free_bytes(&self, is_pausing: bool) -> u64 {
        let is_due = self.runs + 1 >= LEAST_CREDIT_RUNS || (self.runs > 0 && (self.is_scanned || is_pausing));
        if is_due { self.paid_bytes.min(self.upper_bytes) } else { 0 }
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
        book.is_scanned = false;
        book.upper_bytes = upper_bytes;
        book.bought_bytes = book.bought_bytes.min(upper_bytes);
        book.paid_bytes = book.paid_bytes.min(book.most_bytes());
        self.is_open.store(book.is_filling(), Relaxed);
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
    pub(crate) fn paid_bytes(&self, scans: u64, is_pausing: bool) -> u64 {
        let mut book = self.book.lock();
        book.settle(scans);
        self.is_open.store(book.is_filling(), Relaxed);
        let free_bytes = book.free_bytes(is_pausing);
        match book.upper_bytes / STEPS {
            _ if free_bytes == book.upper_bytes => free_bytes,
            0 => 0,
            step => free_bytes / step * step,
        }
    }

    /// Whether so many scans can pay for merging all into the last level, of which `under_bytes` are
    /// rewritten.
    pub(crate) fn can_buy_all(&self, scans: u64, under_bytes: u64) -> bool {
        let mut book = self.book.lock();
        book.settle(scans);
        book.upper_bytes > 0 && book.paid_bytes >= book.price_of_all(under_bytes)
    }

    /// They pay for it, unless they have: the first merge of it begins. What a flush has added since it was
    /// asked is theirs.
    pub(crate) fn buy_all(&self, under_bytes: u64) {
        let mut book = self.book.lock();
        book.paid_bytes = book.paid_bytes.saturating_sub(book.price_of_all(under_bytes));
        book.bought_bytes = book.upper_bytes;
    }

    /// Whether so many scans have paid for what is worth waiting for a pause.
    pub(crate) fn has_credit(&self, scans: u64) -> bool {
        let mut book = self.book.lock();
        book.settle(scans);
        book.paid_bytes >= LEAST_FLUSH_BYTES
    }

    /// Whether so many scans have paid for flushing so many bytes and for merging them with what lies above
    /// the last level. If so, the flush is spent.
    pub(crate) fn pay_for_flush(&self, scans: u64, bytes: u64) -> bool {
        let mut book = self.book.lock();
        book.settle(scans);
        let merged_bytes = book.upper_bytes.saturating_add(bytes);
        let is_paid = bytes >= LEAST_FLUSH_BYTES && merged_bytes.saturating_add(bytes) <= book.paid_bytes;
        if is_paid {
            book.paid_bytes -= bytes;
        }
        is_paid
    }

    /// A merge begins for which scans have paid, with so many bytes from above the last level.
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
        account.note_shape(0, 4, 1 << 20);
        assert_eq!(account.paid_bytes(100, false), 3 * 100 * RUN_BYTES / (1 << 16) * (1 << 16));
        assert_eq!(account.paid_bytes(128, false), 3 << 16, "in steps of a sixteenth");
        // Those before the change pay for the runs there were.
        account.note_shape(256, 2, 1 << 20);
        assert_eq!(account.paid_bytes(256 + 128, false), 7 << 16);
        assert_eq!(account.paid_bytes(1_000_000, false), 1 << 20, "never more than all there is");
        account.note_shape(1_000_000, 0, 0);
        assert_eq!(account.paid_bytes(2_000_000, false), 0, "nothing is left to be paid for");
    }

    /// SA1 and SA4: what was put down is good for merges before anybody scans again, for so much and no more.
    #[test]
    fn credit_is_what_scans_put_down_and_waits_for_half_a_tier() {
        const MIB: u64 = 1 << 20;
        let account = ScanAccount::default();
        let scans = 24 * MIB / RUN_BYTES;
        account.note_shape(0, 1, 8 * MIB);
        assert_eq!(account.paid_bytes(scans, false), 0, "there is nothing to merge");
        account.note_shape(scans, 3, 24 * MIB);
        assert_eq!(account.paid_bytes(scans, false), 0, "nobody has scanned these");
        account.note_shape(scans, 4, 32 * MIB);
        assert_eq!(account.paid_bytes(scans, false), 24 * MIB, "all that was put down, and no byte more");
        account.spend(20 * MIB);
        account.note_shape(scans, 4, 32 * MIB);
        assert_eq!(account.paid_bytes(scans, false), 4 * MIB, "once");
        account.note_shape(scans, 2, 4 * MIB);
        assert_eq!(account.paid_bytes(scans, false), 0);
        assert_eq!(account.paid_bytes(scans + 1, false), 4 * MIB, "the first scan is enough");
        // However many there were, so many bytes are merged for nothing at most.
        account.note_shape(1 << 40, 1, 0);
        account.note_shape(1 << 40, 4, 1 << 40);
        assert!(account.paid_bytes(1 << 40, false) <= CREDIT_BYTES);
    }

    /// SA1: a flush for scans takes from the same account, and only what leaves enough for the merge of it.
    #[test]
    fn flushes_are_paid_for_with_the_merge_that_follows() {
        const MIB: u64 = 1 << 20;
        let account = ScanAccount::default();
        account.note_shape(0, 2, 8 * MIB);
        assert!(!account.has_credit(0) && !account.pay_for_flush(0, MIB));
        let scans = 16 * MIB / RUN_BYTES;
        assert!(account.has_credit(scans));
        assert!(!account.pay_for_flush(scans, LEAST_FLUSH_BYTES - 1), "not worth a table");
        assert!(
            !account.pay_for_flush(scans, 4 * MIB + 1),
            "8 and 4 to merge and 4 to flush are all there is"
        );
        assert!(account.pay_for_flush(scans, 4 * MIB));
        assert!(!account.pay_for_flush(scans, 4 * MIB), "once");
        assert_eq!(account.paid_bytes(scans, true), 8 * MIB, "all above the last level may be merged");
        account.note_shape(scans, 3, 12 * MIB);
        assert_eq!(account.paid_bytes(scans, false), 0, "nobody has scanned these, and writers go on");
        assert_eq!(account.paid_bytes(scans, true), 12 * MIB);
    }

    /// SA5: what is written later is bought anew, for no less than a share of the last level, and what was
    /// bought is not paid for twice.
    #[test]
    fn all_is_bought_once_and_not_for_next_to_nothing() {
        const MIB: u64 = 1 << 20;
        let account = ScanAccount::default();
        let scans = 20 * MIB / RUN_BYTES;
        account.note_shape(0, 1, 8 * MIB);
        assert!(
            !account.can_buy_all(8 * MIB / RUN_BYTES - 1, 0) && account.can_buy_all(8 * MIB / RUN_BYTES, 0)
        );
        assert!(!account.can_buy_all(scans, 20 * 16 * MIB + 16) && account.can_buy_all(scans, 20 * 16 * MIB));
        account.buy_all(10 * 16 * MIB);
        // Ten are left. One window is done, of the other half nothing is to be paid.
        account.note_shape(scans, 1, 4 * MIB);
        assert!(account.can_buy_all(scans, 1 << 40));
        account.buy_all(1 << 40);
        account.note_shape(scans, 2, 5 * MIB);
        assert!(!account.can_buy_all(scans, 10 * 16 * MIB + 16) && account.can_buy_all(scans, 10 * 16 * MIB));
        account.buy_all(9 * 16 * MIB);
        account.note_shape(scans, 0, 0);
        assert!(!account.can_buy_all(scans, 0), "there is nothing to merge");
        account.note_shape(scans, 1, 100);
        assert!(!account.can_buy_all(scans, 16 * MIB + 16) && account.can_buy_all(scans, 16 * MIB));
        // However much lies under it, all the credit there may be is enough.
        account.note_shape(scans, 1, 200);
        assert!(account.can_buy_all(1 << 40, u64::MAX));
    }

    #[test]
    fn who_does_not_scan_pays_for_nothing() {
        let account = ScanAccount::default();
        for runs in [0, 1, 2, 4, 7] {
            account.note_shape(0, runs, runs << 20);
            assert_eq!(account.paid_bytes(0, false), 0);
        }
    }
}
