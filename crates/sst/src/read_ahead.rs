//! Read-ahead: reads consecutive blocks with few calls, for scans of uncached blocks and for compactions.
//!
//! A call for 4 KiB takes 1.2 us from the page cache, mostly overhead; at 64 KiB that is negligible. The
//! buffers belong to one cursor and are reused. Scans start with single blocks and double the window while
//! they continue without a gap, so that a short scan reads no more than it uses; a compaction starts with the
//! full window. Between walks the thread keeps a buffer ([`crate::window_buffer`]).
//!
//! Where reads can overlap ([`esker_env::reads`]), the next window is requested as soon as the present one
//! has arrived, once windows are full and unless the present one was in the page cache. A job takes cached
//! blocks from the cache, so its windows begin with uncached ones. A walk that stops early wastes at most one
//! window, no larger than all it read before.
//!
//! A walk backwards has windows as well, which end with the block that it enters; they are not requested
//! ahead. A few cached blocks between two windows do not end a walk.
//!
//! The windows of all scans together have a share of the memory budget ([`esker_env::MemoryLedger`]): a scan
//! over thirty runs would otherwise hold sixty mebibytes. Where the share is used up, single blocks are read.

use crate::block::{BlockRef, SLACK_BYTES};
use crate::input_residency::{InputReading, ResidencySample};
use crate::read_pattern::LongWalk;
use crate::slots::Slot;
use crate::table::Table;
use crate::window_buffer::{MAX_SCAN_WINDOW_BYTES, WindowBuffer};
use esker_base::{Result, large_buffer};
use esker_env::{MemoryHolding, PendingRead, ReadRequest};
use std::ops::Range;
use std::sync::Arc;

/// First read beyond a single block.
const MIN_WINDOW_BYTES: u64 = 8 << 10;
/// Bytes of one read of a compaction. It has many inputs, each with two windows: those of four inputs and the
/// writer's buffer fit a second-level cache of a mebibyte, so what the kernel has copied is still cached when
/// it is walked over. With 256 KiB, and a mebibyte for the writer, a merge of four takes a quarter longer.
pub(crate) const COMPACTION_WINDOW_BYTES: u64 = 64 << 10;
/// First read of a scan whose block is not in the page cache: the device takes a tenth longer for it than for
/// a page, and a short scan does not wait again.
const FIRST_WINDOW_BYTES: u64 = 16 << 10;
/// Smaller windows are not requested ahead: submitting a read costs as much as the call that it saves.
const MIN_OVERLAPPED_BYTES: u64 = 64 << 10;
/// A block of more than so many windows is not requested ahead.
const LARGEST_OVERLAPPED_WINDOWS: u64 = 4;
/// A walk that passes cached blocks behind a window goes on with the next one, if they are fewer than this
/// part of the window: else most of what the next one reads may be cached as well.
const CACHED_GAP_DIVISOR: usize = 8;

/// Where a walk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// From the block before.
    Forwards,
    /// From the block behind.
    Backwards,
    /// From none beside.
    Elsewhere,
}

impl Walk {
    /// The walk from block `from` to block `to`.
    pub(crate) fn between(from: usize, to: usize) -> Walk {
        if from + 1 == to {
            Walk::Forwards
        } else if to + 1 == from {
            Walk::Backwards
        } else {
            Walk::Elsewhere
        }
    }
}

/// Consecutive whole blocks that are read at once.
#[derive(Debug, Default)]
struct ReadWindow {
    blocks: Range<usize>,
    /// File offset of each of them, and of the end of the last.
    offsets: Vec<u64>,
}

impl ReadWindow {
    /// The blocks from `first` on, which must exist, that lie within `window_bytes`; at least one.
    fn fill(&mut self, table: &Table, first: usize, window_bytes: u64) -> Result<()> {
        // The window is empty if something fails.
        self.blocks = first..first;
        let place = table.place(first)?;
        self.offsets.clear();
        self.offsets.extend([place.start, place.end]);
        let mut end = first + 1;
        while end < table.blocks() {
            let next = table.place(end)?.end;
            if next > place.start + window_bytes {
                break;
            }
            self.offsets.push(next);
            end += 1;
        }
        self.blocks = first..end;
        Ok(())
    }

    /// The same up to block `last`, for a walk backwards.
    fn fill_up_to(&mut self, table: &Table, last: usize, window_bytes: u64) -> Result<()> {
        let end = table.place(last)?.end;
        let mut first = last;
        while first > 0 && table.place(first - 1)?.start + window_bytes >= end {
            first -= 1;
        }
        self.fill(table, first, window_bytes)
    }

