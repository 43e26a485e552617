//! Index pages: the block index as a static B-tree in the file, so that none of it needs to be in memory.
//!
//! Source: the static B-tree that the CSC443 project stores after each table's data and reads through its
//! buffer pool. A *page* is a block (`docs/format/table.md`) with the flag of index pages. The keys of its
//! entries are separators, their tags distinguish versions of one key, and their values point to the child
//! that they bound from below: a block at the lowest level and a page above. Pages are stored level by level,
//! the root last, and a trailer of fixed length points to the root.
//!
//! ```text
//! section: page | page | ... | trailer
//! value:   first block varint | [page varint, above the lowest level] | start varint | span varint
//! trailer: root start u64 | root span u32 | root number u32 | pages u32 | blocks u32 | levels u8
//!          | continues u8 | 0, 6 bytes | checksum u64, placed, of the bytes before
//! ```
//! The number of a page in its header, and in the cache, is its position among the pages plus the number of
//! blocks. An entry whose block starts a new key has the newest of all tags; one that continues a key has the
//! tag of the block's first entry. So entries are in internal order, and the last one at or before the wanted
//! version is right.
//!
//! Cost: one page search, through the cache, for each level: about 150 entries to a page of 4 KiB, so two
//! levels for a table of 64 MiB, three for one of 10 GiB. [`super::page_search`] searches them.

use super::section::DecodedIndex;
use crate::block::header::{FLAG_INDEX_PAGE, FLAGS_AT, placed_checksum};
use crate::block::staged::{LayoutOptions, Staged};
use crate::block::{self, BlockLayout, Compression, Scratch};
use crate::decode_error::{DecodeError, damaged};
use esker_base::coding::{Reader, put_varint};
use esker_base::key::common_prefix_len;
use esker_base::{Result, TableUid, Tag};
use esker_codec::Codec;
use std::ops::Range;

/// Bytes at which a page is closed, if it has two entries.
const PAGE_BYTES: usize = 4096;
/// Bytes behind the pages.
pub(crate) const TRAILER_BYTES: usize = 40;
/// More levels than pages of two entries can have.
const MAX_LEVELS: u8 = 33;
/// Blocks added between two checks for cancellation: some milliseconds.
const BLOCKS_PER_CHECK: usize = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLocation {
    pub(crate) number: u32,
    pub(crate) start: u64,
    pub(crate) span: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    /// The first block below.
    pub(crate) first_block: u64,
    /// The page; none at the lowest level.
    pub(crate) page: Option<u64>,
    pub(crate) start: u64,
    pub(crate) span: u64,
}

impl Child {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.first_block);
        if let Some(page) = self.page {
            put_varint(out, page);
        }
        put_varint(out, self.start);
        put_varint(out, self.span);
    }

    /// Decodes the value of an entry, at the lowest level or above it.
    pub(crate) fn decode(value: &[u8], is_lowest: bool) -> Option<Child> {
        let mut reader = Reader::new(value);
        let first_block = reader.varint()?;
        let page = if is_lowest { None } else { Some(reader.varint()?) };
        let child = Child { first_block, page, start: reader.varint()?, span: reader.varint()? };
        reader.is_empty().then_some(child)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) root: PageLocation,
    pub(crate) pages: u32,
    pub(crate) blocks: u32,
    pub(crate) levels: u8,
    /// Whether some block continues the key of the one before.
    pub(crate) continues: bool,
}

