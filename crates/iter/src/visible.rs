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
mod operands;
#[cfg(test)]
mod tests;

use crate::bounds::Bounds;
use crate::cursor::Cursor;
use crate::full_merge::FullMerge;
use crate::key_buffer::KeyBuffer;
use crate::meaning::{Meaning, check_hidden, meaning, split_expiry};
use crate::range_del::aggregate::RangeDelAggregate;
use crate::reader::Reader;
use crate::tombstone_span::{SpanRecorder, TombstoneSpan, TombstoneSpans};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::{Result, SeqNo, Tag};
use std::ops::Bound;
use std::sync::Arc;

/// Versions of one key to step over before seeking past them. A step through a merge costs 10-20 ns, a seek
/// over one to four runs 400-900 ns: after as many steps as a seek would have cost, at most half of the work
/// is wasted.
const MAX_STEPS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisiblePosition {
    Nowhere,
    OnCursor,
    /// The cursor is on it, and its value starts with an expiry time.
    OnExpiring,
    /// The cursor is on it, and its large value is in the buffer.
    Fetched,
    /// The cursor is on it, reached it backwards, and it is the only version of its key.
    Only,
    /// In the buffers. The cursor is on the last entry of an earlier key, or is exhausted backwards.
    Held,
    /// In the buffers; the cursor is on an older version, on a later key, or exhausted forwards.
    Merged,
}

impl VisiblePosition {
    /// Whether the current entry is in the buffers.
    #[inline]
    fn is_buffered(self) -> bool {
        matches!(self, VisiblePosition::Held | VisiblePosition::Merged)
    }

