//! Keys that begin with an operand: what their versions come to.

use super::{Visible, VisiblePosition};
use crate::cursor::Cursor;
use crate::full_merge::FullMerge;
use crate::meaning::without_operator;
use esker_base::{Result, SeqNo, Tag};
use std::sync::Arc;

impl<C: Cursor> Visible<C> {
    /// Stands on what the versions from that of the cursor on, the newest visible one of its key, come to;
    /// `false` if that is nothing, and then the cursor is where it was.
    pub(super) fn show_merged(&mut self, tag: Tag) -> Result<bool> {
        self.key.set(self.cursor.key());
        if self.merge_versions(tag)? {
            self.position = VisiblePosition::Merged;
            return Ok(true);
        }
        // Somebody who reads at an earlier time may see what has expired here.
        self.recorder.break_here();
        self.cursor.seek(self.key.as_slice(), tag.seqno())?;
        Ok(false)
    }

    /// Holds what the versions of `self.key` from this one on come to, and takes the cursor to the last entry
    /// before the key; `false` if that is nothing.
    pub(super) fn buffer_merged(&mut self, tag: Tag) -> Result<bool> {
        self.cursor.seek(self.key.as_slice(), tag.seqno())?;
        let is_there = self.cursor.is_valid()
            && self.key.is(self.cursor.key())
            && self.merge_versions(self.cursor.tag())?;
        self.cursor.seek_before(self.key.as_slice())?;
        if is_there {
            self.position = VisiblePosition::Held;
        }
        Ok(is_there)
    }

    /// Folds the versions of `self.key` from that of the cursor on, which has this tag, into the buffers.
    /// Leaves the cursor on the version that ended the fold, or behind the key.
    fn merge_versions(&mut self, newest: Tag) -> Result<bool> {
        let key = self.key.as_slice();
        let Some(operand_merger) = self.reader.operand_merger.as_ref().map(Arc::clone) else {
            return Err(without_operator(newest, key));
        };
        let hidden_below = match &mut self.range_dels {
            None => SeqNo::ZERO,
            Some(range_dels) => range_dels.at(key)?,
        };
        let full_merge = self.full_merge.get_or_insert_with(Box::<FullMerge>::default);
        full_merge.clear();
        loop {
            let tag = self.cursor.tag();
            if tag.seqno() < hidden_below {
                break;
            }
            let reader = &self.reader;
            let version = (tag, key, self.cursor.value());
            if full_merge
                .take(&operand_merger, version, |end_ms| reader.is_expired(end_ms), &reader.large)?
                .is_break()
            {
                break;
            }
            self.cursor.next()?;
            if !self.cursor.is_valid() || !self.key.is(self.cursor.key()) {
                break;
            }
        }
        let Some(value) = full_merge.finish(&operand_merger, key)? else { return Ok(false) };
        (self.value, self.tag, self.expiry_ms) = (value, newest, full_merge.end_ms());
        Ok(true)
    }
}
