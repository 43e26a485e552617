//! Tombstone spans of a walk: looked up at a seek and after many keys without a value, and recorded at the
//! end. See [`crate::tombstone_span`].

use super::{Visible, VisiblePosition};
use crate::cursor::Cursor;
use crate::tombstone_span::TombstoneSpan;
use esker_base::Result;

impl<C: Cursor> Visible<C> {
    /// Seeks `key`, the first key if `None`; or the end of the tombstone span around it.
    pub(super) fn seek_past_span(&mut self, key: Option<&[u8]>) -> Result<()> {
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

    /// Counts `self.key`, which has no value as far as is known; skips the span around it if a lookup is due
    /// and finds one. `true` if it did.
    pub(super) fn pass_key(&mut self) -> Result<bool> {
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
    pub(super) fn end_walk(&mut self) {
        if let Some(spans) = &self.spans {
            // The merged versions begin before the cursor's position.
            let end = match self.position {
                VisiblePosition::Merged => Some(self.key.as_slice()),
                _ => self.cursor.is_valid().then(|| self.cursor.key()),
            };
            self.recorder.end(&**spans, end, self.seqno);
        }
    }
}
