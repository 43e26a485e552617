//! Statistics of execution: commands of a turn, groups and what cut them, and runs of scripts.
//!
//! As the [counters of commands](super::counters) they have one writer, the thread that was given them (OB2),
//! so counting needs no locked instruction. They begin with the server, and CONFIG RESETSTAT leaves them.

use super::counters::add;
use super::histogram::{Counts, Histogram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds of the steps in which commands of a turn are counted: powers of two, to what a full buffer of
/// short commands holds.
pub const TURN_STEPS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Why a group of commands ended before the requests of its client did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupCut {
    /// A command shares no group with others.
    Alone,
    /// The keys of the next command are in use by another thread.
    BusyKeys,
    /// It has as many commands or bytes of changes as a group may have.
    Full,
    /// The client must take replies first.
    Output,
    /// Another client waits for a key that it changed.
    AwaitedKey,
    /// A pause holds the next command back.
    Pause,
}

impl GroupCut {
    /// All of them.
    const ALL: [Self; 6] =
        [Self::Alone, Self::BusyKeys, Self::Full, Self::Output, Self::AwaitedKey, Self::Pause];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::BusyKeys => "busy keys",
            Self::Full => "full",
            Self::Output => "output",
            Self::AwaitedKey => "awaited key",
            Self::Pause => "pause",
        }
    }
}

/// Counters of one thread.
#[derive(Debug, Default)]
pub(crate) struct TurnCounters {
    groups: AtomicU64,
    cuts: [AtomicU64; GroupCut::ALL.len()],
    /// Turns by the steps of their commands, those above all steps at the end.
    turns: [AtomicU64; TURN_STEPS.len() + 1],
    /// Commands of all turns.
    turn_commands: AtomicU64,
    scripts: OnceLock<Box<Histogram>>,
    script_ns: AtomicU64,
    script_reruns: AtomicU64,
}

impl TurnCounters {
    /// Counts a group whose batch is written.
    pub(crate) fn count_group(&self, cut: Option<GroupCut>) {
        add(&self.groups, 1);
        if let Some(cut) = cut {
            add(&self.cuts[cut as usize], 1);
        }
    }

    /// Counts a turn in which so many commands were executed.
    pub(crate) fn count_turn(&self, commands: u64) {
        let step = TURN_STEPS.iter().position(|step| commands <= *step);
        add(&self.turns[step.unwrap_or(TURN_STEPS.len())], 1);
        add(&self.turn_commands, commands);
    }

    /// Counts a run of a script or function, and whether it must run once more.
    pub(crate) fn count_script(&self, nanos: u64, runs_again: bool) {
        self.scripts.get_or_init(Box::default).add(nanos);
        add(&self.script_ns, nanos);
        if runs_again {
            add(&self.script_reruns, 1);
        }
    }
}

/// The sums of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnTotals {
    pub(crate) groups: u64,
    cuts: [u64; GroupCut::ALL.len()],
    turns: [u64; TURN_STEPS.len() + 1],
    pub(crate) turn_commands: u64,
    pub(crate) scripts: Counts,
    pub(crate) script_ns: u64,
    pub(crate) script_reruns: u64,
}

impl TurnTotals {
    /// Adds the counters of a thread.
    pub(super) fn add(&mut self, thread: &TurnCounters) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.groups += read(&thread.groups);
        self.cuts.iter_mut().zip(&thread.cuts).for_each(|(sum, cut)| *sum += read(cut));
        self.turns.iter_mut().zip(&thread.turns).for_each(|(sum, turns)| *sum += read(turns));
        self.turn_commands += read(&thread.turn_commands);
        if let Some(histogram) = thread.scripts.get() {
            histogram.add_to(&mut self.scripts);
        }
        self.script_ns += read(&thread.script_ns);
        self.script_reruns += read(&thread.script_reruns);
    }

    /// Causes of cuts, and how many groups each has cut.
    pub(crate) fn cuts(&self) -> Vec<(&'static str, u64)> {
        GroupCut::ALL.into_iter().map(GroupCut::name).zip(self.cuts).collect()
    }

    /// How many turns had as many commands as each of [`TURN_STEPS`] at most, and how many there were.
    pub(crate) fn turns(&self) -> ([u64; TURN_STEPS.len()], u64) {
        let mut below = [0; TURN_STEPS.len()];
        let mut passed = 0;
        for (below, turns) in below.iter_mut().zip(self.turns) {
            passed += turns;
            *below = passed;
        }
        (below, passed + self.turns[TURN_STEPS.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_counted_by_their_steps_and_cuts_by_their_names() {
        let thread = TurnCounters::default();
        for commands in [1, 2, 3, 1024, 1025] {
            thread.count_turn(commands);
        }
        for (number, cut) in GroupCut::ALL.into_iter().enumerate() {
            (0..=number).for_each(|_| thread.count_group(Some(cut)));
        }
        thread.count_group(None);
        let mut totals = TurnTotals::default();
        totals.add(&thread);
        totals.add(&thread);
        let (below, turns) = totals.turns();
        assert_eq!((below[0], below[1], below[2], below[9], below[10], turns), (2, 4, 6, 6, 8, 10));
        assert_eq!(totals.turn_commands, 2 * 2_055);
        assert_eq!(totals.groups, 2 * 22);
        let counts: Vec<u64> = totals.cuts().iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 4, 6, 8, 10, 12]);
    }
}
