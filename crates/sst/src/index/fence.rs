//! Fence index: a block index without a table, for experiments and benchmarks of the index forms.

use super::locator::{Locator, LocatorBuilder};
use super::page_format::{self, PageLocation};
use super::page_search::{PageSource, PagedIndex};
use super::section::{DecodedIndex, Separators, SeparatorsBuilder};
use super::{BlockIndex, IndexKind, TableShape};
use crate::block::header::FRAME_BYTES;
use crate::block::{BlockBuffer, BlockRef};
use crate::cached_part::{CachedPart, TableCache};
use crate::footer::FILE_HEADER_BYTES;
use crate::simd::{InstructionSet, with_kernel};
use esker_base::checksum::key_hash;
use esker_base::{Error, Result, TableUid, Tag};
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_env::OffHeapSlice;
use std::path::Path;
use std::sync::Weak;

/// An index over sorted keys, as tables have over their blocks: the keys are the *fences*, the least keys of
/// successive blocks, and a search returns the block that a key falls into.
///
/// Index pages lie in memory here and are searched through a block cache with space for all of them. A hash
/// locator knows the fences themselves; other keys are found by the search tree beside it.
///
/// ```
/// use esker_sst::{FenceIndex, IndexKind};
///
/// for kind in IndexKind::ALL {
///     let index = FenceIndex::new(kind, [&b"apple"[..], b"kiwi", b"plum"])?;
///     assert_eq!((index.find(b"lemon"), index.find(b"kiwi"), index.find(b"a")), (1, 1, 0));
/// }
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Debug)]
pub struct FenceIndex {
    index: BlockIndex,
    isa: InstructionSet,
    pages: Option<PagesInMemory>,
}

/// A section of index pages, and the cache that they are read through.
#[derive(Debug)]
struct PagesInMemory {
    section: Vec<u8>,
    /// Its offset in the imagined file.
    start: u64,
    cache: TableCache,
}

const UID: TableUid = TableUid(0);
/// Length of the imagined blocks, which determines the size of stored places.
const BLOCK_BYTES: u64 = 4096;

impl FenceIndex {
    /// An index of this kind over `fences`, which must ascend. An adaptive kind chooses as for a table of
    /// level 0.
    ///
    /// O(n) in one pass, with memory for the fences and the form.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are no fences, if they do not ascend, or if they have more than 4
    /// GiB.
    pub fn new<'a>(kind: IndexKind, fences: impl IntoIterator<Item = &'a [u8]>) -> Result<FenceIndex> {
        let mut builder = SeparatorsBuilder::default();
        for fence in fences {
            if builder.last().is_some_and(|last| last >= fence) {
                return Err(Error::invalid(format!("fence {} does not ascend", fence.escape_ascii())));
            }
            let added = builder.push(0, fence);
            added.ok_or_else(|| Error::invalid("the fences have more than 4 GiB"))?;
        }
        let separators = builder.finish();
        let count = separators.len();
        if count == 0 {
            return Err(Error::invalid("an index needs a fence"));
        }
        let start = |block: u64| FILE_HEADER_BYTES as u64 + block * BLOCK_BYTES;
        let starts = OffHeapSlice::lasting((0..count + 1).map(|block| start(block as u64)));
        let (first, last) = (separators.get(0).to_vec(), separators.get(count - 1).to_vec());
        let kind = kind.for_table(&TableShape::of(&separators, 0, false)).0;
        let decoded = DecodedIndex { separators, starts, continuations: Vec::new() };
        let isa = InstructionSet::detect();
        if kind.needs_pages() {
            let (index, pages) = in_pages(&decoded, start(count as u64))?;
            return Ok(FenceIndex { index, isa, pages: Some(pages) });
        }
        let locator = kind.needs_locator().then(|| locator_of(&decoded.separators)).transpose()?;
        let index = BlockIndex::new(decoded, &first, &last, kind);
        let index = index.ok_or_else(|| Error::internal("an index of fences has blocks"))?;
        let index = match locator {
            Some(locator) => index.with_locator(locator),
            None => index,
        };
        Ok(FenceIndex { index, isa, pages: None })
    }

    /// The last fence that is at most `key`; 0 if none is. O(log n), allocates for index pages only.
    #[inline]
    pub fn find(&self, key: &[u8]) -> usize {
        if self.index.tree().is_none()
            && let Some(found) = self.find_general(key)
        {
            return found;
        }
        with_kernel!(
            self.isa,
            |K| (index: &BlockIndex, key: &[u8]) -> usize {
                // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions
                // exist.
                unsafe { index.locate::<K>(key, Tag::NEWEST) }
            }
            (&self.index, key)
        )
    }

    /// By pages or the locator; `None` if neither finds it.
    fn find_general(&self, key: &[u8]) -> Option<usize> {
        if let Some(locator) = self.index.locator() {
            let mut candidates = locator.candidates(key_hash(key));
            return candidates.find(|&candidate| *self.index.separator(candidate) == *key);
        }
        // Pages in memory that were encoded here cannot be damaged.
        self.index.pages()?.locate(self.pages.as_ref()?, key, Tag::NEWEST).ok()
    }

    /// The numbers of the blocks in which keys from `from` on and below `to` may lie; at least one.
    #[inline]
    pub fn find_range(&self, from: &[u8], to: &[u8]) -> std::ops::RangeInclusive<usize> {
        let first = self.find(from);
        first..=self.find(to).max(first)
    }

    /// Number of fences; at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is always a fence")]
    pub fn len(&self) -> usize {
        self.index.blocks()
    }

    /// The kind in use: the choice of an adaptive one.
    pub fn kind(&self) -> IndexKind {
        self.index.kind()
    }

    /// Bytes in memory, fences and block offsets included. Index pages do not count: they would be cached.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
    }

    /// Bytes of index pages.
    pub fn page_bytes(&self) -> usize {
        self.pages.as_ref().map_or(0, |pages| pages.section.len())
    }
}

