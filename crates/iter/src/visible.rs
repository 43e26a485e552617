//! Visible cursor: what a reader at one sequence number sees of a cursor's entries, each key once with its
//! newest visible value.
//!
//! # Forwards
//! The versions of a key come newest first, so the first one that is not too new decides the key, and the
//! rest is skipped. Keys and values are borrowed from the cursor; only the key of the previous entry is
//! copied, to recognise its older versions.
//!
//! # Backwards
//! The versions come oldest first, so a key is decided only when the entry *before* its newest visible
//! version has been met, and by then the cursor has left it. The last candidate is therefore kept in a reused
//! buffer, and the cursor waits on the previous key. The alternative, stepping forward onto the candidate
//! again, would turn the merge around twice for each key. Only values too long to copy cheaply
//! ([`backward::MAX_HELD_LEN`]) are sought anew. The cursor is never stepped against its direction; a change
//! of direction is a seek.
//!
//! # Long chains
//! Versions of one key that do not matter are stepped over [`MAX_STEPS`] times, then skipped by a seek, so
//! that a key written a million times costs a reader a bounded number of steps.
//!
//! # Single version
//! When the owner knows that the cursor holds one version of each key, and none newer than the reader's
//! sequence number, nothing is copied or compared, in both directions.
//!
//! # Range tombstones
//! A version that a range tombstone over its key hides counts as a delete of the key. A reader with a
//! [`RangeDelAggregate`] queries it for each version that would decide a key. The fast path compares with
//! [`Visible::plain_newest`], which such a reader sets to a tag that no put has, so that readers without
//! range tombstones do no extra work.
//!
//! # Tombstone spans
//! Forwards, a reader that has passed many keys without a value looks up whether the span is known, and
//! records how far it went itself; see [`crate::tombstone_span`]. A seek looks it up at once.
//!
//! # Operands
//! When a merge operand decides a key, it is merged with the versions below it into a buffer
//! ([`operands`]). Forwards the cursor is then beyond the merged versions, backwards it waits on the
//! previous key as for every other entry.
//!
//! # Large values
//! An entry may hold a pointer in place of a long value. The value is fetched when the cursor reaches the
//! entry, into the buffer that also serves the backward direction, unless the reader is keys-only.
//!
//! # Bounds
//! are checked here, at each key met and not only at those returned, so that a reader of a short range does
//! not walk through a million tombstones behind it.

mod backward;
mod forward;
mod operands;
mod position;
mod show;
mod single_version;
#[cfg(test)]
mod tests;
mod tombstone_spans;

use crate::bounds::Bounds;
use crate::cursor::Cursor;
use crate::full_merge::FullMerge;
use crate::key_buffer::KeyBuffer;
use crate::meaning::{check_hidden, split_expiry};
use crate::range_del::aggregate::RangeDelAggregate;
use crate::reader::Reader;
use crate::tombstone_span::{SpanRecorder, TombstoneSpans};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::{Result, SeqNo, Tag};
use position::VisiblePosition;
use std::ops::Bound;
use std::sync::Arc;

/// Versions of one key to step over before seeking past them. A step through a merge costs 10-20 ns, a seek
/// over one to four runs 400-900 ns: after as many steps as a seek would have cost, at most half of the work
/// is wasted.
const MAX_STEPS: u32 = 32;

/// A cursor over the keys that a reader sees, within bounds.
///
/// It follows the rules C1 to C5 of [`Cursor`], but returns keys instead of versions: each key at most once,
/// and no tombstones. Entries of kinds that cannot be read yet return [`esker_base::Error::Unsupported`],
/// never a wrong answer.
#[derive(Debug)]
pub struct Visible<C> {
    cursor: C,
    seqno: SeqNo,
    reader: Reader,
    /// A plain put up to this tag is visible without further checks: [`Tag::visible_at`] of `seqno`, or less
    /// than any put's if range tombstones must be queried.
    plain_newest: Tag,
    range_dels: Option<Box<RangeDelAggregate>>,
    spans: Option<Arc<dyn TombstoneSpans>>,
    recorder: SpanRecorder,
    bounds: Bounds,
    single_version: bool,
    position: VisiblePosition,
    /// When `Held` or `Merged`, the current key. When moving, the key that was met last.
    key: KeyBuffer,
    /// When `Held`, `Merged` or `Fetched`, the current value.
    value: Vec<u8>,
    /// When `Held` or `Merged`, the current tag.
    tag: Tag,
    /// When `Held`, `Merged` or `Fetched`, when the current value expires, if it does.
    expiry_ms: Option<u64>,
    /// Reused state of a full merge; allocated at the first.
    full_merge: Option<Box<FullMerge>>,
}

