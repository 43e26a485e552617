//! Write control: slows writers a little, early, instead of stopping them long, late.
//!
//! # The mechanism
//! Two queues lie between writers and the tree: sealed memtables before the flush, and runs of level 0 before
//! compaction. Each has a hard limit, at which [`crate::write::make_room`] makes writers wait. A third,
//! garbage from overwrites ([`GarbageQueue`]), has none: it only costs space, and slows writers to half of
//! the merge rate at most. Between a soft limit and that one lies *pressure*, and under pressure writers are
//! admitted at a rate ([the admission rate](esker_strategy::write_control::admitted_bytes_per_second)) that
//! follows from it and from the sustained rate of background work ([`Capacity`], measured). A write that
//! comes too early is done first and delayed afterwards: it waits, outside of all locks, until it would have
//! been on time ([`crate::state::write_control::pace`]). So the queues settle half-way, a writer waits a
//! millisecond at a time. A stop occurs only when compaction gets sixteen times slower than it was; while a
//! flush hangs, the rate falls with the time that it hangs.
//!
//! # Invariants
//! * PC1: a writer without pressure reads one byte under the commit lock that it reads anyway, and no clock.
//! * PC2: no thread sleeps under a lock, nor longer than [`LONGEST_SLEEP`] at once; a sleep for the pace ends
//!   when the pressure is gone, when the database closes, and when the stall limit is over, which includes
//!   the time spent waiting for room.
//! * PC3: pressure is computed from the present shape, not counted by events: the effect of a job is seen at
//!   the next update, and nothing can be forgotten. Updates happen at installs, after seals, and by writers
//!   under pressure every [`ADAPT_INTERVAL`].
//! * PC4: a keyspace's pressure slows its own writers only; pressure of the shared memory slows all writers.
//! * PC5: where compaction has nothing to do, runs of level 0 and garbage are no pressure: waiting would not
//!   reduce them. Nor is data that overwrites nothing, however much arrives: merges would not reduce it.
//! * PC6: a write with `no_stall` never sleeps: while there is debt it is refused, and the debt that it adds
//!   is left to the writes behind it. So a thread that reads for others can write, too.
//! * PC7: a write waits for its own bytes at the present rate, and [a few milliseconds] at most for those of
//!   earlier writes, which stay in the schedule for the writes behind it. So a rate that falls at once makes
//!   many writes wait a little, and none long.
//!
//! [a few milliseconds]: crate::state::write_control::pace
//!
//! # Rejected
//! Sleeping before the write, as RocksDB does: the thread at the head of its queue sleeps for all, and a
//! small write waits for a large one's debt. Delaying by the number of runs alone: with large memtables the
//! step from one run to the next is seconds wide. In stepped mode no writer is slowed: there is no other
//! thread to wait for.

pub mod blocking_work;
pub mod stall_report;

pub use blocking_work::BlockingWork;
pub use stall_report::{KeyspaceStall, Stalls};

use crate::state::commit_state::{CommitState, PostCommit};
use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::space_use;
use crate::state::store::{Store, Writing};
use crate::state::write_control::pace::{longest_wait_ns, rescaled_ns};
use crate::state::write_control::{Queues, WriteStateChange};
use crate::write::batch::EncodedBatch;
use esker_base::Error;
use esker_build::compression_downgrade::Load;
use esker_options::Event;
use esker_strategy::write_control::{
    Capacity, GarbageQueue, MAX_SEALED, Pressure, PressureCause, UNKNOWN_BYTES_PER_SECOND,
    admitted_before_flushes, admitted_bytes_per_second, fullness_permille, memory_limits,
};
use esker_strategy::{base_bytes, upper_bytes};
use esker_version::LevelIndex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a writer under pressure uses the last update. A sixteenth of a memtable at 100 MB/s; an update
/// takes a microsecond.
pub const ADAPT_INTERVAL: Duration = Duration::from_millis(10);

/// A longer delay consists of several sleeps, with a check between them.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// The soft limit of all keyspaces' memtables together: the active ones may hold half of the memory by
/// themselves.
const SOFT_SHARED_EIGHTHS: u64 = 5;

/// The work of a writer after its commit, without the lock.
#[derive(Debug)]
pub struct AfterCommit {
    notify: bool,
    /// Keyspaces whose pressure is to be updated.
    looks: Vec<Arc<KeyspaceState>>,
    /// The longest delay that a keyspace imposes.
    delay: Option<Delay>,
}

