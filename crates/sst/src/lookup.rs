//! Looking up one key.

use crate::block::{BlockRef, FoundEntry};
use crate::index::BlockIndex;
use crate::pinned_value::{PinnedValue, TableHit};
use crate::simd::{Kernel, NODE_KEYS, Portable, prefetch, with_kernel};
use crate::slots::Slot;
use crate::table::Table;
use esker_base::{Result, SeqNo, Tag};
use esker_cache::Admission;

/// A lookup that knows its block: where [`Table::begin_lookup`] came to.
#[derive(Clone, Copy, Debug)]
pub struct PreparedLookup<'t> {
    table: &'t Table,
    index: &'t BlockIndex,
    /// The block that holds the key, or the first of those that do.
    number: usize,
    newest: Tag,
}

impl Table {
    /// Begins to look for `key` as a reader at `seqno`: finds its block, and asks for the lines of memory
    /// that [`PreparedLookup::get`] looks at first, if the block is in memory. Waits for nothing but the index, so
    /// whoever has something else to find out meanwhile, as what the filter says, does not pay for it. `None`
    /// if it takes more than that to say which block it is: then [`Table::get`] finds out.
    #[inline]
    pub fn begin_lookup(&self, key: &[u8], seqno: SeqNo) -> Option<PreparedLookup<'_>> {
        let index = self.index.as_ref()?;
        if seqno < self.global_seqno || index.tree().is_none() {
            return None;
        }
        let newest = Tag::visible_at(seqno);
        let number = locate(self, index, key, newest);
        if self.verified.is_some() {
            self.prefetch_mapped(number);
        }
        Some(PreparedLookup { table: self, index, number, newest })
    }

    /// The newest version of `key` that a reader at `seqno` sees, be it a put or a delete. `hash` is
    /// [`esker_base::checksum::key_hash`] of the key.
    ///
    /// Does not ask the filter: the caller asks [`Table::may_contain`] first, for all tables before it looks
    /// into any. Reads at most one block, unless versions of the key are spread over several. About 350 ns
    /// with the block in the cache and two million entries, nearly all of it cache misses.
    ///
    /// # Errors
    /// Damage of the block, and whatever reading it meets.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<TableHit>> {
        match self.begin_lookup(key, seqno) {
            Some(begin_lookup) => begin_lookup.get(key, hash),
            None => self.get_otherwise(key, hash, seqno),
        }
    }

    /// As [`Table::get`], but lends tag and value to `read` instead of giving out a value that keeps the
    /// block.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        hash: u64,
        seqno: SeqNo,
        read: impl FnOnce(Tag, &[u8]) -> R,
    ) -> Result<Option<R>> {
        let found = match self.begin_lookup(key, seqno) {
            Some(begin_lookup) => find_from(&begin_lookup, key, hash)?,
            None => find_otherwise(self, key, hash, seqno)?,
        };
        Ok(found.map(|(block, found)| {
            read(found.tag.at_global(self.global_seqno), block.contents().slice(found.range()))
        }))
    }

    /// As [`Table::get`], where there is no begin_lookup.
    #[inline(never)]
    fn get_otherwise(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<TableHit>> {
        let found = find_otherwise(self, key, hash, seqno)?;
        Ok(self.hit_of(found, key, hash, seqno))
    }

    #[inline(always)]
    fn hit_of(
        &self,
        found: Option<(BlockRef, FoundEntry)>,
        key: &[u8],
        hash: u64,
        seqno: SeqNo,
    ) -> Option<TableHit> {
        let Some((block, found)) = found else {
            self.note_absent(key, hash, seqno);
            return None;
        };
        Some(TableHit { tag: found.tag.at_global(self.global_seqno), value: PinnedValue::new(block, found) })
    }
}

impl PreparedLookup<'_> {
    /// What [`Table::get`] answers; the key must be the one that was approached.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64) -> Result<Option<TableHit>> {
        if self.table.verified.is_some() {
            return self.table.get_mapped_from(self.number, key, hash, self.newest);
        }
        let found = find_from(self, key, hash)?;
        Ok(self.table.hit_of(found, key, hash, self.newest.seqno()))
    }
}

/// The block that an begin_lookup comes to; its first lines are asked for.
fn locate(table: &Table, index: &BlockIndex, key: &[u8], newest: Tag) -> usize {
    with_kernel!(
        table.isa,
        |K| (table: &Table, index: &BlockIndex, key: &[u8], newest: Tag) -> usize {
            // SAFETY: compiled once for each kernel, and called for the one that exists.
            let number = unsafe { index.locate_near::<K>(key, newest, |first| prefetch_slots(table, first)) };
            table.prefetch_for_lookup(index, number);
            number
        }
        (table, index, key, newest)
    )
}

