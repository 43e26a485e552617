//! The memtable: a structure, its arena and its counters behind one interface.

use crate::arena::{Allocator, ArenaPool, ExpectedUse};
use crate::art::InsertPoint;
use crate::cursor::MemtableCursor;
use crate::entry::{self, Entry, Operation};
use crate::kind::{FIXED_BYTES, MemtableKind};
use crate::memory::Memory;
use crate::ranges::{MAX_RANGE_DELETES, RANGE_DELETE_OVERHEAD_BYTES, Ranges, RangesWriter};
use crate::structure::{Structure, Writer};
use crate::tail::Tail;
use crate::{LOCKSTEP_KEYS, MULTI_GET_KEYS};
use esker_base::sync::CachePadded;
use esker_base::{Result, SeqNo, Tag, ValueKind};
use esker_env::File;
use esker_env::memory::prefetch_to_write;
use esker_iter::{RangeTombstone, RangeTombstones};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sorted set of entries that grows until its [`Inserter`] is dropped.
///
/// Reading is wait-free and never blocks the inserter, unless the kind says otherwise; any number of threads
/// may read. See the crate's head for what readers may rely on.
pub struct Memtable {
    kind: MemtableKind,
    structure: Structure,
    memory: Memory,
    ranges: Ranges,
    pool: ArenaPool,
    /// Touched bytes of the arena that count as loaned by the pool.
    loaned_bytes: u64,
    most_bytes_per_entry: u64,
    /// Padded: the inserter writes them with each insertion, readers of entries never need them. Distances of
    /// 64, 128 and 256 bytes, and none, made no measurable difference on two busy cores.
    counters: CachePadded<Counters>,
}

/// Written by the inserter alone, so plain stores suffice; they carry no other data.
#[derive(Debug, Default)]
struct Counters {
    entries: AtomicU64,
    keys: AtomicU64,
    payload_bytes: AtomicU64,
    low_bytes: AtomicU64,
    high_bytes: AtomicU64,
}

/// The used bytes of an arena and the number of keys: what room depends on.
struct Used {
    low_bytes: u64,
    high_bytes: u64,
    keys: u64,
}

impl Memtable {
    /// Creates an empty memtable of this kind, with an arena of at least `reserve_bytes` bytes of address
    /// space from `pool`, and its inserter. See [`MemtableKind::reserve_bytes`].
    ///
    /// # Errors
    /// [`esker_base::Error::InvalidArgument`] beyond 16 GiB, which references cannot reach, and
    /// [`esker_base::Error::Full`] if the address space is not available.
    pub fn create(
        kind: MemtableKind,
        pool: &ArenaPool,
        reserve_bytes: u64,
    ) -> Result<(Arc<Memtable>, Inserter)> {
        Memtable::create_in(kind, pool, reserve_bytes.max(kind.fixed_bytes() + 1), ExpectedUse::Filled)
    }

    /// [`Memtable::create`] for a memtable that may stay almost empty: beyond a bound for all such memtables
    /// of the pool together it takes no recycled memory.
    ///
    /// # Errors
    /// As [`Memtable::create`].
    pub fn create_sparing(
        kind: MemtableKind,
        pool: &ArenaPool,
        reserve_bytes: u64,
    ) -> Result<(Arc<Memtable>, Inserter)> {
        Memtable::create_in(kind, pool, reserve_bytes.max(kind.fixed_bytes() + 1), ExpectedUse::Unknown)
    }

    /// An empty memtable of this kind without room for a single entry. It takes less than a kilobyte.
    ///
    /// # Errors
    /// None at present.
    pub fn create_stub(kind: MemtableKind, pool: &ArenaPool) -> Result<(Arc<Memtable>, Inserter)> {
        Memtable::create_in(kind, pool, 0, ExpectedUse::Unknown)
    }