/// The delay of a write.
#[derive(Debug)]
struct Delay {
    keyspace: Arc<KeyspaceState>,
    /// The write's bytes in this keyspace.
    bytes: u64,
    time: Duration,
}

/// Called under the commit lock, after a batch: charges it to the pace of its keyspaces.
#[cold]
pub fn after_commit(store: &Store, state: &mut CommitState, batch: &EncodedBatch<'_>) -> AfterCommit {
    let notify = state.post_commit.take(PostCommit::NOTIFY);
    let look = state.post_commit.take(PostCommit::UPDATE_PRESSURE);
    let is_paced = state.post_commit.has(PostCommit::THROTTLE);
    let mut after = AfterCommit { notify, looks: Vec::new(), delay: None };
    let now_ns = if is_paced { store.env.clock.monotonic_ns() } else { 0 };
    for share in batch.shares {
        let Ok(active) = state.active(share.keyspace) else { continue };
        if look {
            after.looks.push(Arc::clone(&active.keyspace));
        }
        let time = active.pace.charge(share.bytes, now_ns);
        if time > after.delay.as_ref().map_or(Duration::ZERO, |longest| longest.time) {
            after.delay = Some(Delay { keyspace: Arc::clone(&active.keyspace), bytes: share.bytes, time });
        }
    }
    after
}

/// Called without a lock, after a batch: notifies waiting threads, updates the pressure, and waits for
/// the throttle debt of the batch, `max_delay` at most; zero for a write that may not wait (PC6).
#[cold]
pub(crate) fn finish_commit(store: &Store, writing: &Writing, after: &AfterCommit, max_delay: Duration) {
    if after.notify {
        writing.commit_notifier.notify();
    }
    after.looks.iter().for_each(|keyspace| update_pressure(store, keyspace));
    let Some(Delay { keyspace, bytes, time }) = &after.delay else { return };
    let began_ns = store.env.clock.monotonic_ns();
    if max_delay.is_zero() {
        return update_pressure_if_due(store, keyspace, began_ns);
    }
    store.counters.delays.fetch_add(1, Ordering::Relaxed);
    let cause = keyspace.write_control.lock().state;
    wait_for_pace(store, keyspace, *bytes, *time, max_delay);
    let waited_ns = store.env.clock.monotonic_ns().saturating_sub(began_ns);
    store.counters.add_slowed(cause, waited_ns);
}

/// Waits for the delay of a write of `bytes`, at most `max_delay`.
pub fn wait_for_pace(
    store: &Store,
    keyspace: &KeyspaceState,
    bytes: u64,
    delay: Duration,
    max_delay: Duration,
) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let started_ns = store.env.clock.monotonic_ns();
    let (mut left_ns, mut now_ns) = (nanoseconds(delay), started_ns);
    // The delay grows where the rate falls meanwhile, within PC7; the time limit does not.
    let until_ns = started_ns.saturating_add(nanoseconds(max_delay));
    while left_ns > 0 && now_ns < until_ns && !store.scheduler.is_stopping() {
        let before = keyspace.write_control.admitted_bytes_per_second();
        let most_ns = left_ns.min(until_ns - now_ns);
        store.scheduler.pause(LONGEST_SLEEP.min(Duration::from_nanos(most_ns)));
        let began_ns = std::mem::replace(&mut now_ns, store.env.clock.monotonic_ns());
        left_ns = left_ns.saturating_sub(now_ns.saturating_sub(began_ns).max(1));
        update_pressure_if_due(store, keyspace, now_ns);
        let Some(after) = keyspace.write_control.admitted_bytes_per_second() else { return };
        let longest_ns = longest_wait_ns(bytes, after).saturating_sub(now_ns.saturating_sub(started_ns));
        left_ns = rescaled_ns(left_ns, before.unwrap_or(0), after).min(longest_ns);
    }
}

fn update_pressure_if_due(store: &Store, keyspace: &KeyspaceState, now_ns: u64) {
    let is_due = keyspace
        .write_control
        .try_lock()
        .is_some_and(|control| now_ns.saturating_sub(control.looked_ns) >= ADAPT_INTERVAL.as_nanos() as u64);
    if is_due {
        update_pressure(store, keyspace);
    }
}

