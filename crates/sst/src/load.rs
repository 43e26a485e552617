//! Block loading: from a slot, the cache or the file. Every block from a file is verified before it is used
//! (BS6).

use crate::block::header::{FRAME_BYTES, HEADER_BYTES, verify_image};
use crate::block::{BlockBuffer, BlockHeader, BlockRef};
use crate::cached_part::CachedPart;
use crate::decode_error::{DecodeError, damaged};
use crate::index::BlockIndex;
use crate::observed_reads::{BlockOrigin, note};
use crate::slots::Slot;
use crate::table::Table;
use esker_base::{Error, Result, TableUid, large_buffer, with_thread_buffer};
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_codec::{DecodeError as CodecError, DictionaryDecoder, id};
use esker_env::{PendingRead, ReadRequest};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most bytes that a thread keeps of its buffer for compressed blocks.
const LARGEST_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why a block was not read.
enum NotRead {
    /// It is not in the page cache, or that is not known.
    Elsewhere,
    Failed(Error),
}

impl From<Error> for NotRead {
    fn from(error: Error) -> NotRead {
        NotRead::Failed(error)
    }
}

impl Table {
    #[inline(always)]
    pub(crate) fn cache_key(&self, number: usize) -> CacheKey {
        // The index counts its blocks in 32 bits.
        CacheKey { table: self.number, block: number as u32 }
    }

