//! The structures under test and their timed loops: the store's kinds through their common interface, the
//! crossbeam skiplist through its own.

use super::MOST_BATCHED;
use crate::context::time_ns;
use crate::error::{ExperimentError, Result};
use crate::keys::Keys;
use crossbeam_skiplist::SkipMap;
use esker::options::MemtableKind;
use esker::parts::base::{SeqNo, Tag, ValueKind};
use esker::parts::env::SystemClock;
use esker::parts::iter::Cursor;
use esker::parts::memtable::{ArenaPool, Memtable, Operation};
use std::hint::black_box;
use std::sync::Arc;

pub(super) const VALUE_BYTES: usize = 100;
static VALUE: [u8; VALUE_BYTES] = [b'v'; VALUE_BYTES];

const BATCH: usize = 1000;
const MULTI_GET: usize = 32;

pub(super) const CROSSBEAM: &str = "crossbeam-skipmap";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    Kind(MemtableKind),
    Crossbeam,
}

impl Structure {
    pub(super) fn all() -> Vec<Structure> {
        MemtableKind::ALL.into_iter().map(Structure::Kind).chain([Structure::Crossbeam]).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Structure::Kind(kind) => kind.name(),
            Structure::Crossbeam => CROSSBEAM,
        }
    }

    /// Nanoseconds of an insert, an insert in a batch, a get, a key of a multi-get, the three gets of
    /// [`outside`] and a step of a walk, and the bytes of an entry beyond key and value. Missing figures are
    /// NaN.
    pub(super) fn measure(
        self,
        clock: &SystemClock,
        pool: &ArenaPool,
        keys: &Keys,
        probes: &Keys,
    ) -> Result<Vec<f64>> {
        match self {
            Structure::Kind(kind) => {
                // Touches the arena: fresh memory would cost the first fill more than the insertions.
                drop(fill(clock, kind, pool, keys, BATCH)?);
                let batch_ns = match keys.count() {
                    count if count <= MOST_BATCHED => fill(clock, kind, pool, keys, BATCH)?.1,
                    _ => f64::NAN,
                };
                let (memtable, insert_ns) = fill(clock, kind, pool, keys, 1)?;
                let index_bytes = memtable.allocated_bytes().saturating_sub(memtable.payload_bytes());
                let mut numbers = vec![insert_ns, batch_ns];
                numbers.extend(read(clock, &memtable, probes)?);
                numbers.extend(outside(clock, &memtable, probes)?);
                numbers.push(walk(clock, &memtable)?);
                numbers.push(index_bytes as f64 / keys.count() as f64);
                Ok(numbers)
            }
            Structure::Crossbeam => crossbeam(clock, keys, probes),
        }
    }
}

fn tag(index: usize) -> Tag {
    Tag::new(SeqNo::new(index as u64 + 1), ValueKind::Put)
}

fn fill(
    clock: &SystemClock,
    kind: MemtableKind,
    pool: &ArenaPool,
    keys: &Keys,
    batch: usize,
) -> Result<(Arc<Memtable>, f64)> {
    let count = keys.count();
    let payload_bytes = (count * (keys.key_len() + VALUE_BYTES)) as u64;
    let reserve_bytes = kind.needed_bytes(payload_bytes, count as u64);
    let (memtable, mut inserter) = Memtable::create(kind, pool, reserve_bytes)?;
    let (taken_ns, ()) = time_ns(clock, || {
        if batch == 1 {
            for (index, key) in keys.iter().enumerate() {
                inserter.insert(key, tag(index), &VALUE);
            }
            return;
        }
        let mut operations = Vec::with_capacity(batch);
        for first in (0..count).step_by(batch) {
            operations.clear();
            let last = count.min(first + batch);
            operations.extend((first..last).map(|at| Operation {
                key: keys.at(at),
                tag: tag(at),
                value: &VALUE,
            }));
            inserter.insert_batch(&operations);
        }
    });
    Ok((memtable, taken_ns / count as f64))
}

/// A get, and a key of a multi-get.
fn read(clock: &SystemClock, memtable: &Memtable, probes: &Keys) -> Result<[f64; 2]> {
    let count = probes.count();
    let (get_ns, found) = time_ns(clock, || {
        let values = probes.iter().filter_map(|key| memtable.get(key, SeqNo::MAX));
        values.filter(|(_, value)| black_box(value[0]) == VALUE[0]).count()
    });
    must_find("get", count, found)?;
    let (multi_get_ns, found) = time_ns(clock, || {
        let mut found = 0;
        for first in (0..count).step_by(MULTI_GET) {
            let chunk: Vec<&[u8]> = (first..count.min(first + MULTI_GET)).map(|at| probes.at(at)).collect();
            let mut results = [None; MULTI_GET];
            memtable.multi_get(&chunk, u32::MAX, SeqNo::MAX, &mut results);
            found += results.iter().flatten().filter(|(_, value)| black_box(value[0]) == VALUE[0]).count();
        }
        found
    });
    must_find("multi-get", count, found)?;
    Ok([get_ns / count as f64, multi_get_ns / count as f64])
}

