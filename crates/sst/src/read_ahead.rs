//! Reading many blocks of a table with few calls, for scans of what is not in the cache and for compactions.
//!
//! One call for 4 KiB takes 1.2 us from the page cache, most of it for the call; for 256 KiB the call no longer counts.
//! The buffer belongs to one cursor and is recycled. Scans start with single blocks and double what they read as long
//! as they go on without a gap, so that a short scan reads no more than it uses; a compaction reads all and starts big.

use crate::block::SLACK_BYTES;
use crate::table::Table;
use esker_base::Result;
use std::ops::Range;

/// First read beyond a single block.
const MIN_WINDOW_BYTES: u64 = 16 << 10;
/// Most bytes of one read, but for larger blocks.
pub(crate) const MAX_WINDOW_BYTES: u64 = 256 << 10;

/// A window on the file.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// File image of whole blocks, and [`SLACK_BYTES`] of anything.
    buffer: Vec<u8>,
    /// The blocks in the buffer.
    blocks: Range<usize>,
    /// Where each of them starts in the file, and where the last one ends.
    borders: Vec<u64>,
    /// Bytes to read next time, if it continues this time.
    window_bytes: u64,
}

impl ReadAhead {
    /// A window that grows from single blocks.
    pub(crate) fn growing() -> ReadAhead {
        ReadAhead { buffer: Vec::new(), blocks: 0..0, borders: Vec::new(), window_bytes: 0 }
    }

    /// A window of full size.
    pub(crate) fn full() -> ReadAhead {
        ReadAhead { window_bytes: MAX_WINDOW_BYTES, ..ReadAhead::growing() }
    }

    /// Whether a read of `number` goes on where the last one ended.
    pub(crate) fn continues_at(&self, number: usize) -> bool {
        self.blocks.end == number && !self.blocks.is_empty()
    }

    /// Whether block `number` is in the buffer.
    pub(crate) fn holds(&self, number: usize) -> bool {
        self.blocks.contains(&number)
    }

    /// Notes that block `number` was read by other means.
    pub(crate) fn note(&mut self, number: usize) {
        self.blocks = number..number + 1;
        self.window_bytes = 0;
        // The buffer holds nothing of it; the next read goes on behind it.
        self.buffer.clear();
    }

    /// The file image of block `number`, with at least [`SLACK_BYTES`] behind it. Whatever was given out before is
    /// overwritten if the block has to be read.
    pub(crate) fn image(&mut self, table: &Table, number: usize) -> Result<&[u8]> {
        if !self.holds(number) || self.buffer.is_empty() {
            self.fill(table, number)?;
        }
        let (start, at) = (self.borders[0], number - self.blocks.start);
        let end = (self.borders[at + 1] - start) as usize + SLACK_BYTES;
        Ok(&self.buffer[(self.borders[at] - start) as usize..end])
    }

    #[cold]
    fn fill(&mut self, table: &Table, number: usize) -> Result<()> {
        if self.window_bytes < MAX_WINDOW_BYTES {
            let next = (self.window_bytes * 2).clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES);
            self.window_bytes = if self.continues_at(number) { next } else { 0 };
        }
        // Nothing is held if something fails.
        self.blocks = number..number;
        let place = table.place(number)?;
        self.borders.clear();
        self.borders.extend([place.start, place.end]);
        let (mut end_block, mut end) = (number + 1, place.end);
        while end < place.start + self.window_bytes && end_block < table.blocks() {
            let next = table.place(end_block)?.end;
            if next > place.start + self.window_bytes {
                break;
            }
            self.borders.push(next);
            (end_block, end) = (end_block + 1, next);
        }
        let len = (end - place.start) as usize;
        self.buffer.resize(len + SLACK_BYTES, 0);
        self.buffer.shrink_to(4 * MAX_WINDOW_BYTES as usize);
        table.file.read_exact_at(&mut self.buffer[..len], place.start)?;
        self.blocks = number..end_block;
        Ok(())
    }
}