    fn create_in(
        kind: MemtableKind,
        pool: &ArenaPool,
        reserve_bytes: u64,
        expected_use: ExpectedUse,
    ) -> Result<(Arc<Memtable>, Inserter)> {
        let (memory, loaned_bytes) = pool.acquire(reserve_bytes, expected_use)?;
        let mut allocator = Allocator::new(&memory);
        let (structure, writer) = Structure::create(kind, &memory, &mut allocator, pool.hash_seed());
        let memtable = Memtable {
            kind,
            structure,
            memory,
            ranges: Ranges::default(),
            pool: pool.clone(),
            loaned_bytes,
            most_bytes_per_entry: kind.most_bytes_per_entry(),
            counters: CachePadded(Counters::default()),
        };
        let memtable = Arc::new(memtable);
        let inserter = Inserter {
            memtable: Arc::clone(&memtable),
            allocator,
            writer,
            ranges: RangesWriter::default(),
            counts: Counts::default(),
            last_tag: None,
        };
        inserter.publish_counters();
        Ok((memtable, inserter))
    }

    /// The kind of structure.
    pub fn kind(&self) -> MemtableKind {
        self.kind
    }

    /// The newest version of `key` that a reader at `seqno` sees, tombstones included.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<(Tag, &[u8])> {
        let head = self.structure.find(&self.memory, key, Tag::visible_at(seqno));
        self.visible(head, seqno)
    }

    /// [`Memtable::get`] for those of up to 32 keys whose bit is set in `wanted`; their cache misses overlap.
    /// Results go to the same places of `results`, other places stay unchanged. Returns the bits of the keys
    /// that were found.
    ///
    /// # Panics
    /// If there are more than [`MULTI_GET_KEYS`] keys, or fewer results than keys.
    pub fn multi_get<'a>(
        &'a self,
        keys: &[&[u8]],
        wanted: u32,
        seqno: SeqNo,
        results: &mut [Option<(Tag, &'a [u8])>],
    ) -> u32 {
        assert!(keys.len() <= MULTI_GET_KEYS && results.len() >= keys.len(), "{} keys", keys.len());
        let wanted = wanted & ((1u64 << keys.len()) - 1) as u32;
        let mut heads = [Entry::NONE; MULTI_GET_KEYS];
        self.structure.find_many(&self.memory, keys, wanted, Tag::visible_at(seqno), &mut heads);
        let mut found = 0;
        for (index, (head, result)) in heads.into_iter().zip(results).enumerate() {
            if let Some(seen) = self.visible(head, seqno) {
                *result = Some(seen);
                found |= 1 << index;
            }
        }
        found
    }

    #[inline(always)]
    fn visible(&self, head: Entry, seqno: SeqNo) -> Option<(Tag, &[u8])> {
        if head.is_none() {
            return None;
        }
        // Words are atomics, so the compiler does not merge two reads into one.
        let newest = head.tag(&self.memory);
        if newest <= Tag::visible_at(seqno) {
            return Some((newest, head.value(&self.memory)));
        }
        let entry = head.visible(&self.memory, Tag::visible_at(seqno));
        (!entry.is_none()).then(|| (entry.tag(&self.memory), entry.value(&self.memory)))
    }

    /// A cursor over all entries. It keeps the memtable alive.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(self))
    }

    /// All entries in insertion order, if the kind keeps it; `None` if it orders at insertion.
    pub fn tail(self: &Arc<Self>) -> Option<Tail> {
        Some(Tail::of_all(self, self.structure.order()?))
    }

    /// The least key, one that was there when the call began or was inserted since; `None` if there is none.
    /// Takes one descent, in a sharded memtable one in each shard; kinds that sort on demand sort now.
    pub fn first_key(&self) -> Option<&[u8]> {
        let entry = self.structure.first(&self.memory);
        (!entry.is_none()).then(|| entry.key(&self.memory))
    }

    /// The greatest key, as [`Memtable::first_key`].
    pub fn last_key(&self) -> Option<&[u8]> {
        let entry = self.structure.last(&self.memory);
        (!entry.is_none()).then(|| entry.key(&self.memory))
    }

    /// The range tombstones as sets, all of which a reader of a key searches; wait-free. Those inserted since
    /// the call began may be among them or not; readers exclude them by sequence number.
    #[inline]
    pub fn range_deletes(&self) -> &[Arc<RangeTombstones>] {
        self.ranges.sets()
    }

    /// Whether there are range tombstones; one load.
    #[inline]
    pub fn has_range_deletes(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Number of range tombstones.
    pub fn range_deletes_len(&self) -> u64 {
        self.ranges.len()
    }

    /// The sequence number of the newest range tombstone over `key` that is visible at `seqno`;
    /// [`SeqNo::ZERO`] if there is none. One load where the memtable has no range tombstones, else O(log² n).
    #[inline]
    pub fn cover(&self, key: &[u8], seqno: SeqNo) -> SeqNo {
        if self.ranges.is_empty() { SeqNo::ZERO } else { self.ranges.cover(key, seqno) }
    }

    /// Whether `count` more range tombstones surely fit.
    pub fn has_range_room(&self, count: u64) -> bool {
        self.ranges.len().saturating_add(count) <= MAX_RANGE_DELETES
    }

    /// Number of entries, all versions counted, without range tombstones.
    #[inline]
    pub fn len(&self) -> u64 {
        self.counters.entries.load(Relaxed)
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Payload of all entries, and the charge of range tombstones: compared with the memtable's limit.
    #[inline]
    pub fn payload_bytes(&self) -> u64 {
        self.counters.payload_bytes.load(Relaxed)
    }

    /// Memory that this memtable holds, in bytes: what it uses, in its arena and beside it, and what earlier
    /// uses of the arena touched. The last page of either end is not rounded up.
    #[inline]
    pub fn allocated_bytes(&self) -> u64 {
        let (low, high) = self.memory.touched();
        let low = self.counters.low_bytes.load(Relaxed).max(low as u64);
        let high = self.counters.high_bytes.load(Relaxed).max(high as u64);
        let arena = if self.memory.is_spilled() { 0 } else { low + high };
        arena + self.ranges.memory_bytes() + self.structure.outside_bytes()
    }

    /// Bytes of the arena that are in a file instead of in memory (MT7).
    pub fn spilled_bytes(&self) -> u64 {
        let used = self.used();
        if self.memory.is_spilled() { used.low_bytes + used.high_bytes } else { 0 }
    }

    /// Moves the arena of a memtable that takes no more entries to an empty file, while readers go on (MT7):
    /// its memory returns to the system, the pages of the file take its place. `false` if it still has its
    /// inserter, is a stub, was moved before, or the platform or the file system cannot.
    ///
    /// The file may be closed and its name removed at once. Its room is freed with the memtable. Takes the
    /// time of writing what the arena holds.
    ///
    /// # Errors
    /// `Io` if the file cannot be written or mapped; the memtable is as before.
    pub fn spill(&self, file: &dyn File) -> Result<bool> {
        if !self.memory.is_sealed() {
            return Ok(false);
        }
        // Complete, since the inserter was seen to be gone.
        let used = self.used();
        self.memory.spill(used.low_bytes as usize, used.high_bytes as usize, file)
    }

    /// Whether `entries` more entries, whose keys and values together have `payload_bytes` bytes, surely fit,
    /// whatever they are. Inserting them cannot fail then. Exact only in the inserting thread, for which
    /// [`Inserter::has_room`] is faster.
    #[inline]
    pub fn has_room(&self, payload_bytes: u64, entries: u64) -> bool {
        self.has_room_beside(&self.used(), payload_bytes, entries)
    }

    #[inline]
    fn used(&self) -> Used {
        Used {
            low_bytes: self.counters.low_bytes.load(Relaxed),
            high_bytes: self.counters.high_bytes.load(Relaxed),
            keys: self.counters.keys.load(Relaxed),
        }
    }

    #[inline]
    fn has_room_beside(&self, used: &Used, payload_bytes: u64, entries: u64) -> bool {
        // Mostly there is room for entries of the largest size each, which needs no check by kind.
        let most =
            entries.checked_mul(self.most_bytes_per_entry).and_then(|most| most.checked_add(payload_bytes));
        most.is_some_and(|most| most <= self.free_bytes(used))
            || self.has_tight_room(used, payload_bytes, entries)
    }

    /// Unused bytes of the arena.
    #[inline]
    fn free_bytes(&self, used: &Used) -> u64 {
        (self.memory.len() as u64).saturating_sub(used.low_bytes + used.high_bytes + FIXED_BYTES)
    }

    /// [`Memtable::has_room`], computed exactly.
    #[cold]
    fn has_tight_room(&self, used: &Used, payload_bytes: u64, entries: u64) -> bool {
        let new_nodes = self.kind.most_new_node_bytes(used.keys, entries, used.high_bytes);
        let overhead = entries.saturating_mul(entry::MAX_OVERHEAD_BYTES as u64);
        payload_bytes.saturating_add(overhead).saturating_add(new_nodes) <= self.free_bytes(used)
    }

    #[inline(always)]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn structure(&self) -> &Structure {
        &self.structure
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        let low = self.counters.low_bytes.load(Relaxed) as usize;
        let high = self.counters.high_bytes.load(Relaxed) as usize;
        self.pool.release(std::mem::take(&mut self.memory), low, high, self.loaned_bytes);
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("kind", &self.kind())
            .field("len", &self.len())
            .field("payload_bytes", &self.payload_bytes())
            .finish_non_exhaustive()
    }
}

