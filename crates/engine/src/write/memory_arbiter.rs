//! Memory arbiter: lends the unused memory of memtables to the block cache and takes it back.
//!
//! A quarter of the budget is reserved for memtables, and during a read-only phase it would be unused,
//! because arenas keep touched pages for the next writes. So the memtables' share is *lent*. Memtables keep
//! what they hold plus a few log segments, an eighth at least, with which writers begin; idle arenas return
//! their memory to the system; the cache gets the rest. A writer that reaches the end of a log segment
//! *recalls* the share: from then on the log worker evicts the excess from the cache, and then memtables may
//! use their whole share again. Meanwhile writers continue within the kept part.
//!
//! Indexes and filters of open tables may use their part of what is lent: of a budget of 32 MiB that is 20
//! instead of six. A table that is closed for lack of memory is read anew by the next lookup, a hundredth of
//! its file: within six MiB, lookups of 440 MiB of tables read 190 KB each. When the share is recalled the
//! log worker closes tables first.
//!
//! The share is lent from the open on, when there is nothing to evict. Later it is *offered*: when the log is
//! shrunk ([`crate::background::idle_wal`]), and when no log segment was filled for [`QUIET_TIME`], so that a
//! few writes now and then do not withhold it from readers. An offer costs nothing. It is accepted when the
//! cache is full ([`esker_cache::BlockCache::arm_full_notification`]): while all blocks fit, arenas stay as
//! they are, and the next writes need not touch fresh memory. Under steady writes the share stays with the
//! memtables: evicting a quarter of the cache for each of them and loading it again would be worse than not
//! lending.
//!
//! # Invariants
//! * LN1. While the share is lent, memtables hold no more payload than the kept part: the log rotates to
//!   another segment only if everything they hold, and the segment, fit it. All their data passes through the
//!   log.
//! * LN2. The cache shrinks first: its capacity is lowered, and the excess evicted, before memtables may hold
//!   more.
//! * LN3. The kept part covers what memtables hold and all that their log segment may bring, as measured
//!   under the writers' lock: so LN1 holds from the first moment. If that is more than half of the share,
//!   nothing is lent.
//! * LN4. A writer evicts nothing and frees nothing. It waits for the log worker if it fills the kept part
//!   before the worker is done, which for a share of 64 MiB are 8 MiB of payload against 16,000 evictions.
//! * LN5. One thread at a time moves shares, so that the last computed value counts.
//! * LN6. No arena returns its memory before the cache was full since the share was last offered, and the
//!   memory of an idle arena does not count as the cache's while the arena has it.
//! * LN7. What lies idle between and beside the cache's blocks is the cache's, up to a quarter of the blocks:
//!   where values of other lengths come, slabs have free pieces that no block fits.
//!
//! # Rejected
//! * Lending memory after each flush whatever is unused: a mixed load would shrink and grow the cache with
//!   each memtable.
//! * Lending memory whenever the log is shrunk, even while the cache has room: later writes touch their
//!   arenas anew, and readers gain nothing.
//! * Counting wake-ups of the compaction worker for the quiet time: ended jobs cause dozens of them a second,
//!   and the share oscillated with each log segment.
//! * Recalling in steps, as writers need it: they would be closer to waiting all the time, for a difference
//!   of milliseconds.

use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use esker_env::Background;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The time without a full log segment after which the share is offered.
pub const QUIET_TIME: Duration = Duration::from_secs(60);

/// Gives the block cache its share for the first time, and registers its cache-full notification with the
/// log worker.
pub(crate) fn begin_memory_arbitration(store: &Store) {
    let (cache, scheduler) = (store.files.cache(), Arc::clone(&store.scheduler));
    cache.on_full(move || scheduler.request(WorkerPool::Log));
    cache.arm_full_notification();
    limit_open_tables(store);
    rebalance_memory(store);
}

/// Gives the block cache what memtables, log and table metadata leave of the budget. The caller does not
/// hold the writers' lock.
pub fn rebalance_memory(store: &Store) {
    let one_at_a_time = store.memory_arbiter.moving.lock();
    let is_lent = store.memory_arbiter.is_lent();
    if is_lent && store.files.cache().was_full() {
        // LN6.
        store.arenas.discard_idle();
    }
    let share = if is_lent { store.memory_arbiter.granted_bytes() } else { store.memory.memtables_bytes };
    let held = store.held_memtable_bytes();
    store.arenas.set_idle_limit_bytes(store.memory.idle_arenas_bytes(held));
    // What is held beyond the plan's part for merges.
    let buffers = store.env.memory.tell_bytes().saturating_sub(store.memory.merge_buffers_bytes());
    let buffers = buffers.max(store.env.memory.loads.held_bytes());
    let memtables = share.max(held + store.arenas.idle_bytes()) + buffers + idle_blocks_bytes(store);
    let log = store.writing.as_ref().map_or(0, |writing| writing.log.mapped_bytes());
    let cache_bytes = store.memory.cache_bytes(memtables, log, store.files.tell_bytes());
    let cache = store.files.cache();
    if cache.capacity_bytes() as u64 != cache_bytes {
        cache.set_capacity_bytes(usize::try_from(cache_bytes).unwrap_or(usize::MAX));
    }
    if !is_lent && store.memory_arbiter.granted_bytes() < share {
        // LN2.
        store.memory_arbiter.granted_bytes.store(share, Ordering::Release);
        store.scheduler.announce_progress();
    }
    drop(one_at_a_time);
    // Evicted blocks leave gaps between others.
    esker_env::slabs::return_idle_pages();
}