    /// Prefetches the first lines of block `number`, if its slot has it.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            slot.prefetch_block();
        }
    }

    /// As [`Table::prefetch_block`], for a lookup: with an empty slot, prefetches cache and index.
    #[inline(always)]
    pub(crate) fn prefetch_for_lookup(&self, index: &BlockIndex, number: usize) {
        if let Some(slot) = self.slots.get(number)
            && !slot.prefetch_block()
        {
            self.prefetch_unread(index, number);
        }
    }

    #[cold]
    #[inline(never)]
    fn prefetch_unread(&self, index: &BlockIndex, number: usize) {
        self.cache.prefetch(&self.cache_key(number));
        index.prefetch_place(number);
    }

    /// Block `number`, which must exist, if it is in the cache. A miss is counted only when the block is
    /// read: block bounds may still exclude it.
    #[inline(always)]
    pub(crate) fn cached_block(&self, number: usize, admission: Admission) -> Option<BlockRef> {
        // The line read first is waited for; the block's other lines arrive meanwhile.
        self.prefetch_block(number);
        self.prefetched_block(number, admission)
    }

    /// As [`Table::cached_block`], after [`Table::prefetch_block`].
    #[inline(always)]
    pub(crate) fn prefetched_block(&self, number: usize, admission: Admission) -> Option<BlockRef> {
        match self.block_in_slot(number, admission) {
            Some(block) => Some(block),
            None => self.block_without_slot(number, admission),
        }
    }

    /// Block `number`, if its slot has it.
    #[inline(always)]
    fn block_in_slot(&self, number: usize, admission: Admission) -> Option<BlockRef> {
        // A table has a slot for each block or none at all. Checking the number therefore also covers cache
        // kinds without slots and tables whose index is paged.
        let block = self.slots.get(number).and_then(Slot::get)?;
        if admission == Admission::Point {
            block.mark_used();
        }
        self.cache.count_shortcut_hits(BlockKind::Data, 1);
        Some(block)
    }

    /// Probes the cache for a block whose slot is empty or missing. A scan probes only where blocks have no
    /// slots: else the cache may have a block whose slot is empty, but hardly ever has, and for a long scan
    /// probing takes a tenth of what it takes to read and decode the block.
    #[cold]
    fn block_without_slot(&self, number: usize, admission: Admission) -> Option<BlockRef> {
        if admission == Admission::Scan && !self.slots.is_empty() {
            return None;
        }
        let found = self.cache.find(&self.cache_key(number), BlockKind::Data, admission)?;
        // No block has the filter's number.
        let CachedPart::Block(block) = found else { return None };
        note(BlockOrigin::Cache);
        self.install(&block, number);
        Some(block)
    }

    /// As [`Table::cached_block`], noting where the block was (OR1).
    #[cold]
    pub(crate) fn cached_block_observed(&self, number: usize, admission: Admission) -> Option<BlockRef> {
        let in_slot = self.block_in_slot(number, admission).inspect(|_| note(BlockOrigin::Slot));
        in_slot.or_else(|| self.block_without_slot(number, admission))
    }

    /// Puts a block that is in the cache, or was a moment ago, into its slot, if it has one.
    pub(crate) fn install(&self, block: &BlockRef, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            slot.install(block, |block| block.is_resident());
        }
    }

    /// Block `number`, which must exist, from the cache or the file.
    #[inline(always)]
    pub(crate) fn block(&self, number: usize, admission: Admission) -> Result<BlockRef> {
        match self.cached_block(number, admission) {
            Some(block) => Ok(block),
            None => self.load_block(number, admission),
        }
    }

    /// As [`Table::block`], noting where the block was (OR1).
    #[cold]
    pub(crate) fn block_observed(&self, number: usize, admission: Admission) -> Result<BlockRef> {
        match self.cached_block_observed(number, admission) {
            Some(block) => Ok(block),
            None => self.load_block(number, admission),
        }
    }

    /// Reads block `number`, which must exist, and caches it.
    #[cold]
    pub(crate) fn load_block(&self, number: usize, admission: Admission) -> Result<BlockRef> {
        self.cache.count_miss(BlockKind::Data);
        let block = self.read_block(number)?;
        Ok(self.admit(block, number, admission))
    }

    /// Reads block `number`, which must exist, to search it for `key`; `None` if the block bounds exclude the
    /// key.
    #[cold]
    pub(crate) fn load_block_for(
        &self,
        index: &BlockIndex,
        number: usize,
        key: &[u8],
    ) -> Result<Option<BlockRef>> {
        if self.bounds.is_some() && self.excludes(index, number, key)? {
            return Ok(None);
        }
        self.load_block(number, Admission::Point).map(Some)
    }

    /// Puts a block that was just read into the cache and its slot; returns the resident one.
    pub(crate) fn admit(&self, block: BlockRef, number: usize, admission: Admission) -> BlockRef {
        let part = CachedPart::Block(BlockRef::clone(&block));
        let part = self.cache.insert(self.cache_key(number), part, BlockKind::Data, admission);
        let block = if let CachedPart::Block(resident) = part { resident } else { block };
        self.install(&block, number);
        block
    }

    /// Reads block `number`, which must exist, past the cache.
    pub(crate) fn read_block(&self, number: usize) -> Result<BlockRef> {
        self.read_block_by(number, |image, offset| self.file.read_exact_at(image, offset))
    }

    /// As [`Table::read_block`], if the system has the block in its page cache; `None` if it has not, or
    /// cannot tell.
    pub(crate) fn read_block_in_page_cache(&self, number: usize) -> Result<Option<BlockRef>> {
        let read = |image: &mut [u8], offset| match self.file.read_cached_at(image, offset) {
            true => Ok(()),
            false => Err(NotRead::Elsewhere),
        };
        match self.read_block_by(number, read) {
            Ok(block) => Ok(Some(block)),
            Err(NotRead::Elsewhere) => Ok(None),
            Err(NotRead::Failed(error)) => Err(error),
        }
    }

    /// Reads block `number`, which must exist, by `read`, which fills its image from an offset of the file.
    #[inline(always)]
    fn read_block_by<E: From<Error>>(
        &self,
        number: usize,
        read: impl FnOnce(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<BlockRef, E> {
        let place = self.place(number)?;
        // The place lies in the file; spans of blocks are bounded by what a block may hold.
        let span = (place.end - place.start) as usize;
        if self.expects_raw_blocks.load(Ordering::Relaxed) && span > FRAME_BYTES {
            // Read into the block's own memory: an uncompressed block is used in place, its checksum as
            // slack.
            let mut buffer = BlockBuffer::new(span - FRAME_BYTES);
            let image = &mut buffer.bytes_mut()[..span];
            read(image, place.start)?;
            note(BlockOrigin::File { bytes: span as u64 });
            let block = match verify_numbered(image, self.uid, place.start, number) {
                Ok(header) if header.codec_id == id::NONE && header.file_len() == span => {
                    buffer.finish(Arc::downgrade(self.identity.slots()))
                }
                Ok(header) => {
                    self.expects_raw_blocks.store(false, Ordering::Relaxed);
                    self.unpacked(&header, image)
                }
                Err(error) => Err(error),
            };
            return block.map_err(|error| self.decode_error_at(error, place.start).into());
        }
        with_thread_buffer(&STORED, Vec::new, |stored| {
            large_buffer::resize(stored, span);
            read(stored, place.start)?;
            note(BlockOrigin::File { bytes: span as u64 });
            let block = self.copied_from_image(stored, place.start, number);
            stored.shrink_to(LARGEST_KEPT_BYTES);
            block.map_err(|error| self.decode_error_at(error, place.start).into())
        })
    }

    /// A request to read block `number`, which must exist.
    pub(crate) fn read_request(&self, number: usize) -> Result<ReadRequest> {
        let place = self.place(number)?;
        let buffer = large_buffer::zeroed((place.end - place.start) as usize);
        Ok(ReadRequest { file: Arc::clone(&self.file), offset: place.start, buffer })
    }

    /// The block that [`Table::read_request`] requested.
    pub(crate) fn block_of_read(&self, read: PendingRead, number: usize) -> Result<BlockRef> {
        let (image, offset) = (read.wait()?, self.place(number)?.start);
        self.copied_from_image(&image, offset, number).map_err(|error| self.decode_error_at(error, offset))
    }

    /// The block with the file image `image`, copied to memory of its own.
    pub(crate) fn copied_from_image(
        &self,
        image: &[u8],
        offset: u64,
        number: usize,
    ) -> Result<BlockRef, DecodeError> {
        let header = verify_numbered(image, self.uid, offset, number)?;
        self.unpacked(&header, image)
    }

    pub(crate) fn unpacked(&self, header: &BlockHeader, image: &[u8]) -> Result<BlockRef, DecodeError> {
        if header.codec_id == id::NONE {
            // An uncompressed block could have been read without this copy.
            self.expects_raw_blocks.store(true, Ordering::Relaxed);
        }
        let mut buffer = BlockBuffer::new(header.raw_len as usize);
        unpack(header, image, self.dictionary.as_ref(), buffer.bytes_mut())?;
        buffer.finish(Arc::downgrade(self.identity.slots()))
    }
}

pub(crate) fn verify_numbered(
    image: &[u8],
    uid: TableUid,
    offset: u64,
    number: usize,
) -> Result<BlockHeader, DecodeError> {
    let header = verify_image(image, uid, offset)?;
    if header.number as usize != number || header.is_index_page() {
        let what = if header.is_index_page() { "index page" } else { "block" };
        return damaged(format!("block {number} expected, {what} {} found", header.number));
    }
    Ok(header)
}

/// Decompresses the verified `image` into `bytes`, which has the block's length in memory.
pub(crate) fn unpack(
    header: &BlockHeader,
    image: &[u8],
    dictionary: Option<&DictionaryDecoder>,
    bytes: &mut [u8],
) -> Result<(), DecodeError> {
    bytes[..HEADER_BYTES].copy_from_slice(&image[..HEADER_BYTES]);
    let stored = &image[HEADER_BYTES..HEADER_BYTES + header.stored_len as usize];
    let payload = &mut bytes[HEADER_BYTES..HEADER_BYTES + header.raw_len as usize];
    esker_codec::decompress_with(header.codec_id, dictionary, stored, payload).map_err(|error| match error {
        CodecError::Unsupported(detail) => DecodeError::Unsupported(detail),
        CodecError::Damaged(detail) => DecodeError::Damaged(detail),
    })
}
