//! Range tombstone aggregate: the newest range tombstone over a key that a reader sees, over all sources.
//!
//! A view has many sources of range tombstones: each memtable has some sets, each run of tables at most one
//! table around a key. A version of a key is deleted if some range tombstone over the key that the reader
//! sees, from any source, is newer than the version. So the answer is the maximum over all sources.
//!
//! A cursor queries one key after the other. Each source answers with a [`TombstoneInterval`], the keys
//! around the queried one for which its answer is the same, and their intersection is cached: while keys stay
//! inside, a query costs two comparisons.
//!
//! Wide tombstones are not stepped through. A source whose entries are all older than a range tombstone has
//! no visible entry beneath it, so [`SkipDeleted`] moves its cursor from the first hidden entry to the end of
//! the tombstone by one seek. That needs no order among sources, only the greatest sequence number of the
//! part that the cursor is in; so a seek never leaves that part, whose neighbours may be newer.

#[cfg(test)]
mod tests;

use crate::cursor::Cursor;
use crate::range_del::{RangeTombstones, TombstoneInterval, least_end};
use esker_base::{Result, SeqNo, Tag};
use std::sync::Arc;

/// A source of range tombstones.
pub trait RangeDelSource: Send + Sync {
    /// The newest range tombstone over `key` that a reader at `seqno` sees, and the interval of keys around
    /// it with the same answer; it contains `key`.
    fn interval(&self, key: &[u8], seqno: SeqNo) -> Result<TombstoneInterval<'_>>;
}

impl RangeDelSource for Arc<RangeTombstones> {
    fn interval(&self, key: &[u8], seqno: SeqNo) -> Result<TombstoneInterval<'_>> {
        Ok(RangeTombstones::interval(self, key, seqno))
    }
}

/// Aggregated range tombstones of several sources, for a reader at one sequence number.
pub struct RangeDelAggregate {
    sources: Arc<[Box<dyn RangeDelSource>]>,
    seqno: SeqNo,
    /// The interval found last, its ends copied; keys before `low` or from `high` on are not known.
    is_known: bool,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    newest: SeqNo,
}

impl Clone for RangeDelAggregate {
    fn clone(&self) -> RangeDelAggregate {
        RangeDelAggregate::new(Arc::clone(&self.sources), self.seqno)
    }
}

impl std::fmt::Debug for RangeDelAggregate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeDelAggregate").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

/// Target of a skip over hidden keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipTarget {
    /// This key.
    At(Vec<u8>),
    /// Everything in that direction is hidden.
    None,
}

impl SkipTarget {
    fn key(&self) -> Option<&[u8]> {
        match self {
            SkipTarget::At(key) => Some(key),
            SkipTarget::None => None,
        }
    }
}

impl RangeDelAggregate {
    /// The range tombstones of these sources for a reader at `seqno`.
    pub fn new(sources: Arc<[Box<dyn RangeDelSource>]>, seqno: SeqNo) -> RangeDelAggregate {
        RangeDelAggregate { sources, seqno, is_known: false, low: None, high: None, newest: SeqNo::ZERO }
    }

    /// The newest range tombstone over `key`; [`SeqNo::ZERO`] if there is none.
    #[inline]
    pub fn at(&mut self, key: &[u8]) -> Result<SeqNo> {
        let is_inside = self.is_known
            && self.low.as_ref().is_none_or(|low| &low[..] <= key)
            && self.high.as_ref().is_none_or(|high| key < &high[..]);
        if !is_inside {
            self.look_up(key)?;
        }
        Ok(self.newest)
    }

    fn look_up(&mut self, key: &[u8]) -> Result<()> {
        self.is_known = false;
        let mut all = TombstoneInterval::NOTHING;
        for source in &*self.sources {
            let one = source.interval(key, self.seqno)?;
            all.low = all.low.max(one.low);
            all.high = least_end(all.high, one.high);
            all.newest = all.newest.max(one.newest);
        }
        copy(&mut self.low, all.low);
        copy(&mut self.high, all.high);
        self.newest = all.newest;
        self.is_known = true;
        Ok(())
    }

