//! Hash table from keys to their newest versions: one writer, wait-free readers.
//!
//! Open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3, 6.4). A slot is two
//! words of the arena: an entry, and 32 bits of its key's hash. The table has a power of two of slots, the
//! slot of a key is chosen by the top bits of its hash, and the rest tells keys apart without reading them: a
//! lookup costs one miss for the slot, one for the entry.
//!
//! # What threads rely on
//! * A slot's entry is published last, by release, after its hash was put. It is set once and then replaced
//!   by newer versions of the same key only, which lead to the older ones (MT1). So a reader that loads the
//!   entry (acquire) finds hash and entry complete.
//! * A table that is three quarters full is copied into one twice its size, by the hashes alone, in the order
//!   of the slots, so that both are walked from one end to the other; then the one word that refers to the
//!   table is published. The old one is frozen: it was the live one at a moment after a reader that still
//!   uses it began, so it holds all that this reader must see (MT2). It stays in the arena.
//! * A quarter of the slots is empty, and nothing is ever removed: a probe ends (wait-free), after 2.5 slots
//!   for a present key and 8.5 for an absent one on average when the table is fullest, within a cache line or
//!   two.
//!
//! # Cost
//! Eight bytes a slot, all outgrown tables together as much as the last: 21 to 43 bytes for each key. Growing
//! copies everything once more and is done by the insertion that needs it: a millisecond for 200,000 keys.
//! The hash is seeded at random for each pool of arenas, so that keys cannot be chosen to collide.

use crate::MULTI_GET_KEYS;
use crate::arena::Allocator;
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Slots of the smallest table, as a power of two.
const MIN_BITS: u32 = 4;
/// Words in front of the slots: the number of slots as a power of two, and one for alignment.
const HEADER_WORDS: usize = 2;
const SLOT_WORDS: usize = 2;

/// Bytes of all tables that so many keys have made: a pure function, so that room is known beforehand.
pub(crate) const fn table_bytes(keys: u64) -> u64 {
    if keys == 0 {
        return 0;
    }
    if keys > 1 << 40 {
        return u64::MAX;
    }
    // The least power of two of which three quarters are no fewer than the keys.
    let slots = (keys * 4).div_ceil(3).next_power_of_two();
    let slots = if slots < 1 << MIN_BITS { 1 << MIN_BITS } else { slots };
    let tables = (slots.trailing_zeros() - MIN_BITS + 1) as u64;
    let all_slots = 2 * slots - (1 << MIN_BITS);
    4 * (tables * HEADER_WORDS as u64 + all_slots * SLOT_WORDS as u64)
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    root: usize,
    state: FixedState,
}

/// One of the tables, by the word where it begins.
#[derive(Clone, Copy, Debug)]
struct Slots {
    at: usize,
    bits: u32,
}

impl Slots {
    fn of(memory: &Memory, unit: u32) -> Slots {
        let at = unit as usize * 2;
        Slots { at, bits: memory.peek(at) }
    }

    #[inline(always)]
    fn len(self) -> usize {
        1 << self.bits
    }

    /// The first slot of the search for a hash.
    #[inline(always)]
    fn home(self, hash: u32) -> usize {
        (hash >> (u32::BITS - self.bits)) as usize
    }

    #[inline(always)]
    fn following(self, index: usize) -> usize {
        (index + 1) & (self.len() - 1)
    }

    /// The word with a slot's entry; its hash is in the next.
    #[inline(always)]
    fn word(self, index: usize) -> usize {
        self.at + HEADER_WORDS + index * SLOT_WORDS
    }
}

impl Table {
    /// The hash of a key; the top bits choose the first slot of the search.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        let mut hasher = self.state.build_hasher();
        hasher.write(key);
        (hasher.finish() >> 32) as u32
    }

    #[inline(always)]
    fn newest(&self, memory: &Memory) -> Option<Slots> {
        let unit = memory.load(Site::Reference, self.root);
        (unit != 0).then(|| Slots::of(memory, unit))
    }

    #[inline]
    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        self.newest(memory).map_or(Entry::NONE, |slots| find(memory, slots, self.hash(key), key))
    }

    /// [`Table::find`] for the keys in `wanted`: prefetches all slots, then all entries.
    pub(crate) fn find_many(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        let Some(slots) = self.newest(memory) else {
            return;
        };
        let each = || (0..keys.len()).filter(|index| wanted >> index & 1 != 0);
        let mut hashes = [0; MULTI_GET_KEYS];
        for index in each() {
            hashes[index] = self.hash(keys[index]);
            memory.prefetch(slots.word(slots.home(hashes[index])));
        }
        for index in each() {
            let likely = probe(memory, slots, hashes[index], |_| true);
            if !likely.is_none() {
                likely.prefetch(memory);
            }
        }
        for index in each() {
            found[index] = find(memory, slots, hashes[index], keys[index]);
        }
    }
}

#[inline(always)]
fn find(memory: &Memory, slots: Slots, hash: u32, key: &[u8]) -> Entry {
    probe(memory, slots, hash, |entry| entry.has_key(memory, key))
}

/// The first entry of this hash for which `is_right` holds.
#[inline(always)]
fn probe(memory: &Memory, slots: Slots, hash: u32, is_right: impl Fn(Entry) -> bool) -> Entry {
    let mut at = slots.home(hash);
    loop {
        let word = slots.word(at);
        let entry = Entry(memory.load(Site::Reference, word));
        if entry.is_none() || memory.peek(word + 1) == hash && is_right(entry) {
            return entry;
        }
        at = slots.following(at);
    }
}

#[derive(Debug)]
pub(crate) struct TableWriter {
    table: Table,
    slots: Option<Slots>,
    keys: usize,
}