    fn start(&self) -> u64 {
        self.offsets.first().copied().unwrap_or(0)
    }

    fn len(&self) -> usize {
        self.offsets.last().map_or(0, |end| (end - self.start()) as usize)
    }

    /// Bytes from this one of its blocks on.
    fn len_from(&self, number: usize) -> usize {
        self.len() - (self.offsets[number - self.blocks.start] - self.start()) as usize
    }
}

/// A window of the file, and the one after it.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// File image of the window and [`SLACK_BYTES`], if `is_read`.
    buffer: WindowBuffer,
    /// Whether the buffer has the window; else its blocks were read otherwise.
    is_read: bool,
    window: ReadWindow,
    /// Bytes of the next window, if it continues this one.
    window_bytes: u64,
    max_window_bytes: u64,
    /// Bytes of the first window of a walk that begins with one instead of a single block; else 0.
    first_bytes: u64,
    /// While windows are full and not in the page cache.
    long_walk: Option<LongWalk>,
    /// Whether the last block that was read alone was reached backwards.
    came_back: bool,
    /// Whether the system had the last window in its page cache.
    was_cached: bool,
    /// The window after this one, being read.
    next: Option<(ReadWindow, PendingRead)>,
    /// Memory for the window after the next.
    spare: WindowBuffer,
    /// Bytes of `spare` that were in use.
    spare_bytes: usize,
    /// What the buffers have of the memory budget.
    held: MemoryHolding,
    /// Pacing and residency reports, for a job.
    reading: Option<InputReading>,
    /// For the residency reports.
    last_answer: ResidencySample,
}

impl ReadAhead {
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> Option<Range<usize>> {
        self.next.as_ref().map(|(window, _)| window.blocks.clone())
    }

    /// A window that grows from single blocks.
    #[inline(always)]
    pub(crate) fn growing() -> ReadAhead {
        ReadAhead::with_window(0, MAX_SCAN_WINDOW_BYTES)
    }

    /// One construction for all, so that a cursor is built in its final place: two that a condition chooses
    /// between are built apart and moved.
    #[inline(always)]
    pub(crate) fn with_window(window_bytes: u64, max_window_bytes: u64) -> ReadAhead {
        ReadAhead {
            buffer: WindowBuffer::default(),
            is_read: false,
            window: ReadWindow::default(),
            window_bytes,
            max_window_bytes,
            first_bytes: 0,
            long_walk: None,
            came_back: false,
            was_cached: false,
            next: None,
            spare: WindowBuffer::default(),
            spare_bytes: 0,
            held: MemoryHolding::default(),
            reading: None,
            last_answer: ResidencySample::default(),
        }
    }

    #[inline(always)]
    pub(crate) fn full() -> ReadAhead {
        ReadAhead::with_window(COMPACTION_WINDOW_BYTES, COMPACTION_WINDOW_BYTES)
    }

    pub(crate) fn for_job(reading: InputReading) -> ReadAhead {
        ReadAhead { reading: Some(reading), ..ReadAhead::full() }
    }

    /// For a job: reports that block `number`, of `bytes` in the file, is entered, and returns the block if
    /// its slot has it (HO12).
    pub(crate) fn resident(&mut self, table: &Table, number: usize, bytes: u64) -> Result<Option<BlockRef>> {
        let Some(reading) = &self.reading else { return Ok(None) };
        reading.residency.note(table, number, bytes, &mut self.last_answer);
        let Some(block) = table.slots.get(number).and_then(Slot::get) else { return Ok(None) };
        self.before_block(number, bytes)?;
        Ok(Some(block))
    }

    /// Calls [`before_read`](crate::JobControl::before_read) for block `number`, of `bytes`, that is taken
    /// from elsewhere. For a block of the window that was done when the window was read.
    pub(crate) fn before_block(&self, number: usize, bytes: u64) -> Result<()> {
        if self.holds(number) { Ok(()) } else { self.before_read(bytes) }
    }

    fn before_read(&self, bytes: u64) -> Result<()> {
        self.reading.as_ref().map_or(Ok(()), |reading| reading.control.before_read(bytes))
    }

    /// Whether a walk that came from the block beside `number` goes on where the last read ended, but for a
    /// few blocks that were cached: fewer than an eighth of that read.
    pub(crate) fn goes_on(&self, walk: Walk, number: usize) -> bool {
        let read = &self.window.blocks;
        let gap = match walk {
            Walk::Forwards => number.checked_sub(read.end),
            // The first step back may be the whole walk: the last entry before a key lies there.
            Walk::Backwards if self.window_bytes == 0 && !self.came_back => None,
            Walk::Backwards => read.start.checked_sub(number + 1),
            Walk::Elsewhere => None,
        };
        !read.is_empty() && gap.is_some_and(|gap| gap <= read.len().div_ceil(CACHED_GAP_DIVISOR))
    }

