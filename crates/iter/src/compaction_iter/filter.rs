//! Rule 8: applying a compaction filter to an entry.

use super::CompactionIter;
use crate::compaction_filter::{Decision, ask};
use crate::cursor::Cursor;
use crate::meaning::{is_large, split_expiry};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::{Result, SeqNo, Tag};

pub(super) enum FilterOutcome {
    Same,
    Nothing,
    /// Changed to the value in [`CompactionIter::changed`].
    Changed,
}

impl<C: Cursor, O: FnMut(&[u8], SeqNo) -> bool> CompactionIter<C, O> {
    /// Whether the newest kept version may be passed to the filter: only present readers see it (CF1).
    #[inline]
    pub(super) fn may_be_shown(&self, seqno: SeqNo) -> bool {
        self.filter.is_some()
            && !self.group.is_any_kept
            && self.boundaries.newest_snapshot().is_none_or(|newest| seqno > newest)
    }

    /// Passes the cursor's Put to the filter.
    #[cold]
    #[inline(never)]
    pub(super) fn show(&mut self, tag: Tag) -> Result<FilterOutcome> {
        let (key, stored) = (self.cursor.key(), self.cursor.value());
        let is_expiring = tag.kind_byte() & FLAG_EXPIRY != 0;
        let mut value = if is_expiring { split_expiry(tag, key, stored)?.1 } else { stored };
        let Some(filter) = &self.filter else { return Ok(FilterOutcome::Same) };
        if is_large(tag) {
            let Some(large) = &self.large else { return Ok(FilterOutcome::Same) };
            large.fetch(key, value, &mut self.fetched)?;
            value = &self.fetched;
        }
        let decision = ask(&**filter, key, value);
        self.stats.filter_failures += u64::from(decision.is_none());
        let left = match decision {
            None | Some(Decision::Keep) => FilterOutcome::Same,
            Some(Decision::Remove) => FilterOutcome::Nothing,
            Some(Decision::Change(_)) if is_large(tag) && self.leaves_large => FilterOutcome::Same,
            Some(Decision::Change(value)) => {
                self.changed.clear();
                self.changed.extend_from_slice(&stored[..if is_expiring { EXPIRY_LEN } else { 0 }]);
                self.changed.extend_from_slice(&value);
                FilterOutcome::Changed
            }
        };
        if !matches!(left, FilterOutcome::Same) {
            self.note_filtered(tag.seqno());
        }
        Ok(left)
    }

    /// Passes a merged value, which has this number, to the filter; returns the remaining value.
    pub(super) fn filter_merged(&mut self, seqno: SeqNo, value: Vec<u8>) -> Option<Vec<u8>> {
        let Some(filter) = self.filter.as_ref().filter(|_| self.may_be_shown(seqno)) else {
            return Some(value);
        };
        let decision = ask(&**filter, self.group.key.as_slice(), &value);
        self.stats.filter_failures += u64::from(decision.is_none());
        let left = match decision {
            None | Some(Decision::Keep) => return Some(value),
            Some(Decision::Remove) => None,
            Some(Decision::Change(value)) => Some(value),
        };
        self.note_filtered(seqno);
        left
    }

    fn note_filtered(&mut self, seqno: SeqNo) {
        self.stats.filtered += 1;
        let oldest = self.stats.oldest_filtered.get_or_insert(seqno);
        *oldest = seqno.min(*oldest);
    }
}
