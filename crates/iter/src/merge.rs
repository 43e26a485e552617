//! Merging cursor: one cursor over many sources, a loser tree with galloping.
//!
//! # Design
//! A loser tree ([`LoserTree`]) over *ranks*: the key's eight-byte head behind a prefix that all keys share,
//! as a number. Backwards, the rank is the head's complement, so that the least rank wins in both directions
//! and one tree serves both. An exhausted source has the greatest rank.
//!
//! Equal ranks are decided by the next eight bytes, still without a branch on which source comes first, and
//! only then, out of line, by whole keys and by tags, newest first; an exhausted source loses. So decimal
//! keys, and keys with a common prefix that the merge was not told, cost 15 ns an entry instead of 30. Ranks
//! of sixteen bytes would make that 11, but cost 2 ns on every other merge, and more where a source holds its
//! keys in pieces.
//!
//! A single source is passed straight through. A source that has won [`STREAK`] times in a row is compared
//! only with the second's rank, one well-predicted branch instead of a walk up the tree, until that fails: a
//! large run beside small ones, or disjoint ranges. Doing so at each step instead loses up to a third when
//! the sources are equal, because the branch is then unpredictable. Where the rank equals the second's, the
//! eight bytes behind it are compared with the second's, which are kept as well: decimal keys come in groups
//! of equal rank.
//!
//! # Galloping
//! A source that holds one version of each key, as most runs do, gets the first key of all others as its
//! bound. Each step then returns whether the source is still before that bound, by one comparison of a word
//! that the step has loaded ([`Cursor::step_towards`]); while it is, rank, key and version are not read. So a
//! run beside a memtable with few keys costs about as much as the run alone, in both directions. Galloping is
//! tried with the last source after a seek, the oldest and usually the largest, and with a dominating one
//! ([`MergingCursor::try_galloping`]). That source and the others then alternate, and the tree holds only the
//! others: see [`galloping`].
//!
//! # Invariants
//! * Walking forwards at entry e, every other source is on its first entry after e, or behind that where only
//!   versions of a key lie between that the caller is done with ([`Cursor::next_key`]); backwards, on its
//!   last entry before e, or before that where only versions lie between that the reader does not see
//!   ([`Cursor::prev_key`]); or it is exhausted in that direction.
//! * Hence a change of direction must move *every* other source over e. They are sought anew, not stepped: an
//!   entry written meanwhile into a live memtable (C6) may lie between a source's old position and e, and
//!   exhausted sources have no position to step from.
//! * While a source leads, the others' first entry stays, and its key is strictly behind that of the current
//!   entry. So the current entry has no other version in any source.
//! * After an error the merge is invalid, whatever the other sources hold (C5).
//!
//! Rejected: a binary heap (1.5 to 2.5 times slower, its sift is all branches), SIMD minimum over up to eight
//! heads (21-25 ns an entry against 10-16).

mod galloping;
mod loser_tree;
mod order;
mod turn;

#[cfg(test)]
mod tests;

use crate::cursor::{BoundOrder, Cursor};
use esker_base::planted;
use esker_base::{Result, SeqNo, Tag};
use loser_tree::{Entrant, LoserTree};
use order::{EXHAUSTED, precedes, rank, tail};

/// Wins in a row after which a source counts as dominating. Measured with 2 to 8 sources: with four wins two
/// equal sources lose 8 % to attempts that fail at once; with sixteen a source that has nine of ten entries
/// gains nothing.
const STREAK: u32 = 8;

/// Most rounds of [`Cursor::prepare_seek`] in a seek: block, directory, entry, and one to spare.
const MAX_PREPARE_ROUNDS: u32 = 4;

/// `winner` when there is none.
const NONE: usize = usize::MAX;

/// `dominant` when galloping is tried with any source that wins.
const ANY: usize = usize::MAX - 1;

/// Failed attempts before galloping is off for a source: [`MergingCursor::try_galloping`].
const FULL_CREDIT: u32 = 8;
const LEAST_CREDIT: u32 = 4;

