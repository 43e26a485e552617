//! Table cursor: walks a table in both directions.
//!
//! A cursor holds the table, the block it is in, and a position in that block; it allocates nothing while it
//! walks through cached blocks. When it enters a block, it prefetches the first lines of the next one, so
//! that the step over costs no miss. A walk that came from an adjacent block prefetches with each step the
//! same offset in the next block, so that all of that block has arrived by then, in either direction.
//!
//! # Where blocks come from
//! * [`ReadPurpose::Point`] and [`ReadPurpose::Scan`] use the cache; blocks of scans cannot evict those of
//!   lookups. Uncached blocks are read one by one at first and in growing windows as the walk goes on, in
//!   either direction. What the cache would not keep of a scan (SD1, SD2) is decoded into a buffer of the
//!   cursor, or walked over in the window: it takes no memory of the cache, and evicts nothing.
//! * [`ReadPurpose::Observed`] reads as a scan does and notes where each block was (OR1).
//! * [`ReadPurpose::Compaction`] does not fill the cache: it reads each block once, 64 KiB at a time into a
//!   buffer of its own, and uncompressed blocks are decoded in place. A job's cursor reports for each block
//!   whether it is cached ([`crate::cache_warmer`]) and walks over blocks whose slots are full without
//!   reading them: they were read, verified and decompressed before, and each step prefetches the next one.
//!   That is not recorded as a use. Other walks of this purpose, such as verification of written tables, read
//!   everything from the file.
//!
//! # Safety argument
//! [`BlockCursor`] points into the block that `pinned` keeps: a shared block, whose memory neither moves nor
//! changes while it is counted; or the table's mapped file (MP2); or the buffers of `read_ahead`, `unpacked`
//! and `waiting`, whose memory does not move with the cursor and is changed by [`TableCursor::enter`] and
//! what it calls only ([`enter`]), which closes the block cursor first. Nothing else replaces `pinned`.

mod enter;

use crate::block::cursor::BlockCursor;
use crate::block::{BlockBytes, BlockRef};
use crate::index::BlockIndex;
use crate::input_residency::{InputReading, ScratchFiles};
use crate::lookup::prefetch_slots;
use crate::read_ahead::ReadAhead;
use crate::simd::{Kernel, with_kernel};
use crate::table::Table;
use crate::waiting_block::WaitingBlock;
use esker_base::{Result, SeqNo, Tag};
use esker_cache::Admission;
use esker_env::MemoryHolding;
use esker_iter::{BoundOrder, Cursor};
use std::sync::Arc;

/// What a cursor is for; decides how it uses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPurpose {
    /// A few entries around a key, which may well be read again.
    Point,
    /// A range, which is read once.
    Scan,
    /// As [`ReadPurpose::Scan`], in a section of [`crate::ObservedReads`].
    Observed,
    /// All of the table, which is about to be replaced.
    Compaction,
}

impl ReadPurpose {
    fn admission(self) -> Admission {
        match self {
            ReadPurpose::Point => Admission::Point,
            ReadPurpose::Scan | ReadPurpose::Observed | ReadPurpose::Compaction => Admission::Scan,
        }
    }
}

/// A position among all versions of all keys of a table.
pub struct TableCursor {
    /// `None` until the cursor is attached.
    table: Option<Arc<Table>>,
    purpose: ReadPurpose,
    /// The table's, copied here because every step needs it.
    global_seqno: SeqNo,
    position: BlockCursor,
    /// Number of the entered block, if the position is in one.
    number: usize,
    /// Keeps the block alive, if it is shared.
    pinned: Option<BlockRef>,
    /// The block that a seek was prepared for; `ahead` is that block once it is found in memory.
    prepared: usize,
    /// The head that alone decided for that block: see [`BlockIndex::deciding_head`].
    prepared_head: Option<u64>,
    ahead: Option<BlockRef>,
    read_ahead: ReadAhead,
    /// A decompressed block that is not shared.
    unpacked: Vec<u8>,
    /// A large block of a job's, for which other inputs left no memory.
    waiting: Option<WaitingBlock>,
    /// Makes the files of waiting blocks.
    scratch: Option<Arc<dyn ScratchFiles>>,
    /// What `unpacked` or `waiting` has of the memory budget, if it is large.
    held: MemoryHolding,
}

// SAFETY: the raw pointers in `position` point into memory that the cursor owns or has a count of (see the
// safety argument above), and blocks are immutable.
unsafe impl Send for TableCursor {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for TableCursor {}

impl Table {
    /// A cursor on no entry, for a job: cached blocks come from the cache, others bypass it (HO12).
    pub fn job_cursor(self: &Arc<Self>, reading: InputReading) -> TableCursor {
        let mut cursor = TableCursor::detached_for_job(reading);
        cursor.attach(self);
        cursor
    }

