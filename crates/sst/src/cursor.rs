//! Walking a table.
//!
//! A cursor holds the table, the memory of the block it is in, and a position in it; nothing is allocated
//! while it walks through cached blocks. When it enters a block it prefetches the first lines of the one it
//! will enter next, so that the step over costs no miss; and a walk that came from a neighbouring block asks
//! with each step for the same place in the next one, so that all of it is there by then, in either
//! direction.
//!
//! # Where blocks come from
//! * [`ReadPurpose::Point`] and [`ReadPurpose::Scan`] use the cache, the latter in a way that cannot push out
//!   what lookups use. What is not there is read block by block at first and in growing windows as the walk
//!   goes on.
//! * [`ReadPurpose::Compaction`] does not fill the cache: it reads each block once, 64 KiB at a time into a
//!   buffer of its own, and uncompressed blocks are decoded where they lie. A job's cursor tells of each
//!   block whether it is in the cache ([`crate::cache_warming`]), and walks over those whose slots have them where
//!   they lie: they were read, verified and decompressed before, and each step asks for memory in the next
//!   one. That is no use of theirs of which the cache is told. Other walks of this purpose, such as those
//!   that check what was written, take everything from the file.
//!
//! # Safety argument
//! [`BlockCursor`] points into the block that `held` keeps: a shared block, whose memory neither moves nor
//! changes while it is counted, or the table's mapped file (MP2), or the buffers of `read_ahead` and
//! `unpacked`, whose heap memory does not move with the cursor and is changed by [`TableCursor::enter`] only,
//! which closes the block cursor first. `enter` is also the only place that replaces `held`.

use crate::block::cursor::BlockCursor;
use crate::block::{BlockBytes, BlockRef};
use crate::cache_warming::InputReading;
use crate::index::BlockIndex;
use crate::load::{unpack, verify_numbered};
use crate::lookup::prefetch_slots;
use crate::read_ahead::ReadAhead;
use crate::simd::{Kernel, with_kernel};
use crate::table::Table;
use esker_base::{Result, SeqNo, Tag};
use esker_cache::{Admission, BlockKind};
use esker_codec::id;
use esker_iter::{Cursor, Standing};
use std::sync::Arc;

/// What a cursor is for; decides how it uses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPurpose {
    /// A few entries around a key, which may well be asked for again.
    Point,
    /// A range, which comes by once.
    Scan,
    /// All of the table, which is about to be replaced.
    Compaction,
}

impl ReadPurpose {
    fn admission(self) -> Admission {
        match self {
            ReadPurpose::Point => Admission::Point,
            ReadPurpose::Scan | ReadPurpose::Compaction => Admission::Scan,
        }
    }
}

/// A position among all versions of all keys of a table.
pub struct TableCursor {
    /// None before it is given one.
    table: Option<Arc<Table>>,
    purpose: ReadPurpose,
    /// As the table's; here because every step asks for it.
    global_seqno: SeqNo,
    position: BlockCursor,
    /// Number of the block entered, if the position is in one.
    number: usize,
    /// Keeps the block alive, if it is shared.
    pinned: Option<BlockRef>,
    /// The block that a seek was prepared for, once it is known and once it is held.
    prepared: usize,
    /// What alone decided that it was that block: see [`BlockIndex::deciding_head`].
    prepared_head: Option<u64>,
    ahead: Option<BlockRef>,
    read_ahead: ReadAhead,
    /// A decompressed block that is not shared.
    unpacked: Vec<u8>,
}

// SAFETY: the raw pointers in `position` point into memory that the cursor owns or has a count of (see the
// safety argument above), and blocks are immutable.
unsafe impl Send for TableCursor {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for TableCursor {}

impl Table {
    /// A cursor on no entry, for a job that reads all of the table, or a range: from the cache what that has,
    /// the rest past it (HO12).
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

/// The table that a cursor has.
#[inline(always)]
fn attached(table: &Option<Arc<Table>>) -> &Arc<Table> {
    table.as_ref().expect("a cursor moves only in a table")
}

impl TableCursor {
    /// A cursor on no table yet, and so on no entry. It is large, so whoever will need one makes it in its
    /// place, and there [attaches](TableCursor::attach) it when the table is known.
    #[inline(always)]
    pub fn detached(purpose: ReadPurpose) -> TableCursor {
        let read_ahead = match purpose {
            ReadPurpose::Compaction => ReadAhead::full(),
            ReadPurpose::Point | ReadPurpose::Scan => ReadAhead::growing(),
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
        }
    }

    /// The same for [`Table::job_cursor`].
    pub fn detached_for_job(reading: InputReading) -> TableCursor {
        TableCursor {
            read_ahead: ReadAhead::for_job(reading),
            ..TableCursor::detached(ReadPurpose::Compaction)
        }
    }

    /// Whether it has a table.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        self.table.is_some()
    }

    /// Gives the cursor its table. It must have none, because what it holds and has read ahead is that
    /// table's.
    #[inline]
    pub fn attach(&mut self, table: &Arc<Table>) {
        assert!(self.table.is_none(), "a cursor stays in its table");
        self.global_seqno = table.global_seqno;
        self.table = Some(Arc::clone(table));
    }
}

impl TableCursor {
    /// The table it walks.
    pub fn table(&self) -> &Arc<Table> {
        attached(&self.table)
    }