/// A cursor over all entries of several cursors, in internal order.
///
/// Pass the sources newest first. No two sources hold an entry with equal key and equal tag; if they do, both
/// are returned, the newer source's first.
///
/// Cost per step: O(log k) comparisons without branches, 10-11 ns for two to eight sources in memory.
#[derive(Debug)]
pub struct MergingCursor<C> {
    sources: Vec<C>,
    tree: LoserTree,
    /// The source of the current entry, or [`NONE`].
    winner: usize,
    backward: bool,
    /// Length of the prefix that all keys share.
    skip: usize,
    /// While a source dominates, the others' least rank, else 0. A lesser winner wins again.
    second_rank: u64,
    /// Tie-breaker: eight bytes after an equal rank in walking direction; 0 if unknown.
    second_tail: u64,
    streak: u32,
    /// The source with which galloping is tried when it wins, [`ANY`] or [`NONE`].
    dominant: usize,
    /// Falls with each failed attempt to gallop.
    credit: u32,
    /// Galloping: whether the current entry is the dominant source's, first, and its key's only version.
    is_leading: bool,
    /// The first key of the others, as the dominant source encoded it, while that source leads.
    bound: u64,
    /// Galloping on another's entry: whether the dominant source is known to be on a version of its key.
    is_on_bound: bool,
    /// Whether the dominant source gallops: the tree holds only the others.
    is_galloping: bool,
    /// While galloping, the first of the others; any of them if all are exhausted.
    other: usize,
    /// The key at which the direction changes. Kept for its memory.
    pivot: Vec<u8>,
}

impl<C: Cursor> MergingCursor<C> {
    /// A merge of `sources`, newest first; invalid until a seek. Up to 16 sources need no further allocation.
    ///
    /// # Panics
    /// If there are 2^32 - 1 sources or more.
    #[inline(always)]
    pub fn new(sources: Vec<C>) -> MergingCursor<C> {
        assert!(u32::try_from(sources.len()).is_ok_and(|len| len < u32::MAX), "too many sources");
        let tree = LoserTree::new(sources.len());
        MergingCursor {
            sources,
            tree,
            winner: NONE,
            backward: false,
            skip: 0,
            second_rank: 0,
            second_tail: 0,
            streak: 0,
            dominant: NONE,
            credit: 0,
            is_leading: false,
            bound: 0,
            is_on_bound: false,
            is_galloping: false,
            other: 0,
            pivot: Vec::new(),
        }
    }

    /// Declares that *all* keys of *all* sources, also those written later, agree in their first `skip`
    /// bytes. The merge then compares the eight bytes behind, which differ more often: for keys with a long
    /// common prefix this saves a third of the time. If the declaration is false, the order of the entries is
    /// wrong.
    ///
    /// The merge is invalid afterwards until a seek.
    pub fn set_skip(&mut self, skip: usize) {
        self.skip = skip;
        self.winner = NONE;
    }

    /// The sources, in the order given.
    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// The source of the current entry; `None` where the merge is invalid.
    #[inline]
    pub fn current(&self) -> Option<&C> {
        self.sources.get(self.winner)
    }

    /// Positions every source with `place`, all in the same direction, and finds the first.
    fn place_all<const BACKWARD: bool>(
        &mut self,
        mut place: impl FnMut(usize, &mut C) -> Result<()>,
    ) -> Result<()> {
        // Invalid until all is done, so that an error on the way leaves it so.
        self.winner = NONE;
        for (number, source) in self.sources.iter_mut().enumerate() {
            place(number, source)?;
        }
        self.backward = BACKWARD;
        (self.second_rank, self.second_tail) = (0, 0);
        self.streak = 0;
        (self.is_leading, self.is_on_bound, self.is_galloping) = (false, false, false);
        match self.sources.as_slice() {
            [] => Ok(()),
            [source] => {
                self.winner = if source.is_valid() { 0 } else { NONE };
                Ok(())
            }
            _ => {
                self.check_skip();
                self.gallop_with_last::<BACKWARD>()
            }
        }
    }

