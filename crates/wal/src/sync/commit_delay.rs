//! Commit delay: how long a flush waits for further callers to join its group.
//!
//! A flush that ends releases its whole group, and in a closed loop each caller returns after a moment. A
//! caller that arrived too late for that flush would lead the next one at once, without them: two half groups
//! alternate, each waits through the other's flush, and a flush carries half of what it could. Instead the
//! next flush waits until as many callers have queued as the last round had, for at most half the time of a
//! typical flush. PostgreSQL's `commit_delay` is the same mechanism with a configured time.
//!
//! The delay does not always help: callers that arrive at random do not return soon, and where other work
//! keeps all processors busy, a group that sleeps as one resumes late, while of two halves one is awake. So
//! both modes are measured in blocks of rounds, and the one that served more callers per second is used.
//!
//! * GA1: no flush waits for more callers than the round before had, so a lone caller never waits.
//! * GA2: a delay ends after its limit at the latest, whichever callers arrive.
//! * GA3: of 16 blocks one tries the mode that served fewer; a block of useless delays costs half as much as
//!   its flushes.

use std::time::Duration;

/// Longest delay of a flush. On a slow device half a flush would be too long for callers that wait in vain.
const MAX_DELAY_NS: u64 = 2_000_000;
/// Each flush moves the estimate of a typical flush up or down by this part.
const STEP: u64 = 16;
/// Rounds of a block: enough for callers to settle into the pattern that a mode leads to.
const BLOCK_ROUNDS: u32 = 32;
/// One block of this many tries the mode that served fewer callers.
const TRY_EVERY: u32 = 16;
/// Weight of a block in the mean: one part of this many.
const MEAN_SHARE: u64 = 4;

/// Statistics of the last rounds, each from the end of a flush with a caller queued to its own flush.
#[derive(Debug)]
pub(super) struct CommitDelay {
    /// Callers in the last round: those that its flush served, and those queued by its end.
    last_round: u32,
    /// Duration of a typical flush: an approximate median, because a few flushes wait for the processor or
    /// for other users of the device, twenty times as long as they take, and a mean follows those.
    typical_flush_ns: u64,
    /// Whether a caller watches the timer.
    is_timed: bool,
    round_began_ns: u64,
    block: Block,
    /// Callers served per second of rounds, without and with delays; zero if not known.
    served_per_second: [u64; 2],
    blocks: u32,
    max_delay_ns: u64,
}

#[derive(Debug)]
struct Block {
    waits: bool,
    rounds: u32,
    callers: u64,
    took_ns: u64,
}

impl Block {
    fn new(waits: bool) -> Block {
        Block { waits, rounds: 0, callers: 0, took_ns: 0 }
    }
}

impl CommitDelay {
    pub(super) fn new() -> CommitDelay {
        CommitDelay {
            last_round: 0,
            typical_flush_ns: 0,
            is_timed: false,
            round_began_ns: 0,
            block: Block::new(true),
            served_per_second: [0; 2],
            blocks: 0,
            max_delay_ns: MAX_DELAY_NS,
        }
    }

    /// How long to delay the flush with this many callers queued, if at all.
    pub(super) fn limit(&self, queued: u32) -> Option<Duration> {
        let limit_ns = (self.typical_flush_ns / 2).min(self.max_delay_ns);
        let is_worth_it = queued < self.last_round && self.block.waits && limit_ns > 0;
        is_worth_it.then(|| Duration::from_nanos(limit_ns))
    }

    pub(super) fn is_timed(&self) -> bool {
        self.is_timed
    }

    pub(super) fn start_timer(&mut self) {
        self.is_timed = true;
    }

    /// The first caller of a round is queued.
    pub(super) fn round_begins(&mut self, now_ns: u64) {
        self.round_began_ns = self.round_began_ns.max(now_ns);
    }

    pub(super) fn claimed(&mut self) {
        self.is_timed = false;
    }

    /// A flush has ended after `took_ns`; it served `group` callers, and `queued` have queued meanwhile.
    pub(super) fn ended(&mut self, group: u32, queued: u32, took_ns: u64, now_ns: u64) {
        self.last_round = group + queued;
        self.learn_typical(took_ns);
        if self.last_round > 1 {
            self.block.rounds += 1;
            self.block.callers += u64::from(group);
            self.block.took_ns += now_ns.saturating_sub(self.round_began_ns);
        }
        self.round_began_ns = now_ns;
        if self.block.rounds == BLOCK_ROUNDS {
            self.end_block();
        }
    }

    fn learn_typical(&mut self, took_ns: u64) {
        let usual_ns = self.typical_flush_ns;
        self.typical_flush_ns = match took_ns {
            _ if usual_ns == 0 => took_ns,
            longer if longer > usual_ns => usual_ns + usual_ns.div_ceil(STEP),
            shorter if shorter < usual_ns => usual_ns - usual_ns / STEP,
            same => same,
        };
    }

