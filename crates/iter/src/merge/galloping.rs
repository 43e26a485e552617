//! Galloping: walks a dominating source without consulting the loser tree; see the head of [`super`].
//!
//! # Alternation
//! Where one source can compare itself with a bound, as the large run of a tree beside memtables and small
//! runs does, the first key of the others is its bound. It leads until it reports that it is near that key or
//! behind it ([`BoundOrder`]); only when near are whole keys compared. So the order is known without the
//! loser tree, and the bound is set anew only when the first of the others has moved, or the dominant source
//! has moved to another block. The loser tree holds only the others, and is not used if there is one other. A
//! caller that is done with a key that the dominant source has as well skips its version there in the same
//! step.
//!
//! While galloping ([`MergingCursor::is_galloping`]), `other` is the first of all others, and
//! * T1. `is_leading` only if the dominant source is first, its key before that of `other`, and `bound` is
//!   what it returned for that key in its current block;
//! * T2. `is_on_bound` only if both are on versions of one key, of which the dominant source has no other.
//!
//! In the tree of the others the dominant source takes its slot as an entrant that loses against all.
//!
//! Galloping ends, and the tree over all sources is rebuilt, where the dominant source cannot compare itself
//! with the bound, or does not come first for a while.
//!
//! Rejected: one search of the block for the others' key, which gives the number of entries before it, so
//! that steps are only counted. It takes 200 instructions each time that another source interrupts, and
//! comparing costs a step four.

use super::loser_tree::Entrant;
use super::order::{EXHAUSTED, precedes, rank};
use super::{ANY, FULL_CREDIT, LEAST_CREDIT, MergingCursor, NONE, STREAK, step};
use crate::cursor::{BoundOrder, Cursor};
use esker_base::{Result, SeqNo, Tag};
use std::cmp::Ordering;

/// Entries of others in a row after which the dominant source no longer counts as dominating.
const MAX_INTERRUPTION: u32 = 2 * STREAK;

impl<C: Cursor> MergingCursor<C> {
    /// First entry after a seek, of at least two sources: gallops with the last one if it can.
    #[inline(never)]
    pub(super) fn gallop_with_last<const BACKWARD: bool>(&mut self) -> Result<()> {
        (self.dominant, self.credit) = (self.sources.len() - 1, FULL_CREDIT);
        self.seed_others::<BACKWARD>();
        self.pick_side::<BACKWARD, false>(SeqNo::MAX)?;
        if !self.is_galloping {
            self.dominant = ANY;
            if self.winner != NONE {
                self.try_galloping::<BACKWARD>();
            }
        }
        Ok(())
    }

    /// Begins to gallop: finds the first of all but the dominant source.
    fn seed_others<const BACKWARD: bool>(&mut self) {
        self.is_galloping = true;
        let (sources, skip, dominant) = (self.sources.as_slice(), self.skip, self.dominant);
        if let [_, _] = sources {
            self.other = 1 - dominant;
            return;
        }
        self.tree.clear();
        for (number, source) in sources.iter().enumerate() {
            let rank = if number == dominant { EXHAUSTED } else { rank::<C, BACKWARD>(source, skip) };
            self.tree.seed(Entrant { rank, source: number as u32 }, |a, b| {
                precedes_except::<C, BACKWARD>(dominant, sources, skip, a, b)
            });
        }
        self.other = self.tree.winner().source as usize;
    }

    /// Finds the first of the others after the previous one has moved.
    #[inline(always)]
    fn replay_others<const BACKWARD: bool>(&mut self) {
        let (sources, skip, dominant) = (self.sources.as_slice(), self.skip, self.dominant);
        if let [_, _] = sources {
            return;
        }
        let rank = rank::<C, BACKWARD>(&sources[self.other], skip);
        let first = self.tree.replay(Entrant { rank, source: self.other as u32 }, |a, b| {
            precedes_except::<C, BACKWARD>(dominant, sources, skip, a, b)
        });
        self.other = first.source as usize;
    }

    /// Starts to gallop with the winner, if it can; off after too many failed attempts.
    #[inline(never)]
    pub(super) fn try_galloping<const BACKWARD: bool>(&mut self) {
        let other = self.first_of_others::<BACKWARD>();
        let bound = other.map(|other| self.sources[other].key());
        let (bound_order, bound) = self.sources[self.winner].bound_order::<BACKWARD>(bound);
        if bound_order == BoundOrder::Unknown {
            self.credit -= 1;
            if self.credit < LEAST_CREDIT {
                self.dominant = NONE;
            }
            return;
        }
        (self.dominant, self.streak) = (self.winner, 0);
        self.seed_others::<BACKWARD>();
        // It comes first, so it is before the others' key or on it.
        self.bound = bound;
        self.is_leading = self.compare_in_full::<BACKWARD>(bound_order) == Ordering::Less;
    }

    /// The source of the first entry of all but the winner; `None` if all others are exhausted.
    fn first_of_others<const BACKWARD: bool>(&self) -> Option<usize> {
        if let [_, _] = self.sources.as_slice() {
            return Some(1 - self.winner).filter(|other| self.sources[*other].is_valid());
        }
        let others = (0..self.sources.len()).filter(|other| *other != self.winner);
        let ranked = others.map(|other| (rank::<C, BACKWARD>(&self.sources[other], self.skip), other));
        let is_first = |a: &(u64, usize), b: &(u64, usize)| {
            a.0 < b.0
                || a.0 == b.0 && precedes::<C, BACKWARD>(&self.sources, self.skip, a.1 as u32, b.1 as u32)
        };
        let first = ranked.reduce(|first, other| if is_first(&other, &first) { other } else { first });
        first.map(|(_, other)| other).filter(|other| self.sources[*other].is_valid())
    }

