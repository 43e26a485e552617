//! Tombstone spans: runs of adjacent keys of which none has a value, recorded so that later readers skip
//! them. The field has no standard word for this.
//!
//! A queue deletes at its head, and a reader that seeks the head meets all tombstones that no compaction has
//! removed yet. A reader that passed many of them records the span ([`TombstoneSpans::record_span`]), and the
//! next reader looks it up before it walks ([`TombstoneSpans::span_around`]). The cache is responsible for
//! invalidating spans; a reader guarantees only what it saw:
//!
//! * GP1: of every key from the start of a recorded span up to its end, the newest version that a reader at
//!   that sequence number sees is a tombstone, or hidden by a range tombstone, or there is none. An expired
//!   entry ends a span: for a reader at an earlier time it has a value.

use crate::key_buffer::KeyBuffer;
use esker_base::SeqNo;
use std::fmt::Debug;

/// Keys without a value from `start` up to but without `end`; up to the last key if that is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneSpan {
    /// The first key.
    pub start: Box<[u8]>,
    /// The first key behind it.
    pub end: Option<Box<[u8]>>,
}

/// The tombstone span cache of a keyspace.
pub trait TombstoneSpans: Debug + Send + Sync {
    /// The span that contains `key`, for a reader at `seqno`.
    fn span_around(&self, key: &[u8], seqno: SeqNo) -> Option<TombstoneSpan>;

    /// Records a span that a reader at `seqno` has walked over (GP1).
    fn record_span(&self, start: &[u8], end: Option<&[u8]>, seqno: SeqNo);
}

/// Least run of keys without a value worth a span: walking it takes several times a lookup.
pub(crate) const MIN_SPAN: u32 = 64;

/// Tracks a reader's walk over keys without a value.
#[derive(Debug, Default)]
pub(crate) struct SpanRecorder {
    /// The first of them, or a key before it with nothing in between.
    start: KeyBuffer,
    has_start: bool,
    /// Keys passed since the start, and how many of them no known span contained.
    passed: u32,
    unknown: u32,
    is_broken: bool,
}

impl SpanRecorder {
    /// Notes a seek to `key`: nothing lies between it and the next entry.
    #[inline]
    pub(crate) fn sought(&mut self, key: &[u8]) {
        self.start.set(key);
        (self.has_start, self.passed, self.unknown) = (true, 0, 0);
    }

    /// Notes that a key with a value was passed.
    #[inline]
    pub(crate) fn interrupt(&mut self) {
        (self.has_start, self.passed, self.unknown) = (false, 0, 0);
    }

    /// Notes that the current key has no value for this reader, but may have one for others.
    pub(crate) fn break_here(&mut self) {
        // It may have been counted already, when only a version too new for this reader had been met.
        self.interrupt();
        self.is_broken = true;
    }

    /// Counts one more key without a value. Returns whether a span around it should be looked up.
    pub(crate) fn pass(&mut self, key: &[u8]) -> bool {
        if std::mem::take(&mut self.is_broken) {
            self.interrupt();
            return false;
        }
        if !self.has_start {
            self.sought(key);
        }
        self.passed += 1;
        self.unknown += 1;
        self.passed == MIN_SPAN
    }

    /// Notes that a known span is skipped.
    pub(crate) fn leap(&mut self, span: &TombstoneSpan) {
        if !self.has_start || *span.start < *self.start.as_slice() {
            self.start.set(&span.start);
            self.has_start = true;
        }
        self.passed = self.passed.max(MIN_SPAN);
        self.unknown = 0;
    }

    /// Ends the walk in front of `end`; records the span if it is long enough.
    #[inline]
    pub(crate) fn end(&mut self, spans: &dyn TombstoneSpans, end: Option<&[u8]>, seqno: SeqNo) {
        if self.has_start && self.unknown >= MIN_SPAN {
            spans.record_span(self.start.as_slice(), end, seqno);
        }
        self.interrupt();
    }
}
