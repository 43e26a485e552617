//! Keys that begin with an operand: what their versions come to.

use super::{Position, Visible};
use crate::cursor::Cursor;
use crate::folding::Fold;
use crate::meaning::without_operator;
use esker_base::{Result, SeqNo, Tag};
use std::sync::Arc;

impl<C: Cursor> Visible<C> {
    /// Stands on what the versions from that of the cursor on, the newest visible one of its key, come to;
    /// `false` if that is nothing, and then the cursor is where it was.
    pub(super) fn stand_on_fold(&mut self, tag: Tag) -> Result<bool> {
        self.key.set(self.cursor.key());
        if self.fold_versions(tag)? {
            self.position = Position::Folded;
            return Ok(true);
        }
        // Somebody who reads at an earlier time may see what has expired here.
        self.walk.break_here();
        self.cursor.seek(self.key.as_slice(), tag.seqno())?;
        Ok(false)
    }

    /// Holds what the versions of `self.key` from this one on come to, and takes the cursor to the last entry
    /// before the key; `false` if that is nothing.
    pub(super) fn hold_fold(&mut self, tag: Tag) -> Result<bool> {
        self.cursor.seek(self.key.as_slice(), tag.seqno())?;
        let is_there = self.cursor.is_valid()
            && self.key.is(self.cursor.key())
            && self.fold_versions(self.cursor.tag())?;
        self.cursor.seek_before(self.key.as_slice())?;
        if is_there {
            self.position = Position::Held;
        }
        Ok(is_there)
    }

    /// Folds the versions of `self.key` from that of the cursor on, which has this tag, into the buffers.
    /// Leaves the cursor on the version that ended the fold, or behind the key.
    fn fold_versions(&mut self, newest: Tag) -> Result<bool> {
        let key = self.key.as_slice();
        let Some(folding) = self.reader.folding.as_ref().map(Arc::clone) else {
            return Err(without_operator(newest, key));
        };
        let hidden_below = match &mut self.cover {
            None => SeqNo::ZERO,
            Some(cover) => cover.at(key)?,
        };
        let fold = self.fold.get_or_insert_with(Box::<Fold>::default);
        fold.clear();
        loop {
            let tag = self.cursor.tag();
            if tag.seqno() < hidden_below {
                break;
            }
            let reader = &self.reader;
            let version = (tag, key, self.cursor.value());
            if fold.take(&folding, version, |end_ms| reader.is_expired(end_ms), &reader.large)?.is_break() {
                break;
            }
            self.cursor.next()?;
            if !self.cursor.is_valid() || !self.key.is(self.cursor.key()) {
                break;
            }
        }
        let Some(value) = fold.finish(&folding, key)? else { return Ok(false) };
        (self.value, self.tag, self.expiry_ms) = (value, newest, fold.end_ms());
        Ok(true)
    }
}
