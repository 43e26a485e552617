//! Forward direction: the first version of a key that is not too new decides the key. See [`super`].

use super::{MAX_STEPS, Visible, VisiblePosition};
use crate::cursor::Cursor;
use crate::meaning::check_hidden;
use esker_base::{Result, SeqNo, Tag};

impl<C: Cursor> Visible<C> {
    /// Advances to the first visible key from the cursor's position. With `decided`, `self.key` has been
    /// returned or is excluded, and its remaining versions are skipped.
    #[inline(always)]
    pub(super) fn find_forward(&mut self, decided: bool) -> Result<()> {
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

    /// The same for entries that the fast path does not take.
    #[inline(never)]
    pub(super) fn search_forward(&mut self, mut decided: bool) -> Result<()> {
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
                if tag <= newest && self.show(tag)? {
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
                if self.show(tag)? {
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

    /// Moves to the following key from one that was in the buffers or was reached backwards.
    #[inline(never)]
    pub(super) fn next_after(&mut self, position: VisiblePosition) -> Result<()> {
        if position == VisiblePosition::Only {
            self.key.set(self.cursor.key());
        }
        if position != VisiblePosition::Merged {
            self.cursor.seek(self.key.as_slice(), SeqNo::ZERO)?;
        }
        self.search_forward(true)
    }
}
