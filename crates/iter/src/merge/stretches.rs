//! Walking over sources that know how far they go on: see the head of [`super`].
//!
//! # Turns
//! Where one source tells of stretches, as the large run of a tree beside memtables and small runs does, one search of it settles everything: how many
//! of its entries come before the first of the others, and whether what follows has that one's key or lies behind it. So who comes first is known
//! without a comparison. The tournament is one of the others alone, and there is none if there is one other. Whoever is done with a key that the
//! dominant source has as well passes its version there in the same step.
//!
//! While turns are taken ([`Merge::in_turns`]), `other` is the first of all others, and
//! * either the dominant source is first and `stretch` counts its entries, the last of which `then` follows by the other's present key;
//! * or the other is first, and `then` tells of the dominant one's present entry: [`Then::OnBound`] only if it is another version of the key.
//!
//! In the tournament of the others the dominant source stands in its place, as one that loses against all.
//!
//! Turns end, and the tournament of all begins anew, where the dominant source does not know, is interrupted too often, or does not get its turn.

use super::tournament::Entrant;
use super::{ANY, EXHAUSTED, FULL_CREDIT, LEAST_CREDIT, Merge, NONE, STREAK, precedes, rank, step};
use crate::cursor::{Cursor, Lead, Then};
use esker_base::{Result, SeqNo, Tag};

/// Entries of others in a row after which the dominant source is taken not to dominate.
const LONGEST_TURN: u32 = 2 * STREAK;

impl<C: Cursor> Merge<C> {
    /// Finds the first after a seek, of at least two sources: by taking turns with the last one, if it tells of stretches.
    #[inline(never)]
    pub(super) fn begin_with_last<const BACKWARD: bool>(&mut self) -> Result<()> {
        (self.dominant, self.credit) = (self.sources.len() - 1, FULL_CREDIT);
        self.seed_others::<BACKWARD>();
        self.give_turn::<BACKWARD, false>(SeqNo::MAX)?;
        if !self.in_turns {
            self.dominant = ANY;
            if self.winner != NONE {
                self.look_ahead::<BACKWARD>();
            }
        }
        Ok(())
    }

    /// Begins to take turns: finds the first of all but the dominant source.
    fn seed_others<const BACKWARD: bool>(&mut self) {
        self.in_turns = true;
        let (sources, skip, dominant) = (self.sources.as_slice(), self.skip, self.dominant);
        if let [_, _] = sources {
            self.other = 1 - dominant;
            return;
        }
        self.tree.clear();
        for (number, source) in sources.iter().enumerate() {
            let rank = if number == dominant { EXHAUSTED } else { rank::<C, BACKWARD>(source, skip) };
            self.tree.seed(Entrant { rank, source: number as u32 }, |a, b| {
                precedes_but_for::<C, BACKWARD>(dominant, sources, skip, a, b)
            });
        }
        self.other = self.tree.winner().source as usize;
    }

    /// Finds the first of the others once that which was has moved.
    #[inline(always)]
    fn replay_others<const BACKWARD: bool>(&mut self) {
        let (sources, skip, dominant) = (self.sources.as_slice(), self.skip, self.dominant);
        if let [_, _] = sources {
            return;
        }
        let rank = rank::<C, BACKWARD>(&sources[self.other], skip);
        let first = self.tree.replay(Entrant { rank, source: self.other as u32 }, |a, b| {
            precedes_but_for::<C, BACKWARD>(dominant, sources, skip, a, b)
        });
        self.other = first.source as usize;
    }

    /// Asks the winner how far it goes on before the first of the others. A question costs as much as a few steps through the tree, so who is asked in
    /// vain too often is not asked again before it dominates.
    #[inline(never)]
    pub(super) fn look_ahead<const BACKWARD: bool>(&mut self) {
        let bound = self.first_of_others::<BACKWARD>().map(|other| self.sources[other].key());
        let lead = self.sources[self.winner].stretch::<BACKWARD>(bound);
        self.stretch = lead.entries;
        if lead.entries > 0 {
            self.dominant = self.winner;
        }
        self.value_lead(lead);
        if lead.entries > 0 && self.dominant == self.winner {
            self.then = lead.then;
            self.seed_others::<BACKWARD>();
        }
    }

    /// Keeps count of what questions are worth.
    #[inline]
    fn value_lead(&mut self, lead: Lead) {
        if lead.entries > 0 {
            self.credit = self.credit / 2 + lead.entries;
        } else {
            self.credit -= 1;
        }
        if self.credit < LEAST_CREDIT {
            self.dominant = NONE;
        }
    }

