//! Run cursor: iterates over the parts of one run, opening each when it is reached.
//!
//! A part may be a slice of its file (virtual tables): the cursor shows only entries inside the slice.

use crate::tree::{Access, TreePart, TreeRun};
use esker_base::key::head;
use esker_base::{Result, SeqNo, Tag};
use esker_iter::{BoundOrder, Cursor};
use esker_sst::{InputReading, ReadPurpose, TableCursor};
use esker_version::KeyEnd;
use std::sync::Arc;

/// A position in a run.
pub struct RunCursor {
    /// Before the run, so that its table is released before the table's file is.
    cursor: TableCursor,
    run: Arc<TreeRun>,
    purpose: ReadPurpose,
    /// The index of the current part; meaningless while `cursor` is not attached.
    at: usize,
    /// The part in which a prepared, unfinished seek starts.
    prepared: Option<usize>,
    valid: bool,
    /// Whether the open part is a slice of its file; kept here so that a step reads no other memory for it.
    sliced: bool,
    /// Whether it reports how entries of the open part compare to a bound.
    tells: bool,
    /// The head of the end of the open part's slice: a key with a lesser head lies before the end.
    end_head: u64,
    /// How a job reads it, if one does.
    reading: Option<InputReading>,
}

impl RunCursor {
    /// A cursor over a run, not yet positioned.
    #[inline(always)]
    pub fn new(run: Arc<TreeRun>, purpose: ReadPurpose) -> RunCursor {
        let (cursor, prepared, reading) = (TableCursor::detached(purpose), None, None);
        RunCursor {
            cursor,
            run,
            purpose,
            at: 0,
            prepared,
            valid: false,
            sliced: false,
            tells: false,
            end_head: 0,
            reading,
        }
    }

    /// For a job that reads all of it.
    pub fn for_job(run: Arc<TreeRun>, reading: InputReading) -> RunCursor {
        let cursor = TableCursor::detached_for_job(reading.clone());
        RunCursor { cursor, reading: Some(reading), ..RunCursor::new(run, ReadPurpose::Compaction) }
    }

    /// The current part. There must be a current entry.
    pub(super) fn current_part(&self) -> &TreePart {
        &self.run.parts[self.at]
    }

    /// Moves to the first entry behind the current part.
    pub(super) fn leave_forward(&mut self) -> Result<()> {
        self.first_from(self.at + 1)
    }

    /// Moves to the last entry before the current part.
    pub(super) fn leave_backward(&mut self) -> Result<()> {
        self.last_before(self.at)
    }

    /// Opens part `at` for a seek.
    #[inline(always)]
    fn open(&mut self, at: usize) -> Result<&mut TableCursor> {
        self.open_for(at, Access::Use)
    }

    /// Opens part `at`. No more than one table is held at a time, and a table that a compaction reads is
    /// closed: it is not read again.
    #[inline(always)]
    fn open_for(&mut self, at: usize, access: Access) -> Result<&mut TableCursor> {
        if self.at != at || !self.cursor.is_attached() {
            self.change_part(at, access)?;
        }
        Ok(&mut self.cursor)
    }

    #[inline(never)]
    fn change_part(&mut self, at: usize, access: Access) -> Result<()> {
        if self.cursor.is_attached() {
            self.cursor = match &self.reading {
                None => TableCursor::detached(self.purpose),
                Some(reading) => TableCursor::detached_for_job(reading.clone()),
            };
        }
        let file = &self.run.parts[at].file;
        if access == Access::Use && self.purpose != ReadPurpose::Compaction {
            file.note_reads(1);
        }
        let in_cell = match access {
            Access::Use => file.opened_for_use(),
            Access::Pass | Access::Once => file.opened(),
        };
        let opened;
        let table = match in_cell {
            Some(table) => table,
            None => {
                opened = file.open(if self.reading.is_some() { Access::Once } else { access })?;
                &opened
            }
        };
        self.cursor.attach(table);
        self.at = at;
        let meta = &self.run.parts[at].meta;
        self.sliced = meta.sliced;
        let is_single = self.run.facts().single_version_up_to.is_some();
        self.tells = is_single && !meta.sliced && self.purpose != ReadPurpose::Compaction;
        self.end_head = match &meta.range.end {
            KeyEnd::Included(end) | KeyEnd::Excluded(end) => head(end, 0),
            KeyEnd::Unbounded => u64::MAX,
        };
        Ok(())
    }

    /// The part in which a seek to `key` starts, mostly known from the preparation of the seek.
    #[inline]
    fn start(&mut self, key: &[u8]) -> usize {
        let Some(at) = self.prepared.take() else { return self.run.lower_bound(key) };
        debug_assert_eq!(at, self.run.lower_bound(key), "a seek was prepared for another key");
        at
    }

    #[inline(always)]
    fn table_cursor(&self) -> &TableCursor {
        &self.cursor
    }

    /// Whether the open cursor is at an entry inside the part's slice.
    #[inline]
    fn is_inside(&self) -> bool {
        let cursor = self.table_cursor();
        if !cursor.is_valid() {
            return false;
        }
        !self.sliced || self.current_part().meta.contains(cursor.key())
    }

    /// Ends a step that left a block, or in a slice.
    #[inline(never)]
    fn finish_step(&mut self) -> Result<()> {
        self.valid = false;
        let cursor = &mut self.cursor;
        if !cursor.is_valid() {
            cursor.next_block()?;
        }
        if self.is_inside() {
            self.valid = true;
            return Ok(());
        }
        self.first_from(self.at + 1)
    }

