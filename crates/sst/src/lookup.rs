//! Looking up one key.

use crate::block::{BlockRef, Found};
use crate::index::BlockIndex;
use crate::isa::{Kernel, NODE_KEYS, Portable, prefetch, with_kernel};
use crate::slots::Slot;
use crate::table::Table;
use crate::value::{PinnedValue, TableHit};
use esker_base::{Result, SeqNo, Tag};
use esker_cache::Admission;

impl Table {
    /// The newest version of `key` that a reader at `seqno` sees, be it a put or a delete. `hash` is
    /// [`esker_base::checksum::key_hash`] of the key.
    ///
    /// Does not ask the filter: the caller asks [`Table::may_contain`] first, for all tables before it looks into any.
    /// Reads at most one block, unless versions of the key are spread over several. About 350 ns with the block in
    /// the cache and two million entries, nearly all of it cache misses.
    ///
    /// # Errors
    /// Damage of the block, and whatever reading it meets.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<TableHit>> {
        if self.verified.is_some() {
            return self.get_mapped(key, hash, seqno);
        }
        let found = find(self, key, hash, seqno)?;
        if found.is_none() {
            self.note_absent(key, hash, seqno);
        }
        let hit = |(block, found): (_, Found)| TableHit {
            tag: found.tag.at_global(self.global_seqno),
            value: PinnedValue::new(block, found),
        };
        Ok(found.map(hit))
    }

    /// As [`Table::get`], but lends tag and value to `read` instead of giving out a value that keeps the block.
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
        let found = find(self, key, hash, seqno)?;
        Ok(found.map(|(block, found)| {
            read(found.tag.at_global(self.global_seqno), block.contents().slice(found.range()))
        }))
    }
}

fn find(table: &Table, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<(BlockRef, Found)>> {
    with_kernel!(
        table.isa,
        |K| (table: &Table, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<(BlockRef, Found)>> {
            // SAFETY: compiled once for each kernel, and called for the one that exists.
            unsafe { find_with::<K>(table, key, hash, seqno) }
        }
        (table, key, hash, seqno)
    )
}

/// # Safety
/// The kernel's instructions must be available.
#[inline(always)]
unsafe fn find_with<K: Kernel>(
    table: &Table,
    key: &[u8],
    hash: u64,
    seqno: SeqNo,
) -> Result<Option<(BlockRef, Found)>> {
    let Some(index) = &table.index else { return Ok(None) };
    if seqno < table.global_seqno {
        return Ok(None);
    }
    let newest = Tag::visible_at(seqno);
    if index.tree().is_none() {
        return find_otherwise(table, index, key, hash, newest);
    }
    // SAFETY: the caller has the instructions.
    let number = unsafe { index.locate_near::<K>(key, newest, |first| prefetch_slots(table, first)) };
    // SAFETY: as above.
    unsafe { find_from::<K>(table, index, number, key, hash, newest) }
}

/// Looks into block `number`, and into those behind it that continue the key.
///
/// # Safety
/// The kernel's instructions must be available.
#[inline(always)]
unsafe fn find_from<K: Kernel>(
    table: &Table,
    index: &BlockIndex,
    mut number: usize,
    key: &[u8],
    hash: u64,
    newest: Tag,
) -> Result<Option<(BlockRef, Found)>> {
    loop {
        let Some(block) = table.cached_block(number, Admission::Point) else {
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

/// As [`find_from`], from a block on that is not in the cache. Apart, so that what is cached pays nothing for what reading asks first.
#[cold]
#[inline(never)]
fn find_unread(
    table: &Table,
    index: &BlockIndex,
    mut number: usize,
    key: &[u8],
    hash: u64,
    newest: Tag,
) -> Result<Option<(BlockRef, Found)>> {
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

/// As [`find_with`], for all forms of the index but the tree.
#[inline(never)]
fn find_otherwise(
    table: &Table,
    index: &BlockIndex,
    key: &[u8],
    hash: u64,
    newest: Tag,
) -> Result<Option<(BlockRef, Found)>> {
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
) -> Result<Option<(BlockRef, Found)>> {
    let number = table.locate(index, key, newest)?;
    // SAFETY: plain code needs no special instructions.
    unsafe { find_from::<Portable>(table, index, number, key, hash, newest) }
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
