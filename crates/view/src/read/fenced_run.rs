//! Fenced run: a cursor over a run some of whose parts cannot be read.
//!
//! It walks over the readable parts, and stands on a *fence* where a part that cannot be read begins or ends:
//! an entry that no reader sees, and from which every step is an error. So in a merge the error comes when
//! the whole merge reaches the part's range and not when this source is one step ahead of the others, bounds
//! of the reader are compared with the fence before it is stepped over, and a seek beyond the part finds what
//! is there (QU1).
//!
//! Forwards the fence is newer than every version of the part's first key, so it comes before all of them;
//! backwards it is older than every version of the last key. A seek into the range is an error at once.

use super::run_cursor::RunCursor;
use crate::tree::{Barrier, UnreadableParts};
use esker_base::key::head;
use esker_base::{Result, SeqNo, Tag, ValueKind};
use esker_iter::{Cursor, RangeDelAggregate, SkipTarget};
use esker_sst::ReadPurpose;
use std::sync::Arc;

/// A cursor over a run with parts that cannot be read.
pub struct FencedRun {
    cursor: RunCursor,
    /// In the order of their keys.
    barriers: Vec<Barrier>,
    position: Place,
}

/// Where a [`FencedRun`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the cursor's entry, or nowhere if that is invalid.
    OnCursor,
    /// In front of the barrier with this index.
    Before(usize),
    /// Behind the barrier with this index.
    Behind(usize),
    Nowhere,
}

impl FencedRun {
    /// A cursor that is not positioned. Parts that `cover` hides completely are as good as empty.
    pub fn new(unreadable: &UnreadableParts, cover: &RangeDelAggregate, purpose: ReadPurpose) -> FencedRun {
        let mut cover = cover.clone();
        let barriers = unreadable.barriers.iter().filter(|barrier| !is_hidden(barrier, &mut cover)).cloned();
        FencedRun {
            cursor: RunCursor::new(Arc::clone(&unreadable.readable), purpose),
            barriers: barriers.collect(),
            position: Place::Nowhere,
        }
    }

    /// Index of the first barrier that does not end before `key`.
    fn barrier_from(&self, key: &[u8]) -> usize {
        self.barriers.partition_point(|barrier| *barrier.last < *key)
    }

    /// Stands on the fence in front of barrier `next`, if the cursor has gone past it.
    fn settle_forward(&mut self, next: usize) {
        let barrier = self.barriers.get(next);
        let has_passed = |barrier: &Barrier| !self.cursor.is_valid() || self.cursor.key() > barrier.first();
        self.position = if barrier.is_some_and(has_passed) { Place::Before(next) } else { Place::OnCursor };
    }

    /// Stands on the fence behind the barrier before `next`, if the cursor has gone past it.
    fn settle_backward(&mut self, next: usize) {
        let at = next.checked_sub(1);
        let has_passed =
            |at: &usize| !self.cursor.is_valid() || self.cursor.key() < &*self.barriers[*at].last;
        self.position = at.filter(has_passed).map_or(Place::OnCursor, Place::Behind);
    }

    /// The barrier of the fence that the cursor stands on.
    fn fence(&self) -> Option<&Barrier> {
        match self.position {
            Place::Before(at) | Place::Behind(at) => self.barriers.get(at),
            Place::OnCursor | Place::Nowhere => None,
        }
    }

    /// An error if the cursor stands on a fence.
    fn leave_fence(&mut self) -> Result<()> {
        let error = self.fence().map(Barrier::error);
        if error.is_some() {
            self.position = Place::Nowhere;
        }
        error.map_or(Ok(()), Err)
    }
}

fn is_hidden(barrier: &Barrier, cover: &mut RangeDelAggregate) -> bool {
    match cover.hidden_up_to(barrier.first(), barrier.part.meta.max_seqno) {
        Ok(Some(SkipTarget::At(visible))) => visible[..] > barrier.last[..],
        Ok(Some(SkipTarget::None)) => true,
        // What cannot be decided is not hidden.
        Ok(None) | Err(_) => false,
    }
}

impl Cursor for FencedRun {
    fn seek_to_first(&mut self) -> Result<()> {
        self.position = Place::Nowhere;
        self.cursor.seek_to_first()?;
        self.settle_forward(0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position = Place::Nowhere;
        self.cursor.seek_to_last()?;
        self.settle_backward(self.barriers.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.position = Place::Nowhere;
        let mut next = self.barrier_from(key);
        if let Some(barrier) = self.barriers.get(next).filter(|barrier| barrier.first() <= key) {
            // Versions of the last key itself are not sought with a sequence number of zero: what follows is.
            if *barrier.last != *key || seqno > SeqNo::ZERO {
                return Err(barrier.error());
            }
            next += 1;
        }
        self.cursor.seek(key, seqno)?;
        self.settle_forward(next);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.position = Place::Nowhere;
        let next = self.barrier_from(key);
        if let Some(barrier) = self.barriers.get(next).filter(|barrier| barrier.first() < key) {
            return Err(barrier.error());
        }
        self.cursor.seek_before(key)?;
        self.settle_backward(next);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.leave_fence()?;
        let next = self.barrier_from(self.cursor.key());
        self.position = Place::Nowhere;
        self.cursor.next()?;
        self.settle_forward(next);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.leave_fence()?;
        let next = self.barrier_from(self.cursor.key());
        self.position = Place::Nowhere;
        self.cursor.prev()?;
        self.settle_backward(next);
        Ok(())
    }

    fn is_valid(&self) -> bool {
        match self.position {
            Place::OnCursor => self.cursor.is_valid(),
            Place::Before(_) | Place::Behind(_) => true,
            Place::Nowhere => false,
        }
    }

    fn key(&self) -> &[u8] {
        match (self.position, self.fence()) {
            (Place::Before(_), Some(barrier)) => barrier.first(),
            (_, Some(barrier)) => &barrier.last,
            _ => self.cursor.key(),
        }
    }

    fn tag(&self) -> Tag {
        match self.position {
            Place::Before(_) => Tag::NEWEST,
            // Every reader sees it, so none leaves the key before it has stepped over it.
            Place::Behind(_) => Tag::new(SeqNo::ZERO, ValueKind::Delete),
            Place::OnCursor | Place::Nowhere => self.cursor.tag(),
        }
    }

    fn value(&self) -> &[u8] {
        if self.fence().is_some() { &[] } else { self.cursor.value() }
    }

    fn head(&self, skip: usize) -> u64 {
        match self.fence() {
            Some(_) => head(self.key(), skip),
            None => self.cursor.head(skip),
        }
    }
}