/// The exclusive right to insert into a memtable. Dropping it seals the memtable.
#[derive(Debug)]
pub struct Inserter {
    memtable: Arc<Memtable>,
    allocator: Allocator,
    writer: Writer,
    ranges: RangesWriter,
    counts: Counts,
    last_tag: Option<Tag>,
}

impl Drop for Inserter {
    fn drop(&mut self) {
        self.memtable.memory.seal();
    }
}

/// An insertion that has begun: its key's position is known, its entry is not. Dropping it has no effect.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct PreparedInsert {
    point: Option<InsertPoint>,
    /// Address of the memtable and its number of entries: if either differs, the position may be wrong.
    moment: (usize, u64),
}

/// The inserter's own copy of the counters, so that counting needs no read-modify-write.
#[derive(Debug, Default)]
struct Counts {
    entries: u64,
    keys: u64,
    payload_bytes: u64,
}

impl Inserter {
    /// The memtable this one inserts into.
    pub fn memtable(&self) -> &Arc<Memtable> {
        &self.memtable
    }

    /// As [`Memtable::has_room`], without reading counters that lie in the cache of the last inserting core.
    #[inline]
    pub fn has_room(&self, payload_bytes: u64, entries: u64) -> bool {
        let used = Used {
            low_bytes: self.allocator.low_bytes() as u64,
            high_bytes: self.allocator.high_bytes() as u64,
            keys: self.counts.keys,
        };
        self.memtable.has_room_beside(&used, payload_bytes, entries)
    }

