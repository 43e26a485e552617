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
//! what it calls only, which closes the block cursor first. Nothing else replaces `pinned`.

use crate::block::cursor::BlockCursor;
use crate::block::{Block, BlockBytes, BlockRef};
use crate::index::BlockIndex;
use crate::input_residency::{InputReading, ScratchFiles};
use crate::load::{unpack, verify_numbered};
use crate::lookup::prefetch_slots;
use crate::observed_reads::{BlockOrigin, note};
use crate::read_ahead::{ReadAhead, Walk};
use crate::simd::{Kernel, with_kernel};
use crate::table::Table;
use crate::waiting_block::WaitingBlock;
use esker_base::{Result, SeqNo, Tag, large_buffer};
use esker_cache::{Admission, BlockKind};
use esker_codec::id;
use esker_env::MemoryHolding;
use esker_iter::{BoundOrder, Cursor};
use std::sync::Arc;

/// A larger block of a scan is decoded into memory of its own, which is counted where it is cached.
const LARGEST_OWN_BYTES: usize = 64 << 10;

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

/// Whether a block that was read, and takes `bytes` in memory, goes into the cache (SD1, SD2).
fn is_kept(table: &Table, purpose: ReadPurpose, number: usize, bytes: usize) -> bool {
    purpose == ReadPurpose::Point || table.cache.admits_scanned(&table.cache_key(number), bytes)
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

    /// Enters block `number`, on no entry yet. After an error the cursor is in no block.
    #[inline]
    fn enter(&mut self, number: usize) -> Result<()> {
        if self.position.count() > 0 && self.number == number {
            // SAFETY: the cursor keeps the block alive.
            unsafe { self.position.move_to_index(usize::MAX) };
            return Ok(());
        }
        self.position.close();
        if attached(&self.table).verified.is_some() && self.enter_mapped(number)? {
            self.number = number;
            return Ok(());
        }
        if matches!(self.purpose, ReadPurpose::Observed | ReadPurpose::Compaction) {
            self.enter_out_of_line(number)?;
        } else {
            let block = match self.ahead.take() {
                Some(block) if self.prepared == number => block,
                _ => match attached(&self.table).cached_block(number, self.purpose.admission()) {
                    Some(block) => block,
                    None => return self.enter_unread(number),
                },
            };
            // SAFETY: `pinned` keeps the block until the position is closed.
            unsafe { self.position.open(block.contents()) };
            self.pinned = Some(block);
        }
        self.number = number;
        Ok(())
    }

    #[inline(never)]
    fn enter_out_of_line(&mut self, number: usize) -> Result<()> {
        if self.purpose == ReadPurpose::Compaction {
            return self.enter_in_place(number);
        }
        match attached(&self.table).cached_block_observed(number, self.purpose.admission()) {
            Some(block) => self.hold(block, number),
            None => self.enter_unread(number)?,
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn under_way(&self) -> Option<std::ops::Range<usize>> {
        self.read_ahead.under_way()
    }

    /// Enters a block in the mapped file; whether that is possible.
    #[cold]
    fn enter_mapped(&mut self, number: usize) -> Result<bool> {
        let table = &**attached(&self.table);
        let Some((_, place)) = table.mapped_image(number)? else { return Ok(false) };
        self.read_ahead.before_block(number, place.end - place.start)?;
        let Some((block, _)) = table.mapped_block(number)? else { return Ok(false) };
        // SAFETY: the cursor keeps the table, the table its file, and the file stays mapped; see the safety
        // argument.
        unsafe { self.position.open(block) };
        self.pinned = None;
        Ok(true)
    }

    /// Enters a block that is not in memory: read alone, or with its neighbours if the walk came from there.
    #[cold]
    fn enter_unread(&mut self, number: usize) -> Result<()> {
        let table = &**attached(&self.table);
        // `number` of the cursor is still that of the block that the walk has left.
        let walk = Walk::between(self.number, number);
        table.cache.count_miss(BlockKind::Data);
        if !(self.read_ahead.goes_on(walk, number) || self.read_ahead.holds(number)) {
            self.read_ahead.note(walk, number);
            let block = table.read_block(number)?;
            let is_kept = is_kept(table, self.purpose, number, block.memory_bytes());
            let admission = self.purpose.admission();
            let block = if is_kept { table.admit(block, number, admission) } else { block };
            self.hold(block, number);
            return Ok(());
        }
        let place = table.place(number)?;
        note(BlockOrigin::File { bytes: place.end - place.start });
        self.read_ahead.read(walk, table, number)?;
        let image = self.read_ahead.image_of(number);
        let read = verify_numbered(image, table.uid, place.start, number);
        let header = read.map_err(|error| table.decode_error_at(error, place.start))?;
        let bytes = Block::memory_bytes_of(header.raw_len as usize);
        if bytes > LARGEST_OWN_BYTES || is_kept(table, self.purpose, number, bytes) {
            let block = table.unpacked(&header, image);
            let block = block.map_err(|error| table.decode_error_at(error, place.start))?;
            let block = table.admit(block, number, self.purpose.admission());
            self.read_ahead.free_if_passed(walk, number);
            self.hold(block, number);
            return Ok(());
        }
        // An uncompressed block is copied all the same if its image is freed now.
        let is_in_place = header.codec_id == id::NONE && !self.read_ahead.frees_at(walk, number);
        let block = if is_in_place {
            BlockBytes::from_bytes(image)
        } else {
            self.unpacked.resize(BlockBytes::memory_len(header.raw_len as usize), 0);
            unpack(&header, image, table.dictionary.as_ref(), &mut self.unpacked)
                .and_then(|()| BlockBytes::from_bytes(&self.unpacked))
        };
        let block = block.map_err(|error| table.decode_error_at(error, place.start))?;
        // SAFETY: the buffers are changed by `enter` only, which closes the position first; and below, the
        // image if the block does not lie in it.
        unsafe { self.position.open(block) };
        self.read_ahead.free_if_passed(walk, number);
        self.pinned = None;
        self.number = number;
        Ok(())
    }

    /// Enters a block that is shared, or could be.
    fn hold(&mut self, block: BlockRef, number: usize) {
        // SAFETY: `pinned` keeps the block until the position is closed.
        unsafe { self.position.open(block.contents()) };
        self.pinned = Some(block);
        self.number = number;
    }

    /// Enters a block for a job: in the cache, or in the cursor's own buffers.
    fn enter_in_place(&mut self, number: usize) -> Result<()> {
        let table = &**attached(&self.table);
        let place = table.place(number)?;
        let offset = place.start;
        self.pinned = None;
        // Before the next value is read: two large ones are in memory nowhere.
        large_buffer::free_if_large(&mut self.unpacked);
        self.waiting = None;
        self.held.release();
        if let Some(block) = self.read_ahead.resident(table, number, place.end - offset)? {
            // SAFETY: `pinned` keeps the block until the position is closed.
            unsafe { self.position.open(block.contents()) };
            self.position.set_fetches_ahead(true);
            self.pinned = Some(block);
            return Ok(());
        }
        // What was just read is in the processor's caches.
        self.position.set_fetches_ahead(false);
        let image = self.read_ahead.image(table, number)?;
        let block = verify_numbered(image, table.uid, offset, number).and_then(|header| {
            let len = BlockBytes::memory_len(header.raw_len as usize);
            if len >= large_buffer::LARGE_BYTES
                && !self.held.try_hold(&table.identity.memory().large_inputs, len as u64)
                && let Some(files) = &self.scratch
            {
                let fill = |bytes: &mut [u8]| unpack(&header, image, table.dictionary.as_ref(), bytes);
                self.waiting = WaitingBlock::create(&**files, len, fill)?;
            }
            if let Some(waiting) = &self.waiting {
                return BlockBytes::from_bytes(waiting.bytes());
            }
            if header.codec_id == id::NONE {
                return BlockBytes::from_bytes(image);
            }
            large_buffer::resize(&mut self.unpacked, len);
            unpack(&header, image, table.dictionary.as_ref(), &mut self.unpacked)?;
            BlockBytes::from_bytes(&self.unpacked)
        });
        let block = block.map_err(|error| table.decode_error_at(error, offset))?;
        let is_raw = block.header().codec_id == id::NONE;
        let bytes = BlockBytes::memory_len(block.header().raw_len as usize);
        // SAFETY: the buffers are changed by `enter` only, which closes the position first; and below, the
        // image that a decompressed block does not lie in.
        unsafe { self.position.open(block) };
        // That of other blocks is small beside the windows.
        if bytes >= large_buffer::LARGE_BYTES {
            self.hold_large(bytes, is_raw);
        }
        Ok(())
    }

    /// Holds what a large block has of the memory budget, and frees the image that it does not lie in.
    #[cold]
    fn hold_large(&mut self, bytes: usize, is_raw: bool) {
        let table = &**attached(&self.table);
        let is_in_file = self.waiting.as_ref().is_some_and(WaitingBlock::is_in_file);
        if is_raw && self.waiting.is_none() {
            // The image is counted where it is read.
            self.held.release();
        } else {
            self.read_ahead.free_if_large(table);
            let held = if is_in_file { 0 } else { bytes as u64 };
            self.held.hold(&table.identity.memory().large_inputs, held);
        }
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