impl<C: Cursor> Visible<C> {
    /// What a reader at `seqno` sees of `cursor` at time zero, before any expiry; invalid until a seek.
    #[inline(always)]
    pub fn new(cursor: C, seqno: SeqNo) -> Visible<C> {
        Visible::of(cursor, seqno, Reader::default(), Bounds::all(), None)
    }

    /// All that a reader at `seqno` with context `reader` sees of `cursor` within `bounds`; invalid until a
    /// seek. `spans` caches keys without a value: with it the cursor must cover all sources of the keyspace.
    ///
    /// All in one call, because these are 800 bytes: each later change by value may move them, 90
    /// instructions of a seek.
    #[inline(always)]
    pub fn of(
        cursor: C,
        seqno: SeqNo,
        reader: Reader,
        bounds: Bounds,
        spans: Option<Arc<dyn TombstoneSpans>>,
    ) -> Visible<C> {
        Visible {
            cursor,
            seqno,
            reader,
            plain_newest: Tag::visible_at(seqno),
            range_dels: None,
            spans,
            recorder: SpanRecorder::default(),
            bounds,
            single_version: false,
            position: VisiblePosition::Nowhere,
            key: KeyBuffer::default(),
            value: Vec::new(),
            tag: Tag::OLDEST,
            expiry_ms: None,
            full_merge: None,
        }
    }

    /// Declares that the cursor returns at most one version of each key and none newer than `seqno`: one
    /// table that is marked single-version with `max_seqno` of at most `seqno`. This skips all work for
    /// visibility.
    #[must_use]
    #[inline(always)]
    pub fn assume_single_version(mut self) -> Visible<C> {
        self.single_version = true;
        self.position = VisiblePosition::Nowhere;
        self
    }

    /// Applies range tombstones; `range_dels` must belong to a reader at the same sequence number.
    #[must_use]
    pub fn under(mut self, range_dels: RangeDelAggregate) -> Visible<C> {
        self.plain_newest = Tag::OLDEST;
        self.range_dels = Some(Box::new(range_dels));
        self.position = VisiblePosition::Nowhere;
        self
    }

    /// The sequence number of the reader.
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// The bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Returns the cursor, so that its owner can reuse its memory.
    pub fn into_inner(self) -> C {
        self.cursor
    }