    /// Begins the insertion of a key: descends most of the path, and prefetches the memory at its end and
    /// what will be written. Worth it for a caller with other work before the entry can be inserted.
    #[inline]
    pub fn begin_insert(&self, key: &[u8]) -> PreparedInsert {
        prefetch_to_write(&self.memtable.counters);
        self.memtable.memory().prefetch_to_write(self.allocator.low_bytes());
        PreparedInsert { point: self.writer.begin_insert(self.memtable.memory(), key), moment: self.moment() }
    }

    #[inline(always)]
    fn moment(&self) -> (usize, u64) {
        (Arc::as_ptr(&self.memtable).addr(), self.counts.entries)
    }

    /// Inserts one entry. Tags increase from call to call.
    ///
    /// # Panics
    /// If there is no room (check [`Inserter::has_room`] before), or the key or value exceeds its limit.
    pub fn insert(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        self.finish_insert(PreparedInsert { point: None, moment: (0, 0) }, key, tag, value);
    }

    /// [`Inserter::insert`] of the key that was passed to [`Inserter::begin_insert`], and no other. Starts
    /// over if another entry was inserted since, or if it was another memtable's.
    ///
    /// # Panics
    /// As [`Inserter::insert`].
    pub fn finish_insert(&mut self, begin_insert: PreparedInsert, key: &[u8], tag: Tag, value: &[u8]) {
        let operation = Operation { key, tag, value };
        let memory = self.memtable.memory();
        let point = begin_insert.point.filter(|_| begin_insert.moment == self.moment());
        debug_assert!(
            point.is_none() || point == self.writer.begin_insert(memory, key),
            "another key was prepared"
        );
        self.count(&operation);
        let memory = self.memtable.memory();
        let is_new = self.writer.finish_insert(point, memory, &mut self.allocator, &operation);
        self.counts.keys += u64::from(is_new);
        self.publish_counters();
    }

