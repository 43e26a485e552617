//! Many keys at once: the same sources in the same order, but all keys go through one before any goes to the next, so that
//! their cache misses overlap.

use crate::Value;
use crate::tree::TreeRun;
use crate::view::SuperVersion;
use esker_base::{Result, SeqNo, checksum};
use esker_iter::Meaning;
use esker_sst::{Lookup, MAX_LOOKUPS, TableHit};

/// What a reader at `seqno` sees of each key, in the order of the keys.
pub(crate) fn multi_get<K: AsRef<[u8]>>(
    view: &SuperVersion,
    keys: &[K],
    seqno: SeqNo,
) -> Result<Vec<Option<Value>>> {
    let mut values = Vec::new();
    values.resize_with(keys.len(), || None);
    for (keys, values) in keys.chunks(MAX_LOOKUPS).zip(values.chunks_mut(MAX_LOOKUPS)) {
        Group::new(keys).fill(view, seqno, values)?;
    }
    Ok(values)
}

/// Up to [`MAX_LOOKUPS`] keys on their way through the sources.
struct Group<'k> {
    keys: [&'k [u8]; MAX_LOOKUPS],
    hashes: [u64; MAX_LOOKUPS],
    len: usize,
    /// Bits of the keys that no source has decided yet.
    pending: u32,
}

impl<'k> Group<'k> {
    fn new<K: AsRef<[u8]>>(keys: &'k [K]) -> Group<'k> {
        let mut group =
            Group { keys: [&[]; MAX_LOOKUPS], hashes: [0; MAX_LOOKUPS], len: keys.len(), pending: 0 };
        for (at, key) in keys.iter().enumerate() {
            group.keys[at] = key.as_ref();
            group.hashes[at] = checksum::key_hash(key.as_ref());
            group.pending |= 1 << at;
        }
        group
    }

    fn fill(mut self, view: &SuperVersion, seqno: SeqNo, values: &mut [Option<Value>]) -> Result<()> {
        self.ask_memtables(view, seqno, values)?;
        let mut lookups = Vec::with_capacity(self.len);
        for run in &view.tree.runs {
            if self.pending == 0 {
                break;
            }
            self.ask_run(run, seqno, &mut lookups, values)?;
            lookups.clear();
        }
        Ok(())
    }

    fn ask_memtables(
        &mut self,
        view: &SuperVersion,
        seqno: SeqNo,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        for memtable in view.memtables().filter(|view| !view.memtable.is_empty()) {
            let mut results = [None; MAX_LOOKUPS];
            let keys = &self.keys[..self.len];
            let found = memtable.memtable.multi_get(keys, self.pending, seqno, &mut results[..self.len]);
            for at in bits(found) {
                if let Some((tag, value)) = results[at]
                    && esker_iter::meaning(tag, keys[at])? == Meaning::Present
                {
                    values[at] = Some(Value::copied(value));
                }
            }
            self.pending &= !found;
        }
        Ok(())
    }

    fn ask_run<'v>(
        &mut self,
        run: &'v TreeRun,
        seqno: SeqNo,
        lookups: &mut Vec<Lookup<'v>>,
        values: &mut [Option<Value>],
    ) -> Result<()>
    where
        'k: 'v,
    {
        let mut positions = [0u8; MAX_LOOKUPS];
        for at in bits(self.pending) {
            let key = self.keys[at];
            let Some(part) = run.part_for(key) else { continue };
            if part.meta.sliced && !part.meta.contains(key) {
                continue;
            }
            positions[lookups.len()] = at as u8;
            lookups.push(Lookup { table: part.file.table()?, key, hash: self.hashes[at] });
        }
        let mut hits: [Option<TableHit>; MAX_LOOKUPS] = [const { None }; MAX_LOOKUPS];
        let hits = &mut hits[..lookups.len()];
        let mut unanswered = all(lookups.len());
        esker_sst::multi_get(lookups, seqno, &mut unanswered, hits)?;
        for (hit, &at) in hits.iter_mut().zip(&positions) {
            let Some(hit) = hit.take() else { continue };
            let at = usize::from(at);
            if esker_iter::meaning(hit.tag, self.keys[at])? == Meaning::Present {
                values[at] = Some(Value::pinned(hit.value));
            }
            self.pending &= !(1 << at);
        }
        Ok(())
    }
}

/// The lowest `count` bits.
fn all(count: usize) -> u32 {
    ((1u64 << count) - 1) as u32
}

/// The positions of the set bits, ascending.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (at < 32).then_some(at)
    })
}
