//! Entering a block: from the cache, from the mapped file, or read by windows into the cursor's own buffers.
//!
//! These are the only functions that replace what the cursor's position points into.

use super::{ReadPurpose, TableCursor, attached};
use crate::block::{Block, BlockBytes, BlockRef};
use crate::load::{unpack, verify_numbered};
use crate::observed_reads::{BlockOrigin, note};
use crate::read_ahead::Walk;
use crate::table::Table;
use crate::waiting_block::WaitingBlock;
use esker_base::{Result, large_buffer};
use esker_cache::BlockKind;
use esker_codec::id;

/// A larger block of a scan is decoded into memory of its own, which is counted where it is cached.
const LARGEST_OWN_BYTES: usize = 64 << 10;

/// Whether a block that was read, and takes `bytes` in memory, goes into the cache (SD1, SD2).
fn is_kept(table: &Table, purpose: ReadPurpose, number: usize, bytes: usize) -> bool {
    purpose == ReadPurpose::Point || table.cache.admits_scanned(&table.cache_key(number), bytes)
}

impl TableCursor {
    /// Enters block `number`, on no entry yet. After an error the cursor is in no block.
    #[inline]
    pub(super) fn enter(&mut self, number: usize) -> Result<()> {
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
            if let Some(block) = self.read_alone(walk, number)? {
                let is_kept = is_kept(table, self.purpose, number, block.memory_bytes());
                let admission = self.purpose.admission();
                let block = if is_kept { table.admit(block, number, admission) } else { block };
                self.hold(block, number);
                return Ok(());
            }
            self.read_ahead.begin_with_window();
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

    /// The block that a walk begins with, or one beside none; `None` if it is better read with those behind
    /// it.
    fn read_alone(&self, walk: Walk, number: usize) -> Result<Option<BlockRef>> {
        let table = &**attached(&self.table);
        // A step backwards to the entry before a key may be the whole walk.
        if self.purpose == ReadPurpose::Scan && walk != Walk::Backwards {
            table.read_block_in_page_cache(number)
        } else {
            table.read_block(number).map(Some)
        }
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
}
