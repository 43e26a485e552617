//! The memtables' share of the budget, lent to the block cache while nothing fills it.
//!
//! A quarter of the budget is kept for memtables, and while only reads come it would lie idle: arenas keep
//! what they touched for the next writes. So the share is *lent*. Memtables keep what they hold and some log
//! segments more, an eighth at least, with which writers begin; idle arenas give their memory back; the cache
//! may have the rest. Whoever comes to the end of a log segment *calls it back*, in passing: from then on the
//! log lane has the cache evict what it has too much, and once that is done memtables may hold all of their
//! share again. Meanwhile writers go on in what was kept.
//!
//! It is lent from the opening on, when there is nothing yet to be evicted. Later it is *offered*: when the
//! log rests ([`crate::rest`]), and when no log segment was filled for [`QUIET_TIME`], so that a few writes
//! now and then do not keep it from readers. An offer costs nothing. It is taken up when the cache has no
//! room for what it is given ([`esker_cache::BlockCache::await_need`]): where all blocks fit, arenas stay as
//! they are, and the next writes need not touch fresh memory. Where writes come steadily the share stays with
//! the memtables: to evict a quarter of the cache for each of them and load it again would be worse than not
//! to lend at all.
//!
//! # What holds
//! * LN1. While the share is away, memtables hold no more payload than what was kept: the log goes on in
//!   another segment only if all that they hold, and the segment, fit that. All they get goes through the
//!   log.
//! * LN2. The cache gives way first: its capacity is lowered, and what it has beyond it evicted, before
//!   memtables may hold more.
//! * LN3. What memtables hold, and all that their log segment may bring them, is kept, as it is under the
//!   writers' lock: so LN1 holds from the first moment. If that is more than half of the share, nothing is
//!   lent.
//! * LN4. A writer evicts nothing and frees nothing. It waits for the log lane if it fills all that was kept
//!   before the lane is done, which for a share of 64 MiB are 8 MiB of payload against 16,000 evictions.
//! * LN5. One thread at a time moves shares, so that what was computed last is what counts.
//! * LN6. No arena gives its memory back before the cache had no room for something since the share was last
//!   offered, and what an idle arena has is not the cache's as long as it has it.
//!
//! # Rejected
//! * Lending after each flush, as much as is not in use: a mixed load would shrink and grow the cache with
//!   each memtable.
//! * Lending at each rest, whatever the cache has room for: writes that follow touch their arenas anew, and
//!   readers had nothing of it.
//! * Counting looks of the compaction lane for the quiet time: jobs that end request dozens of them a
//!   second, and the share went back and forth with each log segment.
//! * Calling back in steps, as writers need it: they would be nearer to waiting all the time, for a
//!   difference of milliseconds.

use crate::scheduler::Lane;
use crate::store::{Store, Writing};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// So long without a full log segment is quiet enough.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(60);

/// Who has the memtables' share.
#[derive(Debug)]
pub(crate) struct Lending {
    /// The cache may have it. Set under the writers' lock, where it is also taken back.
    is_lent: AtomicBool,
    /// Payload that memtables may hold at present (LN1).
    granted_bytes: AtomicU64,
    /// The cache may have it as soon as it needs it. Set and taken back as `is_lent` is.
    is_offered: AtomicBool,
    /// When the log last went on in another segment, on the monotonic clock.
    quiet_since_ns: AtomicU64,
    /// Held by who moves shares (LN5).
    moving: Mutex<()>,
}

impl Lending {
    /// The share is lent; memtables may hold so much.
    pub(crate) fn new(kept_bytes: u64) -> Lending {
        Lending {
            is_lent: AtomicBool::new(true),
            granted_bytes: AtomicU64::new(kept_bytes),
            is_offered: AtomicBool::new(false),
            quiet_since_ns: AtomicU64::new(0),
            moving: Mutex::new(()),
        }
    }

    /// Whether the cache may have the share.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Acquire)
    }

    /// Payload that memtables may hold at present.
    pub(crate) fn granted_bytes(&self) -> u64 {
        self.granted_bytes.load(Ordering::Acquire)
    }
}

impl Store {
    /// Gives the block cache its share for the first time, and has it call the log lane when it needs what is
    /// lent or offered.
    pub(crate) fn begin_lending(&self) {
        let (cache, scheduler) = (self.files.cache(), Arc::clone(&self.scheduler));
        cache.tell_of_need(move || scheduler.request(Lane::Log));
        cache.await_need();
        self.rebalance_memory();
    }

