//! Point lookup of one key in a table.

use crate::block::{BlockRef, FoundEntry};
use crate::index::BlockIndex;
use crate::pinned_value::{PinnedValue, TableHit};
use crate::simd::{Kernel, NODE_KEYS, Portable, prefetch, with_kernel};
use crate::slots::Slot;
use crate::table::Table;
use esker_base::{Result, SeqNo, Tag};
use esker_cache::Admission;

/// A lookup whose block is known and prefetched, made by [`Table::begin_lookup`].
#[derive(Clone, Copy, Debug)]
pub struct PreparedLookup<'t> {
    table: &'t Table,
    index: &'t BlockIndex,
    /// The first block that may hold the key.
    number: usize,
    newest: Tag,
}

impl Table {
    /// Begins a lookup of `key` by a reader at `seqno`: finds its block and, if that is in memory, prefetches
    /// the lines that [`PreparedLookup::get`] reads first. Waits for the index only, so that the caller can
    /// overlap the misses with other work, such as probing filters. `None` if the index is not a search tree
    /// in memory: use [`Table::get`] then.
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

    /// The newest version of `key` that a reader at `seqno` sees, a put or a tombstone. `hash` is
    /// [`esker_base::checksum::key_hash`] of the key.
    ///
    /// Does not probe the filter: the caller calls [`Table::may_contain`] for all tables before it searches
    /// any. Reads at most one block, unless versions of the key are spread over several. About 350 ns with
    /// the block in the cache and two million entries, nearly all of it cache misses.
    ///
    /// # Errors
    /// Damage of the block, and errors of reading it.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<TableHit>> {
        match self.begin_lookup(key, seqno) {
            Some(begin_lookup) => begin_lookup.get(key, hash),
            None => self.get_general(key, hash, seqno),
        }
    }

    /// As [`Table::get`], but lends tag and value to `read` instead of returning a value that pins the block.
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
            None => find_general(self, key, hash, seqno)?,
        };
        Ok(found.map(|(block, found)| {
            read(found.tag.at_global(self.global_seqno), block.contents().slice(found.range()))
        }))
    }

    /// [`Table::get`] where [`Table::begin_lookup`] gives `None`.
    #[inline(never)]
    fn get_general(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<TableHit>> {
        let found = find_general(self, key, hash, seqno)?;
        Ok(self.hit_of(found, key, hash, seqno))
    }

    #[inline(always)]
    pub(crate) fn hit_of(
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
    /// The result of [`Table::get`] for the key that the lookup was begun with.
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

fn locate(table: &Table, index: &BlockIndex, key: &[u8], newest: Tag) -> usize {
    with_kernel!(
        table.isa,
        |K| (table: &Table, index: &BlockIndex, key: &[u8], newest: Tag) -> usize {
            // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions exist.
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
            // SAFETY: as in `locate`.
            unsafe { find_in_blocks::<K>(table, index, number, key, hash, newest) }
        }
        (begin_lookup, key, hash)
    )
}

/// Searches block `number` and the following ones that continue the key.
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

/// As [`find_in_blocks`], from an uncached block on. Out of line, so that cached lookups skip its checks.
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
        // SAFETY: portable code needs no special instructions.
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

/// As [`find_from`], for an index that is no search tree.
#[inline(never)]
fn find_general(
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
            // SAFETY: portable code needs no special instructions.
            if let Some(found) = unsafe { block.contents().find::<Portable>(key, hash, newest) } {
                return Ok(Some((block, found)));
            }
            if table.continues_after(index, number, key)? {
                // The newest version is in this block and the wanted one later: the tree finds it.
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
    // SAFETY: portable code needs no special instructions.
    unsafe { find_in_blocks::<Portable>(table, index, number, key, hash, newest) }
}

/// Searches a block by portable instructions.
pub(crate) fn find_portable(block: &BlockRef, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
    // SAFETY: portable code needs no special instructions.
    unsafe { block.contents().find::<Portable>(key, hash, newest) }
}

/// Prefetches the slots of all blocks of one index node: which block it will be is not known yet.
#[inline(always)]
pub(crate) fn prefetch_slots(table: &Table, first: usize) {
    const BYTES: usize = NODE_KEYS * size_of::<Slot<BlockRef>>();
    let slots = table.slots.as_ptr().wrapping_add(first).cast::<u8>();
    for line in 0..BYTES / 64 {
        prefetch(slots.wrapping_add(64 * line));
    }
}