    /// Inserts entries in order; faster than one by one, because their descents overlap. Pieces of a large
    /// batch may be passed one after the other; multiples of 16 serve best. Panics like [`Inserter::insert`].
    pub fn insert_batch(&mut self, operations: &[Operation<'_>]) {
        for operation in operations {
            self.count(operation);
        }
        let memory = self.memtable.memory();
        for chunk in operations.chunks(LOCKSTEP_KEYS) {
            let new_keys = self.writer.insert_chunk(memory, &mut self.allocator, chunk);
            self.counts.keys += new_keys as u64;
        }
        self.publish_counters();
    }

    /// Inserts a range tombstone: it takes its place in the order of tags as an entry does. O(log² n),
    /// amortised, for n of them, whatever the range holds.
    ///
    /// # Panics
    /// If there is no room (check [`Memtable::has_range_room`] before).
    pub fn insert_range_delete(&mut self, delete: RangeTombstone<'_>) {
        let tag = Tag::new(delete.seqno, ValueKind::RangeDelete);
        debug_assert!(self.last_tag.is_none_or(|last| last < tag), "tags increase");
        self.last_tag = Some(tag);
        self.ranges.insert(&self.memtable.ranges, delete);
        let keys_bytes = (delete.start.len() + delete.end.map_or(0, <[u8]>::len)) as u64;
        self.counts.payload_bytes += keys_bytes + RANGE_DELETE_OVERHEAD_BYTES;
        self.publish_counters();
    }

    #[inline(always)]
    fn count(&mut self, operation: &Operation<'_>) {
        debug_assert!(self.last_tag.is_none_or(|last| last < operation.tag), "tags increase");
        self.last_tag = Some(operation.tag);
        self.counts.entries += 1;
        self.counts.payload_bytes += (operation.key.len() + operation.value.len()) as u64;
    }

    #[inline(always)]
    fn publish_counters(&self) {
        let counters = &self.memtable.counters;
        counters.entries.store(self.counts.entries, Relaxed);
        counters.keys.store(self.counts.keys, Relaxed);
        counters.payload_bytes.store(self.counts.payload_bytes, Relaxed);
        counters.low_bytes.store(self.allocator.low_bytes() as u64, Relaxed);
        counters.high_bytes.store(self.allocator.high_bytes() as u64, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn the_fast_room_check_implies_the_exact_one() {
        for kind in MemtableKind::ALL {
            let (memtable, mut inserter) =
                Memtable::create(kind, &ArenaPool::new(0), 1 << 20).expect("reserved");
            let mut met = [false; 2];
            for seqno in 1u64.. {
                // Growing tables and nodes exceed the bound of a single insertion.
                for entries in [1, 2, 7, 100, 3_000] {
                    for payload_bytes in [0, 10, 1_000, 100_000] {
                        let has_room = memtable.has_room(payload_bytes, entries);
                        assert_eq!(has_room, inserter.has_room(payload_bytes, entries), "{kind}: {seqno}");
                        let counted = memtable.has_tight_room(&memtable.used(), payload_bytes, entries);
                        assert_eq!(has_room, counted, "{kind}: {seqno}");
                        met[usize::from(has_room)] = true;
                    }
                }
                if !memtable.has_room(16, 1) {
                    break;
                }
                let key = seqno.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                inserter.insert(&key, Tag::new(SeqNo::new(seqno), ValueKind::Put), &[0; 8]);
            }
            assert_eq!(met, [true; 2], "{kind}");
            assert!(!memtable.has_room(u64::MAX, 1) && !memtable.has_room(1, u64::MAX), "{kind}");
        }
    }
}