    /// Advances while galloping, where the dominant source does not lead to a loaded entry.
    #[inline(never)]
    pub(super) fn step_galloping<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        seqno: SeqNo,
    ) -> Result<()> {
        let (winner, dominant) = (self.winner, self.dominant);
        // Invalid until all is done, so that an error on the way leaves it so.
        (self.winner, self.is_leading) = (NONE, false);
        step::<C, BACKWARD, DONE_WITH_KEY>(&mut self.sources[winner], seqno)?;
        if winner != dominant {
            self.replay_others::<BACKWARD>();
            if DONE_WITH_KEY && !BACKWARD && self.is_on_bound {
                self.skip_hidden_versions()?;
            }
        }
        self.pick_side::<BACKWARD, DONE_WITH_KEY>(seqno)
    }

    /// Skips versions of a finished key in all sources: a hot key is in several of them.
    #[inline(always)]
    fn skip_hidden_versions(&mut self) -> Result<()> {
        while self.sources.len() > 2 && self.other_is_on_dominant() {
            self.sources[self.other].next_key()?;
            self.replay_others::<false>();
        }
        self.sources[self.dominant].next_key()
    }

    #[inline(always)]
    fn other_is_on_dominant(&self) -> bool {
        let (dominant, other) = (&self.sources[self.dominant], &self.sources[self.other]);
        other.is_valid() && dominant.head(self.skip) == other.head(self.skip) && dominant.key() == other.key()
    }

    /// Decides which side comes first after either has moved.
    #[inline(always)]
    fn pick_side<const BACKWARD: bool, const DONE_WITH_KEY: bool>(&mut self, seqno: SeqNo) -> Result<()> {
        let (dominant, other) = (&self.sources[self.dominant], &self.sources[self.other]);
        self.is_on_bound = false;
        if !dominant.is_valid() {
            self.winner = if other.is_valid() { self.other } else { NONE };
            self.count_interruption::<BACKWARD>();
            return Ok(());
        }
        let bound = if other.is_valid() { Some(other.key()) } else { None };
        let (bound_order, bound) = dominant.bound_order::<BACKWARD>(bound);
        match bound_order {
            BoundOrder::Before => {
                (self.winner, self.is_leading, self.bound, self.streak) = (self.dominant, true, bound, 0);
                Ok(())
            }
            BoundOrder::Unknown => {
                self.end_galloping::<BACKWARD>();
                Ok(())
            }
            met => {
                self.bound = bound;
                self.meet_bound::<BACKWARD, DONE_WITH_KEY>(met, seqno)
            }
        }
    }

    /// Handles a dominant source that is near the first of the others, or behind it.
    #[inline(never)]
    pub(super) fn meet_bound<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        bound_order: BoundOrder,
        seqno: SeqNo,
    ) -> Result<()> {
        let order = self.compare_in_full::<BACKWARD>(bound_order);
        (self.is_leading, self.is_on_bound) = (order == Ordering::Less, order == Ordering::Equal);
        match order {
            Ordering::Less => {
                (self.winner, self.streak) = (self.dominant, 0);
                Ok(())
            }
            Ordering::Greater => {
                self.winner = self.other;
                self.count_interruption::<BACKWARD>();
                Ok(())
            }
            Ordering::Equal => self.settle_versions::<BACKWARD, DONE_WITH_KEY>(seqno),
        }
    }

    /// How the dominant source's key compares with the others' first, given its own report.
    #[inline(always)]
    fn compare_in_full<const BACKWARD: bool>(&self, bound_order: BoundOrder) -> Ordering {
        let (dominant, other) = (&self.sources[self.dominant], &self.sources[self.other]);
        match bound_order {
            BoundOrder::Before => Ordering::Less,
            BoundOrder::Behind => Ordering::Greater,
            BoundOrder::Near | BoundOrder::Unknown if !other.is_valid() => Ordering::Less,
            BoundOrder::Near | BoundOrder::Unknown => {
                let order = dominant.key().cmp(other.key());
                if BACKWARD { order.reverse() } else { order }
            }
        }
    }

    /// Counts an entry of another source.
    #[inline(always)]
    fn count_interruption<const BACKWARD: bool>(&mut self) {
        self.streak += 1;
        if self.streak == MAX_INTERRUPTION {
            self.dominant = NONE;
            self.end_galloping::<BACKWARD>();
        }
    }

    /// Both are on one key: the newer first, backwards the older, unless the caller is done with it.
    #[inline(always)]
    fn settle_versions<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        seqno: SeqNo,
    ) -> Result<()> {
        let (dominant, other) = (self.dominant, self.other);
        let (own, others) = (self.sources[dominant].tag(), self.sources[other].tag());
        let is_newer = own > others || own == others && dominant < other;
        if BACKWARD && DONE_WITH_KEY && !is_newer && others <= Tag::visible_at(seqno) {
            (self.winner, self.is_on_bound) = (NONE, false);
            self.sources[dominant].prev_key(seqno)?;
            self.winner = other;
            return Ok(());
        }
        self.winner = if is_newer == BACKWARD { other } else { dominant };
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn end_galloping<const BACKWARD: bool>(&mut self) {
        (self.is_leading, self.is_on_bound, self.is_galloping) = (false, false, false);
        (self.second_rank, self.second_tail, self.streak) = (0, 0, 0);
        self.seed_tree::<BACKWARD>();
    }
}

/// As [`precedes`], where `dominant` is not compared and comes last.
#[inline(never)]
fn precedes_except<C: Cursor, const BACKWARD: bool>(
    dominant: usize,
    sources: &[C],
    skip: usize,
    a: u32,
    b: u32,
) -> bool {
    b as usize == dominant || a as usize != dominant && precedes::<C, BACKWARD>(sources, skip, a, b)
}
