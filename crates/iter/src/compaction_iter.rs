//! Retention: the entries of its inputs that a flush or compaction must write, because a present or future
//! reader can tell them from their absence.
//!
//! # Rules
//! Let the [`Boundaries`] be the sequence numbers at which readers may read, b0 the smallest and V the
//! visible one.
//!
//! 1. A version under a newer Put, Delete or SingleDelete of the same key *in the same stripe* is dropped:
//!    every reader that could see it sees the newer one (RV4).
//! 2. Tombstone elision: a tombstone `k@s` is dropped when `s <= b0`, every older version of k in the inputs
//!    is dropped, and nothing outside the inputs may hold an older version of k. Readers see no value where
//!    the tombstone was, as before.
//! 3. If enabled, a Put `k@q` gets the sequence number 0 when `q <= b0`, no newer version of k is kept, and
//!    nothing outside may hold an older version. All readers see it as before, and it takes fewer bytes.
//!    Newer versions outside stay newer. Range tombstones that cover k may be older than q but not older than
//!    0, so no range tombstone that the job keeps may cover k; any outside count as "an older version".
//! 4. Entries of unknown kinds are kept unchanged. Versions below one may be part of its meaning, so it hides
//!    nothing and keeps the tombstones of its key.
//! 5. A Put whose expiry time has passed for every present and future reader
//!    ([`Boundaries::is_expired_for_all`]) is treated as a Delete: unless rule 2 drops it, it is written as a
//!    Delete. One that has not expired yet is a Put like any other: it hides older versions, because when it
//!    expires the key has no value.
//! 6. A version under a range tombstone of the inputs in the same stripe is dropped, whatever its kind: every
//!    reader that could see it sees the range tombstone ([`InputRangeDels`], which also decides which range
//!    tombstones are written).
//! 7. Merge operands of one stripe are merged ([`merge_operands`] has the conditions): into a Put that hides
//!    older versions where the history of the key ends within the stripe, otherwise into one operand if the
//!    operator can do that. Operands hide nothing, and keep nothing from being dropped.
//! 8. If enabled, a Put that only readers of the present see, and that is the newest of its key, is passed to
//!    a compaction filter ([`crate::compaction_filter`]), which may change its value, or turn it into a
//!    Delete.
//! 9. A version newer than V is kept and hides nothing. There is none if the job fixed its inputs first; a
//!    snapshot taken since could divide two of them.
//! 10. If a key has versions above a boundary, one of them is kept: a transaction that compares sequence
//!     numbers detects that the key has changed. Rules 1, 2, 5 and 7 ensure it; transactions rely on it.
//!
//! # Why one pass suffices
//! The versions of a key come newest first, and rule 2 depends on versions that come later. But when
//! `s <= b0`, no boundary b has `q <= b < s` for any older version q, because `b >= b0 >= s`. So all older
//! versions are in the tombstone's stripe, and rule 1 drops them although the tombstone that hides them is
//! itself not kept; the filter only has to remember its sequence number. The sole exception are the versions
//! of rule 4, which are never dropped. Therefore a tombstone that may be elided is *withheld*: its key is
//! remembered anyway and it has no value, so this costs one word. If a version of rule 4 comes, the tombstone
//! is written before it after all. If the next key comes, it is elided. A Put cannot be withheld without
//! copying its value, so where rule 3 meets a version of rule 4 after the number was set to 0, the job fails;
//! the owner must not enable rule 3 when inputs hold such kinds.
//!
//! # SingleDelete is treated as a Delete
//! The usual rule drops a SingleDelete and the Put below it together wherever they meet, long before the
//! bottom. Together with rule 1 that is wrong. Take the history Put@1, Delete@2, Put@3, SingleDelete@4, which
//! has at most one Put since the last delete. One job merges 2 and 3: rule 1 drops the Delete. Another merges
//! 3 and 4: both are dropped. Put@1, in a run below, is visible again. To prevent this, rule 1 would have to
//! keep tombstones under Puts, at the expense of every workload without SingleDelete. Where nothing older
//! exists anywhere the pair may be dropped, but there rules 1 and 2 drop it as well, unless a snapshot is
//! older than both.
//!
//! The tests replay this history.

mod filter;
mod merge_operands;
#[cfg(test)]
mod tests;
mod write_all;

