//! Approximate size of a key range, from block indexes, the manifest and a bounded walk of memtables.

use crate::super_version::SuperVersion;
use crate::tree::{Access, TreePart, TreeRun};
use esker_base::{Result, SeqNo, Tag, ValueKind};
use esker_iter::Cursor;
use esker_memtable::{Memtable, MemtableCursor};
use esker_version::{KeyRange, SHARE_ONE};
use std::sync::Arc;

/// The most entries of one memtable that an estimate walks over: some hundred microseconds.
pub const WALKED_ENTRIES: u64 = 4_096;

/// The approximate size of a range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeSize {
    /// Bytes in table files and blob files, each with its share of indexes and filters.
    pub disk_bytes: u64,
    /// Bytes of keys and values in memtables.
    pub memory_bytes: u64,
    /// Entries without deletes: the keys of the range, each once for every version that is stored.
    pub entries: u64,
}

impl RangeSize {
    fn add(&mut self, other: RangeSize) {
        self.disk_bytes += other.disk_bytes;
        self.memory_bytes += other.memory_bytes;
        self.entries += other.entries;
    }
}

/// The approximate size of what a view holds of `range`. Opens at most the two tables of each run in which
/// the range ends.
///
/// # Errors
/// Those of opening tables and of reading index pages.
pub fn range_size(view: &SuperVersion, range: &KeyRange) -> Result<RangeSize> {
    let mut size = RangeSize::default();
    for memtable in view.memtables() {
        size.add(match &memtable.ingested {
            None => size_in_memtable(&memtable.memtable, range)?,
            Some(run) => size_in_run(run, range)?,
        });
    }
    for run in &view.tree.runs {
        size.add(size_in_run(run, range)?);
    }
    Ok(size)
}

/// The parts of a run that share keys with `range`.
pub(super) fn parts_within<'r>(run: &'r TreeRun, range: &'r KeyRange) -> impl Iterator<Item = &'r TreePart> {
    let from = run.lower_bound(&range.start);
    run.parts[from..].iter().take_while(|part| range.end.covers(part.meta.smallest()))
}

fn size_in_run(run: &TreeRun, range: &KeyRange) -> Result<RangeSize> {
    let mut size = RangeSize::default();
    for part in parts_within(run, range) {
        size.add(size_in_part(part, range)?);
    }
    Ok(size)
}

/// The part's figures in the manifest, divided by the bytes of blocks inside and outside of the range.
fn size_in_part(part: &TreePart, range: &KeyRange) -> Result<RangeSize> {
    let (inside, all) = shares_of(part, range)?;
    let share = |figure: u64| (u128::from(figure) * u128::from(inside) / u128::from(all.max(1))) as u64;
    let blob_bytes: u64 = part.meta.blobs.iter().map(|blob| blob.bytes).sum();
    Ok(RangeSize {
        disk_bytes: share(part.meta.bytes.saturating_add(blob_bytes)),
        memory_bytes: 0,
        entries: share(part.meta.entries.saturating_sub(part.meta.tombstones)),
    })
}

/// Bytes of blocks inside of the range, and in the whole part.
pub(super) fn shares_of(part: &TreePart, range: &KeyRange) -> Result<(u64, u64)> {
    let meta = &part.meta;
    if range.covers(&meta.range) {
        return Ok((1, 1));
    }
    let Some(inside) = range.intersection(&meta.range) else { return Ok((0, 1)) };
    let table = part.file.table(Access::Pass)?;
    let bytes_in = |range: &KeyRange| {
        let to = range.end.exclusive_bound();
        table.estimate_bytes(&range.start, to.as_deref())
    };
    let all = if meta.sliced { bytes_in(&meta.range)? } else { table.block_bytes()? };
    Ok((bytes_in(&inside)?.min(all), all))
}

/// A walk over a part of a memtable.
pub(super) struct MemtableWalk<'r> {
    cursor: MemtableCursor,
    range: &'r KeyRange,
}

impl<'r> MemtableWalk<'r> {
    /// At the first entry in `range`.
    pub(super) fn new(memtable: &Arc<Memtable>, range: &'r KeyRange) -> Result<MemtableWalk<'r>> {
        let mut cursor = memtable.cursor();
        cursor.seek(&range.start, SeqNo::MAX)?;
        Ok(MemtableWalk { cursor, range })
    }

    /// The current entry's key, tag, and bytes of key and value; `None` behind the range.
    pub(super) fn entry(&self) -> Option<(&[u8], Tag, u64)> {
        let (key, tag, value) = self.cursor.is_valid().then(|| self.cursor.entry())?;
        self.range.end.covers(key).then_some((key, tag, (key.len() + value.len()) as u64))
    }

    /// Moves to the next entry.
    pub(super) fn advance(&mut self) -> Result<()> {
        self.cursor.next()
    }
}

/// Exact if the range has few entries; else estimated from where it lies between the first and the last key,
/// as if keys were spread evenly.
pub(super) fn size_in_memtable(memtable: &Arc<Memtable>, range: &KeyRange) -> Result<RangeSize> {
    let mut size = RangeSize::default();
    if memtable.is_empty() {
        return Ok(size);
    }
    let mut walk = MemtableWalk::new(memtable, range)?;
    let mut walked = 0;
    while let Some((_, tag, bytes)) = walk.entry() {
        if walked == WALKED_ENTRIES {
            return Ok(interpolated(memtable, range, size));
        }
        walked += 1;
        size.memory_bytes += bytes;
        size.entries += u64::from(!is_delete(tag));
        walk.advance()?;
    }
    Ok(size)
}

fn is_delete(tag: Tag) -> bool {
    matches!(tag.kind(), Some(ValueKind::Delete | ValueKind::SingleDelete))
}

fn interpolated(memtable: &Memtable, range: &KeyRange, least: RangeSize) -> RangeSize {
    let (Some(first), Some(last)) = (memtable.first_key(), memtable.last_key()) else { return least };
    let share = KeyRange::inclusive(first, last).share_inside(range);
    let of = |figure: u64| (u128::from(figure) * u128::from(share) / u128::from(SHARE_ONE)) as u64;
    RangeSize {
        disk_bytes: 0,
        memory_bytes: of(memtable.payload_bytes()).max(least.memory_bytes),
        entries: of(memtable.len()).max(least.entries),
    }
}