    /// A cursor on no entry.
    pub fn cursor(self: &Arc<Self>, purpose: ReadPurpose) -> TableCursor {
        let mut cursor = TableCursor::detached(purpose);
        cursor.attach(self);
        cursor
    }
}

#[inline(always)]
fn attached(table: &Option<Arc<Table>>) -> &Arc<Table> {
    table.as_ref().expect("a cursor moves only in a table")
}

impl TableCursor {
    /// A cursor on no table yet, and so on no entry. It is large, so the caller makes it in its final place
    /// and [attaches](TableCursor::attach) it there when the table is known.
    #[inline(always)]
    pub fn detached(purpose: ReadPurpose) -> TableCursor {
        let read_ahead = match purpose {
            ReadPurpose::Compaction => ReadAhead::full(),
            ReadPurpose::Point | ReadPurpose::Scan | ReadPurpose::Observed => ReadAhead::growing(),
        };
        TableCursor {
            table: None,
            purpose,
            global_seqno: SeqNo::ZERO,
            position: BlockCursor::new(purpose != ReadPurpose::Compaction),
            number: 0,
            pinned: None,
            prepared: 0,
            prepared_head: None,
            ahead: None,
            read_ahead,
            unpacked: Vec::new(),
            waiting: None,
            scratch: None,
            held: MemoryHolding::default(),
        }
    }

    /// The same for [`Table::job_cursor`].
    pub fn detached_for_job(reading: InputReading) -> TableCursor {
        TableCursor {
            scratch: reading.scratch.clone(),
            read_ahead: ReadAhead::for_job(reading),
            ..TableCursor::detached(ReadPurpose::Compaction)
        }
    }

    /// Whether it has a table.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        self.table.is_some()
    }

    /// Gives the cursor its table, once: what it holds and has read ahead belongs to that table.
    #[inline]
    pub fn attach(&mut self, table: &Arc<Table>) {
        assert!(self.table.is_none(), "a cursor stays in its table");
        self.global_seqno = table.global_seqno;
        self.table = Some(Arc::clone(table));
    }
}