use crate::boundaries::Boundaries;
use crate::compaction_filter::CompactionFilter;
use crate::cursor::Cursor;
use crate::full_merge::OperandMerger;
use crate::key_buffer::KeyBuffer;
use crate::large_values::LargeValues;
use crate::meaning::split_expiry;
use crate::range_del::compaction::InputRangeDels;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use filter::FilterOutcome;
use merge_operands::OperandRun;
use std::sync::Arc;
pub use write_all::EntrySink;

/// Counts of entries that were dropped or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionIterStats {
    /// Versions dropped because a newer one hides them (rule 1).
    pub hidden: u64,
    /// Tombstones elided because nothing is left for them to hide (rule 2).
    pub tombstones: u64,
    /// Tombstones among the hidden versions: a newer version hides what they deleted outside of the inputs.
    pub hidden_deletes: u64,
    /// Versions kept, for a snapshot, under hidden tombstones.
    pub kept_deleted: u64,
    /// Entries whose sequence number became 0 (rule 3).
    pub zeroed: u64,
    /// Puts treated as deletes, and operands dropped, because they expired (rule 5).
    pub expired: u64,
    /// Operands not written because they were merged (rule 7).
    pub merged: u64,
    /// Keys whose operands stay because the operator could not merge them.
    pub unmergeable: u64,
    /// Puts that a filter changed or removed (rule 8).
    pub filtered: u64,
    /// The smallest sequence number among them.
    pub oldest_filtered: Option<SeqNo>,
    /// Puts for which a filter panicked.
    pub filter_failures: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A Put, with or without expiry time or blob: hides older versions.
    Value,
    /// A Delete or SingleDelete: hides older versions and has no value.
    Tombstone,
    /// A merge operand, with or without expiry time: hides nothing.
    Operand,
    /// Any other kind: kept unchanged.
    Untouchable,
}

