//! File contents: sparse pages, shared between states until one of them changes.
//!
//! A crash sweep holds the same file many times: live, durable, and in every image taken. Pages are therefore
//! reference-counted and copied on write, in chunks, so that a clone costs one reference per 256 KiB and a
//! write copies one page and one chunk's table at most.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The unit of allocation, of the page cache and of writeback.
pub(super) const PAGE_BYTES: usize = 4096;
/// The unit that a device writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
const CHUNK_PAGES: usize = 64;
const PAGE: u64 = PAGE_BYTES as u64;

#[derive(Clone, Debug, Default)]
enum Page {
    /// No block: reads as zero, and a store through a map may find no space.
    #[default]
    Hole,
    /// A block that was never written: reads as zero.
    Zero,
    /// A written block.
    Data(Arc<[u8; PAGE_BYTES]>),
}

#[derive(Clone, Debug)]
struct Chunk([Page; CHUNK_PAGES]);

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk(std::array::from_fn(|_| Page::Hole))
    }
}

/// The bytes of a file. Bytes at and past the length are zero in every page.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    len: u64,
    allocated_pages: u64,
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

/// The part of one page in a range of the file.
struct PageRange {
    page: u64,
    in_page: Range<usize>,
    at: usize,
}

fn page_ranges(offset: u64, len: usize) -> impl Iterator<Item = PageRange> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let position = offset + at as u64;
        let start = (position % PAGE) as usize;
        let bytes = (PAGE_BYTES - start).min(len - at);
        let range = PageRange { page: position / PAGE, in_page: start..start + bytes, at };
        at += bytes;
        Some(range)
    })
}

