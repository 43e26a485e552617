//! Estimates from the block index alone: bytes in a range of keys, and keys that divide them.

use crate::index::BlockIndex;
use crate::table::Table;
use esker_base::{Result, Tag};
use std::ops::Range;

/// The blocks in which the keys of a range lie.
struct TouchedBlocks {
    numbers: Range<usize>,
    /// Whether the first one may hold keys before the range, and the last one keys behind it.
    cuts_first: bool,
    cuts_last: bool,
}

impl Table {
    /// Bytes of all blocks in the file.
    ///
    /// # Errors
    /// Errors of reading index pages, if the index is paged.
    pub fn block_bytes(&self) -> Result<u64> {
        match self.blocks() {
            0 => Ok(0),
            blocks => Ok(self.place(blocks - 1)?.end - self.place(0)?.start),
        }
    }

    /// Estimated bytes of the blocks' entries with keys from `from` on and below `to`, if there is one. A
    /// block that reaches out of the range at one of its ends, or at both, counts half: so the estimate is
    /// off by half a block for each end of the range that lies inside the table, and exact otherwise.
    /// O(log blocks), and reads no block.
    ///
    /// # Errors
    /// Errors of reading index pages, if the index is paged.
    pub fn estimate_bytes(&self, from: &[u8], to: Option<&[u8]>) -> Result<u64> {
        let Some(index) = &self.index else { return Ok(0) };
        let Some(touched) = self.touched_blocks(index, from, to)? else { return Ok(0) };
        let (first, last) = (self.place(touched.numbers.start)?, self.place(touched.numbers.end - 1)?);
        let half = |place: &Range<u64>, is_cut: bool| if is_cut { (place.end - place.start) / 2 } else { 0 };
        if touched.numbers.len() == 1 {
            return Ok(first.end - first.start - half(&first, touched.cuts_first || touched.cuts_last));
        }
        Ok(last.end - first.start - half(&first, touched.cuts_first) - half(&last, touched.cuts_last))
    }

    /// Up to `most` keys, ascending, from `from` on and below `to`, if there is one, that divide the blocks
    /// in between evenly; each with the bytes up to the next one. Keys are separators: the table may not
    /// have them. O(`most` + log blocks), and reads no block.
    ///
    /// # Errors
    /// Errors of reading index pages, if the index is paged.
    pub fn anchors_within(&self, from: &[u8], to: Option<&[u8]>, most: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let Some(index) = &self.index else { return Ok(Vec::new()) };
        let Some(TouchedBlocks { numbers, .. }) = self.touched_blocks(index, from, to)? else {
            return Ok(Vec::new());
        };
        let (start, blocks, count) = (numbers.start, numbers.len(), most.min(numbers.len()));
        let mut anchors = Vec::with_capacity(count);
        for at in 0..count {
            let (first, end) = (start + at * blocks / count, start + (at + 1) * blocks / count);
            let key = match at {
                0 => self.properties().min_key.as_slice().max(from).to_vec(),
                _ => self.separator(index, first)?.into_owned(),
            };
            anchors.push((key, self.place(end - 1)?.end - self.place(first)?.start));
        }
        Ok(anchors)
    }

    fn touched_blocks(
        &self,
        index: &BlockIndex,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Option<TouchedBlocks>> {
        let (min, max) = (self.properties().min_key.as_slice(), self.properties().max_key.as_slice());
        if max < from || to.is_some_and(|to| to <= min) {
            return Ok(None);
        }
        let (cuts_first, cuts_last) = (from > min, to.is_some_and(|to| to <= max));
        let first = if cuts_first { self.locate(index, from, Tag::NEWEST)? } else { 0 };
        let last = match to {
            Some(to) if cuts_last => self.locate(index, to, Tag::NEWEST)?,
            _ => self.blocks() - 1,
        };
        Ok(Some(TouchedBlocks { numbers: first..last.max(first) + 1, cuts_first, cuts_last }))
    }
}
