//! Compaction iterator: the entries of its inputs that a flush or compaction must write, because a present or
//! future reader can tell them from their absence.
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

mod decide;
mod filter;
mod key_group;
mod merge_operands;
mod role;
mod stats;
#[cfg(test)]
mod tests;
mod write_all;

use crate::boundaries::Boundaries;
use crate::compaction_filter::CompactionFilter;
use crate::cursor::Cursor;
use crate::full_merge::OperandMerger;
use crate::large_values::LargeValues;
use crate::range_del::compaction::InputRangeDels;
use decide::EntryFate;
use esker_base::{Result, SeqNo, Tag};
use key_group::KeyGroup;
use merge_operands::OperandRun;
pub use stats::CompactionIterStats;
use std::sync::Arc;
pub use write_all::EntrySink;

/// Where the current entry is.
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
}
