//! Multi-get: the same sources in the same order, but all keys pass one source before the next, so that their
//! cache misses overlap.

use crate::lookup_counts::LOOKUP_READS;
use crate::read::pinned::Pinned;
use crate::read::range_tombstones::cover_at;
use crate::read::resolve::{ExpirySink, Resolution, Resolved, resolve};
use crate::semantics::ReadTime;
use crate::tree::{Access, TreePart, TreeRun};
use crate::value::{Value, ValueWithExpiry};
use esker_base::{Result, SeqNo, Tag, checksum};
use esker_filter::watch::is_sampled;
use esker_memtable::Memtable;
use esker_sst::{Lookup, MAX_LOOKUPS, PinnedValue, TableHit};
use std::cell::Cell;

/// Memory of blocks that the values of one multi-get may keep; later values are copied, unless they fill most
/// of their block. Twenty thousand values would otherwise keep as many blocks, which the cache cannot count.
const MAX_PINNED_BYTES: usize = 4 << 20;

impl Pinned {
    /// The values of many keys, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        multi_get(self, keys)
    }

    /// The values of many keys with their expiries, in the order of the keys.
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<ValueWithExpiry>>> {
        let expiries = vec![Cell::new(None); keys.len()];
        let mut reading = Reading { time: self.time, pinned_bytes: 0 };
        let mut values = no_values(keys.len());
        let groups = keys.chunks(MAX_LOOKUPS).zip(values.chunks_mut(MAX_LOOKUPS));
        for ((keys, values), expiries) in groups.zip(expiries.chunks(MAX_LOOKUPS)) {
            reading.group(self, keys, expiries, values)?;
        }
        let with_expiry = |(value, expiry): (Option<Value>, &Cell<Option<u64>>)| {
            value.map(|value| ValueWithExpiry::new(value, expiry.get()))
        };
        Ok(values.into_iter().zip(&expiries).map(with_expiry).collect())
    }
}

/// The value of each key for a reader at this moment, in the order of the keys.
pub fn multi_get<K: AsRef<[u8]>>(pinned: &Pinned, keys: &[K]) -> Result<Vec<Option<Value>>> {
    let mut reading = Reading { time: pinned.time, pinned_bytes: 0 };
    let mut values = no_values(keys.len());
    for (keys, values) in keys.chunks(MAX_LOOKUPS).zip(values.chunks_mut(MAX_LOOKUPS)) {
        reading.group(pinned, keys, (), values)?;
    }
    Ok(values)
}

fn no_values(count: usize) -> Vec<Option<Value>> {
    let mut values = Vec::new();
    values.resize_with(count, || None);
    values
}

/// What the groups of one multi-get share.
struct Reading {
    time: ReadTime,
    /// Memory of blocks that the values so far keep, at most.
    pinned_bytes: usize,
}

impl Reading {
    #[inline]
    fn group<K: AsRef<[u8]>>(
        &mut self,
        pinned: &Pinned,
        keys: &[K],
        expiry: impl ExpirySink,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        let mut group = Group::new(pinned, keys, self.pinned_bytes, expiry);
        group.fill(&mut self.time, values)?;
        self.pinned_bytes = group.pinned_bytes;
        Ok(())
    }
}

/// Up to [`MAX_LOOKUPS`] keys on their way through the sources.
struct Group<'k, E> {
    pinned: &'k Pinned,
    keys: [&'k [u8]; MAX_LOOKUPS],
    hashes: [u64; MAX_LOOKUPS],
    /// Versions of each key older than this are deleted.
    covers: [SeqNo; MAX_LOOKUPS],
    len: usize,
    /// Bits of the keys that no source has decided yet.
    pending: u32,
    /// Memory of blocks that the values of this multi-get keep, at most.
    pinned_bytes: usize,
    /// Receives the expiries of the values.
    expiry: E,
}

