//! Mapped tables: reads uncompressed blocks in place in a memory-mapped file.
//!
//! A lookup searches the block in the page cache, and a returned value keeps the file mapped. Compressed
//! blocks are decompressed into memory of their own and cached as usual.
//!
//! # Invariants
//! * MP1. A block is used in place only after its checksum and its layout were verified, once for each open
//!   table, recorded in a bit that is set after the verification (release) and read before the use (acquire);
//!   two threads may both verify a block.
//! * MP2. The file does not change while it is mapped. Esker writes a table once, before it is opened, and
//!   never truncates it; with mapped reads the user guarantees that no other process does. That is the risk
//!   of this mode: an outside change gives wrong answers or worse, and a device error ends the process by a
//!   signal instead of returning an error.

use crate::block::header::CODEC_AT;
use crate::block::{BlockBytes, FoundEntry, SLACK_BYTES};
use crate::load::verify_numbered;
use crate::observed_reads::{BlockOrigin, ObservedReads, note};
use crate::pinned_value::{PinnedValue, TableHit};
use crate::simd::{prefetch, with_kernel};
use crate::slots::PREFETCHED_LINES;
use crate::table::Table;
use esker_base::{Result, Tag};
use esker_cache::Admission;
use esker_codec::id;
use std::ops::Range;
use std::sync::Arc;

impl Table {
    /// The bytes of block `number`, which must exist, in the mapped file, with [`SLACK_BYTES`] behind them,
    /// and their range; `None` if the block is compressed. Reads one of the bytes.
    pub(crate) fn mapped_image(&self, number: usize) -> Result<Option<(&[u8], Range<u64>)>> {
        let Some(file) = self.file.mapped().filter(|_| self.verified.is_some()) else { return Ok(None) };
        let place = self.place(number)?;
        // Sections and footer follow the last block, so there are bytes behind each block.
        let image = file.get(place.start as usize..place.end as usize + SLACK_BYTES);
        let raw = image.filter(|image| image.get(CODEC_AT) == Some(&id::NONE));
        Ok(raw.map(|image| (image, place)))
    }

    /// Block `number`, which must exist, in the mapped file; `None` if it is compressed.
    pub(crate) fn mapped_block(&self, number: usize) -> Result<Option<(&BlockBytes, u64)>> {
        let (Some(verified), Some((image, place))) = (&self.verified, self.mapped_image(number)?) else {
            return Ok(None);
        };
        note(BlockOrigin::Mapped);
        if verified.contains(number) {
            // SAFETY: these bytes were validated before the bit was set (MP1), and have not changed since
            // (MP2).
            return Ok(Some((unsafe { BlockBytes::validated(image) }, place.start)));
        }
        let span = (place.end - place.start) as usize;
        let header = verify_numbered(&image[..span], self.uid, place.start, number);
        let block = header.and_then(|_| BlockBytes::from_bytes(image));
        let block = block.map_err(|error| self.decode_error_at(error, place.start))?;
        verified.insert(number);
        Ok(Some((block, place.start)))
    }

    /// Prefetches the start of a mapped block. Without an address translation the prefetch is dropped.
    pub(crate) fn prefetch_mapped(&self, number: usize) {
        let (Some(file), Ok(place)) = (self.file.mapped(), self.place(number)) else { return };
        let start = file.as_ptr().wrapping_add(place.start as usize);
        (0..PREFETCHED_LINES).for_each(|line| prefetch(start.wrapping_add(64 * line)));
    }

    /// As [`Table::get`], for a mapped file, from the block that the index names for the key.
    #[inline(never)]
    pub(crate) fn get_mapped_from(
        &self,
        mut number: usize,
        key: &[u8],
        hash: u64,
        newest: Tag,
    ) -> Result<Option<TableHit>> {
        let seqno = newest.seqno();
        if self.bounds.is_some() && self.excludes_unread(number, key)? {
            self.note_absent(key, hash, seqno);
            return Ok(None);
        }
        loop {
            let hit = match self.mapped_block(number)? {
                Some((block, start)) => self.find_in(block, key, hash, newest).map(|found| {
                    let value = PinnedValue::mapped(
                        Arc::clone(&self.file),
                        start + u64::from(found.start),
                        found.len,
                    );
                    (found.tag, value)
                }),
                None => {
                    let block = match ObservedReads::is_on() {
                        true => self.block_observed(number, Admission::Point)?,
                        false => self.block(number, Admission::Point)?,
                    };
                    let found = self.find_in(block.contents(), key, hash, newest);
                    found.map(|found| (found.tag, PinnedValue::new(block, found)))
                }
            };
            if let Some((tag, value)) = hit {
                return Ok(Some(TableHit { tag: tag.at_global(self.global_seqno), value }));
            }
            if !self.index.as_ref().is_some_and(|index| index.continues_after(number, key)) {
                self.note_absent(key, hash, seqno);
                return Ok(None);
            }
            number += 1;
        }
    }

    /// Whether the bounds exclude the key from block `number`, which was not read yet.
    #[cold]
    fn excludes_unread(&self, number: usize, key: &[u8]) -> Result<bool> {
        match (&self.verified, &self.index) {
            (Some(verified), Some(index)) if !verified.contains(number) => self.excludes(index, number, key),
            _ => Ok(false),
        }
    }

    fn find_in(&self, block: &BlockBytes, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
        let isa = self.isa;
        with_kernel!(
            isa,
            |K| (block: &BlockBytes, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
                // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions
                // exist.
                unsafe { block.find::<K>(key, hash, newest) }
            }
            (block, key, hash, newest)
        )
    }
}