/// Computes the pressure from the present shape and sets the keyspace's admission rate. The caller holds
/// none of the locks from `busy` on.
pub fn update_pressure(store: &Store, keyspace: &KeyspaceState) {
    if let Some(writing) = store.writing.as_ref().filter(|_| !store.scheduler.is_stepped()) {
        adapt_pace(store, writing, keyspace);
    }
}

fn adapt_pace(store: &Store, writing: &Writing, keyspace: &KeyspaceState) {
    let mut control = keyspace.write_control.lock();
    let now_ns = store.env.clock.monotonic_ns();
    control.looked_ns = now_ns;
    let queues = queues(store, keyspace, &control.capacity);
    let rate = rate_under(store, &queues, &control.capacity, now_ns);
    if let Some(change) = control.note(&queues, rate, store.time.now_ms()) {
        let WriteStateChange { from, to, worst: pressure } = change;
        store.events.emit(|| Event::StallChanged { keyspace: keyspace.event_ref(), from, to, pressure });
    }
    if rate == control.rate {
        return;
    }
    control.rate = rate;
    keyspace.write_control.admit(rate);
    writing.commit.lock().set_pace(keyspace.id, rate, now_ns);
}

fn rate_under(store: &Store, queues: &Queues, capacity: &Capacity, now_ns: u64) -> Option<u64> {
    let unfinished_for = store.sealed_memory.unfinished_for(now_ns);
    let flush = capacity.flush_bytes_per_second().unwrap_or(UNKNOWN_BYTES_PER_SECOND);
    let compaction = capacity.compaction_bytes_per_second(store.compaction_threads);
    let compaction = compaction.unwrap_or(UNKNOWN_BYTES_PER_SECOND);
    let taken = capacity.taken_bytes_per_second(store.compaction_threads);
    let taken = taken.unwrap_or(UNKNOWN_BYTES_PER_SECOND);
    let rates = [
        admitted_before_flushes(&queues.memory, flush, unfinished_for),
        admitted_bytes_per_second(queues.level0.permille, compaction),
        admitted_bytes_per_second(queues.space.permille, compaction),
        admitted_bytes_per_second(queues.garbage.permille, taken),
    ];
    rates.into_iter().flatten().min()
}

fn queues(store: &Store, keyspace: &KeyspaceState, capacity: &Capacity) -> Queues {
    Queues {
        memory: memory_pressure(store, keyspace),
        level0: level0_pressure(store, keyspace),
        space: space_pressure(store, keyspace),
        garbage: garbage_pressure(store, keyspace, capacity),
    }
}

/// The fill of the fullest queue before background work, as at a seal: from 1000 on the writer that seals
/// has to wait. Unlike pressure it begins with an empty queue, counts the active memtables as full, and
/// takes no lock of writers; used by a job at its begin.
pub(crate) fn fullest_queue_permille(store: &Store, keyspace: &KeyspaceState) -> u32 {
    let view = keyspace.view.load();
    let in_memory = store.sealed_memory.bytes() + store.memory.write_buffer_bytes;
    let runs = view.tree.version.runs_of(LevelIndex::FLUSH).len() as u64;
    let queues = [
        (in_memory, store.memory.memtables_bytes),
        (view.sealed.len() as u64, MAX_SEALED as u64),
        (runs, u64::from(keyspace.options().level0_limits().1)),
    ];
    queues.into_iter().map(|(amount, hard)| fullness_permille(amount, hard)).max().unwrap_or(0)
}

/// What the effort of compression depends on.
pub fn load(store: &Store, keyspace: &KeyspaceState) -> Load {
    Load { queues_permille: fullest_queue_permille(store, keyspace), host: store.env.pressure.read() }
}

/// Memtables before the flush. At the hard limit the active one is full and no further one may be sealed.
fn memory_pressure(store: &Store, keyspace: &KeyspaceState) -> Pressure {
    let own_sealed: u64 = keyspace.view.load().sealed.iter().map(|memtable| memtable.bytes()).sum();
    let all_sealed = store.sealed_memory.bytes();
    let free = Pressure::none(PressureCause::Memory);
    let Some(writing) = store.writing.as_ref().filter(|_| all_sealed > 0) else { return free };
    let (all_active, own_active, limit) = {
        let mut state = writing.commit.lock();
        let all_active = state.active_bytes;
        match state.active(keyspace.id) {
            Ok(active) => (all_active, active.bytes, active.limits.bytes.max(1)),
            Err(_) => return free,
        }
    };
    let (soft, hard) = memory_limits(limit, store.memory.memtables_bytes);
    let own = Pressure::new(PressureCause::Memory, own_sealed + own_active, soft, hard);
    let shared_hard = store.memory.memtables_bytes.max(hard);
    let shared_soft = shared_hard / 8 * SOFT_SHARED_EIGHTHS;
    let shared =
        Pressure::new(PressureCause::SharedMemory, all_sealed + all_active, shared_soft, shared_hard);
    if own_sealed > 0 && own.permille >= shared.permille { own } else { shared }
}