pub(super) fn pages_of(offset: u64, len: u64) -> Range<u64> {
    if len == 0 { 0..0 } else { offset / PAGE..(offset + len).div_ceil(PAGE) }
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn allocated_pages(&self) -> u64 {
        self.allocated_pages
    }

    fn page(&self, page: u64) -> &Page {
        let chunk = self.chunks.get(&(page / CHUNK_PAGES as u64));
        chunk.map_or(&Page::Hole, |chunk| &chunk.0[(page % CHUNK_PAGES as u64) as usize])
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        let chunk = self.chunks.entry(page / CHUNK_PAGES as u64).or_default();
        &mut Arc::make_mut(chunk).0[(page % CHUNK_PAGES as u64) as usize]
    }

    fn set_page(&mut self, page: u64, to: Page) {
        let allocated = !matches!(to, Page::Hole);
        let was_allocated = !matches!(self.page(page), Page::Hole);
        if allocated || was_allocated {
            *self.page_mut(page) = to;
        }
        match (was_allocated, allocated) {
            (false, true) => self.allocated_pages += 1,
            (true, false) => self.allocated_pages -= 1,
            _ => {}
        }
    }

    /// Reads up to the end of the file; the rest of the buffer stays unchanged.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let present = self.len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        for range in page_ranges(offset, present) {
            let target = &mut buffer[range.at..range.at + range.in_page.len()];
            match self.page(range.page) {
                Page::Data(bytes) => target.copy_from_slice(&bytes[range.in_page]),
                Page::Hole | Page::Zero => target.fill(0),
            }
        }
        present
    }

    /// Writes, growing the file if needed.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        for range in page_ranges(offset, bytes.len()) {
            let source = &bytes[range.at..range.at + range.in_page.len()];
            if !matches!(self.page(range.page), Page::Data(_)) {
                self.set_page(range.page, Page::Data(Arc::new([0; PAGE_BYTES])));
            }
            if let Page::Data(page) = self.page_mut(range.page) {
                Arc::make_mut(page)[range.in_page].copy_from_slice(source);
            }
        }
        if !bytes.is_empty() {
            self.len = self.len.max(offset + bytes.len() as u64);
        }
    }

    /// Truncates or grows the file. Blocks after the new end are freed; a grown range is a hole.
    pub(super) fn set_len(&mut self, len: u64) {
        if len <= self.len {
            let kept_pages = len.div_ceil(PAGE);
            let last = len / PAGE;
            if matches!(self.page(last), Page::Data(_))
                && let Page::Data(page) = self.page_mut(last)
            {
                Arc::make_mut(page)[(len % PAGE) as usize..].fill(0);
            }
            for page in self.allocated_from(kept_pages) {
                self.set_page(page, Page::Hole);
            }
            self.chunks.split_off(&kept_pages.div_ceil(CHUNK_PAGES as u64));
        }
        self.len = len;
    }

    /// The pages with blocks from `first` on.
    fn allocated_from(&self, first: u64) -> Vec<u64> {
        let chunks = self.chunks.range(first / CHUNK_PAGES as u64..);
        let pages = chunks.flat_map(|(&number, chunk)| {
            let numbered = (number * CHUNK_PAGES as u64..).zip(&chunk.0);
            numbered.filter(|(_, page)| !matches!(page, Page::Hole)).map(|(number, _)| number)
        });
        pages.filter(|&page| page >= first).collect()
    }

    pub(super) fn allocate(&mut self, offset: u64, len: u64, keep_len: bool) {
        for page in pages_of(offset, len) {
            if matches!(self.page(page), Page::Hole) {
                self.set_page(page, Page::Zero);
            }
        }
        if !keep_len {
            self.len = self.len.max(offset + len);
        }
    }

    pub(super) fn holes(&self, offset: u64, len: u64) -> u64 {
        pages_of(offset, len).filter(|&page| matches!(self.page(page), Page::Hole)).count() as u64
    }

    /// Copies one page from `other`. The length stays; set it afterwards.
    pub(super) fn copy_page(&mut self, page: u64, other: &Content) {
        self.set_page(page, other.page(page).clone());
    }

    /// One sector; zero past the end.
    pub(super) fn sector(&self, sector: u64) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        self.read(&mut bytes, sector * SECTOR_BYTES as u64);
        bytes
    }

    /// The sectors of a range that hold written bytes.
    pub(super) fn written_sectors(&self, range: Range<u64>) -> Vec<u64> {
        let per_page = PAGE / SECTOR_BYTES as u64;
        let pages = self.allocated_from(range.start / per_page).into_iter();
        let written = pages.filter(|&page| matches!(self.page(page), Page::Data(_)));
        written
            .flat_map(|page| page * per_page..(page + 1) * per_page)
            .filter(|sector| range.contains(sector))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    fn bytes(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0; content.len() as usize];
        assert_eq!(content.read(&mut bytes, 0), bytes.len());
        bytes
    }

    /// Random changes against a plain vector, with a clone held back that must not change.
    #[test]
    fn behaves_like_a_vector_and_leaves_clones_alone() {
        let random = SeededRandom::new(11);
        let (mut content, mut model) = (Content::default(), Vec::<u8>::new());
        let limit = 600_000;
        for step in 0..400u64 {
            let before = (content.clone(), model.clone());
            let offset = random.below(limit);
            match random.below(4) {
                0 => {
                    content.set_len(offset);
                    model.resize(offset as usize, 0);
                }
                1 => {
                    let len = random.below(20_000);
                    content.allocate(offset, len, true);
                    assert_eq!(content.holes(offset, len), 0);
                }
                _ => {
                    let len = 1 + random.below(if step % 2 == 0 { 30 } else { 9_000 }) as usize;
                    let patch: Vec<u8> = (0..len).map(|_| 1 + random.below(255) as u8).collect();
                    content.write(&patch, offset);
                    let end = offset as usize + len;
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].copy_from_slice(&patch);
                }
            }
            assert!(bytes(&content) == model, "step {step}");
            assert!(bytes(&before.0) == before.1, "step {step} changed a clone");
            let counted = content.allocated_from(0).len() as u64;
            assert_eq!(content.allocated_pages(), counted, "step {step}");
        }
    }

    #[test]
    fn cutting_gives_blocks_back_and_growing_makes_holes() {
        let mut content = Content::default();
        content.write(&[7; 3 * PAGE_BYTES], 0);
        assert_eq!(content.allocated_pages(), 3);
        content.set_len(PAGE + 1);
        assert_eq!(content.allocated_pages(), 2);
        content.set_len(3 * PAGE);
        assert_eq!(content.holes(0, 3 * PAGE), 1);
        assert_eq!(bytes(&content)[PAGE_BYTES..], [&[7][..], &[0; 2 * PAGE_BYTES - 1]].concat());
    }

    #[test]
    fn far_offsets_cost_nothing() {
        let mut content = Content::default();
        content.write(b"end", 1 << 40);
        assert_eq!((content.len(), content.allocated_pages()), ((1 << 40) + 3, 1));
        assert_eq!(content.written_sectors(0..u64::MAX).len(), PAGE_BYTES / SECTOR_BYTES);
    }
}