/// Memory that blocks left behind between and beside those of this cache (LN7).
fn idle_blocks_bytes(store: &Store) -> u64 {
    // It depends on what other threads of the process do, on which a stepped database must not.
    if store.env.background != Background::Threads {
        return 0;
    }
    let cached = store.files.cache().used_bytes();
    let idle = esker_env::slabs::idle_bytes_beside(cached);
    store.memory.idle_blocks_bytes(idle as u64, cached as u64)
}

/// Lets open tables have their part of what is lent; otherwise the limit that holds at all times. The log
/// worker calls it before it closes tables.
pub(crate) fn limit_open_tables(store: &Store) {
    let target_bytes = if store.memory_arbiter.is_lent() {
        let log = store.writing.as_ref().map_or(0, |writing| writing.log.mapped_bytes());
        store.memory.table_metadata_bytes_beside(store.memory_arbiter.granted_bytes(), log)
    } else {
        store.memory.table_metadata_bytes()
    };
    store.files.set_target_bytes(target_bytes);
}

/// Offers the share: enables the cache-full notification, which then lends it.
pub fn offer_share(store: &Store, writing: &Writing) {
    if store.memory.fixed_cache_bytes.is_some() {
        return;
    }
    let state = writing.commit.lock();
    let is_news = !store.memory_arbiter.is_lent() && !store.memory_arbiter.is_offered.load(Ordering::Acquire);
    if !state.closed && is_news {
        // In this order: the notification finds the offer.
        store.memory_arbiter.is_offered.store(true, Ordering::Release);
        store.files.cache().arm_full_notification();
    }
}

/// Lends the offered share, with the memory of idle arenas, if the cache is full. Called by the log
/// worker after a cache-full notification.
pub(crate) fn lend_if_needed(store: &Store) {
    if !store.files.cache().was_full() {
        return;
    }
    if let Some(writing) = &store.writing
        && store.memory_arbiter.is_offered.load(Ordering::Acquire)
    {
        lend(store, writing);
        rebalance_memory(store);
    } else if store.memory_arbiter.is_lent() && store.arenas.idle_bytes() > 0 {
        rebalance_memory(store);
    }
}

/// Lends the unused part of the memtables' share, if it is large enough (LN3); the caller then rebalances
/// the memory. Otherwise the share stays offered.
pub fn lend(store: &Store, writing: &Writing) {
    let _one_at_a_time = store.memory_arbiter.moving.lock();
    let state = writing.commit.lock();
    let sealed_bytes = store.sealed_memory.bytes();
    let most_bytes = sealed_bytes + state.active_bytes + state.log.segment_bytes();
    let kept_bytes = store.memory.kept_bytes().max(most_bytes + store.memory.wal_segment_bytes);
    let is_offered = store.memory_arbiter.is_offered.swap(false, Ordering::AcqRel);
    // A writer may be waiting for a share that is being recalled.
    let is_settled = store.memory_arbiter.granted_bytes() >= store.memory.memtables_bytes;
    if !state.closed && is_offered && is_settled && kept_bytes <= store.memory.memtables_bytes / 2 {
        store.memory_arbiter.granted_bytes.store(kept_bytes, Ordering::Release);
        store.memory_arbiter.is_lent.store(true, Ordering::Release);
    }
}

/// Called under the writers' lock when the log segment is full: recalls the share. Whether memtables may
/// hold `more_bytes` already; if not, the writer waits for the log worker.
#[cold]
pub fn recall_share(store: &Store, held_bytes: u64, more_bytes: u64) -> bool {
    store.memory_arbiter.quiet_since_ns.store(store.monotonic_ns(), Ordering::Relaxed);
    store.memory_arbiter.is_offered.store(false, Ordering::Release);
    if store.memory_arbiter.is_lent.swap(false, Ordering::AcqRel) {
        store.scheduler.request(WorkerPool::Log);
    }
    // A share that is not lent imposes no limit here; other limits apply.
    store.memory_arbiter.granted_bytes() >= store.memory.memtables_bytes
        || held_bytes + more_bytes <= store.memory_arbiter.granted_bytes()
}

/// Takes the share back from the cache, if it was recalled.
pub(crate) fn reclaim_share(store: &Store) {
    if !store.memory_arbiter.is_lent() && store.memory_arbiter.granted_bytes() < store.memory.memtables_bytes
    {
        rebalance_memory(store);
    }
}

/// Whether the log may rotate to a segment of `more_bytes` for another reason than a full one, without
/// recalling the share (LN1): a delete-persistence target leaves nearly empty segments behind.
pub(crate) fn is_granted(store: &Store, held_bytes: u64, more_bytes: u64) -> bool {
    held_bytes + more_bytes <= store.memory_arbiter.granted_bytes()
}

/// Offers the share after a quiet time. Called periodically by the compaction worker.
pub(crate) fn offer_if_quiet(store: &Store) {
    let since_ns = store.memory_arbiter.quiet_since_ns.load(Ordering::Relaxed);
    let is_quiet = store.monotonic_ns().saturating_sub(since_ns) >= QUIET_TIME.as_nanos() as u64;
    if let Some(writing) = store.writing.as_ref().filter(|_| is_quiet) {
        offer_share(store, writing);
    }
}