    /// Builds the tree over all sources at their current entries.
    fn seed_tree<const BACKWARD: bool>(&mut self) {
        self.tree.clear();
        let (sources, skip) = (self.sources.as_slice(), self.skip);
        for (number, source) in sources.iter().enumerate() {
            let entrant = Entrant { rank: rank::<C, BACKWARD>(source, self.skip), source: number as u32 };
            self.tree.seed(entrant, |a, b| precedes::<C, BACKWARD>(sources, skip, a, b));
        }
        let winner = self.tree.winner().source as usize;
        self.winner = if sources[winner].is_valid() { winner } else { NONE };
    }

    /// In debug builds, checks the declaration of [`MergingCursor::set_skip`].
    fn check_skip(&self) {
        #[cfg(debug_assertions)]
        if self.skip > 0 {
            let mut keys = self.sources.iter().filter(|s| s.is_valid()).map(Cursor::key);
            let first = keys.next().unwrap_or_default();
            assert!(
                keys.all(|key| key.len() >= self.skip && key.get(..self.skip) == first.get(..self.skip)),
                "keys do not agree in their first {} bytes",
                self.skip
            );
        }
    }

    /// Advances the current source and finds the new first; `seqno` matters backwards when done with a key.
    #[inline(always)]
    fn advance<const BACKWARD: bool, const DONE_WITH_KEY: bool>(&mut self, seqno: SeqNo) -> Result<()> {
        let winner = self.winner;
        let source = &mut self.sources[winner];
        if self.is_leading {
            match source.step_towards::<BACKWARD>(self.bound) {
                BoundOrder::Before => return Ok(()),
                BoundOrder::Unknown => {}
                met => return self.meet_bound::<BACKWARD, DONE_WITH_KEY>(met, seqno),
            }
        }
        if self.is_galloping {
            return self.step_galloping::<BACKWARD, DONE_WITH_KEY>(seqno);
        }
        let source = &mut self.sources[winner];
        if let Err(error) = step::<C, BACKWARD, DONE_WITH_KEY>(source, seqno)
            && !planted!(ReadErrorIsEnd)
        {
            self.winner = NONE;
            return Err(error);
        }
        if let [source] = self.sources.as_slice() {
            self.winner = if source.is_valid() { 0 } else { NONE };
            return Ok(());
        }
        self.find_winner::<BACKWARD, true>(winner);
        Ok(())
    }

    /// Finds the first of at least two sources after the last winner moved; may start to gallop.
    #[inline(always)]
    fn find_winner<const BACKWARD: bool, const MAY_GALLOP: bool>(&mut self, winner: usize) {
        let rank = rank::<C, BACKWARD>(&self.sources[winner], self.skip);
        if rank < self.second_rank || rank == self.second_rank && self.wins_by_tail::<BACKWARD>(rank, winner)
        {
            if MAY_GALLOP && self.dominant == winner {
                self.try_galloping::<BACKWARD>();
            }
            return;
        }
        (self.second_rank, self.second_tail) = (0, 0);
        let (sources, skip) = (self.sources.as_slice(), self.skip);
        let first = self.tree.replay(Entrant { rank, source: winner as u32 }, |a, b| {
            precedes::<C, BACKWARD>(sources, skip, a, b)
        });
        self.winner = first.source as usize;
        self.streak = if self.winner == winner { self.streak + 1 } else { 0 };
        if self.streak == STREAK {
            self.streak = 0;
            self.remember_second::<BACKWARD>();
            (self.dominant, self.credit) = (winner, FULL_CREDIT);
        }
        if first.rank == EXHAUSTED && !self.sources[self.winner].is_valid() {
            self.winner = NONE;
        } else if MAY_GALLOP && (self.winner == self.dominant || self.dominant == ANY) {
            self.try_galloping::<BACKWARD>();
        }
    }

