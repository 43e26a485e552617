//! Garbage queue: data that newer data has overwritten and merges have not dropped yet, as a reason to slow
//! writers.
//!
//! # Why
//! Level 0 says little about a tree whose runs are merged on into tiers: with writers faster than merges the
//! bytes above the last level grow, while level 0 stays as it is, and the disk fills. So the strategy with a
//! garbage budget slows its writers down when the budget is exceeded.
//!
//! # What is counted
//! Bytes above the last level and in memtables, as far as they overwrite something. The overwriting share is
//! taken from the last merges: new keys are growth, however many, and delay no writer; nor does anything
//! before the first merge. Memtables count from the first byte on, so that the queue grows and shrinks
//! smoothly instead of by whole memtables, which gives a steady pace.
//!
//! # The limits
//! Half-way between the limits writers are as fast as merges. At that point the most that lies above the last
//! level, just after a flush, is the strategy's target (a quarter of the last level by default). When a flush
//! ends, memory holds in addition what was written during it: a share of a memtable that follows from the
//! rates of flushes and merges. The width covers a memtable and a part of the budget, because the queue must
//! not be narrower than what one job takes out of it at once (see the [admission
//! rate](super::admitted_bytes_per_second)).
//!
//! The floor of the admission rate is higher here, [`MOST_PRESSURE_PERMILLE`]: garbage only costs space, so
//! writers keep half of what merges sustain, and the queue shrinks at that rate.
//!
//! # Rejected
//! Limits on the bytes of tables alone: each flush is a step of a memtable, and so is each change of the
//! pace. Limits at the budget: merges that keep up leave a flush more than the budget, and with one that is
//! being filled writers were delayed while merges were idle. Flushed over written bytes of compactions as a
//! measure of speed: merges that fall behind write little for each flushed byte, and seem to keep up with
//! any.

use super::admission_rate::pressure_permille;
use super::capacity::Capacity;
use crate::garbage_budget;
use crate::kind::Strategy;
use crate::options::StrategyOptions;

/// The most pressure that garbage exerts: writers keep half of what merges sustain.
pub const MOST_PRESSURE_PERMILLE: u32 = 750;

/// The width of the queue: a memtable, and one in so many of the budget.
const WIDTH_DIVISOR: u64 = 6;

/// How much garbage a tree has, and how much it may have.
///
/// ```
/// use esker_strategy::{Strategy, StrategyOptions};
/// use esker_strategy::write_control::{Capacity, GarbageQueue};
///
/// let options = StrategyOptions { memtable_bytes: 16 << 20, ..StrategyOptions::default() };
/// let of = |newer_bytes, share| {
///     let (strategy, capacity) = (Strategy::default(), Capacity::default());
///     GarbageQueue::of(&strategy, &options, 1000 << 20, newer_bytes, Some(share), &capacity)
/// };
/// // 1000 MiB at rest; of 260 MiB above it, in tables and memory, nine tenths replace something.
/// let queue = of(260 << 20, 0.9).unwrap();
/// assert_eq!([queue.bytes, queue.soft_bytes, queue.hard_bytes].map(|bytes| bytes >> 20), [234, 206, 254]);
/// assert!((550..600).contains(&queue.permille()));
/// assert_eq!(of(260 << 20, 0.0).unwrap().permille(), 0, "new keys");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageQueue {
    /// Bytes overwritten by newer data and not dropped yet.
    pub bytes: u64,
    /// The soft limit, from which writers are slowed.
    pub soft_bytes: u64,
    /// The hard limit, where the admission rate would reach zero; the floor prevents that.
    pub hard_bytes: u64,
}

impl GarbageQueue {
    /// Whether a strategy has a budget for garbage.
    pub fn is_for(strategy: &Strategy) -> bool {
        *strategy == Strategy::Partitioned
    }

    /// The queue for the bytes of the base and of newer data in tables and memory. A share of the newer bytes
    /// overwrites something, if merges have measured it. `None` where garbage has no budget of its own: in
    /// strategies that merge by other rules, with an empty last level, and in stores so small that one
    /// memtable exceeds their share of garbage.
    pub fn of(
        strategy: &Strategy,
        options: &StrategyOptions,
        base_bytes: u64,
        newer_bytes: u64,
        replaced_share: Option<f64>,
        capacity: &Capacity,
    ) -> Option<GarbageQueue> {
        let memtable_bytes = options.memtable_bytes;
        let is_small = garbage_budget::garbage_share_bytes(options, base_bytes) < memtable_bytes.max(1);
        if !GarbageQueue::is_for(strategy) || is_small {
            return None;
        }
        let budget = garbage_budget::garbage_budget_bytes(options, base_bytes);
        let width = memtable_bytes.saturating_add(budget / WIDTH_DIVISOR);
        let while_flushing = (memtable_bytes as f64 * capacity.taken_while_flushing()) as u64;
        let middle = garbage_budget::garbage_target_bytes(options, base_bytes).saturating_add(while_flushing);
        let soft_bytes = middle.saturating_sub(width / 2);
        let share = replaced_share.unwrap_or(0.0).clamp(0.0, 1.0);
        Some(GarbageQueue {
            bytes: (newer_bytes as f64 * share) as u64,
            soft_bytes,
            hard_bytes: soft_bytes.saturating_add(width),
        })
    }