/// A get behind a comparison with the least and the greatest key, of present keys; a get of a key just below
/// the least or just above the greatest, without the comparison and with it.
fn outside(clock: &SystemClock, memtable: &Memtable, probes: &Keys) -> Result<[f64; 3]> {
    let (Some(least), Some(greatest)) = (memtable.first_key(), memtable.last_key()) else {
        return Err(ExperimentError::WrongAnswer("a filled memtable has no keys".into()));
    };
    let (least, greatest) = (least.to_vec(), greatest.to_vec());
    let (mut below, mut above) = (least.clone(), greatest.clone());
    below.pop();
    above.push(0);
    let beside = [below, above];
    let checked = |key: &[u8]| {
        let is_outside = key < black_box(least.as_slice()) || key > black_box(greatest.as_slice());
        !is_outside && memtable.get(key, SeqNo::MAX).is_some()
    };
    let count = probes.count();
    let (inside_ns, found) = time_ns(clock, || probes.iter().filter(|key| checked(key)).count());
    must_find("get behind a comparison", count, found)?;
    let (plain_ns, found) = time_ns(clock, || {
        (0..count).filter(|at| memtable.get(black_box(&beside[at % 2]), SeqNo::MAX).is_some()).count()
    });
    must_find("get outside", 0, found)?;
    let (checked_ns, found) =
        time_ns(clock, || (0..count).filter(|at| checked(black_box(&beside[at % 2]))).count());
    must_find("get outside behind a comparison", 0, found)?;
    Ok([inside_ns, plain_ns, checked_ns].map(|taken_ns| taken_ns / count as f64))
}

fn walk(clock: &SystemClock, memtable: &Arc<Memtable>) -> Result<f64> {
    let mut cursor = memtable.cursor();
    let (taken_ns, seen) = time_ns(clock, || -> Result<usize> {
        let mut seen = 0;
        cursor.seek_to_first()?;
        while cursor.is_valid() {
            seen +=
                usize::from(black_box(cursor.key()[0]) == cursor.key()[0] && cursor.value()[99] == VALUE[99]);
            cursor.next()?;
        }
        Ok(seen)
    });
    let count = memtable.len() as usize;
    must_find("walk", count, seen?)?;
    Ok(taken_ns / count as f64)
}

fn crossbeam(clock: &SystemClock, keys: &Keys, probes: &Keys) -> Result<Vec<f64>> {
    let map: SkipMap<Vec<u8>, Vec<u8>> = SkipMap::new();
    let (insert_ns, ()) = time_ns(clock, || {
        for key in keys.iter() {
            map.insert(key.to_vec(), VALUE.to_vec());
        }
    });
    let (get_ns, found) = time_ns(clock, || {
        let entries = probes.iter().filter_map(|key| map.get(key));
        entries.filter(|entry| black_box(entry.value()[0]) == VALUE[0]).count()
    });
    must_find("get", probes.count(), found)?;
    let (walk_ns, seen) = time_ns(clock, || {
        let entries = map.iter();
        entries
            .filter(|entry| black_box(entry.key()[0]) == entry.key()[0] && entry.value()[99] == VALUE[99])
            .count()
    });
    must_find("walk", keys.count(), seen)?;
    let (inserts, gets) = (keys.count() as f64, probes.count() as f64);
    let overhead = crossbeam_overhead_bytes(keys.key_len());
    Ok(vec![
        insert_ns / inserts,
        f64::NAN,
        get_ns / gets,
        f64::NAN,
        f64::NAN,
        f64::NAN,
        f64::NAN,
        walk_ns / inserts,
        overhead,
    ])
}

/// Bytes of a skiplist entry beyond key and value, on average: its node has two vectors' headers, a counter
/// and a tower of pointers, which is `n` high with probability 2^-n; the C library rounds each of the three
/// allocations up to an odd multiple of eight.
fn crossbeam_overhead_bytes(key_len: usize) -> f64 {
    let allocated = |bytes: usize| ((bytes + 8).next_multiple_of(16).max(32)) as f64;
    let node: f64 =
        (1..=32).map(|height| allocated(24 + 24 + 8 + 8 * height) * 0.5f64.powi(height as i32)).sum();
    node + allocated(key_len) - key_len as f64 + allocated(VALUE_BYTES) - VALUE_BYTES as f64
}

fn must_find(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(ExperimentError::WrongAnswer(format!("a {what} over {expected} keys found {found}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skiplists_overhead_follows_from_its_layout() {
        // Half of the nodes have one pointer (64 bytes, 80 allocated), a quarter two (72, 80), ...; the key
        // takes 32 of 16, the value 112 of 100.
        let overhead = crossbeam_overhead_bytes(16);
        assert!((80.0 + 16.0 + 12.0..100.0 + 16.0 + 12.0).contains(&overhead), "{overhead}");
    }

    #[test]
    fn missing_answers_are_errors() {
        assert!(must_find("get", 3, 3).is_ok());
        assert!(must_find("get", 3, 2).unwrap_err().to_string().contains("found 2"));
    }
}
