//! Batched point lookups (MultiGet) with overlapped cache misses and reads.
//!
//! A lookup is a chain of cache misses: filter line, index nodes, cache bucket, block directory, entry. The
//! chains of different keys are independent, so all keys pass one stage before any passes the next, and each
//! stage prefetches for the next: 130 to 160 ns a key instead of 350. State machines in which keys overtake
//! each other were no faster, with ten times the code.

use crate::block::BlockRef;
use crate::index::BlockIndex;
use crate::pinned_value::{PinnedValue, TableHit};
use crate::simd::{Kernel, prefetch, with_kernel};
use crate::table::Table;
use esker_base::{ResidentOnly, Result, SeqNo, Tag};
use esker_cache::{Admission, BlockKind};
use esker_env::{PendingRead, ReadQueue};

/// Most keys of one call: about twice as many as the cache misses that a core can have outstanding.
pub const MAX_LOOKUPS: usize = 32;

/// A key and its table. The keys of one call mostly have tables of one run.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The table.
    pub table: &'a Table,
    /// The key.
    pub key: &'a [u8],
    /// [`esker_base::checksum::key_hash`] of the key.
    pub hash: u64,
}

/// Looks up the keys whose bit is set in `pending`, each in its table, at `seqno`. Filters are probed.
///
/// Keys that are found get their hit in `hits`, and their bit is cleared; the remaining bits name the keys to
/// search in older tables.
///
/// # Errors
/// As [`Table::get`]. Keys found until then are reported.
///
/// # Panics
/// If there are more than [`MAX_LOOKUPS`] keys, or not as many hits as keys.
pub fn multi_get(
    lookups: &[Lookup<'_>],
    seqno: SeqNo,
    pending: &mut u32,
    hits: &mut [Option<TableHit>],
) -> Result<()> {
    assert!(lookups.len() <= MAX_LOOKUPS && lookups.len() == hits.len(), "a hit for each of at most 32 keys");
    let Some(first) = lookups.first() else { return Ok(()) };
    if first.table.verified.is_some() {
        return one_by_one(lookups, seqno, pending, hits);
    }
    with_kernel!(
        first.table.isa,
        |K| (lookups: &[Lookup<'_>], seqno: SeqNo, pending: &mut u32, hits: &mut [Option<TableHit>]) -> Result<()> {
            // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions exist.
            unsafe { multi_get_with::<K>(lookups, seqno, pending, hits) }
        }
        (lookups, seqno, pending, hits)
    )
}

/// For mapped files, whose blocks have no slots to prefetch.
#[cold]
fn one_by_one(
    lookups: &[Lookup<'_>],
    seqno: SeqNo,
    pending: &mut u32,
    hits: &mut [Option<TableHit>],
) -> Result<()> {
    for lookup in lookups {
        lookup.table.prefetch_filter(lookup.hash);
    }
    for (key, lookup) in lookups.iter().enumerate() {
        if *pending >> key & 1 == 1 && lookup.table.may_contain(lookup.hash) {
            hits[key] = lookup.table.get(lookup.key, lookup.hash, seqno)?;
            *pending &= !(u32::from(hits[key].is_some()) << key);
        }
    }
    Ok(())
}

/// The keys that passed the filters, and their state.
struct LookupBatch {
    /// Positions in the caller's list.
    keys: [u8; MAX_LOOKUPS],
    count: usize,
    /// Places in the index: of a node during the descent, then of the block.
    places: [usize; MAX_LOOKUPS],
    heads: [u64; MAX_LOOKUPS],
    /// The keys whose table's index is no search tree: a bit for each position in the caller's list.
    others: u32,
}

/// # Safety
/// The kernel's instructions must be available.
#[inline(always)]
unsafe fn multi_get_with<K: Kernel>(
    lookups: &[Lookup<'_>],
    seqno: SeqNo,
    pending: &mut u32,
    hits: &mut [Option<TableHit>],
) -> Result<()> {
    let newest = Tag::visible_at(seqno);
    let mut batch = filtered(lookups, seqno, *pending);
    // SAFETY: the caller has the instructions.
    unsafe { descend::<K>(lookups, &mut batch, newest) };
    for (place, &key) in batch.places[..batch.count].iter().zip(&batch.keys) {
        let table = lookups[usize::from(key)].table;
        if let Some(index) = &table.index {
            table.prefetch_for_lookup(index, *place);
        }
    }
    let mut blocks: [Option<BlockRef>; MAX_LOOKUPS] = [const { None }; MAX_LOOKUPS];
    let mut missing = 0u32;
    for (i, &key) in batch.keys[..batch.count].iter().enumerate() {
        blocks[i] = lookups[usize::from(key)].table.prefetched_block(batch.places[i], Admission::Point);
        missing |= u32::from(blocks[i].is_none()) << i;
    }
    if missing != 0 {
        load_missing(lookups, &batch, missing, seqno, &mut blocks)?;
    }
    for (block, &key) in blocks.iter().flatten().zip(&batch.keys) {
        block.contents().prefetch_directory(lookups[usize::from(key)].hash);
    }
    for (block, &key) in blocks.iter().flatten().zip(&batch.keys) {
        // SAFETY: the caller has the instructions.
        unsafe { block.contents().prefetch_found::<K>(lookups[usize::from(key)].hash) };
    }
    for (i, &key) in batch.keys[..batch.count].iter().enumerate() {
        let (Some(block), lookup) = (blocks[i].take(), &lookups[usize::from(key)]) else { continue };
        // SAFETY: the caller has the instructions.
        let found = unsafe { block.contents().find::<K>(lookup.key, lookup.hash, newest) };
        let hit = match found {
            Some(found) => {
                let tag = found.tag.at_global(lookup.table.global_seqno);
                Some(TableHit { tag, value: PinnedValue::new(block, found) })
            }
            None => find_in_continuation(lookup, batch.places[i], seqno)?,
        };
        if hit.is_some() {
            hits[usize::from(key)] = hit;
            *pending &= !(1 << key);
        }
    }
    if batch.others == 0 { Ok(()) } else { lookup_remaining(lookups, seqno, batch.others, pending, hits) }
}

/// Looks up, one by one, the keys whose table's index is no search tree.
#[inline(never)]
fn lookup_remaining(
    lookups: &[Lookup<'_>],
    seqno: SeqNo,
    others: u32,
    pending: &mut u32,
    hits: &mut [Option<TableHit>],
) -> Result<()> {
    for (i, lookup) in lookups.iter().enumerate().filter(|(i, _)| others >> i & 1 == 1) {
        if let Some(hit) = lookup.table.get(lookup.key, lookup.hash, seqno)? {
            hits[i] = Some(hit);
            *pending &= !(1 << i);
        }
    }
    Ok(())
}

/// Reads the uncached blocks: several by overlapped reads, if there is a read queue and the page cache has
/// not all of them.
#[cold]
fn load_missing(
    lookups: &[Lookup<'_>],
    batch: &LookupBatch,
    missing: u32,
    seqno: SeqNo,
    blocks: &mut [Option<BlockRef>; MAX_LOOKUPS],
) -> Result<()> {
    let mut wanted: Vec<(usize, &Table, usize)> = Vec::with_capacity(missing.count_ones() as usize);
    for i in (0..batch.count).filter(|i| missing >> i & 1 == 1) {
        let lookup = &lookups[usize::from(batch.keys[i])];
        if is_excluded(lookup, batch.places[i])? {
            lookup.table.note_absent(lookup.key, lookup.hash, seqno);
        } else {
            wanted.push((i, lookup.table, batch.places[i]));
        }
    }
    let begun = match &wanted[..] {
        // Other threads know nothing of this one's section, so it is asked before they are given reads.
        [_, (_, table, _), ..] if !ResidentOnly::is_on() => match table.identity.reads() {
            Some(queue) => begin_reads(&wanted, queue, blocks)?,
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    for read in begun {
        let (i, table, number) = wanted[read.wanted];
        blocks[i] = Some(table.admit(table.block_of_read(read.pending, number)?, number, Admission::Point));
    }
    // Several keys may be in the same block; it was read once and is cached now.
    for (i, table, number) in wanted {
        if blocks[i].is_none() {
            blocks[i] = Some(table.block(number, Admission::Point)?);
        }
    }
    Ok(())
}

/// Whether the block bounds exclude the key from block `number`.
fn is_excluded(lookup: &Lookup<'_>, number: usize) -> Result<bool> {
    match (&lookup.table.bounds, &lookup.table.index) {
        (Some(_), Some(index)) => lookup.table.excludes(index, number, lookup.key),
        _ => Ok(false),
    }
}

struct StartedRead {
    wanted: usize,
    pending: PendingRead,
}

/// Reads blocks that are in the page cache, up to the first that is not, and submits the others. A read of
/// what is in the page cache waits for nothing, so submitting it would only add buffers and bookkeeping; and
/// where one block is on the device others probably are, so each would be looked for in vain.
fn begin_reads(
    wanted: &[(usize, &Table, usize)],
    queue: &ReadQueue,
    blocks: &mut [Option<BlockRef>; MAX_LOOKUPS],
) -> Result<Vec<StartedRead>> {
    let (mut requests, mut of) = (Vec::new(), Vec::new());
    for (at, &(i, table, number)) in wanted.iter().enumerate() {
        let is_first =
            |(_, other, same): &(usize, &Table, usize)| *same == number && std::ptr::eq(*other, table);
        if wanted.iter().position(is_first) != Some(at) {
            continue;
        }
        table.cache.count_miss(BlockKind::Data);
        if requests.is_empty()
            && let Some(block) = table.read_block_in_page_cache(number)?
        {
            blocks[i] = Some(table.admit(block, number, Admission::Point));
            continue;
        }
        requests.push(table.read_request(number)?);
        of.push(at);
    }
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let pending = queue.submit(requests);
    Ok(of.into_iter().zip(pending).map(|(wanted, pending)| StartedRead { wanted, pending }).collect())
}

/// The keys that pass their table's filter.
#[inline(always)]
fn filtered(lookups: &[Lookup<'_>], seqno: SeqNo, pending: u32) -> LookupBatch {
    let mut batch = LookupBatch {
        keys: [0; MAX_LOOKUPS],
        count: 0,
        places: [0; MAX_LOOKUPS],
        heads: [0; MAX_LOOKUPS],
        others: 0,
    };
    for lookup in lookups {
        lookup.table.prefetch_filter(lookup.hash);
    }
    for (i, lookup) in lookups.iter().enumerate() {
        let table = lookup.table;
        let Some(index) = table.index.as_ref().filter(|_| table.global_seqno <= seqno) else { continue };
        if pending >> i & 1 == 1 && table.may_contain(lookup.hash) {
            if index.tree().is_none() {
                batch.others |= 1 << i;
                continue;
            }
            batch.keys[batch.count] = i as u8;
            batch.count += 1;
        }
    }
    batch
}

/// Finds the blocks, level by level of the index.
///
/// # Safety
/// The kernel's instructions must be available.
#[inline(always)]
unsafe fn descend<K: Kernel>(lookups: &[Lookup<'_>], batch: &mut LookupBatch, newest: Tag) {
    let keys = &batch.keys[..batch.count];
    let index_of = |key: u8| lookups[usize::from(key)].table.index.as_ref();
    let mut depth = 0;
    for (i, &key) in keys.iter().enumerate() {
        let Some(index) = index_of(key) else { continue };
        if let Some(tree) = index.tree() {
            batch.heads[i] = index.head_of(lookups[usize::from(key)].key);
            depth = depth.max(tree.depth());
        }
    }
    for level in 0..depth {
        for (i, &key) in keys.iter().enumerate() {
            let tree = index_of(key).and_then(BlockIndex::tree);
            let Some(tree) = tree.filter(|tree| level < tree.depth()) else { continue };
            // SAFETY: places are 0 at level 0 and the result of the level above elsewhere; the caller has the
            // instructions.
            unsafe {
                batch.places[i] = tree.step::<K>(level, batch.places[i], batch.heads[i]);
                if level + 1 < tree.depth() {
                    tree.prefetch(level + 1, batch.places[i]);
                } else {
                    prefetch(
                        lookups[usize::from(key)].table.slots.as_ptr().wrapping_add(batch.places[i]).cast(),
                    );
                }
            }
        }
    }
    for (i, &key) in keys.iter().enumerate() {
        let Some(index) = index_of(key) else { continue };
        let wanted = lookups[usize::from(key)].key;
        let Some(tree) = index.tree() else { continue };
        // SAFETY: the place is the tree's result for the head; the caller has the instructions.
        batch.places[i] =
            unsafe { index.place_to_block::<K>(tree, batch.places[i], batch.heads[i], wanted, newest) };
    }
}

/// Continues in the following blocks if they hold older versions of the key.
fn find_in_continuation(lookup: &Lookup<'_>, block: usize, seqno: SeqNo) -> Result<Option<TableHit>> {
    match &lookup.table.index {
        Some(index) if index.continues_after(block, lookup.key) => {
            lookup.table.get(lookup.key, lookup.hash, seqno)
        }
        _ => {
            lookup.table.note_absent(lookup.key, lookup.hash, seqno);
            Ok(None)
        }
    }
}