    /// The pressure between the limits, in 1/1000, at most [`MOST_PRESSURE_PERMILLE`].
    pub fn permille(&self) -> u32 {
        pressure_permille(self.bytes, self.soft_bytes, self.hard_bytes).min(MOST_PRESSURE_PERMILLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    fn of(strategy: &str, memtable: u64, base: u64, newer: u64, share: Option<f64>) -> Option<GarbageQueue> {
        let options = StrategyOptions { memtable_bytes: memtable * MIB, ..StrategyOptions::default() };
        let (strategy, capacity) = (strategy.parse().unwrap(), Capacity::default());
        GarbageQueue::of(&strategy, &options, base * MIB, newer * MIB, share, &capacity)
    }

    #[test]
    fn data_not_known_to_overwrite_is_no_garbage() {
        let permille = |newer, share| of("partitioned", 16, 1000, newer, share).unwrap().permille();
        assert_eq!(permille(100_000, None), 0, "no merge has told yet");
        assert_eq!(permille(100_000, Some(0.0)), 0, "new keys");
        assert_eq!(permille(200, Some(1.0)), 0, "the budget, and not a flush");
        assert_eq!(permille(2000, Some(0.1)), 0, "most of it is growth");
        let mut last = 0;
        for newer in (220..300).step_by(10) {
            let now = permille(newer, Some(1.0));
            assert!(now > last || now == MOST_PRESSURE_PERMILLE, "{newer}: {now} after {last}");
            last = now;
        }
        assert_eq!(permille(100_000, Some(1.0)), MOST_PRESSURE_PERMILLE);
    }

    #[test]
    fn only_strategies_with_a_budget_have_a_queue() {
        for other in ["none", "leveled:10", "tiered:4", "lazy-leveled:4", "partial:10", "fifo:1GiB"] {
            assert_eq!(of(other, 16, 1000, 900, Some(1.0)), None, "{other}");
        }
        assert_eq!(of("partitioned", 16, 0, 900, Some(1.0)), None, "nothing rests");
        assert_eq!(of("partitioned", 64, 330, 900, Some(1.0)), None, "a memtable is more than the share");
        assert!(of("partitioned", 64, 340, 900, Some(1.0)).is_some());
    }

    /// Half-way, tables are within 1.25 of the last level after a flush, and merges still run before the
    /// next.
    #[test]
    fn half_way_is_within_the_room_and_beyond_the_budget() {
        for (memtable, base) in [(4, 1000), (16, 1000), (16, 100_000), (64, 1163), (64, 100_000)] {
            let queue = of("partitioned", memtable, base, 0, None).unwrap();
            let middle = u64::midpoint(queue.soft_bytes, queue.hard_bytes);
            let options = StrategyOptions { memtable_bytes: memtable * MIB, ..StrategyOptions::default() };
            let budget = garbage_budget::garbage_budget_bytes(&options, base * MIB);
            assert!(middle * 4 <= base * MIB, "{memtable} {base}: {queue:?}");
            assert!(middle - memtable * MIB > budget, "{memtable} {base}: {queue:?}, {budget}");
        }
    }

    /// Data written during a flush is in memory when its table is installed.
    #[test]
    fn slow_flushes_leave_more_in_memory() {
        let (strategy, options) = (Strategy::default(), StrategyOptions::default());
        let mut capacity = Capacity::default();
        let soft = |capacity: &Capacity| {
            GarbageQueue::of(&strategy, &options, 1 << 30, 0, None, capacity).unwrap().soft_bytes
        };
        let unknown = soft(&capacity);
        capacity.note_flush(200 * MIB, 200 * MIB, Duration::from_secs(1));
        capacity.note_compaction(300 * MIB, 100 * MIB, Duration::from_secs(1));
        let more = (soft(&capacity) - unknown) as f64 / options.memtable_bytes as f64;
        assert!((more - 0.5).abs() < 0.01, "{more}");
    }
}
