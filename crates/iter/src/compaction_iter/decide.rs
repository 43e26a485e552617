//! Decision about one version: written, changed or dropped, by the rules at the head of [`super`].

use super::filter::FilterOutcome;
use super::role::Role;
use super::{CompactionIter, CompactionIterPosition};
use crate::cursor::Cursor;
use crate::meaning::split_expiry;
use crate::range_del::compaction::InputRangeDels;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};

/// What becomes of the cursor's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryFate {
    /// The entry, or its replacement, is the next to write.
    Write,
    /// It is dropped; the cursor is still on it.
    Drop,
    /// It is processed; the cursor is on one that was not examined yet.
    Passed,
}

impl<C: Cursor, O: FnMut(&[u8], SeqNo) -> bool> CompactionIter<C, O> {
    /// Decides whether the cursor's entry, or the tombstone withheld before it, is the next to write.
    #[inline]
    pub(super) fn decide(&mut self, tag: Tag) -> Result<EntryFate> {
        let is_plain = self.is_plain && tag.kind_byte() == ValueKind::Put as u8;
        if !is_plain || tag.seqno() > self.boundaries.visible() {
            return self.decide_any(tag);
        }
        // The same rules as in `decide_any`, for the most common case.
        let seqno = tag.seqno();
        if self.is_hidden(seqno) {
            self.stats.hidden += 1;
            return Ok(EntryFate::Drop);
        }
        self.group.hidden_below = Some(seqno);
        self.stats.kept_deleted += u64::from(self.group.has_hidden_delete);
        self.tag = tag;
        if self.zeroes_seqnos && seqno <= self.oldest && !self.group.is_any_kept && seqno > SeqNo::ZERO {
            self.zero(tag);
        }
        self.group.is_any_kept = true;
        self.position = CompactionIterPosition::OnCursor;
        Ok(EntryFate::Write)
    }

    /// The same for every entry.
    fn decide_any(&mut self, mut tag: Tag) -> Result<EntryFate> {
        let seqno = tag.seqno();
        if let Some(deletes) = &self.deletes
            && seqno <= self.boundaries.visible()
            && deletes.hides(seqno, &self.boundaries)
        {
            self.stats.hidden += 1;
            return Ok(EntryFate::Drop);
        }
        let mut role = Role::of(tag);
        let (mut position, mut is_past) = (CompactionIterPosition::OnCursor, false);
        if role == Role::Value && tag.kind_byte() & FLAG_EXPIRY != 0 && self.is_expired(tag)? {
            is_past = true;
            (tag, role, position) =
                (Tag::new(seqno, ValueKind::Delete), Role::Tombstone, CompactionIterPosition::Emptied);
        }
        if role == Role::Untouchable || seqno > self.boundaries.visible() {
            return self.keep_untouched(tag);
        }
        if self.is_hidden(seqno) {
            self.stats.hidden += 1;
            if role == Role::Tombstone && !is_past {
                self.group.has_hidden_delete = true;
                self.stats.hidden_deletes += 1;
            }
            return Ok(EntryFate::Drop);
        }
        self.stats.kept_deleted += u64::from(self.group.has_hidden_delete);
        if role == Role::Operand {
            return self.collect_operands(tag);
        }
        if role == Role::Value && self.may_be_shown(seqno) {
            match self.show(tag)? {
                FilterOutcome::Same => {}
                FilterOutcome::Changed => {
                    // The new value is stored inline, for now.
                    tag = Tag::from_parts(seqno, tag.kind_byte() & !FLAG_BLOB);
                    position = CompactionIterPosition::Changed;
                }
                FilterOutcome::Nothing => {
                    (tag, role) = (Tag::new(seqno, ValueKind::Delete), Role::Tombstone);
                    position = CompactionIterPosition::Emptied;
                }
            }
        }
        self.group.hidden_below = Some(seqno);
        self.tag = tag;
        if seqno <= self.oldest {
            if role == Role::Tombstone {
                let key = self.group.key.as_slice();
                if !self.group.is_any_untouchable && !(self.older_outside)(key, seqno) {
                    self.group.withheld = Some(tag);
                    return Ok(EntryFate::Drop);
                }
            } else if self.zeroes_seqnos
                && !self.group.is_any_kept
                && seqno > SeqNo::ZERO
                && !self.deletes.as_ref().is_some_and(InputRangeDels::covers_by_kept)
            {
                self.zero(tag);
            }
        }
        self.group.is_any_kept = true;
        self.position = position;
        self.stats.expired += u64::from(is_past);
        Ok(EntryFate::Write)
    }

    /// Whether a newer version of the key hides this one (rule 1).
    #[inline]
    fn is_hidden(&self, seqno: SeqNo) -> bool {
        self.group.hidden_below.is_some_and(|newer| self.boundaries.are_in_same_stripe(seqno, newer))
    }

    /// Sets the sequence number to 0, unless an older version may exist outside (rule 3).
    #[inline]
    fn zero(&mut self, tag: Tag) {
        if !(self.older_outside)(self.group.key.as_slice(), tag.seqno()) {
            self.tag = Tag::from_parts(SeqNo::ZERO, tag.kind_byte());
            self.group.is_any_zeroed = true;
            self.stats.zeroed += 1;
        }
    }

    #[cold]
    pub(super) fn is_expired(&self, tag: Tag) -> Result<bool> {
        let (expiry_ms, _) = split_expiry(tag, self.cursor.key(), self.cursor.value())?;
        Ok(tag.seqno() <= self.boundaries.visible() && self.boundaries.is_expired_for_all(expiry_ms))
    }

    #[cold]
    fn keep_untouched(&mut self, tag: Tag) -> Result<EntryFate> {
        if self.group.is_any_zeroed {
            // Written after a version that now has the number 0, this one would be out of order.
            return Err(Error::Unsupported(
                format!(
                    "key {} has an entry of kind {:#04x} under one whose sequence number was set to 0",
                    self.group.key.as_slice().escape_ascii(),
                    tag.kind_byte()
                )
                .into(),
            ));
        }
        self.group.hidden_below = None;
        self.group.is_any_kept = true;
        self.group.is_any_untouchable = true;
        if let Some(withheld) = self.group.withheld.take() {
            self.tag = withheld;
            self.position = CompactionIterPosition::Withheld;
        } else {
            self.tag = tag;
            self.position = CompactionIterPosition::OnCursor;
        }
        Ok(EntryFate::Write)
    }
}
