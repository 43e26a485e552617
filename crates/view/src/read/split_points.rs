//! Split points: keys that divide a range into parts of about equal bytes, for parallel scans.
//!
//! Each source of a view contributes *anchors*, keys with the bytes up to the next one: a table its start or
//! some separators of its block index, a memtable some of its keys. In key order they give the bytes before
//! each key. No anchor stands for more than a fixed share of a part, so the sum is wrong by at most that for
//! each run and memtable.

use super::range_size::{MemtableWalk, parts_within, shares_of, size_in_memtable};
use crate::super_version::SuperVersion;
use crate::tree::{Access, TreePart, TreeRun};
use esker_base::Result;
use esker_memtable::Memtable;
use esker_version::KeyRange;
use std::sync::Arc;

/// Anchors for the bytes of one part: no part is off by more than 1/32 of its bytes for each run.
const ANCHORS_PER_PART: u64 = 32;

/// A key, and the bytes of its source from it up to the source's next anchor.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SizedAnchor {
    key: Vec<u8>,
    bytes: u64,
}

/// Up to `parts - 1` keys inside of `range`, ascending, that divide what a view holds of it into parts of
/// about equal bytes.
///
/// # Errors
/// Those of opening tables and of reading index pages.
pub fn split_points(view: &SuperVersion, range: &KeyRange, parts: usize) -> Result<Vec<Vec<u8>>> {
    if parts < 2 {
        return Ok(Vec::new());
    }
    let ingested = view.memtables().filter_map(|memtable| memtable.ingested.as_ref());
    let runs: Vec<&Arc<TreeRun>> = ingested.chain(&view.tree.runs).collect();
    let mut total = 0;
    for run in &runs {
        for part in parts_within(run, range) {
            total += bytes_inside(part, range)?;
        }
    }
    for memtable in view.memtables() {
        total += size_in_memtable(&memtable.memtable, range)?.memory_bytes;
    }
    let anchor_bytes = (total / ANCHORS_PER_PART.saturating_mul(parts as u64)).max(1);
    let mut anchors = Vec::new();
    for memtable in view.memtables() {
        anchors_of_memtable(&memtable.memtable, range, anchor_bytes, &mut anchors)?;
    }
    for run in &runs {
        for part in parts_within(run, range) {
            anchors_of_part(part, range, anchor_bytes, &mut anchors)?;
        }
    }
    anchors.sort_unstable();
    Ok(divided(&anchors, range, parts))
}

fn bytes_inside(part: &TreePart, range: &KeyRange) -> Result<u64> {
    let (inside, all) = shares_of(part, range)?;
    Ok((u128::from(part.meta.bytes) * u128::from(inside) / u128::from(all.max(1))) as u64)
}

/// One anchor for a small part, without opening its table; else separators of its index.
fn anchors_of_part(
    part: &TreePart,
    range: &KeyRange,
    anchor_bytes: u64,
    anchors: &mut Vec<SizedAnchor>,
) -> Result<()> {
    let bytes = bytes_inside(part, range)?;
    let Some(inside) = range.intersection(&part.meta.range) else { return Ok(()) };
    let most = usize::try_from(bytes.div_ceil(anchor_bytes)).unwrap_or(usize::MAX);
    if most < 2 {
        anchors.push(SizedAnchor { key: inside.start.to_vec(), bytes });
        return Ok(());
    }
    let to = inside.end.exclusive_bound();
    let found = part.file.table(Access::Pass)?.anchors_within(&inside.start, to.as_deref(), most)?;
    anchors.extend(found.into_iter().map(|(key, bytes)| SizedAnchor { key, bytes }));
    Ok(())
}

/// A key each time so many bytes have passed.
fn anchors_of_memtable(
    memtable: &Arc<Memtable>,
    range: &KeyRange,
    anchor_bytes: u64,
    anchors: &mut Vec<SizedAnchor>,
) -> Result<()> {
    if memtable.is_empty() {
        return Ok(());
    }
    let mut walk = MemtableWalk::new(memtable, range)?;
    let mut since = anchor_bytes;
    while let Some((key, _, bytes)) = walk.entry() {
        match anchors.last_mut() {
            Some(last) if since < anchor_bytes => last.bytes += bytes,
            _ => {
                anchors.push(SizedAnchor { key: key.to_vec(), bytes });
                since = 0;
            }
        }
        since += bytes;
        walk.advance()?;
    }
    Ok(())
}

/// The keys of ascending anchors at which each further share of the bytes is complete. Several anchors of one
/// key, of several runs, count as one: a point has all of them behind it.
fn divided(anchors: &[SizedAnchor], range: &KeyRange, parts: usize) -> Vec<Vec<u8>> {
    let total: u128 = anchors.iter().map(|anchor| u128::from(anchor.bytes)).sum();
    let mut points: Vec<Vec<u8>> = Vec::new();
    let mut before = 0u128;
    for of_key in anchors.chunk_by(|one, next| one.key == next.key) {
        let Some(SizedAnchor { key, .. }) = of_key.first() else { continue };
        let wanted = total * (points.len() as u128 + 1) / parts as u128;
        let last = points.last().map_or(&*range.start, |last| last);
        if points.len() + 1 < parts && before >= wanted && **key > *last && range.contains(key) {
            points.push(key.clone());
        }
        before += of_key.iter().map(|anchor| u128::from(anchor.bytes)).sum::<u128>();
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(all: &[(&str, u64)]) -> Vec<SizedAnchor> {
        all.iter().map(|(key, bytes)| SizedAnchor { key: key.as_bytes().to_vec(), bytes: *bytes }).collect()
    }

    #[test]
    fn points_lie_where_each_share_is_complete() {
        let even: Vec<(String, u64)> = (0..100).map(|number| (format!("{number:02}"), 10)).collect();
        let even: Vec<(&str, u64)> = even.iter().map(|(key, bytes)| (key.as_str(), *bytes)).collect();
        let all = KeyRange::everything();
        assert_eq!(divided(&anchors(&even), &all, 4), [b"25", b"50", b"75"]);
        assert_eq!(divided(&anchors(&even), &all, 1), Vec::<Vec<u8>>::new());
        assert_eq!(divided(&anchors(&even[..2]), &all, 9), [b"01"], "no more points than keys");
        assert_eq!(divided(&anchors(&[("a", 5), ("a", 5), ("b", 1)]), &all, 3), [b"b"], "each once");
        let some = KeyRange::half_open(&b"00"[..], &b"40"[..]);
        assert_eq!(divided(&anchors(&even), &some, 4), [b"25"], "points lie inside");
        assert_eq!(divided(&[], &all, 4), Vec::<Vec<u8>>::new());
    }
}
