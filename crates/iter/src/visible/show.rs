//! Showing an entry: whether the version that decides a key has a value for the reader, and where it is.

use super::{Visible, VisiblePosition};
use crate::cursor::Cursor;
use crate::meaning::{Meaning, meaning, split_expiry};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::{Result, Tag};

impl<C: Cursor> Visible<C> {
    /// Makes the cursor's entry, of this tag, current; `false` if the key has no value by it.
    #[inline(always)]
    pub(super) fn show(&mut self, tag: Tag) -> Result<bool> {
        if let Some(range_dels) = &mut self.range_dels
            && tag.seqno() < range_dels.at(self.cursor.key())?
        {
            return Ok(false);
        }
        if tag.is_plain_put() {
            self.position = VisiblePosition::OnCursor;
            return Ok(true);
        }
        self.show_other(tag)
    }

    /// The same for entries that are not plain puts and not under a range tombstone.
    #[inline(never)]
    pub(super) fn show_other(&mut self, tag: Tag) -> Result<bool> {
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
                return self.show_large(tag, 0);
            }
            Meaning::ExpiringLarge => {
                let (expiry_ms, _) = split_expiry(tag, key, self.cursor.value())?;
                if self.reader.is_expired(expiry_ms) {
                    self.recorder.break_here();
                    return Ok(false);
                }
                self.expiry_ms = Some(expiry_ms);
                return self.show_large(tag, EXPIRY_LEN);
            }
        };
        Ok(true)
    }

    /// Makes the cursor's entry current, whose value is a pointer from this byte on.
    fn show_large(&mut self, tag: Tag, from: usize) -> Result<bool> {
        let pointer = self.cursor.value().get(from..).unwrap_or_default();
        self.reader.large.fetch(tag, self.cursor.key(), pointer, &mut self.value)?;
        self.position = VisiblePosition::Fetched;
        Ok(true)
    }
}