    /// As [`RunCursor::finish_step`], backwards.
    #[inline(never)]
    fn finish_step_back(&mut self) -> Result<()> {
        self.valid = false;
        let cursor = &mut self.cursor;
        if !cursor.is_valid() {
            cursor.previous_block()?;
        }
        if self.is_inside() {
            self.valid = true;
            return Ok(());
        }
        self.last_before(self.at)
    }

    #[inline(never)]
    fn next_out_of_line(&mut self) -> Result<()> {
        self.next()
    }

    /// Moves to the first visible entry from part `at` on.
    fn first_from(&mut self, mut at: usize) -> Result<()> {
        self.valid = false;
        while at < self.run.parts.len() {
            let meta = Arc::clone(&self.run.parts[at].meta);
            let cursor = self.open_for(at, Access::Pass)?;
            if meta.sliced {
                cursor.seek(meta.smallest(), SeqNo::MAX)?;
            } else {
                cursor.seek_to_first()?;
            }
            if self.is_inside() {
                self.valid = true;
                return Ok(());
            }
            at += 1;
        }
        Ok(())
    }

    /// Moves to the last visible entry of the parts before part `end`.
    fn last_before(&mut self, end: usize) -> Result<()> {
        self.valid = false;
        for at in (0..end).rev() {
            let meta = Arc::clone(&self.run.parts[at].meta);
            let cursor = self.open_for(at, Access::Pass)?;
            match (meta.sliced, &meta.range.end) {
                (true, KeyEnd::Excluded(border)) => cursor.seek_before(border)?,
                (true, KeyEnd::Included(last)) => {
                    // The entries of the last key itself lie inside: move to the oldest of them.
                    cursor.seek(last, SeqNo::ZERO)?;
                    step_back_to(cursor, last)?;
                }
                _ => cursor.seek_to_last()?,
            }
            if self.is_inside() {
                self.valid = true;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Moves back to the last entry whose key is not greater than `last`, from a seek that may have gone past it.
fn step_back_to(cursor: &mut TableCursor, last: &[u8]) -> Result<()> {
    if !cursor.is_valid() {
        return cursor.seek_to_last();
    }
    if cursor.key() > last { cursor.prev() } else { Ok(()) }
}

impl Cursor for RunCursor {
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        if round > 0 {
            // A part that was not open at first is opened by the seek.
            let is_at = self.prepared == Some(self.at);
            return is_at && self.cursor.is_attached() && self.cursor.prepare_seek(key, round);
        }
        self.valid = false;
        let at = self.run.lower_bound(key);
        self.prepared = Some(at);
        let is_open = self.run.parts.get(at).is_some_and(|part| part.file.opened().is_some());
        is_open && self.open(at).is_ok_and(|cursor| cursor.prepare_seek(key, round))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.prepared = None;
        self.first_from(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.prepared = None;
        self.last_before(self.run.parts.len())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.valid = false;
        let at = self.start(key);
        let Some(part) = self.run.parts.get(at) else { return Ok(()) };
        if part.meta.sliced && key < part.meta.smallest() {
            return self.first_from(at);
        }
        self.open(at)?.seek(key, seqno)?;
        if self.is_inside() {
            self.valid = true;
            return Ok(());
        }
        self.first_from(at + 1)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.valid = false;
        let at = self.start(key);
        // Only if the part has lesser keys; it need not be opened to learn that it has none.
        if self.run.parts.get(at).is_none_or(|part| key <= part.meta.smallest()) {
            return self.last_before(at);
        }
        self.open(at)?.seek_before(key)?;
        if self.is_inside() {
            self.valid = true;
            return Ok(());
        }
        self.last_before(at)
    }

    #[inline(always)]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        // A whole table shows every entry, and a step forwards does not leave a slice at its start: within a
        // block one comparison of integers nearly always decides.
        let cursor = &mut self.cursor;
        if cursor.step() && (!self.sliced || cursor.head(0) < self.end_head) {
            return Ok(());
        }
        self.finish_step()
    }

    #[inline(always)]
    fn pass(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        if self.cursor.step_uniform() {
            if !self.sliced || self.cursor.head(0) < self.end_head {
                return Ok(());
            }
            return self.finish_step();
        }
        self.next_out_of_line()
    }

    #[inline(always)]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        let cursor = &mut self.cursor;
        if cursor.step_back() && !self.sliced {
            return Ok(());
        }
        self.finish_step_back()
    }

    /// Within a block, where the run has one version of each key. A slice is iterated with a check of each
    /// key.
    #[inline(always)]
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        if !self.tells {
            return (BoundOrder::Unknown, 0);
        }
        self.table_cursor().bound_order_of_only::<BACKWARD>(bound)
    }

    #[inline(always)]
    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        debug_assert!(self.tells, "asked of a run that has not told where it stands");
        let cursor = &mut self.cursor;
        cursor.step_to_only::<BACKWARD>(bound)
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.valid
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        self.table_cursor().key()
    }

    #[inline(always)]
    fn tag(&self) -> Tag {
        self.table_cursor().tag()
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        self.table_cursor().value()
    }

    #[inline(always)]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        self.table_cursor().entry()
    }

    #[inline(always)]
    fn head(&self, skip: usize) -> u64 {
        self.table_cursor().head(skip)
    }
}