impl Role {
    #[inline]
    fn of(tag: Tag) -> Role {
        const PUT: u8 = ValueKind::Put as u8;
        const DELETE: u8 = ValueKind::Delete as u8;
        const SINGLE_DELETE: u8 = ValueKind::SingleDelete as u8;
        const MERGE: u8 = ValueKind::Merge as u8;
        const EXPIRING_MERGE: u8 = MERGE | FLAG_EXPIRY;
        match tag.kind_byte() {
            DELETE | SINGLE_DELETE => Role::Tombstone,
            MERGE | EXPIRING_MERGE => Role::Operand,
            byte if byte & !(FLAG_BLOB | FLAG_EXPIRY) == PUT => Role::Value,
            _ => Role::Untouchable,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryFate {
    /// The entry, or its replacement, is the next to write.
    Write,
    /// It is dropped; the cursor is still on it.
    Drop,
    /// It is processed; the cursor is on one that was not examined yet.
    Passed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactionIterPosition {
    /// There is none.
    Nowhere,
    /// The cursor is on it; its tag may have been changed.
    OnCursor,
    /// The cursor is on it; it is now a tombstone, without its value.
    Emptied,
    /// It is a withheld tombstone. The cursor is on the entry that follows it.
    Withheld,
    /// The cursor is on it, and a filter has changed its value.
    Changed,
    /// It is the result of merged operands. The cursor is on the entry that follows them.
    OperandRun,
}

/// The entries of a cursor that a flush or compaction must write, in internal order, forwards only.
///
/// `older_outside(key, seqno)` returns whether anything outside the inputs may hold a version of `key` older
/// than `seqno`: of the tables that stay, whether one has `key` in its range and `min_seqno < seqno`. It is
/// called rarely (for tombstones, and for candidates for the sequence number 0), with keys ascending.
/// Returning `true` is always safe.
///
/// All versions of a key must be in one job: subcompactions divide the work between keys.
pub struct CompactionIter<C, O> {
    cursor: C,
    boundaries: Boundaries,
    older_outside: O,
    deletes: Option<InputRangeDels>,
    operand_merger: Option<Arc<OperandMerger>>,
    filter: Option<Arc<dyn CompactionFilter>>,
    large: Option<Arc<dyn LargeValues>>,
    /// Whether the filter may remove large values but not change them.
    leaves_large: bool,
    /// The large value that was passed to the filter last.
    fetched: Vec<u8>,
    /// The value that a filter returned for the current entry.
    changed: Vec<u8>,
    zeroes_seqnos: bool,
    /// Without range tombstones and a filter, which allows the fast path for plain Puts.
    is_plain: bool,
    oldest: SeqNo,
    position: CompactionIterPosition,
    tag: Tag,
    /// Whether the current entry is the first one written of its key.
    begins_key: bool,
    group: KeyGroup,
    run: OperandRun,
    stats: CompactionIterStats,
}

#[derive(Debug, Default)]
struct KeyGroup {
    key: KeyBuffer,
    is_begun: bool,
    /// The sequence number of the version that hides those below it in its stripe.
    hidden_below: Option<SeqNo>,
    /// A tombstone that is elided unless an untouchable version follows.
    withheld: Option<Tag>,
    is_any_kept: bool,
    /// Whether an entry of it was the current one.
    is_any_given: bool,
    is_any_untouchable: bool,
    is_any_zeroed: bool,
    /// Whether a tombstone was dropped under a newer version: versions kept after it were deleted.
    has_hidden_delete: bool,
}

impl<C, O> std::fmt::Debug for CompactionIter<C, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactionIter")
            .field("tag", &self.tag)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<C: Cursor, O: FnMut(&[u8], SeqNo) -> bool> CompactionIter<C, O> {
    /// The entries of `cursor` to write; invalid until a seek.
    pub fn new(cursor: C, boundaries: Boundaries, older_outside: O) -> CompactionIter<C, O> {
        CompactionIter {
            cursor,
            oldest: boundaries.oldest(),
            boundaries,
            older_outside,
            deletes: None,
            operand_merger: None,
            filter: None,
            large: None,
            leaves_large: false,
            fetched: Vec::new(),
            changed: Vec::new(),
            zeroes_seqnos: false,
            is_plain: false,
            position: CompactionIterPosition::Nowhere,
            tag: Tag::OLDEST,
            begins_key: false,
            group: KeyGroup::default(),
            run: OperandRun::default(),
            stats: CompactionIterStats::default(),
        }
    }

    /// Enables rule 6, with the range tombstones of the inputs and the same boundaries.
    #[must_use]
    pub fn under(mut self, deletes: InputRangeDels) -> CompactionIter<C, O> {
        self.deletes = Some(deletes).filter(|deletes| !deletes.is_empty());
        self
    }

    /// Enables rule 7, with the operator of the keyspace. Without one, operands stay as they are.
    #[must_use]
    pub fn operand_merger(mut self, operand_merger: Option<Arc<OperandMerger>>) -> CompactionIter<C, O> {
        self.operand_merger = operand_merger.filter(|operand_merger| operand_merger.operator().is_supplied());
        self
    }

    /// Enables rule 8, with this filter. Without `large` it does not see large values.
    #[must_use]
    pub fn filtering(
        mut self,
        filter: Option<Arc<dyn CompactionFilter>>,
        large: Option<Arc<dyn LargeValues>>,
    ) -> CompactionIter<C, O> {
        (self.filter, self.large) = (filter, large);
        self
    }

    /// Lets the filter remove large values but not change them: for blob garbage collection. Each change
    /// leaves garbage behind, and a filter that always changes would cause such jobs for ever.
    #[must_use]
    pub fn leaving_large(mut self) -> CompactionIter<C, O> {
        self.leaves_large = true;
        self
    }

    /// Enables rule 3: numbers equivalent to 0 become 0. For the last level, without unknown kinds.
    #[must_use]
    pub fn zeroing_seqnos(mut self) -> CompactionIter<C, O> {
        self.zeroes_seqnos = true;
        self
    }

    /// Moves to the first entry to write.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.restart();
        self.cursor.seek_to_first()?;
        self.find_and_note()
    }

    /// Moves to the first entry to write whose key is at least `key`: the start of a subcompaction.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.restart();
        self.cursor.seek(key, SeqNo::MAX)?;
        self.find_and_note()
    }

    /// Moves to the following entry to write. There must be a current one.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor lends its entries, which `Iterator` cannot")]
    pub fn next(&mut self) -> Result<()> {
        if self.leave()? { Ok(()) } else { self.find_and_note() }
    }

    /// Moves past the current entry; `true` if a further result of merged operands is current now.
    #[inline]
    fn leave(&mut self) -> Result<bool> {
        debug_assert!(self.is_valid());
        match std::mem::replace(&mut self.position, CompactionIterPosition::Nowhere) {
            CompactionIterPosition::Withheld => {}
            CompactionIterPosition::OperandRun if self.next_of_run() => {
                self.begins_key = false;
                return Ok(true);
            }
            CompactionIterPosition::OperandRun => {}
            _ => self.cursor.next()?,
        }
        Ok(false)
    }

    #[inline]
    fn find_and_note(&mut self) -> Result<()> {
        self.find()?;
        self.begins_key = !std::mem::replace(&mut self.group.is_any_given, true);
        Ok(())
    }

    /// Whether there is a current entry.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.position != CompactionIterPosition::Nowhere
    }

    /// The current entry's key. There must be one.
    #[inline]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.is_valid());
        match self.position {
            CompactionIterPosition::Withheld | CompactionIterPosition::OperandRun => {
                self.group.key.as_slice()
            }
            _ => self.cursor.key(),
        }
    }