    /// The source that stands on the first entry of all but the winner; `None` if all others are exhausted.
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

    /// Moves on where turns are taken and the dominant one is not within its stretch.
    #[inline(never)]
    pub(super) fn take_turn<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        seqno: SeqNo,
    ) -> Result<()> {
        let (winner, dominant) = (self.winner, self.dominant);
        if self.stretch == 1 && self.then != Then::Unknown {
            self.stretch = 0;
            self.sources[dominant].step_in_stretch::<BACKWARD>();
            self.winner = self.other;
            if self.then == Then::OnBound {
                return self.settle_versions::<BACKWARD, DONE_WITH_KEY>(seqno);
            }
            return Ok(());
        }
        self.stretch = 0;
        // Invalid until all is done, so that an error on the way leaves it so.
        self.winner = NONE;
        step::<C, BACKWARD, DONE_WITH_KEY>(&mut self.sources[winner], seqno)?;
        if DONE_WITH_KEY && !BACKWARD && winner != dominant && self.then == Then::OnBound {
            self.sources[dominant].next_key()?;
        }
        if winner != dominant {
            self.replay_others::<BACKWARD>();
        }
        self.give_turn::<BACKWARD, DONE_WITH_KEY>(seqno)
    }

    /// Finds who comes first, once either has moved.
    #[inline(always)]
    fn give_turn<const BACKWARD: bool, const DONE_WITH_KEY: bool>(&mut self, seqno: SeqNo) -> Result<()> {
        let (dominant, other) = (&self.sources[self.dominant], &self.sources[self.other]);
        self.then = Then::Unknown;
        if !dominant.is_valid() {
            self.winner = if other.is_valid() { self.other } else { NONE };
            self.count_turn::<BACKWARD>();
            return Ok(());
        }
        let bound = if other.is_valid() {
            if rank::<C, BACKWARD>(other, self.skip) < rank::<C, BACKWARD>(dominant, self.skip) {
                self.winner = self.other;
                self.count_turn::<BACKWARD>();
                return Ok(());
            }
            Some(other.key())
        } else {
            None
        };
        let lead = dominant.stretch::<BACKWARD>(bound);
        (self.stretch, self.then, self.streak) = (lead.entries, lead.then, 0);
        match lead {
            Lead { entries: 1.., .. } => self.winner = self.dominant,
            Lead { then: Then::Behind, .. } => self.winner = self.other,
            Lead { then: Then::OnBound, .. } => self.settle_versions::<BACKWARD, DONE_WITH_KEY>(seqno)?,
            Lead { then: Then::Unknown, .. } => {
                self.end_turns::<BACKWARD>();
                return Ok(());
            }
        }
        self.value_lead(lead);
        if self.dominant == NONE {
            self.end_turns::<BACKWARD>();
        }
        Ok(())
    }

    /// One of the others has its turn without the dominant source having been asked.
    #[inline(always)]
    fn count_turn<const BACKWARD: bool>(&mut self) {
        self.streak += 1;
        if self.streak == LONGEST_TURN {
            self.dominant = NONE;
            self.end_turns::<BACKWARD>();
        }
    }

    /// Both stand on versions of one key: the newer comes first, backwards the older one, unless nobody wants it.
    #[inline(always)]
    fn settle_versions<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        seqno: SeqNo,
    ) -> Result<()> {
        let (dominant, other) = (self.dominant, self.other);
        let (own, others) = (self.sources[dominant].tag(), self.sources[other].tag());
        let is_newer = own > others || own == others && dominant < other;
        if BACKWARD && DONE_WITH_KEY && !is_newer && others <= Tag::visible_at(seqno) {
            self.winner = NONE;
            self.sources[dominant].prev_key(seqno)?;
            self.then = Then::Unknown;
            self.winner = other;
            return Ok(());
        }
        self.winner = if is_newer == BACKWARD { other } else { dominant };
        if self.winner == dominant {
            self.then = Then::Unknown;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn end_turns<const BACKWARD: bool>(&mut self) {
        (self.stretch, self.then, self.in_turns) = (0, Then::Unknown, false);
        (self.second_rank, self.second_tail, self.streak) = (0, 0, 0);
        self.seed_tree::<BACKWARD>();
    }
}

/// As [`precedes`], where `dominant` is not one of those that are compared and comes last.
#[inline(never)]
fn precedes_but_for<C: Cursor, const BACKWARD: bool>(
    dominant: usize,
    sources: &[C],
    skip: usize,
    a: u32,
    b: u32,
) -> bool {
    b as usize == dominant || a as usize != dominant && precedes::<C, BACKWARD>(sources, skip, a, b)
}
