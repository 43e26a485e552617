//! Inspection of a table: composition of its blocks, and all their entries.
//!
//! Blocks are read past the cache. `esker inspect table` shows this.

use crate::block::delta::Savings;
use crate::block::delta_encode::{SLOT_CANCELLED, SLOT_EMPTY};
use crate::block::{BlockBytes, BlockHeader, LayoutView};
use crate::block_bounds::BoundsSection;
use crate::index::IndexKind;
use crate::index::locator::Locator;
use crate::index::page_search::PagedIndex;
use crate::read_ahead::ReadAhead;
use crate::table::Table;
use esker_base::{Error, Result, Tag};

/// The block index of a table in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFacts {
    /// The requested kind.
    pub requested: IndexKind,
    /// The kind in use.
    pub used: IndexKind,
    /// The reason for it.
    pub reason: &'static str,
    /// Entries: one for each block.
    pub entries: usize,
    /// Pages in the file, if the index is paged.
    pub pages: Option<usize>,
    /// Bits of the locator's fingerprints, if lookups use one.
    pub fingerprint_bits: Option<u32>,
    /// Bytes of memory, separators and the places of blocks included.
    pub memory_bytes: usize,
    /// Bytes of memory of whole separators in order, [`IndexKind::SortedArray`], for comparison.
    pub sorted_array_bytes: usize,
    /// Bytes of memory of block bounds, if the table has them.
    pub bounds_bytes: Option<usize>,
}

/// Composition of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFacts {
    /// Its header.
    pub header: BlockHeader,
    /// Where it starts in the file.
    pub offset: u64,
    /// Bytes in the file, header and checksum included, without padding behind it.
    pub file_bytes: u64,
    /// Its lower bound in the index, not necessarily a key of the table.
    pub separator: Vec<u8>,
    /// Its first key.
    pub first_key: Vec<u8>,
    /// Bytes in front of each entry for sequence number and kind; 0 if all are the same.
    pub tag_bytes: usize,
    /// Details of its layout.
    pub layout: LayoutFacts,
}

/// Details of a block's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutFacts {
    /// The flat layout.
    Flat {
        /// Bytes that all keys start with, stored once.
        prefix_bytes: usize,
    },
    /// The delta layout.
    Delta {
        /// Restart points.
        restarts: usize,
        /// Use of the hash slots.
        slots: SlotCounts,
        /// Key bytes not stored because the key before has them.
        shared_bytes: u64,
        /// Bytes that varints save against lengths of two, two and four bytes.
        varint_bytes: u64,
    },
}

/// Hash slots of delta blocks, by their use.
///
/// With as many slots as keys, chance makes 36.8 % of them usable, leaves 36.8 % empty and cancels 26.4 %;
/// keys in the same restart interval can share a slot, which makes more of them usable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Slots that name a restart point.
    pub usable: u64,
    /// Slots that tell that a key is absent.
    pub empty: u64,
    /// Slots without information, because keys of different restart points share them.
    pub cancelled: u64,
}

impl Table {
    /// Facts about the block index; `None` if the table has no blocks. O(entries of the index), and reads
    /// pages if the index is paged.
    ///
    /// # Errors
    /// Damage of pages, and errors of reading them.
    pub fn index_facts(&self) -> Result<Option<IndexFacts>> {
        /// For each separator: where it ends, and where its block starts.
        const PLACES_BYTES: usize = size_of::<u32>() + size_of::<u64>();
        let Some(index) = &self.index else { return Ok(None) };
        let mut sorted_array_bytes = size_of::<u64>();
        for number in 0..index.blocks() {
            sorted_array_bytes += self.separator(index, number)?.len() + PLACES_BYTES;
        }
        Ok(Some(IndexFacts {
            requested: self.index_requested,
            used: index.kind(),
            reason: self.index_reason,
            entries: index.blocks(),
            pages: index.pages().map(PagedIndex::pages),
            fingerprint_bits: index.locator().map(Locator::fingerprint_bits),
            memory_bytes: index.memory_bytes(),
            sorted_array_bytes,
            bounds_bytes: self.bounds.as_ref().map(BoundsSection::memory_bytes),
        }))
    }

    /// Facts about block `number`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such block, damage of the block, and errors of reading it.
    pub fn block_facts(&self, number: usize) -> Result<BlockFacts> {
        let index = self
            .index
            .as_ref()
            .filter(|index| number < index.blocks())
            .ok_or_else(|| self.no_block(number))?;
        let (place, separator) = (self.place(number)?, self.separator(index, number)?.into_owned());
        self.visit_block(number, &mut ReadAhead::growing(), &mut Vec::new(), |block, cursor| {
            let (tag_bytes, layout) = layout_facts(block);
            Ok(BlockFacts {
                header: block.header(),
                offset: place.start,
                file_bytes: block.header().file_len() as u64,
                separator,
                first_key: cursor.key().to_vec(),
                tag_bytes,
                layout,
            })
        })
    }

    /// Calls `visit` with key, tag and value of every entry of block `number`, in order.
    ///
    /// # Errors
    /// As [`Table::block_facts`].
    pub fn visit_entries(&self, number: usize, mut visit: impl FnMut(&[u8], Tag, &[u8])) -> Result<()> {
        if number >= self.blocks() {
            return Err(self.no_block(number));
        }
        self.visit_block(number, &mut ReadAhead::growing(), &mut Vec::new(), |_, cursor| {
            while cursor.is_valid() {
                // SAFETY: the block outlives this call.
                unsafe {
                    visit(cursor.key(), cursor.tag(), cursor.value());
                    cursor.next();
                }
            }
            Ok(())
        })
    }

    #[cold]
    fn no_block(&self, number: usize) -> Error {
        let (path, blocks) = (self.file.path().display(), self.blocks());
        Error::invalid(format!("{path} has {blocks} blocks, there is no number {number}"))
    }
}

fn layout_facts(block: &BlockBytes) -> (usize, LayoutFacts) {
    match block.view() {
        LayoutView::Flat(flat) => {
            (flat.tags().width(), LayoutFacts::Flat { prefix_bytes: flat.prefix_len() })
        }
        LayoutView::Delta(delta) => {
            // SAFETY: the block is borrowed and validated.
            let (slots, savings) = unsafe { (delta.slots(), delta.savings()) };
            let Savings { shared_bytes, varint_bytes } = savings;
            let layout = LayoutFacts::Delta {
                restarts: delta.restarts(),
                slots: count_slots(slots),
                shared_bytes,
                varint_bytes,
            };
            (delta.tags().width(), layout)
        }
    }
}

fn count_slots(slots: &[u8]) -> SlotCounts {
    let mut counts = SlotCounts::default();
    for &slot in slots {
        match slot {
            SLOT_EMPTY => counts.empty += 1,
            SLOT_CANCELLED => counts.cancelled += 1,
            _ => counts.usable += 1,
        }
    }
    counts
}