    /// Moves to the following entry if it is in the same block; else the cursor is on no entry and
    /// [`TableCursor::next_block`] is next. The cursor must be valid.
    #[inline(always)]
    pub fn step(&mut self) -> bool {
        debug_assert!(self.is_valid());
        // SAFETY: the block is held.
        unsafe { self.position.next() };
        self.position.is_valid()
    }

    /// Moves to the preceding entry if it is in the same block; else the cursor is on no entry and
    /// [`TableCursor::previous_block`] is next. The cursor must be valid.
    #[inline(always)]
    pub fn step_back(&mut self) -> bool {
        debug_assert!(self.is_valid());
        // SAFETY: the block is held.
        unsafe { self.position.prev() };
        self.position.is_valid()
    }

    /// Moves to the following entry if it is in the same block and the block can be walked over quickly; else
    /// nothing happens. For the one loop that this is compiled into. The cursor must be valid.
    #[inline(always)]
    pub fn step_uniform(&mut self) -> bool {
        debug_assert!(self.is_valid());
        // SAFETY: the block is held.
        unsafe { self.position.next_uniform() }
    }

    /// How the entry stands to `bound` in the direction of `BACKWARD`, and the bound for
    /// [`TableCursor::step_to_only`], see [`Cursor::standing`], given that the table has one version of each
    /// key: of which the cursor itself, whose table may have more, tells nothing. The cursor must be valid.
    #[inline(always)]
    pub fn standing_of_only<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (Standing, u64) {
        debug_assert!(self.is_valid());
        // SAFETY: the block is held.
        unsafe { self.position.standing::<BACKWARD>(bound) }
    }

    /// Moves to the next entry within the block and says how it stands to a bound; nothing happens where that
    /// is not known. The cursor must be valid.
    #[inline(always)]
    pub fn step_to_only<const BACKWARD: bool>(&mut self, bound: u64) -> Standing {
        debug_assert!(self.is_valid());
        // SAFETY: the block is held.
        unsafe { self.position.step_towards::<BACKWARD>(bound) }
    }

    /// Moves to the first entry of the block behind the one in which the cursor is, to none if it is the
    /// last.
    ///
    /// # Errors
    /// What reading the block meets.
    #[cold]
    pub fn next_block(&mut self) -> Result<()> {
        self.first_of(self.number + 1)
    }

    /// Moves to the last entry of the block before that in which the cursor is, to none if it is the first.
    ///
    /// # Errors
    /// What reading the block meets.
    #[cold]
    pub fn previous_block(&mut self) -> Result<()> {
        self.last_before(self.number)
    }

    /// Enters block `number`, on no entry yet. After an error the cursor is in no block.
    #[inline]
    fn enter(&mut self, number: usize) -> Result<()> {
        if self.position.count() > 0 && self.number == number {
            // SAFETY: the block is held.
            unsafe { self.position.move_to_index(usize::MAX) };
            return Ok(());
        }
        self.position.close();
        if attached(&self.table).verified.is_some() && self.enter_mapped(number)? {
            self.number = number;
            return Ok(());
        }
        if self.purpose == ReadPurpose::Compaction {
            self.enter_in_place(number)?;
        } else {
            let block = match self.ahead.take() {
                Some(block) if self.prepared == number => block,
                _ => match attached(&self.table).cached_block(number, self.purpose.admission()) {
                    Some(block) => block,
                    None => self.load(number)?,
                },
            };
            // SAFETY: `held` keeps the block until the position is closed.
            unsafe { self.position.open(block.contents()) };
            self.pinned = Some(block);
        }
        self.number = number;
        Ok(())
    }

    /// See [`ReadAhead::under_way`].
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> Option<std::ops::Range<usize>> {
        self.read_ahead.under_way()
    }

    /// Enters a block where it lies in the mapped file; whether that can be done.
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

    /// Gets a block that is not in the cache: alone, or with what follows if the walk has come from the block
    /// before.
    #[cold]
    fn load(&mut self, number: usize) -> Result<BlockRef> {
        let admission = self.purpose.admission();
        let goes_on = self.read_ahead.continues_at(number) || self.read_ahead.holds(number);
        if !goes_on {
            self.read_ahead.note(number);
            return attached(&self.table).load_block(number, admission);
        }
        attached(&self.table).cache.count_miss(BlockKind::Data);
        let offset = attached(&self.table).place(number)?.start;
        let image = self.read_ahead.image(attached(&self.table), number)?;
        let block = attached(&self.table).copied_from_image(image, offset, number);
        let block = block.map_err(|error| attached(&self.table).decode_error_at(error, offset))?;
        Ok(attached(&self.table).admit(block, number, admission))
    }