    /// Gives the block cache what memtables, log and table metadata leave of the budget. The caller does not
    /// hold the writers' lock.
    pub(crate) fn rebalance_memory(&self) {
        let _one_at_a_time = self.lending.moving.lock();
        let is_lent = self.lending.is_lent();
        if is_lent && self.files.cache().needs_more() {
            // LN6.
            self.arenas.discard_idle();
        }
        let share = if is_lent { self.lending.granted_bytes() } else { self.memory.memtables_bytes };
        let memtables = share.max(self.memtable_memory_bytes()) + self.loading_bytes.load(Ordering::Relaxed);
        let log = self.writing.as_ref().map_or(0, |writing| writing.log.mapped_bytes());
        let cache_bytes = self.memory.cache_bytes(memtables, log, self.files.tell_bytes());
        let cache = self.files.cache();
        if cache.capacity_bytes() as u64 != cache_bytes {
            cache.set_capacity_bytes(usize::try_from(cache_bytes).unwrap_or(usize::MAX));
        }
        if !is_lent && self.lending.granted_bytes() < share {
            // LN2.
            self.lending.granted_bytes.store(share, Ordering::Release);
            self.scheduler.announce_progress();
        }
    }

    /// Has the cache say when it is full, and hear then that it may have what memtables do not need.
    pub(crate) fn offer_share(&self, writing: &Writing) {
        let state = writing.commit.lock();
        let is_news = !self.lending.is_lent() && !self.lending.is_offered.load(Ordering::Acquire);
        if !state.closed && is_news {
            // In this order: who is told finds the offer.
            self.lending.is_offered.store(true, Ordering::Release);
            self.files.cache().await_need();
        }
    }

    /// Lends what was offered, if the cache needs it, and what idle arenas have. A look of the log lane,
    /// which the cache asks for.
    pub(crate) fn lend_if_needed(&self) {
        if !self.files.cache().needs_more() {
            return;
        }
        if let Some(writing) = &self.writing
            && self.lending.is_offered.load(Ordering::Acquire)
        {
            self.lend(writing);
            self.rebalance_memory();
        } else if self.lending.is_lent() && self.arenas.idle_bytes() > 0 {
            self.rebalance_memory();
        }
    }

    /// Lends of the memtables' share what they do not need, if that is much (LN3); whoever calls rebalances
    /// the memory next. Otherwise the next look offers it again.
    fn lend(&self, writing: &Writing) {
        let _one_at_a_time = self.lending.moving.lock();
        let state = writing.commit.lock();
        let sealed_bytes = self.sealed_bytes.load(Ordering::Relaxed);
        let most_bytes = sealed_bytes + state.active_bytes + state.log.segment_bytes();
        let kept_bytes = self.memory.kept_bytes().max(most_bytes + self.memory.wal_segment_bytes);
        let is_offered = self.lending.is_offered.swap(false, Ordering::AcqRel);
        // Somebody may be waiting for a share that is on its way.
        let is_settled = self.lending.granted_bytes() >= self.memory.memtables_bytes;
        if !state.closed && is_offered && is_settled && kept_bytes <= self.memory.memtables_bytes / 2 {
            self.lending.granted_bytes.store(kept_bytes, Ordering::Release);
            self.lending.is_lent.store(true, Ordering::Release);
        }
    }

    /// Under the writers' lock, where the log segment is full: has the share come back. Whether memtables may
    /// hold `more_bytes` already; if not, the log lane is to be waited for.
    #[cold]
    pub(crate) fn call_share_back(&self, held_bytes: u64, more_bytes: u64) -> bool {
        self.lending.quiet_since_ns.store(self.monotonic_ns(), Ordering::Relaxed);
        self.lending.is_offered.store(false, Ordering::Release);
        if self.lending.is_lent.swap(false, Ordering::AcqRel) {
            self.scheduler.request(Lane::Log);
        }
        // A share that is there is not asked: how much memtables may hold beyond it others decide.
        self.lending.granted_bytes() >= self.memory.memtables_bytes
            || held_bytes + more_bytes <= self.lending.granted_bytes()
    }

    /// Takes the share back from the cache, if it was called back.
    pub(crate) fn fetch_share(&self) {
        if !self.lending.is_lent() && self.lending.granted_bytes() < self.memory.memtables_bytes {
            self.rebalance_memory();
        }
    }

    /// Whether the log may go on in `more_bytes` for another reason than that it is full, without anybody's
    /// giving way (LN1): who keeps a promise on deletes leaves segments in which hardly anything is.
    pub(crate) fn is_granted(&self, held_bytes: u64, more_bytes: u64) -> bool {
        held_bytes + more_bytes <= self.lending.granted_bytes()
    }

    /// A look of the compaction lane: offers the share when it was quiet for long enough.
    pub(crate) fn offer_if_quiet(&self) {
        let since_ns = self.lending.quiet_since_ns.load(Ordering::Relaxed);
        let is_quiet = self.monotonic_ns().saturating_sub(since_ns) >= QUIET_TIME.as_nanos() as u64;
        if let Some(writing) = self.writing.as_ref().filter(|_| is_quiet) {
            self.offer_share(writing);
        }
    }
}

#[cfg(test)]
mod tests;