    pub(crate) fn holds(&self, number: usize) -> bool {
        self.window.blocks.contains(&number)
    }

    /// Records that a walk from there read block `number` by other means.
    pub(crate) fn note(&mut self, walk: Walk, number: usize) {
        self.came_back = walk == Walk::Backwards && self.window.blocks.start == number + 1;
        self.window.blocks = number..number + 1;
        self.window_bytes = 0;
        // The next read continues behind the block.
        self.is_read = false;
        self.next = None;
        self.long_walk = None;
    }

    /// The next read begins a walk whose block is not in the page cache.
    pub(crate) fn begin_with_window(&mut self) {
        self.window.blocks = 0..0;
        self.first_bytes = FIRST_WINDOW_BYTES;
    }

    /// Frees the image of a block that was decompressed elsewhere, if it is large.
    pub(crate) fn free_if_large(&mut self, table: &Table) {
        if self.image_bytes() >= large_buffer::LARGE_BYTES {
            self.is_read = false;
            self.buffer = WindowBuffer::default();
            self.hold_buffers(table);
        }
    }

    /// Bytes of the window in memory.
    fn image_bytes(&self) -> usize {
        if self.is_read { self.window.len() + SLACK_BYTES } else { 0 }
    }

    /// Holds what the buffers have in use at present.
    fn hold_buffers(&mut self, table: &Table) {
        let under_way = self.next.as_ref().map_or(0, |(window, _)| window.len() + SLACK_BYTES);
        let bytes = self.image_bytes() + self.spare_bytes + under_way;
        let memory = table.identity.memory();
        let account = if self.is_job() { &memory.jobs } else { &memory.read_ahead };
        self.held.hold(account, bytes as u64);
    }

    /// Whether its windows do not grow: those of jobs, which need them.
    fn is_job(&self) -> bool {
        self.max_window_bytes == COMPACTION_WINDOW_BYTES
    }

    /// A window of a scan for which the memory budget has room, with the one after it: at most `wanted`
    /// bytes, or 0 for single blocks.
    fn affordable(&mut self, table: &Table, wanted: u64) -> u64 {
        let windows = if table.identity.reads().is_some() { 2 } else { 1 };
        let mut bytes = wanted;
        while bytes >= MIN_WINDOW_BYTES && !self.is_job() {
            if self.held.try_hold(&table.identity.memory().read_ahead, windows * bytes) {
                return bytes;
            }
            bytes /= 2;
        }
        if self.is_job() { wanted } else { 0 }
    }

    /// The file image of block `number`, with at least [`SLACK_BYTES`] behind it. Overwrites images returned
    /// before if the block has to be read.
    pub(crate) fn image(&mut self, table: &Table, number: usize) -> Result<&[u8]> {
        self.read(Walk::Forwards, table, number)?;
        Ok(self.image_of(number))
    }

    /// Reads block `number`, if the window has it not, with the blocks behind it in the walk's direction.
    /// Overwrites images returned before.
    pub(crate) fn read(&mut self, walk: Walk, table: &Table, number: usize) -> Result<()> {
        if self.holds(number) && self.is_read { Ok(()) } else { self.fill(walk, table, number) }
    }

    /// The file image of block `number`, which was [read](ReadAhead::read) last.
    pub(crate) fn image_of(&self, number: usize) -> &[u8] {
        let (start, at) = (self.window.start(), number - self.window.blocks.start);
        let end = (self.window.offsets[at + 1] - start) as usize + SLACK_BYTES;
        self.buffer.slice((self.window.offsets[at] - start) as usize..end)
    }

    /// Whether [`ReadAhead::free_if_passed`] frees the memory when the walk has come to block `number`.
    pub(crate) fn frees_at(&self, walk: Walk, number: usize) -> bool {
        let last =
            if walk == Walk::Backwards { self.window.blocks.start } else { self.window.blocks.end - 1 };
        number == last && self.next.is_none()
    }

    /// Frees the memory once the last block of the window was copied: a cursor that stays open without moving
    /// holds no buffer for each of its runs. The next window takes the one that the thread keeps.
    pub(crate) fn free_if_passed(&mut self, walk: Walk, number: usize) {
        if self.frees_at(walk, number) {
            self.is_read = false;
            (self.buffer, self.spare) = (WindowBuffer::default(), WindowBuffer::default());
            self.spare_bytes = 0;
            self.held.release();
        }
    }

