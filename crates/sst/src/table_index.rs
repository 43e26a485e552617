//! Block index of an open table: finds a key's block whatever the form of the index, and tells which blocks
//! cannot have a key. The operations of a paged index may read pages.

use crate::block::header::{FRAME_BYTES, verify_image};
use crate::block::{BlockBuffer, BlockRef};
use crate::cached_part::CachedPart;
use crate::decode_error::{DecodeError, damaged};
use crate::index::BlockIndex;
use crate::index::page_format::PageLocation;
use crate::index::page_search::PageSource;
use crate::observed_reads::{BlockOrigin, note};
use crate::simd::{InstructionSet, with_kernel};
use crate::table::Table;
use esker_base::{Error, Result, Tag};
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_codec::id;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

impl Table {
    /// As [`BlockIndex::locate`].
    #[inline(never)]
    pub(crate) fn locate(&self, index: &BlockIndex, key: &[u8], newest: Tag) -> Result<usize> {
        if let Some(pages) = index.pages() {
            return pages.locate(self, key, newest);
        }
        let block = with_kernel!(
            self.isa,
            |K| (index: &BlockIndex, key: &[u8], newest: Tag) -> usize {
                // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions
                // exist.
                unsafe { index.locate::<K>(key, newest) }
            }
            (index, key, newest)
        );
        Ok(block)
    }

    /// Where block `number`, which must exist, lies in the file.
    pub(crate) fn place(&self, number: usize) -> Result<Range<u64>> {
        let Some(index) = &self.index else {
            return Err(Error::internal("a block of a table without blocks was requested"));
        };
        match index.pages() {
            Some(pages) => pages.place(self, number),
            None => Ok(index.place(number)),
        }
    }

    /// The separator of block `number`, which must exist.
    pub(crate) fn separator<'a>(&self, index: &'a BlockIndex, number: usize) -> Result<Cow<'a, [u8]>> {
        match index.pages() {
            Some(pages) => Ok(Cow::Owned(pages.leaf(self, number)?.separator)),
            None => Ok(index.separator(number)),
        }
    }

    /// Up to `most` keys, ascending, that divide the table's blocks evenly, the first with its first key;
    /// each with the bytes up to the next one, or to the last block's end. Keys are separators: the table may
    /// not have them, but the bytes are exact. Reads no block.
    ///
    /// # Errors
    /// Errors of reading index pages, if the index is paged.
    pub fn anchors(&self, most: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        self.anchors_within(&[], None, most)
    }

    /// The tag of the first entry of block `number`, if the block continues the key of its predecessor.
    pub(crate) fn continued_at(&self, index: &BlockIndex, number: usize) -> Result<Option<Tag>> {
        match index.pages() {
            Some(pages) => Ok(Some(pages.leaf(self, number)?.tag).filter(|&tag| tag != Tag::NEWEST)),
            None => Ok(index.continued_at(number)),
        }
    }

    /// Whether the block behind `number` starts with an older version of `key`.
    #[inline(always)]
    pub(crate) fn continues_after(&self, index: &BlockIndex, number: usize, key: &[u8]) -> Result<bool> {
        if index.continues() { self.continues_after_in(index, number, key) } else { Ok(false) }
    }

    #[inline(never)]
    fn continues_after_in(&self, index: &BlockIndex, number: usize, key: &[u8]) -> Result<bool> {
        let Some(pages) = index.pages() else { return Ok(index.continues_after(number, key)) };
        if number + 1 >= pages.blocks() {
            return Ok(false);
        }
        let next = pages.leaf(self, number + 1)?;
        Ok(next.tag != Tag::NEWEST && next.separator == key)
    }

    fn read_page(&self, page: PageLocation) -> Result<BlockRef> {
        let span = page.span as usize;
        if span < FRAME_BYTES {
            return Err(self.damage(page, format!("an index page cannot have {span} bytes")));
        }
        let mut buffer = BlockBuffer::new(span - FRAME_BYTES);
        let image = &mut buffer.bytes_mut()[..span];
        self.file.read_exact_at(image, page.start)?;
        let checked = check_page(image, self.uid, page);
        let block = checked.and_then(|()| buffer.finish(Arc::downgrade(self.identity.slots())));
        block.map_err(|error| self.decode_error_at(error, page.start))
    }
}

impl Table {
    /// Whether block `number`, which must exist, certainly has no version of `key`. Reads no block.
    ///
    /// # Errors
    /// Errors of reading index pages, if the index is paged.
    #[cold]
    pub(crate) fn excludes(&self, index: &BlockIndex, number: usize, key: &[u8]) -> Result<bool> {
        Ok(self.begins_behind(index, number, key)? || self.ends_before(index, number, key)?)
    }

    /// Whether all keys of block `number`, which must exist, are certainly greater than `key`. Reads no
    /// block.
    ///
    /// # Errors
    /// As [`Table::excludes`].
    #[cold]
    pub(crate) fn begins_behind(&self, index: &BlockIndex, number: usize, key: &[u8]) -> Result<bool> {
        let gap = || self.bounds.as_ref()?.gap(number.checked_sub(1)?);
        match gap() {
            Some(gap) => Ok(gap.is_before_first(&self.separator(index, number)?, key)),
            None => Ok(false),
        }
    }

    /// Whether all keys of block `number`, which must exist, are certainly less than `key`. Reads no block.
    ///
    /// # Errors
    /// As [`Table::excludes`].
    #[cold]
    pub(crate) fn ends_before(&self, index: &BlockIndex, number: usize, key: &[u8]) -> Result<bool> {
        match self.bounds.as_ref().and_then(|bounds| bounds.gap(number)) {
            Some(gap) => Ok(gap.is_behind_last(&self.separator(index, number + 1)?, key)),
            None => Ok(false),
        }
    }
}

/// Verifies the file image of a page and its number.
fn check_page(image: &[u8], uid: esker_base::TableUid, page: PageLocation) -> Result<(), DecodeError> {
    let header = verify_image(image, uid, page.start)?;
    let is_page = header.is_index_page() && header.number == page.number;
    if !is_page || header.codec_id != id::NONE || header.file_len() != image.len() {
        return damaged(format!("index page {page:?} expected, {header:?} found"));
    }
    Ok(())
}

/// Pages are cached under numbers greater than those of blocks.
impl PageSource for Table {
    fn page(&self, page: PageLocation) -> Result<BlockRef> {
        let key = CacheKey { table: self.number, block: page.number };
        if let Some(CachedPart::Block(cached)) = self.cache.get(&key, BlockKind::Index, Admission::Point) {
            note(BlockOrigin::OtherInCache);
            return Ok(cached);
        }
        note(BlockOrigin::OtherInFile { bytes: u64::from(page.span) });
        let block = self.read_page(page)?;
        let part = CachedPart::Block(BlockRef::clone(&block));
        match self.cache.insert(key, part, BlockKind::Index, Admission::Point) {
            CachedPart::Block(resident) => Ok(resident),
            CachedPart::Filter(_) => Ok(block),
        }
    }

    fn damage(&self, page: PageLocation, detail: String) -> Error {
        Error::corruption(self.file.path(), page.start, detail)
    }

    fn isa(&self) -> InstructionSet {
        self.isa
    }
}