    /// Whether the cursor is on the current entry and reached it forwards.
    #[inline(always)]
    fn is_on_cursor(self) -> bool {
        matches!(self, VisiblePosition::OnCursor | VisiblePosition::OnExpiring | VisiblePosition::Fetched)
    }
}

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

    /// Seeks `key`, the first key if `None`; or the end of the tombstone span around it.
    fn seek_past_span(&mut self, key: Option<&[u8]>) -> Result<()> {
        if let Some(spans) = &self.spans {
            let from = key.unwrap_or_default();
            self.recorder.sought(from);
            if let Some(span) = spans.span_around(from, self.seqno) {
                return self.leap_over(&span);
            }
        }
        match key {
            None => self.cursor.seek_to_first(),
            Some(key) => self.cursor.seek(key, self.seqno),
        }
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

    /// Moves to the following key from one that was in the buffers or was reached backwards.
    #[inline(never)]
    fn next_after(&mut self, position: VisiblePosition) -> Result<()> {
        if position == VisiblePosition::Only {
            self.key.set(self.cursor.key());
        }
        if position != VisiblePosition::Merged {
            self.cursor.seek(self.key.as_slice(), SeqNo::ZERO)?;
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

    /// Advances to the first visible key from the cursor's position. With `decided`, `self.key` has been
    /// returned or is excluded, and its remaining versions are skipped.
    #[inline(always)]
    fn find_forward(&mut self, decided: bool) -> Result<()> {
        if self.single_version && !decided {
            return self.find_single::<false>();
        }
        if !self.cursor.is_valid() {
            return Ok(());
        }
        // Fast path: an entry of another key, visible, with a plain value.
        let (key, tag, _) = self.cursor.entry();
        if tag <= self.plain_newest && tag.is_plain_put() && !(decided && self.key.is(key)) {
            if !self.bounds.is_behind(key) {
                self.position = VisiblePosition::OnCursor;
            }
            return Ok(());
        }
        self.search_forward(decided)
    }

    #[inline(never)]
    fn search_forward(&mut self, mut decided: bool) -> Result<()> {
        let newest = Tag::visible_at(self.seqno);
        if decided {
            // The previous key had a value.
            self.recorder.interrupt();
        }
        let mut known = decided;
        let mut steps = 0;
        while self.cursor.is_valid() {
            let (tag, key) = (self.cursor.tag(), self.cursor.key());
            if !known || !self.key.is(key) {
                if self.bounds.is_behind(key) {
                    self.end_walk();
                    return Ok(());
                }
                if tag <= newest && self.stand(tag)? {
                    self.end_walk();
                    return Ok(());
                }
                self.key.set(self.cursor.key());
                (known, decided, steps) = (true, tag <= newest, 0);
                if self.spans.is_some() && self.pass_key()? {
                    known = false;
                    continue;
                }
            } else if decided {
                check_hidden(tag, key)?;
            } else if tag <= newest {
                // The versions met so far are too new; this one decides.
                if self.stand(tag)? {
                    self.end_walk();
                    return Ok(());
                }
                (decided, steps) = (true, 0);
            }
            steps += 1;
            if steps <= MAX_STEPS {
                if decided { self.cursor.next_key()? } else { self.cursor.next()? }
            } else if !decided {
                self.cursor.seek(self.key.as_slice(), self.seqno)?;
            } else if tag.seqno() > SeqNo::ZERO {
                self.cursor.seek(self.key.as_slice(), SeqNo::ZERO)?;
            } else {
                self.cursor.next()?;
            }
        }
        self.end_walk();
        Ok(())
    }

    /// Counts `self.key`, which has no value as far as is known; skips the span around it if a lookup is due
    /// and finds one. `true` if it did.
    fn pass_key(&mut self) -> Result<bool> {
        if !self.recorder.pass(self.key.as_slice()) {
            return Ok(false);
        }
        match self.spans.as_ref().and_then(|spans| spans.span_around(self.key.as_slice(), self.seqno)) {
            None => Ok(false),
            Some(span) => self.leap_over(&span).map(|()| true),
        }
    }

    /// Moves the cursor to the first entry behind a span; past the last entry if there is none.
    fn leap_over(&mut self, span: &TombstoneSpan) -> Result<()> {
        self.recorder.leap(span);
        if let Some(end) = &span.end {
            return self.cursor.seek(end, self.seqno);
        }
        self.cursor.seek_to_last()?;
        if self.cursor.is_valid() { self.cursor.next() } else { Ok(()) }
    }

    /// Records the span that was walked over, which ends at the cursor.
    fn end_walk(&mut self) {
        if let Some(spans) = &self.spans {
            // The merged versions begin before the cursor's position.
            let end = match self.position {
                VisiblePosition::Merged => Some(self.key.as_slice()),
                _ => self.cursor.is_valid().then(|| self.cursor.key()),
            };
            self.recorder.end(&**spans, end, self.seqno);
        }
    }

    /// Makes the cursor's entry, of this tag, current; `false` if the key has no value by it.
    #[inline(always)]
    fn stand(&mut self, tag: Tag) -> Result<bool> {
        if let Some(range_dels) = &mut self.range_dels
            && tag.seqno() < range_dels.at(self.cursor.key())?
        {
            return Ok(false);
        }
        if tag.is_plain_put() {
            self.position = VisiblePosition::OnCursor;
            return Ok(true);
        }
        self.stand_on_other(tag)
    }

    #[inline(never)]
    fn stand_on_other(&mut self, tag: Tag) -> Result<bool> {
        let key = self.cursor.key();
        self.position = match meaning(tag, key)? {
            Meaning::Absent => return Ok(false),
            Meaning::Operand => return self.show_merged(tag),
            Meaning::Present => VisiblePosition::OnCursor,
            Meaning::Expiring => {
                let (expiry_ms, _) = split_expiry(tag, key, self.cursor.value())?;
                if self.reader.is_expired(expiry_ms) {
                    self.recorder.break_here();
                    return Ok(false);
                }
                VisiblePosition::OnExpiring
            }
            Meaning::Large => {
                self.expiry_ms = None;
                return self.stand_on_large(tag, 0);
            }
            Meaning::ExpiringLarge => {
                let (expiry_ms, _) = split_expiry(tag, key, self.cursor.value())?;
                if self.reader.is_expired(expiry_ms) {
                    self.recorder.break_here();
                    return Ok(false);
                }
                self.expiry_ms = Some(expiry_ms);
                return self.stand_on_large(tag, EXPIRY_LEN);
            }
        };
        Ok(true)
    }

    /// Makes the cursor's entry current, whose value is a pointer from this byte on.
    fn stand_on_large(&mut self, tag: Tag, from: usize) -> Result<bool> {
        let pointer = self.cursor.value().get(from..).unwrap_or_default();
        self.reader.large.fetch(tag, self.cursor.key(), pointer, &mut self.value)?;
        self.position = VisiblePosition::Fetched;
        Ok(true)
    }

    /// Moves to `self.key` if it is visible, otherwise to the last visible key before it.
    fn find_at_or_before_remembered(&mut self) -> Result<()> {
        if self.bounds.is_before(self.key.as_slice()) {
            return Ok(());
        }
        self.cursor.seek(self.key.as_slice(), self.seqno)?;
        if self.cursor.is_valid() && self.key.is(self.cursor.key()) && self.stand(self.cursor.tag())? {
            return Ok(());
        }
        self.cursor.seek_before(self.key.as_slice())?;
        self.find_backward()
    }

    /// Continues from the cursor's position when every entry is the only version of its key.
    #[inline(always)]
    fn find_single<const BACKWARD: bool>(&mut self) -> Result<()> {
        if !self.cursor.is_valid() {
            return Ok(());
        }
        let (key, tag, _) = self.cursor.entry();
        // One comparison ensures that an unreadable kind is never returned.
        if tag <= self.plain_newest && tag.is_plain_put() {
            if !(if BACKWARD { self.bounds.is_before(key) } else { self.bounds.is_behind(key) }) {
                self.position = VisiblePosition::OnCursor;
            }
            return Ok(());
        }
        self.search_single::<BACKWARD>()
    }

    /// The same for entries that are not plain puts.
    #[inline(never)]
    fn search_single<const BACKWARD: bool>(&mut self) -> Result<()> {
        while self.cursor.is_valid() {
            let (key, tag, _) = self.cursor.entry();
            debug_assert!(tag <= Tag::visible_at(self.seqno), "not all entries are visible");
            if if BACKWARD { self.bounds.is_before(key) } else { self.bounds.is_behind(key) } {
                return Ok(());
            }
            if self.stand(tag)? {
                return Ok(());
            }
            if BACKWARD { self.cursor.prev()? } else { self.cursor.next()? }
        }
        Ok(())
    }
}

/// The value of an entry that has an expiry time in front.
#[inline]
fn behind_expiry(value: &[u8]) -> &[u8] {
    value.get(EXPIRY_LEN..).unwrap_or_default()
}