    #[cold]
    fn fill(&mut self, walk: Walk, table: &Table, number: usize) -> Result<()> {
        let goes_on = self.goes_on(walk, number);
        let used_bytes = self.image_bytes();
        self.is_read = false;
        self.window.blocks = number..number;
        match self.next.take() {
            Some((next, read)) if next.blocks.contains(&number) => {
                // The blocks before it were cached when the walk reached them, and paced one by one.
                self.before_read(next.len_from(number) as u64)?;
                let buffer = WindowBuffer::of(read.wait()?);
                self.spare = std::mem::replace(&mut self.buffer, buffer);
                self.spare_bytes = used_bytes;
                self.window = next;
            }
            _ => {
                let first_bytes = std::mem::take(&mut self.first_bytes);
                if self.window_bytes < self.max_window_bytes {
                    let wanted = if goes_on { self.grown() } else { first_bytes };
                    self.window_bytes = self.affordable(table, wanted);
                }
                let mut window = std::mem::take(&mut self.window);
                match walk {
                    Walk::Backwards => window.fill_up_to(table, number, self.window_bytes)?,
                    Walk::Forwards | Walk::Elsewhere => window.fill(table, number, self.window_bytes)?,
                }
                let len = window.len();
                self.before_read(len as u64)?;
                let image = self.buffer.room(len);
                if first_bytes > 0 {
                    // The first block is on its way, because the page cache was asked for it. A read would
                    // wait for that alone, and ask for the rest afterwards.
                    table.file.will_need(window.start(), len as u64);
                    self.was_cached = false;
                } else {
                    self.was_cached = table.file.read_cached_at(image, window.start());
                }
                if !self.was_cached {
                    table.file.read_exact_at(image, window.start())?;
                }
                self.window = window;
            }
        }
        self.is_read = true;
        if self.window_bytes < self.max_window_bytes || self.was_cached {
            self.long_walk = None;
        } else if self.long_walk.is_none() {
            self.long_walk = Some(LongWalk::begin(&table.patterns));
        }
        if walk == Walk::Forwards {
            self.read_next(table)?;
        }
        self.hold_buffers(table);
        Ok(())
    }

    fn grown(&self) -> u64 {
        (self.window_bytes * 2).clamp(MIN_WINDOW_BYTES, self.max_window_bytes)
    }

    fn read_next(&mut self, table: &Table) -> Result<()> {
        // What is in the page cache is copied when it is needed: nothing would overlap, and a scan that ends
        // now would have copied a window for nothing.
        let Some(queue) = table.identity.reads().filter(|_| !self.was_cached) else { return Ok(()) };
        let wanted = self.grown();
        // A scan that ends before its windows are full would have read as much again for nothing.
        if wanted < self.max_window_bytes {
            return Ok(());
        }
        let Some(first) = self.next_to_read(table)? else { return Ok(()) };
        let window_bytes = self.affordable(table, wanted);
        if window_bytes < MIN_OVERLAPPED_BYTES {
            return Ok(());
        }
        let mut window = ReadWindow::default();
        window.fill(table, first, window_bytes)?;
        if window.len() as u64 > LARGEST_OVERLAPPED_WINDOWS * window_bytes {
            // A large value: two of them at once are more than the read is worth.
            return Ok(());
        }
        self.window_bytes = window_bytes;
        self.spare_bytes = 0;
        let buffer = std::mem::take(&mut self.spare).into_request(window.len());
        let request = ReadRequest { file: Arc::clone(&table.file), offset: window.start(), buffer };
        self.next = queue.submit(vec![request]).pop().map(|read| (window, read));
        Ok(())
    }

    /// The first block of the next window; `None` if there is none, or none yet. A job takes cached blocks
    /// from the cache, and passes up to a window of them before it requests the next one.
    fn next_to_read(&self, table: &Table) -> Result<Option<usize>> {
        let is_resident = |block: usize| table.slots.get(block).is_some_and(|slot| slot.address() != 0);
        let behind = self.window.start() + self.window.len() as u64;
        let mut first = self.window.blocks.end;
        while self.reading.is_some() && first < table.blocks() && is_resident(first) {
            if table.place(first)?.end > behind + self.max_window_bytes {
                return Ok(None);
            }
            first += 1;
        }
        Ok(Some(first).filter(|&first| first < table.blocks()))
    }
}