    fn end_block(&mut self) {
        let served_per_second = self.block.callers.saturating_mul(1_000_000_000) / self.block.took_ns.max(1);
        let mean = &mut self.served_per_second[usize::from(self.block.waits)];
        *mean = if *mean == 0 {
            served_per_second
        } else {
            *mean - *mean / MEAN_SHARE + served_per_second / MEAN_SHARE
        };
        self.blocks = self.blocks.wrapping_add(1);
        let waiting_is_better = self.served_per_second[1] > self.served_per_second[0];
        let tries_other = self.blocks.is_multiple_of(TRY_EVERY) || self.served_per_second.contains(&0);
        self.block = Block::new(waiting_is_better != tries_other);
    }

    /// For tests that wait as long as it takes.
    #[cfg(all(test, not(loom)))]
    pub(super) fn set_max_delay(&mut self, longest: Duration) {
        self.max_delay_ns = longest.as_nanos() as u64;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const FLUSH_NS: u64 = 130_000;

    fn after_a_round_of(last_round: u32) -> CommitDelay {
        let mut commit_delay = CommitDelay::new();
        commit_delay.ended(last_round, 0, FLUSH_NS, FLUSH_NS);
        commit_delay
    }

    /// Percentage of rounds with a delay, where `served(waits)` gives the callers served and the time taken.
    fn waiting_percent(last_round: u32, served: impl Fn(bool) -> (u32, u64)) -> u32 {
        const ROUNDS: u32 = 100 * BLOCK_ROUNDS;
        let (mut commit_delay, mut now_ns, mut waiting) = (after_a_round_of(last_round), FLUSH_NS, 0);
        for _ in 0..ROUNDS {
            commit_delay.round_begins(now_ns);
            let waits = commit_delay.limit(1).is_some();
            waiting += u32::from(waits);
            let (group, took_ns) = served(waits);
            now_ns += took_ns;
            commit_delay.claimed();
            commit_delay.ended(group, last_round - group, FLUSH_NS, now_ns);
        }
        waiting * 100 / ROUNDS
    }

    #[test]
    fn a_lone_caller_never_waits() {
        assert_eq!(waiting_percent(1, |_| (1, FLUSH_NS)), 0);
    }

    #[test]
    fn a_delay_lasts_at_most_half_a_typical_flush() {
        let commit_delay = after_a_round_of(8);
        assert_eq!(commit_delay.limit(1), Some(Duration::from_nanos(FLUSH_NS / 2)));
        assert!(commit_delay.limit(7).is_some());
        assert_eq!(commit_delay.limit(8), None);
    }

    #[test]
    fn no_delay_exceeds_the_maximum() {
        let mut commit_delay = CommitDelay::new();
        commit_delay.ended(2, 0, 60_000_000_000, 60_000_000_000);
        assert_eq!(commit_delay.limit(1), Some(Duration::from_nanos(MAX_DELAY_NS)));
    }

    #[test]
    fn rare_slow_flushes_do_not_lengthen_delays() {
        let mut commit_delay = after_a_round_of(2);
        for round in 0..1000 {
            commit_delay.learn_typical(if round % 4 == 0 { 100 * FLUSH_NS } else { FLUSH_NS });
        }
        assert!(commit_delay.limit(1).unwrap() < Duration::from_nanos(FLUSH_NS));
        for _ in 0..1000 {
            commit_delay.learn_typical(3 * FLUSH_NS);
        }
        assert!(commit_delay.limit(1).unwrap() > Duration::from_nanos(FLUSH_NS));
    }

    #[test]
    fn the_mode_that_serves_more_callers_is_used() {
        let closed_loop = |waits| if waits { (8, FLUSH_NS + 50_000) } else { (4, FLUSH_NS) };
        assert!((90..100).contains(&waiting_percent(8, closed_loop)));
        let at_random = |waits| (1, FLUSH_NS + if waits { FLUSH_NS / 2 } else { 0 });
        assert!((1..10).contains(&waiting_percent(2, at_random)));
        let busy_processors = |waits| if waits { (8, 4_000_000) } else { (4, FLUSH_NS) };
        assert!((1..10).contains(&waiting_percent(8, busy_processors)));
    }

    #[test]
    fn time_without_callers_does_not_count() {
        let mut commit_delay = CommitDelay::new();
        for round in 1..=u64::from(BLOCK_ROUNDS) {
            let began_ns = round * 1_000_000_000;
            commit_delay.round_begins(began_ns);
            commit_delay.ended(2, 0, FLUSH_NS, began_ns + 2_000_000);
        }
        assert_eq!(commit_delay.served_per_second[1], 1_000, "two callers in two milliseconds");
    }
}