fn find_from(
    begin_lookup: &PreparedLookup<'_>,
    key: &[u8],
    hash: u64,
) -> Result<Option<(BlockRef, FoundEntry)>> {
    with_kernel!(
        begin_lookup.table.isa,
        |K| (begin_lookup: &PreparedLookup<'_>, key: &[u8], hash: u64) -> Result<Option<(BlockRef, FoundEntry)>> {
            let PreparedLookup { table, index, number, newest } = *begin_lookup;
            // SAFETY: compiled once for each kernel, and called for the one that exists.
            unsafe { find_in_blocks::<K>(table, index, number, key, hash, newest) }
        }
        (begin_lookup, key, hash)
    )
}

/// Looks into block `number`, and into those behind it that continue the key.
///
/// # Safety
/// The kernel's instructions must be available.
#[inline(always)]
unsafe fn find_in_blocks<K: Kernel>(
    table: &Table,
    index: &BlockIndex,
    mut number: usize,
    key: &[u8],
    hash: u64,
    newest: Tag,
) -> Result<Option<(BlockRef, FoundEntry)>> {
    loop {
        let Some(block) = table.prefetched_block(number, Admission::Point) else {
            return find_unread(table, index, number, key, hash, newest);
        };
        // SAFETY: the caller has the instructions.
        if let Some(found) = unsafe { block.contents().find::<K>(key, hash, newest) } {
            return Ok(Some((block, found)));
        }
        if !table.continues_after(index, number, key)? {
            return Ok(None);
        }
        number += 1;
    }
}

/// As [`find_in_blocks`], from a block on that is not in the cache. Apart, so that what is cached pays
/// nothing for what reading asks first.
#[cold]
#[inline(never)]
fn find_unread(
    table: &Table,
    index: &BlockIndex,
    mut number: usize,
    key: &[u8],
    hash: u64,
    newest: Tag,
) -> Result<Option<(BlockRef, FoundEntry)>> {
    let Some(mut block) = table.load_block_for(index, number, key)? else { return Ok(None) };
    loop {
        // SAFETY: plain code needs no special instructions.
        if let Some(found) = unsafe { block.contents().find::<Portable>(key, hash, newest) } {
            return Ok(Some((block, found)));
        }
        if !table.continues_after(index, number, key)? {
            return Ok(None);
        }
        number += 1;
        block = table.block(number, Admission::Point)?;
    }
}

/// As [`find_from`], where there is no begin_lookup.
#[inline(never)]
fn find_otherwise(
    table: &Table,
    key: &[u8],
    hash: u64,
    seqno: SeqNo,
) -> Result<Option<(BlockRef, FoundEntry)>> {
    let Some(index) = &table.index else { return Ok(None) };
    if seqno < table.global_seqno {
        return Ok(None);
    }
    let newest = Tag::visible_at(seqno);
    if let Some(locator) = index.locator() {
        for number in locator.candidates(hash) {
            let cached = table.cached_block(number, Admission::Point);
            let Some(block) =
                cached.map_or_else(|| table.load_block_for(index, number, key), |block| Ok(Some(block)))?
            else {
                continue;
            };
            // SAFETY: plain code needs no special instructions.
            if let Some(found) = unsafe { block.contents().find::<Portable>(key, hash, newest) } {
                return Ok(Some((block, found)));
            }
            if table.continues_after(index, number, key)? {
                // The newest version is here, and the one wanted further on: the tree knows where.
                return find_ordered(table, index, key, hash, newest);
            }
        }
        return Ok(None);
    }
    find_ordered(table, index, key, hash, newest)
}

fn find_ordered(
    table: &Table,
    index: &BlockIndex,
    key: &[u8],
    hash: u64,
    newest: Tag,
) -> Result<Option<(BlockRef, FoundEntry)>> {
    let number = table.locate(index, key, newest)?;
    // SAFETY: plain code needs no special instructions.
    unsafe { find_in_blocks::<Portable>(table, index, number, key, hash, newest) }
}

/// Asks for the slots of the blocks of one index node, all of them: which one it is, is not known yet.
#[inline(always)]
pub(crate) fn prefetch_slots(table: &Table, first: usize) {
    const BYTES: usize = NODE_KEYS * size_of::<Slot<BlockRef>>();
    let slots = table.slots.as_ptr().wrapping_add(first).cast::<u8>();
    for line in 0..BYTES / 64 {
        prefetch(slots.wrapping_add(64 * line));
    }
}
