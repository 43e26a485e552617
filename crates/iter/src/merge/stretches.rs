//! Walking over sources that know how far they go on: see the head of [`super`].
//!
//! # Turns
//! Where there are two sources, as a tree at rest and a memtable are, and one tells of stretches, one search of it settles everything: how many of
//! its entries come before the other's, and whether what follows has the other's key or lies behind it. So who comes first is known without a
//! comparison, and the tournament rests. Whoever is done with a key that both have passes its version in the dominant source in the same step.
//!
//! While turns are taken ([`Merge::in_turns`]):
//! * either the dominant source is first and `stretch` counts its entries, the last of which `then` follows by the other's present key;
//! * or the other is first, and `then` tells of the dominant one's present entry: [`Then::OnBound`] only if it is another version of the key.
//!
//! Turns end, and the tournament begins anew, where the dominant source does not know, or is interrupted too often.

use super::{LEAST_CREDIT, Merge, NONE, precedes, rank, step};
use crate::cursor::{Cursor, Lead, Then};
use esker_base::{Result, SeqNo, Tag};

impl<C: Cursor> Merge<C> {
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
            (self.then, self.in_turns) = (lead.then, self.sources.len() == 2);
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

    /// Moves on where two sources take turns and the dominant one is not within its stretch.
    #[inline(never)]
    pub(super) fn take_turn<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        seqno: SeqNo,
    ) -> Result<()> {
        let (winner, dominant) = (self.winner, self.dominant);
        if self.stretch == 1 && self.then != Then::Unknown {
            self.stretch = 0;
            self.sources[dominant].step_in_stretch::<BACKWARD>();
            self.winner = 1 - dominant;
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
        self.give_turn::<BACKWARD, DONE_WITH_KEY>(seqno)
    }

    /// Finds who comes first, once either has moved.
    #[inline(always)]
    fn give_turn<const BACKWARD: bool, const DONE_WITH_KEY: bool>(&mut self, seqno: SeqNo) -> Result<()> {
        let (dominant, other) = (&self.sources[self.dominant], &self.sources[1 - self.dominant]);
        self.then = Then::Unknown;
        if !dominant.is_valid() {
            self.winner = if other.is_valid() { 1 - self.dominant } else { NONE };
            return Ok(());
        }
        let bound = if other.is_valid() {
            if rank::<C, BACKWARD>(other, self.skip) < rank::<C, BACKWARD>(dominant, self.skip) {
                self.winner = 1 - self.dominant;
                return Ok(());
            }
            Some(other.key())
        } else {
            None
        };
        let lead = dominant.stretch::<BACKWARD>(bound);
        (self.stretch, self.then) = (lead.entries, lead.then);
        match lead {
            Lead { entries: 1.., .. } => self.winner = self.dominant,
            Lead { then: Then::Behind, .. } => self.winner = 1 - self.dominant,
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

    /// Both stand on versions of one key: the newer comes first, backwards the older one, unless nobody wants it.
    #[inline(always)]
    fn settle_versions<const BACKWARD: bool, const DONE_WITH_KEY: bool>(
        &mut self,
        seqno: SeqNo,
    ) -> Result<()> {
        let (dominant, other) = (self.dominant, 1 - self.dominant);
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