    /// Enters a block for a job: where it lies in the cache, or in the cursor's own buffers.
    fn enter_in_place(&mut self, number: usize) -> Result<()> {
        let table = &**attached(&self.table);
        let place = table.place(number)?;
        let offset = place.start;
        self.pinned = None;
        if let Some(block) = self.read_ahead.resident(table, number, place.end - offset)? {
            // SAFETY: `held` keeps the block until the position is closed.
            unsafe { self.position.open(block.contents()) };
            self.position.set_fetches_ahead(true);
            self.pinned = Some(block);
            return Ok(());
        }
        // What was just read lies near.
        self.position.set_fetches_ahead(false);
        let image = self.read_ahead.image(table, number)?;
        let block = verify_numbered(image, table.uid, offset, number).and_then(|header| {
            if header.codec_id == id::NONE {
                return BlockBytes::from_bytes(image);
            }
            self.unpacked.resize(BlockBytes::memory_len(header.raw_len as usize), 0);
            unpack(&header, image, table.dictionary.as_ref(), &mut self.unpacked)?;
            BlockBytes::from_bytes(&self.unpacked)
        });
        let block = block.map_err(|error| table.decode_error_at(error, offset))?;
        // SAFETY: the buffers are changed by `enter` only, which closes the position first.
        unsafe { self.position.open(block) };
        Ok(())
    }

    /// Moves to the first entry of block `number`, to none if there is no such block.
    fn first_of(&mut self, number: usize) -> Result<()> {
        if number >= attached(&self.table).blocks() {
            self.position.close();
            return Ok(());
        }
        self.enter(number)?;
        self.walk_towards(number + 1);
        // SAFETY: the block is held.
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
        // SAFETY: the block is held.
        unsafe { self.position.move_to_last() };
        Ok(())
    }

    /// Asks for the first lines of the block that a walk will enter next, if there is one and it is in
    /// memory, and has the steps to come ask for the rest.
    #[inline]
    fn walk_towards(&mut self, number: usize) {
        if (self.purpose != ReadPurpose::Compaction || self.pinned.is_some())
            && let Some(slot) = attached(&self.table).slots.get(number)
        {
            slot.prefetch_block();
            self.position.walk_towards(slot.address());
        }
    }

    /// Asks for the first lines of a block, if there is one and it is in memory.
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
        // SAFETY: as above; the block is held.
        unsafe { self.position.seek::<K>(key, newest) };
        if self.position.is_valid() {
            self.prefetch_block(number + 1);
            return Ok(());
        }
        self.first_of(number + 1)
    }

    /// Moves to the last entry of a lesser key: in the block where the key belongs, or else in the one
    /// before, and in no other.
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
        // SAFETY: as above; the block is held.
        unsafe { self.position.seek::<K>(key, Tag::NEWEST) };
        if self.position.is_valid() {
            return self.prev();
        }
        self.prefetch_block(number.wrapping_sub(1));
        // SAFETY: the block is held.
        unsafe { self.position.move_to_last() };
        Ok(())
    }

    /// Whether block `number` would have to be read to find that nothing in it is wanted, as `is_outside`
    /// tells of the key. After an error the cursor is on no entry.
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

    /// Moves on to a greater key: the entry found is newer than what is looked for, although the file does
    /// not say so.
    #[cold]
    fn pass(&mut self, key: &[u8]) -> Result<()> {
        while self.is_valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    /// Finds the block in which a seek to `key` starts, and asks for what tells where it is in memory;
    /// whether there is one.
    #[inline]
    fn prepare_block(&mut self, key: &[u8]) -> bool {
        self.ahead = None;
        let located = with_kernel!(
            attached(&self.table).isa,
            |K| (table: &Table, key: &[u8]) -> Option<usize> {
                // SAFETY: compiled once for each kernel, and called for the one that exists.
                unsafe { locate_block::<K>(table, key) }
            }
            (attached(&self.table), key)
        );
        self.prepared = located.unwrap_or_default();
        self.prepared_head =
            located.and(attached(&self.table).index.as_ref()).and_then(|index| index.deciding_head(key));
        located.is_some()
    }

    /// Holds the block, which was asked for, if it is in memory, and asks for the entry.
    #[inline]
    fn prepare_entry(&mut self, key: &[u8]) {
        // Blocks of a mapped file are not in the cache as a rule, and are entered where they lie.
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
                    // SAFETY: compiled once for each kernel, and called for the one that exists.
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
                // SAFETY: compiled once for each kernel, and called for the one that exists.
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
        // The seek itself tells what is wrong.
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
        if seqno < self.global_seqno { self.pass(key) } else { Ok(()) }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        with_kernel!(
            attached(&self.table).isa,
            |K| (cursor: &mut TableCursor, key: &[u8]) -> Result<()> {
                // SAFETY: compiled once for each kernel, and called for the one that exists.
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
        // SAFETY: the block is held.
        unsafe { self.position.value() }
    }

    #[inline(always)]
    fn head(&self, skip: usize) -> u64 {
        // SAFETY: as above.
        unsafe { self.position.head(skip) }
    }

    /// Finds the block, then asks for it, then holds it and asks for the entry. Between rounds the other
    /// sources do the same: the first touch of a block mostly waits for its address to be translated, be it a
    /// prefetch, and blocks that are asked for right after each other wait together.
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        if self.purpose == ReadPurpose::Compaction {
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