fn in_pages(decoded: &DecodedIndex, data_end: u64) -> Result<(BlockIndex, PagesInMemory)> {
    let section = page_format::encode(decoded, UID, data_end, &|| Ok(()))?;
    let section = section.ok_or_else(|| Error::invalid("there are too many fences for pages"))?;
    let at = data_end..data_end + section.len() as u64;
    let index = PagedIndex::decode(&section, UID, at, decoded.separators.len() as u64, data_end);
    let index = index.map_err(|error| error.into_error(Path::new("fences"), data_end))?;
    // Blocks in memory have slack, and the cache has overhead.
    let cache = TableCache::new(2 * section.len() + (1 << 20));
    Ok((BlockIndex::of_pages(index), PagesInMemory { section, start: data_end, cache }))
}

fn locator_of(separators: &Separators) -> Result<Locator> {
    let mut builder = LocatorBuilder::default();
    for block in 0..separators.len() {
        builder.add(key_hash(separators.get(block)), block as u32);
    }
    let section = builder.finish(separators.len(), &|| Ok(()))?;
    let section = section.ok_or_else(|| Error::invalid("there are too many fences for a locator"))?;
    let locator = Locator::decode(&section, separators.len());
    locator.map_err(|error| error.into_error(Path::new("fences"), 0))
}

impl PageSource for PagesInMemory {
    fn page(&self, page: PageLocation) -> Result<BlockRef> {
        let key = CacheKey { table: 0, block: page.number };
        if let Some(CachedPart::Block(cached)) = self.cache.get(&key, BlockKind::Index, Admission::Point) {
            return Ok(cached);
        }
        let (at, span) = ((page.start - self.start) as usize, page.span as usize);
        let mut buffer = BlockBuffer::new(span - FRAME_BYTES);
        buffer.bytes_mut()[..span].copy_from_slice(&self.section[at..at + span]);
        let block = buffer.finish(Weak::new());
        let block = block.map_err(|error| error.into_error(Path::new("fences"), page.start))?;
        self.cache.insert(
            key,
            CachedPart::Block(BlockRef::clone(&block)),
            BlockKind::Index,
            Admission::Point,
        );
        Ok(block)
    }

    fn damage(&self, page: PageLocation, detail: String) -> Error {
        Error::corruption(Path::new("fences"), page.start, detail)
    }

    fn isa(&self) -> InstructionSet {
        InstructionSet::detect()
    }
}