/// The slot of a key, present or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSlot {
    word: usize,
    hash: u32,
    pub(crate) entry: Entry,
}

impl TableWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator, seed: u64) -> (Table, TableWriter) {
        let root = allocator.node(1) as usize * 2;
        memory.init(root, 0);
        let table = Table { root, state: FixedState::with_seed(seed) };
        (table.clone(), TableWriter { table, slots: None, keys: 0 })
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        self.table.hash(key)
    }

    pub(crate) fn prefetch(&self, memory: &Memory, hash: u32) {
        if let Some(slots) = self.slots {
            memory.prefetch(slots.word(slots.home(hash)));
        }
    }

    /// The slot of `key`; grows the table first if needed. Valid for the next [`TableWriter::put`] only.
    #[inline]
    pub(crate) fn place(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        hash: u32,
        key: &[u8],
    ) -> TableSlot {
        if let Some(slots) = self.slots {
            let mut at = slots.home(hash);
            loop {
                let word = slots.word(at);
                let entry = Entry(memory.peek(word));
                if !entry.is_none() && memory.peek(word + 1) == hash && entry.has_key(memory, key) {
                    return TableSlot { word, hash, entry };
                }
                if entry.is_none() && (self.keys + 1) * 4 <= slots.len() * 3 {
                    return TableSlot { word, hash, entry };
                }
                if entry.is_none() {
                    break;
                }
                at = slots.following(at);
            }
        }
        let slots = self.grow(memory, allocator);
        TableSlot { word: empty_word(memory, slots, hash), hash, entry: Entry::NONE }
    }

    /// Puts a version into its key's slot; returns whether the key is new.
    #[inline]
    pub(crate) fn put(&mut self, memory: &Memory, place: TableSlot, entry: Entry) -> bool {
        let is_new = place.entry.is_none();
        if is_new {
            memory.put(place.word + 1, place.hash);
            self.keys += 1;
        }
        memory.publish(Site::Reference, place.word, entry.0);
        is_new
    }

    #[cold]
    fn grow(&mut self, memory: &Memory, allocator: &mut Allocator) -> Slots {
        let bits = self.slots.map_or(MIN_BITS, |old| old.bits + 1);
        let unit = allocator.node(HEADER_WORDS + (SLOT_WORDS << bits));
        let slots = Slots { at: unit as usize * 2, bits };
        memory.view(slots.at).init([bits, 0]);
        for index in 0..slots.len() {
            memory.view(slots.word(index)).init([0, 0]);
        }
        for old in self.slots.into_iter().flat_map(|old| (0..old.len()).map(move |index| old.word(index))) {
            let (entry, hash) = (memory.peek(old), memory.peek(old + 1));
            if entry != 0 {
                let word = empty_word(memory, slots, hash);
                memory.put(word + 1, hash);
                memory.put(word, entry);
            }
        }
        memory.publish(Site::Reference, self.table.root, unit);
        self.slots = Some(slots);
        slots
    }
}

fn empty_word(memory: &Memory, slots: Slots, hash: u32) -> usize {
    let mut at = slots.home(hash);
    while memory.peek(slots.word(at)) != 0 {
        at = slots.following(at);
    }
    slots.word(at)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, ExpectedUse, UNIT_BYTES};
    use crate::entry::Operation;
    use esker_base::{SeqNo, Tag, ValueKind};

    fn filled(keys: u64, mut check: impl FnMut(&Memory, &Allocator, &Table, u64)) {
        let (memory, _) = ArenaPool::new(0).acquire(16 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let (table, mut writer) = TableWriter::create(&memory, &mut allocator, 7);
        for number in 0..keys {
            let key = number.to_le_bytes();
            let tag = Tag::new(SeqNo::new(number + 1), ValueKind::Put);
            let place = writer.place(&memory, &mut allocator, writer.hash(&key), &key);
            assert!(place.entry.is_none());
            let operation = Operation { key: &key, tag, value: b"" };
            let entry = Entry::write(&memory, &mut allocator, &operation, Entry::NONE);
            assert!(writer.put(&memory, place, entry));
            check(&memory, &allocator, &table, number + 1);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn the_size_of_all_tables_is_predicted() {
        assert_eq!(table_bytes(0), 0);
        filled(30_000, |_, allocator, _, keys| {
            assert_eq!(allocator.high_bytes() as u64, UNIT_BYTES as u64 + table_bytes(keys), "{keys} keys");
        });
        for keys in 1..100_000 {
            let slack = table_bytes(keys) as f64 - 200.0;
            assert!(slack / (keys as f64) < 43.0, "{keys} keys");
        }
        assert_eq!(table_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn probes_stay_short() {
        filled(24_576, |memory, _, table, keys| {
            let slots = table.newest(memory).expect("a table");
            if !keys.is_power_of_two() && keys != 24_576 {
                return;
            }
            let full = (0..slots.len()).filter(|index| memory.peek(slots.word(*index)) != 0).count();
            assert_eq!(full as u64, keys, "each key has one slot");
            assert!(full * 4 <= slots.len() * 3, "a quarter is empty");
            let steps = |number: u64| {
                let hash = table.hash(&number.to_le_bytes());
                let mut at = slots.home(hash);
                let mut steps = 1;
                while memory.peek(slots.word(at)) != 0 {
                    at = slots.following(at);
                    steps += 1;
                }
                steps
            };
            let mean = (0..1000).map(|number| steps(number + (1 << 40))).sum::<u64>() as f64 / 1000.0;
            // 8.5 is expected of an absent key in a table that is three quarters full.
            assert!(mean < 13.0, "{mean} slots are probed");
        });
    }
}