impl Trailer {
    fn encode(&self, uid: TableUid, offset: u64) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&self.root.start.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.root.span.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.root.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pages.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[24] = self.levels;
        bytes[25] = u8::from(self.continues);
        let checksum = placed_checksum(uid, offset, &bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the trailer of the section that takes this range of the file of a table with so many blocks.
    pub(crate) fn decode(
        bytes: &[u8; TRAILER_BYTES],
        uid: TableUid,
        section: &Range<u64>,
        blocks: u64,
    ) -> Result<Trailer, DecodeError> {
        let offset = section.end - TRAILER_BYTES as u64;
        let mut reader = Reader::new(bytes);
        let numbers = (reader.u64(), reader.u32(), reader.u32(), reader.u32(), reader.u32());
        let rest = (reader.u8(), reader.u8(), reader.u16(), reader.u32(), reader.u64());
        let (Some(start), Some(span), Some(number), Some(pages), Some(found)) = numbers else {
            return damaged("the trailer of the index pages is cut off");
        };
        let (Some(levels), Some(continues), Some(_), Some(_), Some(stored)) = rest else {
            return damaged("the trailer of the index pages is cut off");
        };
        let computed = placed_checksum(uid, offset, &bytes[..32]);
        if stored != computed {
            return damaged(format!(
                "index pages: checksum {stored:016x} expected, {computed:016x} computed"
            ));
        }
        let root = PageLocation { number, start, span };
        let trailer = Trailer { root, pages, blocks: found, levels, continues: continues != 0 };
        let numbers_fit = u64::from(found) == blocks && found.checked_add(pages).is_some();
        if !numbers_fit
            || !(1..=MAX_LEVELS).contains(&levels)
            || !trailer.holds(root, &(section.start..offset))
        {
            return damaged(format!("index pages of {blocks} blocks cannot be {trailer:?}"));
        }
        Ok(trailer)
    }

    /// Whether a page with this number can lie at this location.
    pub(crate) fn holds(&self, page: PageLocation, pages: &Range<u64>) -> bool {
        let end = page.start.checked_add(u64::from(page.span));
        page.number >= self.blocks
            && page.number - self.blocks < self.pages
            && page.start >= pages.start
            && end.is_some_and(|end| end <= pages.end)
    }
}

struct PagesEncoder {
    uid: TableUid,
    /// Where `out` starts in the file.
    offset: u64,
    blocks: u32,
    staged: Staged,
    scratch: Scratch,
    out: Vec<u8>,
    /// First entry's separator and tag, and first block, of the page that is being filled.
    first: Option<(Vec<u8>, Tag, u64)>,
    /// The pages of this level so far, each as the entry for it one level up.
    level: Vec<(Vec<u8>, Tag, Child)>,
    pages: u32,
}

impl PagesEncoder {
    fn add(&mut self, separator: &[u8], tag: Tag, child: &Child) {
        let mut value = Vec::with_capacity(24);
        child.encode(&mut value);
        let shared = common_prefix_len(self.staged.last_key(), separator);
        // At least two entries a page, so that each level has at most half as many pages as the one below.
        let may_close = self.staged.entries().len() >= 2;
        if may_close && self.staged.would_exceed(PAGE_BYTES, separator, tag, &value, shared) {
            self.close();
        }
        if self.first.is_none() {
            self.first = Some((separator.to_vec(), tag, child.first_block));
        }
        self.staged.add(separator, 0, tag, &value, shared);
    }

    fn close(&mut self) {
        let Some((separator, tag, first_block)) = self.first.take() else { return };
        let start = self.out.len();
        let number = self.blocks + self.pages;
        let (layout, raw) = (BlockLayout::Flat, Compression { codec: Codec::None, dictionary: None });
        block::append_image(&mut self.staged, layout, number, &raw, &mut self.scratch, &mut self.out);
        self.out[start + FLAGS_AT] |= FLAG_INDEX_PAGE;
        let offset = self.offset + start as u64;
        let checksum = placed_checksum(self.uid, offset, &self.out[start..]);
        self.out.extend_from_slice(&checksum.to_le_bytes());
        let span = (self.out.len() - start) as u64;
        let child = Child { first_block, page: Some(u64::from(number)), start: offset, span };
        self.level.push((separator, tag, child));
        self.pages += 1;
    }
}

/// Encodes the section of an index for `offset`. `None` if there are no blocks, or too many to number the
/// pages behind them. Calls `check_cancelled` after each [`BLOCKS_PER_CHECK`].
///
/// # Errors
/// Those of `check_cancelled`.
pub(crate) fn encode(
    index: &DecodedIndex,
    uid: TableUid,
    offset: u64,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let blocks = u32::try_from(index.separators.len()).ok().filter(|&blocks| blocks > 0);
    // There are fewer pages than blocks, and one more if there is one block.
    let Some(blocks) = blocks.filter(|blocks| blocks.checked_mul(2).is_some()) else { return Ok(None) };
    let mut pages = PagesEncoder {
        uid,
        offset,
        blocks,
        staged: Staged::new(LayoutOptions::Flat),
        scratch: Scratch::default(),
        out: Vec::new(),
        first: None,
        level: Vec::new(),
        pages: 0,
    };
    let mut continuations = index.continuations.iter().peekable();
    for block in 0..index.separators.len() {
        if block.is_multiple_of(BLOCKS_PER_CHECK) {
            check_cancelled()?;
        }
        let continued = continuations.next_if(|continuation| continuation.block as usize == block);
        let tag = continued.map_or(Tag::NEWEST, |continuation| continuation.tag);
        let (start, end) = (index.starts[block], index.starts[block + 1]);
        let child = Child { first_block: block as u64, page: None, start, span: end - start };
        pages.add(index.separators.get(block), tag, &child);
    }
    pages.close();
    let mut levels = 1;
    while pages.level.len() > 1 {
        for (separator, tag, child) in std::mem::take(&mut pages.level) {
            pages.add(&separator, tag, &child);
        }
        pages.close();
        levels += 1;
    }
    let Some(root) = pages.level.pop().and_then(|(_, _, root)| place_of(&root)) else { return Ok(None) };
    let continues = !index.continuations.is_empty();
    let trailer = Trailer { root, pages: pages.pages, blocks, levels, continues };
    let trailer_at = offset + pages.out.len() as u64;
    pages.out.extend_from_slice(&trailer.encode(uid, trailer_at));
    Ok(Some(pages.out))
}

/// The page that a child is; `None` if it is a block.
fn place_of(child: &Child) -> Option<PageLocation> {
    Some(PageLocation {
        number: child.page? as u32,
        start: child.start,
        span: u32::try_from(child.span).ok()?,
    })
}
