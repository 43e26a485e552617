//! One key.

use crate::handle::Pinned;
use crate::read::covers::cover_at;
use crate::read::resolve::{Resolved, resolve};
use crate::tree::{Access, TreePart};
use esker_base::{Result, SeqNo, checksum};
use esker_sst::{PinnedValue, Table};

/// Runs whose filters are prefetched together before the first source is asked. More runs than this are asked one
/// after the other: a lookup through that many is slow for other reasons.
const PREFETCHED_RUNS: usize = 16;

/// What a lookup found.
pub(crate) enum Found<'v> {
    /// In a memtable of the view.
    Borrowed(&'v [u8]),
    /// In a block, which is kept in memory.
    Pinned(PinnedValue),
    /// The key has no value.
    Absent,
}

impl Found<'_> {
    /// The value, if there is one.
    #[inline]
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Found::Borrowed(value) => Some(value),
            Found::Pinned(value) => Some(value),
            Found::Absent => None,
        }
    }
}

/// What a reader of that moment sees of `key`.
#[inline]
pub(crate) fn lookup<'v>(pinned: &'v Pinned, key: &[u8]) -> Result<Found<'v>> {
    let (view, seqno) = (&*pinned.view, pinned.seqno);
    let hash = checksum::key_hash(key);
    // Versions older than this are deleted, wherever they are.
    let cover = cover_at(view, key, seqno)?;
    // All cache lines that the filters will need are requested first, so that their misses overlap each other
    // and the memtables' search.
    let mut candidates: [Option<&TreePart>; PREFETCHED_RUNS] = [None; PREFETCHED_RUNS];
    let runs = &view.tree.runs;
    for (slot, run) in candidates.iter_mut().zip(runs) {
        let part = run.part_for(key);
        if let Some(table) = part.and_then(|part| part.file.opened()) {
            table.prefetch_filter(hash);
        }
        *slot = part;
    }
    for memtable in view.memtables() {
        if let Some((tag, value)) = memtable.memtable.get(key, seqno) {
            if tag.seqno() < cover {
                return Ok(Found::Absent);
            }
            if tag.is_plain_put() {
                return Ok(Found::Borrowed(value));
            }
            return Ok(match resolve(view, &mut { pinned.time }, (tag, key, value))? {
                Resolved::Value { from } => Found::Borrowed(&value[from..]),
                Resolved::Absent => Found::Absent,
            });
        }
    }
    for part in candidates.iter().flatten() {
        if let Some(found) = lookup_in_part(pinned, part, key, hash, cover)? {
            return Ok(found);
        }
    }
    for run in runs.iter().skip(PREFETCHED_RUNS) {
        if let Some(part) = run.part_for(key)
            && let Some(found) = lookup_in_part(pinned, part, key, hash, cover)?
        {
            return Ok(found);
        }
    }
    Ok(Found::Absent)
}

/// What a part tells about `key`; `None` if it holds no visible version.
#[inline]
fn lookup_in_part(
    pinned: &Pinned,
    part: &TreePart,
    key: &[u8],
    hash: u64,
    cover: SeqNo,
) -> Result<Option<Found<'static>>> {
    match part.file.opened_for_use() {
        Some(table) => lookup_in_table(pinned, (part, table), key, hash, cover),
        None => open_and_lookup(pinned, part, key, hash, cover),
    }
}

/// [`lookup_in_part`], if the table is not open or not to be had without a lock.
#[cold]
fn open_and_lookup(
    pinned: &Pinned,
    part: &TreePart,
    key: &[u8],
    hash: u64,
    cover: SeqNo,
) -> Result<Option<Found<'static>>> {
    lookup_in_table(pinned, (part, &*part.file.open(Access::Use)?), key, hash, cover)
}

#[inline]
fn lookup_in_table(
    pinned: &Pinned,
    (part, table): (&TreePart, &Table),
    key: &[u8],
    hash: u64,
    cover: SeqNo,
) -> Result<Option<Found<'static>>> {
    if (part.meta.sliced && !part.meta.contains(key)) || !table.may_contain(hash) {
        return Ok(None);
    }
    let Some(hit) = table.get(key, hash, pinned.seqno)? else { return Ok(None) };
    if hit.tag.seqno() < cover {
        return Ok(Some(Found::Absent));
    }
    if hit.tag.is_plain_put() {
        return Ok(Some(Found::Pinned(hit.value)));
    }
    Ok(Some(match resolve(&pinned.view, &mut { pinned.time }, (hit.tag, key, &hit.value))? {
        Resolved::Value { from } => Found::Pinned(hit.value.from(from)),
        Resolved::Absent => Found::Absent,
    }))
}