/// Runs of level 0 before compaction.
pub fn level0_pressure(store: &Store, keyspace: &KeyspaceState) -> Pressure {
    let options = keyspace.options();
    let (soft, hard) = options.level0_limits();
    let view = keyspace.view.load();
    let runs = view.tree.version.runs_of(LevelIndex::FLUSH).len() as u64;
    if hard == u32::MAX {
        return Pressure::none(PressureCause::Level0).holding(runs);
    }
    if runs <= u64::from(soft) || !shape::can_compact(store, keyspace) {
        return Pressure::new(PressureCause::Level0, 0, soft.into(), hard.into()).holding(runs);
    }
    Pressure::new(PressureCause::Level0, runs, soft.into(), hard.into())
}

/// The space target. Writers are slowed in the last tenth of the live bytes below the limit, or half of
/// the room if that is less.
fn space_pressure(store: &Store, keyspace: &KeyspaceState) -> Pressure {
    let free = Pressure::none(PressureCause::Space);
    let target = keyspace.options().max_space_amp_permille;
    let (Some(target), Some(room)) = (target, space_use::space_use_of(store, keyspace)) else {
        return free;
    };
    let of_live = |permille: u64| room.live_bytes / 1000 * permille;
    let (used, hard) = (room.used_bytes(), of_live(target));
    let soft = hard - of_live(100.min((target - 1000) / 2));
    if used <= soft || !shape::can_compact(store, keyspace) {
        return Pressure::new(PressureCause::Space, 0, soft, hard).holding(used);
    }
    Pressure::new(PressureCause::Space, used, soft, hard)
}

/// Overwritten data that merges have not dropped yet, where the strategy has a budget for it. A tree in a
/// migration is in neither strategy's form, and has no such pressure.
pub fn garbage_pressure(store: &Store, keyspace: &KeyspaceState, capacity: &Capacity) -> Pressure {
    let free = Pressure::none(PressureCause::Garbage);
    let options = keyspace.options();
    // Before the walk over all parts: most strategies have no garbage budget.
    if !GarbageQueue::is_for(&options.strategy) || options.migration().is_some() {
        return free;
    }
    let view = keyspace.view.load();
    let version = &view.tree.version;
    let sealed_bytes: u64 = view.sealed.iter().map(|memtable| memtable.bytes()).sum();
    let queue = GarbageQueue::of(
        &options.strategy,
        &shape::strategy_options(store, &options),
        base_bytes(version),
        upper_bytes(version) + sealed_bytes + view.active.memtable.payload_bytes(),
        keyspace.jobs.traffic.overwritten_share(),
        capacity,
    );
    let Some(queue) = queue else { return free };
    let permille = queue.permille();
    let is_waited_for = permille > 0 && shape::can_compact(store, keyspace);
    Pressure::new(PressureCause::Garbage, queue.bytes, queue.soft_bytes, queue.hard_bytes)
        .at_permille(if is_waited_for { permille } else { 0 })
}

/// The error of a non-blocking write that would be delayed.
#[cold]
pub(crate) fn refuse_early(
    store: &Store,
    state: &mut CommitState,
    batch: &EncodedBatch<'_>,
) -> Result<(), Error> {
    if !state.post_commit.has(PostCommit::THROTTLE) {
        return Ok(());
    }
    let now_ns = store.env.clock.monotonic_ns();
    let throttle_debt = batch.shares.iter().filter_map(|share| {
        let active = state.active(share.keyspace).ok()?;
        Some((active.pace.throttle_debt(now_ns), active.keyspace.name()))
    });
    match throttle_debt.max_by_key(|(throttle_debt, _)| *throttle_debt) {
        Some((retry_after, name)) if !retry_after.is_zero() => {
            let cause =
                format!("writes to keyspace {name:?} are slowed while flushes and compactions catch up");
            Err(Error::WouldStall { retry_after, cause: cause.into() })
        }
        _ => Ok(()),
    }
}