    /// The first key after `key` where versions up to `newest` may be visible; `None` if `key` may be one.
    pub fn hidden_up_to(&mut self, key: &[u8], newest: SeqNo) -> Result<Option<SkipTarget>> {
        if self.at(key)? <= newest {
            return Ok(None);
        }
        loop {
            let Some(high) = self.high.clone() else { return Ok(Some(SkipTarget::None)) };
            if self.at(&high)? <= newest {
                return Ok(Some(SkipTarget::At(high)));
            }
        }
    }

    /// The least key such that all from it up to `key` are hidden from versions up to `newest`; `None` if
    /// `key` is not. One interval only: what hides the keys before it is found when the cursor gets there.
    fn hidden_from(&mut self, key: &[u8], newest: SeqNo) -> Result<Option<SkipTarget>> {
        if self.at(key)? <= newest {
            return Ok(None);
        }
        Ok(Some(self.low.clone().map_or(SkipTarget::None, SkipTarget::At)))
    }
}

fn copy(into: &mut Option<Vec<u8>>, from: Option<&[u8]>) {
    match (into.as_mut(), from) {
        (_, None) => *into = None,
        (Some(into), Some(from)) => {
            into.clear();
            into.extend_from_slice(from);
        }
        (None, Some(from)) => *into = Some(from.to_vec()),
    }
}

/// A cursor over parts, each with an upper bound for its sequence numbers; a source usually has one part.
pub trait PartCursor: Cursor {
    /// No entry of the cursor's current part is newer than this; [`SeqNo::MAX`] if that is not known.
    fn newest_around(&self) -> SeqNo;

    /// Moves to the first entry of the part whose key is not less than `target`, otherwise to the first entry
    /// of the parts behind it. There must be a current entry, and its key is less than `target`.
    fn skip_forward(&mut self, target: Option<&[u8]>) -> Result<()>;

    /// Moves to the last entry of the part whose key is less than `target`, otherwise to the last entry of
    /// the parts before it. There must be a current entry, and its key is not less than `target`.
    fn skip_backward(&mut self, target: Option<&[u8]>) -> Result<()>;
}

/// A cursor that seeks over the entries that range tombstones hide from its reader.
///
/// It may return hidden entries where their source has newer ones beside them; the reader filters those out.
/// C1 to C6 of [`Cursor`] hold for the entries that it returns.
#[derive(Debug)]
pub struct SkipDeleted<C> {
    cursor: C,
    range_dels: RangeDelAggregate,
    is_valid: bool,
}

impl<C: PartCursor> SkipDeleted<C> {
    /// The entries of `cursor` without the intervals in which `range_dels` hides all of them.
    pub fn new(cursor: C, range_dels: RangeDelAggregate) -> SkipDeleted<C> {
        SkipDeleted { cursor, range_dels, is_valid: false }
    }

    fn settle_forward(&mut self) -> Result<()> {
        self.is_valid = false;
        while self.cursor.is_valid() {
            let newest = self.cursor.newest_around();
            match self.range_dels.hidden_up_to(self.cursor.key(), newest)? {
                None => {
                    self.is_valid = true;
                    return Ok(());
                }
                Some(target) => self.cursor.skip_forward(target.key())?,
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        self.is_valid = false;
        while self.cursor.is_valid() {
            let newest = self.cursor.newest_around();
            match self.range_dels.hidden_from(self.cursor.key(), newest)? {
                None => {
                    self.is_valid = true;
                    return Ok(());
                }
                Some(target) => self.cursor.skip_backward(target.key())?,
            }
        }
        Ok(())
    }
}

impl<C: PartCursor> Cursor for SkipDeleted<C> {
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        self.is_valid = false;
        self.cursor.prepare_seek(key, round)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.is_valid = false;
        self.cursor.seek_to_first()?;
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.is_valid = false;
        self.cursor.seek_to_last()?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.is_valid = false;
        self.cursor.seek(key, seqno)?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.is_valid = false;
        self.cursor.seek_before(key)?;
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.is_valid = false;
        self.cursor.next()?;
        self.settle_forward()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.is_valid = false;
        self.cursor.prev()?;
        self.settle_backward()
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.is_valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.cursor.tag()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    #[inline]
    fn head(&self, skip: usize) -> u64 {
        self.cursor.head(skip)
    }
}
