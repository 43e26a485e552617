//! Search in index pages ([`super::page_format`]), which a [`PageSource`] provides.
//!
//! Each page is verified like a block before use, and its entries must point into the section or the blocks,
//! else that is damage. A search ends after as many pages as the trailer has levels.

use super::page_format::{Child, PageLocation, TRAILER_BYTES, Trailer};
use crate::block::cursor::BlockCursor;
use crate::block::{BlockBytes, BlockRef};
use crate::decode_error::{DecodeError, damaged};
use crate::footer::FILE_HEADER_BYTES;
use crate::simd::{InstructionSet, Kernel, with_kernel};
use esker_base::{Error, Result, TableUid, Tag};
use std::ops::Range;

pub(crate) trait PageSource {
    /// The page, verified.
    fn page(&self, page: PageLocation) -> Result<BlockRef>;

    fn damage(&self, page: PageLocation, detail: String) -> Error;

    fn isa(&self) -> InstructionSet;
}

/// The index of a table whose pages are in its file.
#[derive(Debug)]
pub(crate) struct PagedIndex {
    trailer: Trailer,
    pages: Range<u64>,
    data: Range<u64>,
}

enum PageTarget<'a> {
    Version(&'a [u8], Tag),
    Block(usize),
}

pub(crate) struct LeafEntry {
    pub(crate) place: Range<u64>,
    pub(crate) separator: Vec<u8>,
    /// [`Tag::NEWEST`] unless the block continues a key.
    pub(crate) tag: Tag,
}

impl PagedIndex {
    /// The index with this trailer, pages and blocks at these ranges of the file.
    pub(crate) fn new(trailer: Trailer, pages: Range<u64>, data: Range<u64>) -> PagedIndex {
        PagedIndex { trailer, pages, data }
    }

    /// The index of a whole section, which lies at this range of the file.
    pub(crate) fn decode(
        section: &[u8],
        uid: TableUid,
        at: Range<u64>,
        blocks: u64,
        data_end: u64,
    ) -> Result<PagedIndex, DecodeError> {
        let Some(trailer) = section.last_chunk::<TRAILER_BYTES>() else {
            return damaged(format!("index pages of {} bytes have no trailer", section.len()));
        };
        let trailer = Trailer::decode(trailer, uid, &at, blocks)?;
        let pages = at.start..at.end - TRAILER_BYTES as u64;
        Ok(PagedIndex::new(trailer, pages, FILE_HEADER_BYTES as u64..data_end))
    }

    pub(crate) fn blocks(&self) -> usize {
        self.trailer.blocks as usize
    }

    pub(crate) fn pages(&self) -> usize {
        self.trailer.pages as usize
    }

    pub(crate) fn continues(&self) -> bool {
        self.trailer.continues
    }

    pub(crate) fn locate(&self, source: &impl PageSource, key: &[u8], newest: Tag) -> Result<usize> {
        self.descend(source, &PageTarget::Version(key, newest), |block, _, _| block)
    }

    pub(crate) fn place(&self, source: &impl PageSource, block: usize) -> Result<Range<u64>> {
        self.descend(source, &PageTarget::Block(block), |_, place, _| place)
    }

    /// What the index tells about a block.
    pub(crate) fn leaf(&self, source: &impl PageSource, block: usize) -> Result<LeafEntry> {
        self.descend(source, &PageTarget::Block(block), |_, place, cursor| LeafEntry {
            place,
            separator: cursor.key().to_vec(),
            tag: cursor.tag(),
        })
    }

    fn descend<R>(
        &self,
        source: &impl PageSource,
        wanted: &PageTarget<'_>,
        read: impl FnOnce(usize, Range<u64>, &BlockCursor) -> R,
    ) -> Result<R> {
        let mut at = self.trailer.root;
        let mut cursor = BlockCursor::new(true);
        for level in (0..self.trailer.levels).rev() {
            let page = source.page(at)?;
            find(source.isa(), &mut cursor, page.contents(), wanted, level == 0);
            // SAFETY: the page is alive until the next round, which enters another.
            let child = Child::decode(unsafe { cursor.value() }, level == 0);
            let child = child.ok_or_else(|| source.damage(at, "an entry of the page has no place".into()))?;
            match self.next_page(&child) {
                Some(page) => at = page,
                None => match self.block_at(&child, wanted) {
                    Some((block, place)) if child.page.is_none() => return Ok(read(block, place, &cursor)),
                    _ => return Err(source.damage(at, format!("an entry of the page leads to {child:?}"))),
                },
            }
        }
        Err(source.damage(at, "the lowest level of the pages leads to pages".into()))
    }

    fn next_page(&self, child: &Child) -> Option<PageLocation> {
        let (number, span) = (u32::try_from(child.page?).ok()?, u32::try_from(child.span).ok()?);
        let page = PageLocation { number, start: child.start, span };
        self.trailer.holds(page, &self.pages).then_some(page)
    }

    /// The block that an entry of the lowest level points to, if it can exist and is the wanted one.
    fn block_at(&self, child: &Child, wanted: &PageTarget<'_>) -> Option<(usize, Range<u64>)> {
        let block = usize::try_from(child.first_block).ok().filter(|&block| block < self.blocks())?;
        let end = child.start.checked_add(child.span)?;
        let is_wanted = match wanted {
            PageTarget::Version(..) => true,
            PageTarget::Block(wanted) => *wanted == block,
        };
        let fits = child.start >= self.data.start && end <= self.data.end && child.span > 0;
        (is_wanted && fits).then_some((block, child.start..end))
    }
}

/// Moves to the last entry of a page that is not behind the target; to the first if all are.
fn find(
    isa: InstructionSet,
    cursor: &mut BlockCursor,
    page: &BlockBytes,
    wanted: &PageTarget<'_>,
    is_lowest: bool,
) {
    // SAFETY: the page is borrowed for longer than the cursor is used here, and the caller keeps it while it
    // reads.
    unsafe { cursor.open(page) };
    match *wanted {
        PageTarget::Version(key, newest) => with_kernel!(
            isa,
            |K| (cursor: &mut BlockCursor, key: &[u8], newest: Tag) -> () {
                // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions
                // exist.
                unsafe { find_version::<K>(cursor, key, newest) }
            }
            (cursor, key, newest)
        ),
        PageTarget::Block(block) => find_block(cursor, block, is_lowest),
    }
}

/// # Safety
/// The kernel's instructions must be available, and the cursor be in a living page.
#[inline(always)]
unsafe fn find_version<K: Kernel>(cursor: &mut BlockCursor, key: &[u8], newest: Tag) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        cursor.seek::<K>(key, newest);
        if !cursor.is_valid() {
            cursor.move_to_last();
        } else if cursor.index() > 0 && (cursor.key() != key || cursor.tag() != newest) {
            cursor.prev();
        }
    }
}

fn find_block(cursor: &mut BlockCursor, block: usize, is_lowest: bool) {
    let (mut from, mut to) = (0, cursor.count());
    while to > from + 1 {
        let middle = (from + to) / 2;
        // SAFETY: the caller borrows the page.
        let first = unsafe {
            cursor.move_to_index(middle);
            Child::decode(cursor.value(), is_lowest)
        };
        // An undecodable entry counts as after the target; the caller checks the chosen entry.
        if first.is_some_and(|child| child.first_block <= block as u64) { from = middle } else { to = middle }
    }
    // SAFETY: the caller borrows the page.
    unsafe { cursor.move_to_index(from) };
}
