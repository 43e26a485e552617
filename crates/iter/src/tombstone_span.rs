//! Gaps: runs of neighbouring keys of which none has a value, remembered so that not every reader walks over
//! them.
//!
//! A queue deletes at its head, and whoever looks for the head meets all tombstones that no compaction has
//! removed yet. A reader that had to pass many of them says so ([`TombstoneSpans::record_span`]), and the next one asks before
//! it walks ([`TombstoneSpans::span_around`]). Who keeps the gaps answers for their truth; a reader promises to tell what it
//! saw, and nothing else:
//!
//! * GP1: of every key from the start of a noted gap up to its end, the newest version that a reader at that
//!   sequence number sees is a tombstone, or hidden by a range delete, or there is none. An entry that has
//!   expired breaks a gap: for a reader at an earlier time it has not.

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

/// Where readers of a keyspace ask for gaps and tell of them.
pub trait TombstoneSpans: Debug + Send + Sync {
    /// The gap that `key` lies in, for a reader at `seqno`.
    fn span_around(&self, key: &[u8], seqno: SeqNo) -> Option<TombstoneSpan>;

    /// Tells of a gap that a reader at `seqno` has walked over (GP1).
    fn record_span(&self, start: &[u8], end: Option<&[u8]>, seqno: SeqNo);
}

/// So many keys without a value in a row are worth asking and telling: walking over them takes a microsecond
/// or two, several times what the question takes.
pub(crate) const MIN_SPAN: u32 = 64;

/// A reader's way over keys without a value.
#[derive(Debug, Default)]
pub(crate) struct SpanRecorder {
    /// The first of them, or a key before it with nothing in between.
    start: KeyBuffer,
    has_start: bool,
    /// Keys walked over since the start, and of them those that no gap was known for.
    passed: u32,
    unknown: u32,
    is_broken: bool,
}

impl SpanRecorder {
    /// A seek to `key`: nothing lies between it and what comes next.
    #[inline]
    pub(crate) fn sought(&mut self, key: &[u8]) {
        self.start.set(key);
        (self.has_start, self.passed, self.unknown) = (true, 0, 0);
    }

    /// A key that has a value lies behind.
    #[inline]
    pub(crate) fn interrupt(&mut self) {
        (self.has_start, self.passed, self.unknown) = (false, 0, 0);
    }

    /// The present key has no value, but may have one for other readers.
    pub(crate) fn break_here(&mut self) {
        // It may have been counted as passed already, when only a version too new for this reader had been
        // met.
        self.interrupt();
        self.is_broken = true;
    }

    /// One more key without a value. Whether it is time to ask for a gap around it.
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

    /// A known gap is leapt over.
    pub(crate) fn leap(&mut self, span: &TombstoneSpan) {
        if !self.has_start || *span.start < *self.start.as_slice() {
            self.start.set(&span.start);
            self.has_start = true;
        }
        self.passed = self.passed.max(MIN_SPAN);
        self.unknown = 0;
    }

    /// The walk ends in front of `end`: tells of it if it was worth it.
    #[inline]
    pub(crate) fn end(&mut self, spans: &dyn TombstoneSpans, end: Option<&[u8]>, seqno: SeqNo) {
        if self.has_start && self.unknown >= MIN_SPAN {
            spans.record_span(self.start.as_slice(), end, seqno);
        }
        self.interrupt();
    }
}