impl<'k, E: ExpirySink> Group<'k, E> {
    fn new<K: AsRef<[u8]>>(
        pinned: &'k Pinned,
        keys: &'k [K],
        pinned_bytes: usize,
        expiry: E,
    ) -> Group<'k, E> {
        let mut group = Group {
            pinned,
            keys: [&[]; MAX_LOOKUPS],
            hashes: [0; MAX_LOOKUPS],
            covers: [SeqNo::ZERO; MAX_LOOKUPS],
            len: keys.len(),
            pending: 0,
            pinned_bytes,
            expiry,
        };
        for (at, key) in keys.iter().enumerate() {
            group.keys[at] = key.as_ref();
            group.hashes[at] = checksum::key_hash(key.as_ref());
            group.pending |= 1 << at;
        }
        group
    }

    fn fill(&mut self, time: &mut ReadTime, values: &mut [Option<Value>]) -> Result<()> {
        let Pinned { view, seqno, .. } = self.pinned;
        if view.has_range_deletes() {
            for (key, cover) in self.keys[..self.len].iter().zip(&mut self.covers) {
                *cover = cover_at(view, key, *seqno)?;
            }
        }
        let mut lookups = Vec::with_capacity(self.len);
        for memtable in self.pinned.view.memtables().filter(|view| !view.is_empty()) {
            match &memtable.ingested {
                None => self.ask_memtable(&memtable.memtable, time, values)?,
                Some(run) => {
                    self.ask_run(run, time, &mut lookups, values)?;
                    lookups.clear();
                }
            }
        }
        for run in &self.pinned.view.tree.runs {
            if self.pending == 0 {
                break;
            }
            self.ask_run(run, time, &mut lookups, values)?;
            lookups.clear();
        }
        self.count_sampled();
        Ok(())
    }

    /// Counts the outcomes of keys that would be sampled in point lookups.
    fn count_sampled(&self) {
        let sampled = (0..self.len).filter(|&at| is_sampled(self.hashes[at]));
        let sampled = sampled.fold(0u32, |mask, at| mask | 1 << at);
        if sampled != 0 {
            let absent = u64::from((sampled & self.pending).count_ones());
            let present = u64::from(sampled.count_ones()) - absent;
            self.pinned.view.tree.watch.note_group(present, absent);
        }
    }

    fn ask_memtable(
        &mut self,
        memtable: &Memtable,
        time: &mut ReadTime,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        let mut results = [None; MAX_LOOKUPS];
        let keys = &self.keys[..self.len];
        let found = memtable.multi_get(keys, self.pending, self.pinned.seqno, &mut results[..self.len]);
        for at in bits(found) {
            let Some((tag, value)) = results[at] else { continue };
            values[at] = match self.meaning_of(time, at, tag, value)? {
                Resolved::Value { from } => Some(Value::copied(&value[from..])),
                Resolved::Folded(value) => Some(Value::owned(value)),
                Resolved::Large { from } => Some(self.fetch(at, &value[from..])?),
                Resolved::Absent => None,
            };
        }
        self.pending &= !found;
        Ok(())
    }

    fn ask_run<'v>(
        &mut self,
        run: &'v TreeRun,
        time: &mut ReadTime,
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
            match part.file.opened_for_use() {
                Some(table) => {
                    positions[lookups.len()] = at as u8;
                    lookups.push(Lookup { table, key, hash: self.hashes[at] });
                }
                None => self.ask_closed(part, at, time, values)?,
            }
        }
        let mut hits: [Option<TableHit>; MAX_LOOKUPS] = [const { None }; MAX_LOOKUPS];
        let hits = &mut hits[..lookups.len()];
        let mut unanswered = all(lookups.len());
        esker_sst::multi_get(lookups, self.pinned.seqno, &mut unanswered, hits)?;
        for (hit, &at) in hits.iter_mut().zip(&positions) {
            let Some(hit) = hit.take() else { continue };
            let at_key = usize::from(at);
            if is_sampled(self.hashes[at_key])
                && let Some(part) = run.part_for(self.keys[at_key])
            {
                part.file.note_reads(LOOKUP_READS);
            }
            self.decide(time, usize::from(at), hit, values)?;
        }
        Ok(())
    }
}

impl<E: ExpirySink> Group<'_, E> {
    /// The result of the newest visible version of the key at this index.
    #[inline]
    fn meaning_of(&self, time: &mut ReadTime, at: usize, tag: Tag, value: &[u8]) -> Result<Resolved> {
        if tag.seqno() < self.covers[at] {
            return Ok(Resolved::Absent);
        }
        if tag.is_plain_put() {
            return Ok(Resolved::Value { from: 0 });
        }
        let Resolution { value, expiry_ms } = resolve(&self.pinned.view, time, tag, self.keys[at], value)?;
        if let Some(expiry_ms) = expiry_ms {
            self.expiry.note(at, expiry_ms);
        }
        Ok(value)
    }

    /// Counts a value that keeps its block in memory; false once the values keep as much as they may, and a
    /// copy of this one needs less.
    #[inline]
    fn may_pin(&mut self, value: &PinnedValue) -> bool {
        let more = value.pinned_bytes();
        if self.pinned_bytes + more > MAX_PINNED_BYTES && value.len() < more / 2 {
            return false;
        }
        self.pinned_bytes += more;
        true
    }

    #[cold]
    fn fetch(&self, at: usize, pointer: &[u8]) -> Result<Value> {
        self.pinned.fetch(self.keys[at], pointer)
    }

    /// Searches one key alone in a part whose table is not open or only borrowed, so that at most one is
    /// borrowed at a time.
    #[cold]
    fn ask_closed(
        &mut self,
        part: &TreePart,
        at: usize,
        time: &mut ReadTime,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        if part.meta.max_seqno < self.covers[at] && part.file.refusal().is_some() {
            // All of the part is deleted, so it need not be read (QU1).
            return Ok(());
        }
        let table = part.file.open(Access::Use)?;
        let (key, hash) = (self.keys[at], self.hashes[at]);
        if !table.may_contain(hash) {
            return Ok(());
        }
        let Some(hit) = table.get(key, hash, self.pinned.seqno)? else { return Ok(()) };
        self.decide(time, at, hit, values)
    }

    /// Records the result found in a table for the key at this index.
    #[inline]
    fn decide(
        &mut self,
        time: &mut ReadTime,
        at: usize,
        hit: TableHit,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        values[at] = match self.meaning_of(time, at, hit.tag, &hit.value)? {
            // Not a function that returns the value: moving it once more costs 3 % of a multi-get.
            Resolved::Value { from } if self.may_pin(&hit.value) => Some(Value::pinned(hit.value.skip(from))),
            Resolved::Value { from } => Some(copy_of(&hit.value.skip(from))),
            Resolved::Folded(value) => Some(Value::owned(value)),
            Resolved::Large { from } => Some(self.fetch(at, &hit.value.skip(from))?),
            Resolved::Absent => None,
        };
        self.pending &= !(1 << at);
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn copy_of(value: &PinnedValue) -> Value {
    Value::copied(value)
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
