//! Merge operands in a visible cursor: keys whose newest visible version is an operand.

use super::{Visible, VisiblePosition};
use crate::cursor::Cursor;
use crate::full_merge::FullMerge;
use crate::meaning::without_operator;
use esker_base::{Result, SeqNo, Tag};
use std::sync::Arc;

impl<C: Cursor> Visible<C> {
    /// Merges the versions from the cursor's on and makes the result current; `false` if there is none.
    pub(super) fn show_merged(&mut self, tag: Tag) -> Result<bool> {
        self.key.set(self.cursor.key());
        if self.merge_versions(tag)? {
            self.position = VisiblePosition::Merged;
            return Ok(true);
        }
        // For a reader at an earlier time the expired entry may have a value.
        self.recorder.break_here();
        self.cursor.seek(self.key.as_slice(), tag.seqno())?;
        Ok(false)
    }

    /// Merges the versions of `self.key` from this one on into the buffers, and moves the cursor to the last
    /// entry before the key; `false` if the key has no value.
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

    /// Merges the versions of `self.key` from the cursor's on, which has this tag, into the buffers. Leaves
    /// the cursor on the version that ended the merge, or behind the key.
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
            let value = self.cursor.value();
            if full_merge
                .take(&operand_merger, tag, key, value, |end_ms| reader.is_expired(end_ms), &reader.large)?
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