    /// Whether there is a current entry.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.position != VisiblePosition::Nowhere
    }

    /// The current key. There must be one.
    #[inline]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.is_valid());
        if self.position.is_buffered() { self.key.as_slice() } else { self.cursor.key() }
    }

    /// The current key's value. There must be one.
    #[inline]
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.is_valid());
        match self.position {
            VisiblePosition::Held | VisiblePosition::Merged | VisiblePosition::Fetched => &self.value,
            VisiblePosition::OnExpiring => behind_expiry(self.cursor.value()),
            VisiblePosition::OnCursor | VisiblePosition::Only | VisiblePosition::Nowhere => {
                self.cursor.value()
            }
        }
    }

    /// Sequence number and kind of the current version. There must be one.
    #[inline]
    pub fn tag(&self) -> Tag {
        debug_assert!(self.is_valid());
        if self.position.is_buffered() { self.tag } else { self.cursor.tag() }
    }

    /// Expiry of the current key's value, in milliseconds since 1970; `None` without. Must be on a key.
    pub fn expiry_ms(&self) -> Option<u64> {
        debug_assert!(self.is_valid());
        match self.position {
            VisiblePosition::Held | VisiblePosition::Merged | VisiblePosition::Fetched => self.expiry_ms,
            VisiblePosition::OnExpiring => {
                split_expiry(self.cursor.tag(), self.cursor.key(), self.cursor.value())
                    .ok()
                    .map(|(expiry_ms, _)| expiry_ms)
            }
            VisiblePosition::OnCursor | VisiblePosition::Only | VisiblePosition::Nowhere => None,
        }
    }

    /// The current key and value, if there are any.
    #[inline(always)]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.position {
            VisiblePosition::Nowhere => None,
            VisiblePosition::OnCursor | VisiblePosition::Only => {
                let (key, _, value) = self.cursor.entry();
                Some((key, value))
            }
            VisiblePosition::OnExpiring => Some((self.cursor.key(), behind_expiry(self.cursor.value()))),
            VisiblePosition::Fetched => Some((self.cursor.key(), &self.value)),
            VisiblePosition::Held | VisiblePosition::Merged => Some((self.key.as_slice(), &self.value)),
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.position = VisiblePosition::Nowhere;
        // Moved out while the lower one is read.
        let bounds = std::mem::take(&mut self.bounds);
        let sought = match bounds.lower() {
            Bound::Unbounded => self.seek_past_span(None),
            Bound::Included(lower) => self.seek_past_span(Some(lower)),
            Bound::Excluded(lower) => {
                self.key.set(lower);
                self.cursor.seek(lower, SeqNo::ZERO)
            }
        };
        let is_decided = matches!(bounds.lower(), Bound::Excluded(_));
        self.bounds = bounds;
        sought?;
        self.find_forward(is_decided)
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.position = VisiblePosition::Nowhere;
        match self.bounds.upper() {
            Bound::Unbounded => self.cursor.seek_to_last()?,
            Bound::Excluded(upper) => self.cursor.seek_before(upper)?,
            Bound::Included(upper) => {
                self.key.set(upper);
                return self.find_at_or_before_remembered();
            }
        }
        self.find_backward()
    }

    /// Moves to the first key that is not less than `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.is_before(key) {
            return self.seek_to_first();
        }
        self.position = VisiblePosition::Nowhere;
        self.seek_past_span(Some(key))?;
        self.find_forward(false)
    }

    /// Moves to the last key that is not greater than `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.is_behind(key) {
            return self.seek_to_last();
        }
        self.position = VisiblePosition::Nowhere;
        self.key.set(key);
        self.find_at_or_before_remembered()
    }

    /// Moves to the following key. There must be a current one.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "a cursor lends its entries, which `Iterator` cannot")]
    pub fn next(&mut self) -> Result<()> {
        debug_assert!(self.is_valid());
        let position = std::mem::replace(&mut self.position, VisiblePosition::Nowhere);
        if self.single_version {
            self.cursor.next()?;
            return self.find_single::<false>();
        }
        if position.is_on_cursor() && self.cursor.step_alone::<false>(self.seqno)? {
            // It had no other version, so the previous key need not be remembered.
            let (key, tag, _) = self.cursor.entry();
            if tag <= self.plain_newest && tag.is_plain_put() {
                if !self.bounds.is_behind(key) {
                    self.position = VisiblePosition::OnCursor;
                }
                return Ok(());
            }
            self.recorder.interrupt();
            return self.search_forward(false);
        }
        if !position.is_on_cursor() {
            return self.next_after(position);
        }
        self.key.set(self.cursor.key());
        // Fast path: older entries of the key just left, then a visible plain value of another key.
        for _ in 0..MAX_STEPS {
            self.cursor.next_key()?;
            if !self.cursor.is_valid() {
                return Ok(());
            }
            let (key, tag, _) = self.cursor.entry();
            if self.key.is(key) {
                check_hidden(tag, key)?;
                continue;
            }
            if tag <= self.plain_newest && tag.is_plain_put() {
                if !self.bounds.is_behind(key) {
                    self.position = VisiblePosition::OnCursor;
                }
                return Ok(());
            }
            break;
        }
        self.search_forward(true)
    }

    /// Moves to the preceding key. There must be a current one.
    #[inline(always)]
    pub fn prev(&mut self) -> Result<()> {
        debug_assert!(self.is_valid());
        let position = std::mem::replace(&mut self.position, VisiblePosition::Nowhere);
        if self.single_version {
            self.cursor.prev()?;
            return self.find_single::<true>();
        }
        if position == VisiblePosition::Only {
            if !self.cursor.step_alone::<true>(self.seqno)? {
                self.cursor.prev_key(self.seqno)?;
                return self.find_backward();
            }
            if self.cursor.is_alone() {
                let (key, tag, _) = self.cursor.entry();
                if tag <= self.plain_newest && tag.is_plain_put() {
                    if !self.bounds.is_before(key) {
                        self.position = VisiblePosition::Only;
                    }
                    return Ok(());
                }
            }
        } else if !position.is_buffered() {
            self.key.set(self.cursor.key());
            self.cursor.seek_before(self.key.as_slice())?;
        } else if position == VisiblePosition::Merged {
            self.cursor.seek_before(self.key.as_slice())?;
        }
        self.find_backward()
    }
}

/// The value of an entry that has an expiry time in front.
#[inline]
fn behind_expiry(value: &[u8]) -> &[u8] {
    value.get(EXPIRY_LEN..).unwrap_or_default()
}