    /// From now on the winner is compared with the second alone.
    #[inline(never)]
    fn remember_second<const BACKWARD: bool>(&mut self) {
        // Where two others have the same rank, either may be the second.
        let (second, is_alone) = self.tree.second();
        self.second_rank = second.rank;
        self.second_tail = if is_alone && second.rank != EXHAUSTED {
            tail::<C, BACKWARD>(&self.sources[second.source as usize], self.skip)
        } else {
            0
        };
    }

    /// Whether the winner, whose rank equals the second's, still comes before it.
    #[inline(never)]
    fn wins_by_tail<const BACKWARD: bool>(&self, rank: u64, winner: usize) -> bool {
        rank != EXHAUSTED && tail::<C, BACKWARD>(&self.sources[winner], self.skip) < self.second_tail
    }

    #[inline(never)]
    fn next_out_of_line(&mut self) -> Result<()> {
        self.next()
    }

    fn prepare(&mut self, key: &[u8]) {
        if self.sources.len() < 2 {
            return;
        }
        for round in 0..MAX_PREPARE_ROUNDS {
            if !self.prepare_seek(key, round) {
                return;
            }
        }
    }
}

#[inline(always)]
fn step<C: Cursor, const BACKWARD: bool, const DONE_WITH_KEY: bool>(
    source: &mut C,
    seqno: SeqNo,
) -> Result<()> {
    match (BACKWARD, DONE_WITH_KEY) {
        (true, true) => source.prev_key(seqno),
        (true, false) => source.prev(),
        (false, true) => source.next_key(),
        (false, false) => source.next(),
    }
}

impl<C: Cursor> Cursor for MergingCursor<C> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.place_all::<false>(|_, source| source.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.place_all::<true>(|_, source| source.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.prepare(key);
        self.place_all::<false>(|_, source| source.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.prepare(key);
        self.place_all::<true>(|_, source| source.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.backward { self.turn_around::<false>() } else { self.advance::<false, false>(SeqNo::MAX) }
    }

    #[inline(always)]
    fn next_key(&mut self) -> Result<()> {
        if self.backward { self.turn_around::<false>() } else { self.advance::<false, true>(SeqNo::MAX) }
    }

    #[inline(always)]
    fn pass(&mut self) -> Result<()> {
        let winner = self.winner;
        match self.sources.as_mut_slice() {
            sources @ [_, _, ..] if !self.backward && !self.is_galloping => {
                if let Err(error) = sources[winner].pass() {
                    self.winner = NONE;
                    return Err(error);
                }
                self.find_winner::<false, false>(winner);
                Ok(())
            }
            _ => self.next_out_of_line(),
        }
    }

    #[inline(always)]
    fn prev(&mut self) -> Result<()> {
        if self.backward { self.advance::<true, false>(SeqNo::MAX) } else { self.turn_around::<true>() }
    }

    #[inline(always)]
    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        if self.backward { self.advance::<true, true>(seqno) } else { self.turn_around::<true>() }
    }

    #[inline(always)]
    fn step_alone<const BACKWARD: bool>(&mut self, seqno: SeqNo) -> Result<bool> {
        if !self.is_leading || self.backward != BACKWARD {
            return Ok(false);
        }
        match self.sources[self.winner].step_towards::<BACKWARD>(self.bound) {
            BoundOrder::Before => Ok(true),
            BoundOrder::Unknown => Ok(false),
            met => self.meet_bound::<BACKWARD, true>(met, seqno).map(|()| true),
        }
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.is_leading
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.winner != NONE
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        self.sources[self.winner].key()
    }

    #[inline(always)]
    fn tag(&self) -> Tag {
        self.sources[self.winner].tag()
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        self.sources[self.winner].value()
    }

    #[inline(always)]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        self.sources[self.winner].entry()
    }

    #[inline]
    fn head(&self, skip: usize) -> u64 {
        self.sources[self.winner].head(skip)
    }

    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        self.winner = NONE;
        let mut again = false;
        // Every source takes part in every round, so this must not short-circuit like `any`.
        for source in &mut self.sources {
            again |= source.prepare_seek(key, round);
        }
        again
    }
}
