//! Cursors with one version of each key: nothing is copied or compared, in both directions.

use super::{Visible, VisiblePosition};
use crate::cursor::Cursor;
use esker_base::{Result, Tag};

impl<C: Cursor> Visible<C> {
    /// Continues from the cursor's position when every entry is the only version of its key.
    #[inline(always)]
    pub(super) fn find_single<const BACKWARD: bool>(&mut self) -> Result<()> {
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
            if self.show(tag)? {
                return Ok(());
            }
            if BACKWARD { self.cursor.prev()? } else { self.cursor.next()? }
        }
        Ok(())
    }
}