impl TableCursor {
    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        attached(&self.table)
    }

    /// Moves to the following entry if it is in the same block; else the cursor is on no entry and
    /// [`TableCursor::next_block`] is next. The cursor must be valid.
    #[inline(always)]
    pub fn step(&mut self) -> bool {
        debug_assert!(self.is_valid());
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.next() };
        self.position.is_valid()
    }

    /// Moves to the preceding entry if it is in the same block; else the cursor is on no entry and
    /// [`TableCursor::previous_block`] is next. The cursor must be valid.
    #[inline(always)]
    pub fn step_back(&mut self) -> bool {
        debug_assert!(self.is_valid());
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.prev() };
        self.position.is_valid()
    }

    /// Moves to the following entry if it is in the same block and the block allows the fast path; else does
    /// nothing. For the one loop that this is compiled into. The cursor must be valid.
    #[inline(always)]
    pub fn step_uniform(&mut self) -> bool {
        debug_assert!(self.is_valid());
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.next_uniform() }
    }

    /// How the entry compares with `bound` in the direction of `BACKWARD`, and the bound for
    /// [`TableCursor::step_to_only`], see [`Cursor::bound_order`]. The caller knows that the table has one
    /// version of each key. The cursor must be valid.
    #[inline(always)]
    pub fn bound_order_of_only<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        debug_assert!(self.is_valid());
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.bound_order::<BACKWARD>(bound) }
    }

    /// Moves to the next entry within the block and compares it with a bound; does nothing where the result
    /// is unknown. The cursor must be valid.
    #[inline(always)]
    pub fn step_to_only<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        debug_assert!(self.is_valid());
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.step_towards::<BACKWARD>(bound) }
    }

    /// Moves to the first entry of the next block, to none after the last block.
    ///
    /// # Errors
    /// Errors of reading the block.
    #[cold]
    pub fn next_block(&mut self) -> Result<()> {
        self.first_of(self.number + 1)
    }

    /// Moves to the last entry of the previous block, to none before the first block.
    ///
    /// # Errors
    /// Errors of reading the block.
    #[cold]
    pub fn previous_block(&mut self) -> Result<()> {
        self.last_before(self.number)
    }

    #[cfg(test)]
    pub(crate) fn under_way(&self) -> Option<std::ops::Range<usize>> {
        self.read_ahead.under_way()
    }

    /// Moves to the first entry of block `number`, to none if there is no such block.
    fn first_of(&mut self, number: usize) -> Result<()> {
        if number >= attached(&self.table).blocks() {
            self.position.close();
            return Ok(());
        }
        self.enter(number)?;
        self.walk_towards(number + 1);
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.move_to_first() };
        Ok(())
    }

    /// Moves to the last entry of the block before `number`, to none if there is no such block.
    fn last_before(&mut self, number: usize) -> Result<()> {
        let Some(number) = number.checked_sub(1) else {
            self.position.close();
            return Ok(());
        };
        self.enter(number)?;
        self.walk_towards(number.wrapping_sub(1));
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.move_to_last() };
        Ok(())
    }

    /// Prefetches the start of the block that a walk enters next, if in memory; the next steps prefetch the
    /// rest.
    #[inline]
    fn walk_towards(&mut self, number: usize) {
        if (self.purpose != ReadPurpose::Compaction || self.pinned.is_some())
            && let Some(slot) = attached(&self.table).slots.get(number)
        {
            slot.prefetch_block();
            self.position.walk_towards(slot.address());
        }
    }

    #[inline]
    fn prefetch_block(&self, number: usize) {
        if self.purpose != ReadPurpose::Compaction {
            attached(&self.table).prefetch_block(number);
        }
    }

    /// The block in which a seek to a version of `key` starts; none if the table has no block. After an error
    /// the cursor is on no entry.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    unsafe fn start<K: Kernel>(&mut self, key: &[u8], newest: Tag) -> Result<Option<usize>> {
        let Some(index) = &attached(&self.table).index else { return Ok(None) };
        if index.tree().is_none() {
            return attached(&self.table)
                .locate(index, key, newest)
                .map(Some)
                .inspect_err(|_| self.position.close());
        }
        // Mostly the seek was prepared, and the block is known.
        let head = index.deciding_head(key);
        if head.is_some() && head == self.prepared_head {
            // SAFETY: the caller has the instructions.
            debug_assert_eq!(self.prepared, unsafe { index.locate::<K>(key, newest) }, "one head, one block");
            return Ok(Some(self.prepared));
        }
        // SAFETY: the caller has the instructions.
        Ok(Some(unsafe {
            index.locate_near::<K>(key, newest, |first| prefetch_slots(attached(&self.table), first))
        }))
    }

    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    unsafe fn seek_with<K: Kernel>(&mut self, key: &[u8], newest: Tag) -> Result<()> {
        // SAFETY: the caller has the instructions.
        let Some(number) = (unsafe { self.start::<K>(key, newest)? }) else { return Ok(()) };
        if attached(&self.table).bounds.is_some() && self.skips_unread(number, key, Table::ends_before)? {
            return self.first_of(number + 1);
        }
        self.enter(number)?;
        // SAFETY: the caller has the instructions, and the cursor keeps the block alive.
        unsafe { self.position.seek::<K>(key, newest) };
        if self.position.is_valid() {
            self.prefetch_block(number + 1);
            return Ok(());
        }
        self.first_of(number + 1)
    }

    /// Moves to the last entry of a lesser key: in the block where the key belongs, or else in the one
    /// before.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    unsafe fn seek_before_with<K: Kernel>(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: the caller has the instructions.
        let Some(number) = (unsafe { self.start::<K>(key, Tag::NEWEST)? }) else { return Ok(()) };
        if attached(&self.table).bounds.is_some() && self.skips_unread(number, key, Table::begins_behind)? {
            return self.last_before(number);
        }
        self.enter(number)?;
        // SAFETY: the caller has the instructions, and the cursor keeps the block alive.
        unsafe { self.position.seek::<K>(key, Tag::NEWEST) };
        if self.position.is_valid() {
            return self.prev();
        }
        self.prefetch_block(number.wrapping_sub(1));
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.move_to_last() };
        Ok(())
    }

    /// Whether block `number` is not in memory and a seek to the key needs nothing of it.
    #[cold]
    fn skips_unread(
        &mut self,
        number: usize,
        key: &[u8],
        is_outside: fn(&Table, &BlockIndex, usize, &[u8]) -> Result<bool>,
    ) -> Result<bool> {
        let is_at_hand = (self.position.count() > 0 && self.number == number)
            || (self.ahead.is_some() && self.prepared == number)
            || self.read_ahead.holds(number)
            || attached(&self.table).slots.get(number).is_some_and(|slot| slot.get().is_some())
            || attached(&self.table).verified.as_ref().is_some_and(|verified| verified.contains(number));
        let Some(index) = attached(&self.table).index.as_ref().filter(|_| !is_at_hand) else {
            return Ok(false);
        };
        is_outside(attached(&self.table), index, number, key).inspect_err(|_| self.position.close())
    }

    /// Moves to a greater key: this key's entries count as newer than the reader (ingested tables).
    #[cold]
    fn skip_key(&mut self, key: &[u8]) -> Result<()> {
        while self.is_valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    /// Finds the block in which a seek to `key` starts, and prefetches its slot; whether there is one.
    #[inline]
    fn prepare_block(&mut self, key: &[u8]) -> bool {
        self.ahead = None;
        let located = with_kernel!(
            attached(&self.table).isa,
            |K| (table: &Table, key: &[u8]) -> Option<usize> {
                // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions
                // exist.
                unsafe { locate_block::<K>(table, key) }
            }
            (attached(&self.table), key)
        );
        self.prepared = located.unwrap_or_default();
        self.prepared_head =
            located.and(attached(&self.table).index.as_ref()).and_then(|index| index.deciding_head(key));
        located.is_some()
    }

    /// Takes the prefetched block if it is in memory, and prefetches the entry.
    #[inline]
    fn prepare_entry(&mut self, key: &[u8]) {
        // Blocks of a mapped file are not cached as a rule, and are entered in place.
        if self.ahead.is_some()
            || attached(&self.table).index.is_none()
            || attached(&self.table).verified.is_some()
        {
            return;
        }
        self.ahead = attached(&self.table).prefetched_block(self.prepared, self.purpose.admission());
        if let Some(block) = &self.ahead {
            with_kernel!(
                attached(&self.table).isa,
                |K| (block: &BlockBytes, key: &[u8]) -> () {
                    // SAFETY: as in `prepare_block`.
                    unsafe { BlockCursor::prefetch_seek::<K>(block, key) }
                }
                (block.contents(), key)
            );
        }
    }

    fn seek_to(&mut self, key: &[u8], newest: Tag) -> Result<()> {
        with_kernel!(
            attached(&self.table).isa,
            |K| (cursor: &mut TableCursor, key: &[u8], newest: Tag) -> Result<()> {
                // SAFETY: as in `prepare_block`.
                unsafe { cursor.seek_with::<K>(key, newest) }
            }
            (self, key, newest)
        )
    }
}