    /// The current entry's tag, which may differ from the input's by rule 3. There must be one.
    #[inline]
    pub fn tag(&self) -> Tag {
        debug_assert!(self.is_valid());
        self.tag
    }

    /// The current entry's value. There must be one.
    #[inline]
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.is_valid());
        match self.position {
            CompactionIterPosition::OnCursor => self.cursor.value(),
            CompactionIterPosition::OperandRun => self.run.value(),
            CompactionIterPosition::Changed => &self.changed,
            _ => &[],
        }
    }

    /// Key, tag and value of the current entry. There must be one.
    #[inline]
    pub fn entry(&self) -> (&[u8], Tag, &[u8]) {
        if self.position == CompactionIterPosition::OnCursor {
            let (key, _, value) = self.cursor.entry();
            return (key, self.tag, value);
        }
        (self.key(), self.tag, self.value())
    }

    /// Whether the current entry is the first that is written of its key.
    #[inline]
    pub fn begins_key(&self) -> bool {
        debug_assert!(self.is_valid());
        self.begins_key
    }

    /// Counts so far.
    pub fn stats(&self) -> CompactionIterStats {
        self.stats
    }

    /// Returns the cursor, so that its owner can reuse its memory.
    pub fn into_inner(self) -> C {
        self.cursor
    }

    fn restart(&mut self) {
        self.position = CompactionIterPosition::Nowhere;
        self.group.is_begun = false;
        self.group.withheld = None;
        self.is_plain = self.deletes.is_none() && self.filter.is_none();
        if let Some(deletes) = &mut self.deletes {
            deletes.restart();
        }
    }

    /// Advances to the first entry to write from the cursor's position.
    #[inline]
    fn find(&mut self) -> Result<()> {
        while self.cursor.is_valid() {
            let (key, tag, _) = self.cursor.entry();
            if !self.group.is_begun || !self.group.key.is(key) {
                self.stats.tombstones += u64::from(self.group.withheld.is_some());
                self.group.begin(key);
                if let Some(deletes) = &mut self.deletes {
                    deletes.advance_to(key);
                }
            }
            match self.decide(tag)? {
                EntryFate::Write => return Ok(()),
                EntryFate::Drop => self.cursor.next()?,
                EntryFate::Passed => {}
            }
        }
        self.stats.tombstones += u64::from(self.group.withheld.take().is_some());
        Ok(())
    }

    /// Decides whether the cursor's entry, or the tombstone withheld before it, is the next to write.
    #[inline]
    fn decide(&mut self, tag: Tag) -> Result<EntryFate> {
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

    #[cold]
    fn is_expired(&self, tag: Tag) -> Result<bool> {
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

impl KeyGroup {
    #[inline]
    fn begin(&mut self, key: &[u8]) {
        self.key.set(key);
        self.begin_with_its_key();
    }

    /// Begins a key that is set already.
    #[inline]
    fn begin_with_its_key(&mut self) {
        self.is_begun = true;
        self.hidden_below = None;
        self.withheld = None;
        self.is_any_kept = false;
        self.is_any_given = false;
        self.is_any_untouchable = false;
        self.is_any_zeroed = false;
        self.has_hidden_delete = false;
    }
}