/// The block in which a seek to any version of `key` starts.
///
/// # Safety
/// The kernel's instructions must be available.
#[inline(always)]
unsafe fn locate_block<K: Kernel>(table: &Table, key: &[u8]) -> Option<usize> {
    let index = table.index.as_ref()?;
    if index.tree().is_none() {
        // The seek itself reports the error.
        return table.locate(index, key, Tag::NEWEST).ok();
    }
    // SAFETY: the caller has the instructions.
    Some(unsafe { index.locate_near::<K>(key, Tag::NEWEST, |first| prefetch_slots(table, first)) })
}

impl Cursor for TableCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        self.first_of(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.last_before(attached(&self.table).blocks())
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.seek_to(key, Tag::visible_at(seqno))?;
        if seqno < self.global_seqno { self.skip_key(key) } else { Ok(()) }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        with_kernel!(
            attached(&self.table).isa,
            |K| (cursor: &mut TableCursor, key: &[u8]) -> Result<()> {
                // SAFETY: as in `prepare_block`.
                unsafe { cursor.seek_before_with::<K>(key) }
            }
            (self, key)
        )
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.step() { Ok(()) } else { self.next_block() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.step_back() { Ok(()) } else { self.previous_block() }
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.position.is_valid()
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        self.position.key()
    }

    #[inline(always)]
    fn tag(&self) -> Tag {
        self.position.tag().at_global(self.global_seqno)
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.value() }
    }

    #[inline(always)]
    fn head(&self, skip: usize) -> u64 {
        // SAFETY: the cursor keeps the block alive.
        unsafe { self.position.head(skip) }
    }

    /// Finds the block, then prefetches it, then takes it and prefetches the entry. Between rounds the other
    /// sources do the same: the first access to a block mostly waits for address translation, be it a
    /// prefetch, and blocks prefetched one after the other wait together.
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        if matches!(self.purpose, ReadPurpose::Observed | ReadPurpose::Compaction) {
            self.position.close();
            return false;
        }
        match round {
            0 => {
                self.position.close();
                self.prepare_block(key)
            }
            1 => {
                self.prefetch_block(self.prepared);
                true
            }
            _ => {
                self.prepare_entry(key);
                false
            }
        }
    }
}

impl std::fmt::Debug for TableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCursor")
            .field("file", &self.table.as_ref().map(|table| table.file.path()))
            .field("purpose", &self.purpose)
            .field("block", &self.number)
            .field("index", &self.position.index())
            .finish_non_exhaustive()
    }
}
