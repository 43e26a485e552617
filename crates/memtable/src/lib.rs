//! Memtables: the sorted structures in memory that take writes first.
//!
//! A [`Memtable`] maps (key, tag) to values. One [`Inserter`] adds entries, any number of threads read
//! meanwhile, and nothing is ever removed: invisible versions are dropped when the memtable is flushed, and
//! the memory of all entries is freed together.
//!
//! # Guarantees for readers
//! * MT1: what was published is immutable. Slices of keys and values stay valid as long as the memtable.
//! * MT2: an entry whose insertion happened before a read began is found by it. The engine ensures this by
//!   storing the visible sequence number (release) after the insertion, and loading it (acquire) before the
//!   read. Later entries may be met or not; readers exclude them by their sequence numbers.
//! * MT7: a spilled memtable has its entries in a file, whose pages stand at the addresses of the arena. Only
//!   a memtable without an inserter is spilled. Readers before, during and after find the same bytes.
//! * MT6: the arena is recycled only when the last `Arc` of the memtable is dropped; cursors hold one.
//! * Reads are wait-free: no lock, no retry, no allocation (but for cursors deeper than 16 nodes), no shared
//!   counter. The exceptions are [`locked`](reference::locked) and [`order`]: there readers wait for each
//!   other or for the inserter, under a lock under which no other is taken.
//!
//! # Guarantees for the inserter
//! * One inserter at a time: [`Inserter`] is not `Clone` and takes `&mut self`; the engine keeps it under its
//!   commit lock.
//! * Inserting cannot fail (CP5): once [`Inserter::has_room`] or [`Memtable::has_room`] returned true,
//!   inserting cannot fail. Node memory is bounded by the number of keys, whatever the keys.
//! * MT5: sizes are known in constant time, from the positions of the allocators.
//!
//! # Which kind
//! The radix tree is the default. How many times faster than crossbeam's `SkipMap` at inserting and at
//! looking up, with 500,000 entries of 100 bytes on a busy machine with two cores
//! (`examples/memtable_bench.rs`, time on the processor, medians of interleaved rounds), and bytes an entry
//! of nodes and tables:
//!
//! | keys | radix tree | with a hash table in front | B+-tree |
//! |---|---|---|---|
//! | 16 random bytes | 15.2, 16.5 | 10.4, 20.7 | 9.2, 8.0 |
//! | `user:` and ten digits, all numbers | 9.0, 7.7 | 7.9, 13.9 | 8.2, 7.6 |
//! | the same, each fourth number | 6.9, 7.6 | 6.1, 21.9 | 8.2, 8.1 |
//! | bytes | 17-23 | 51-57 | 65-66 |
//!
//! Of the ordered kinds, none inserts random or ascending keys as fast; ascending keys cost 35 ns each. The
//! B+-tree is faster where memtables are walked, which takes it two thirds of the time forwards and a third
//! backwards, or where keys are sparse digits. A hash table looks up as fast but is sorted by the first
//! ordered read; a vector inserts fastest and is for bulk loads. The kinds in [`reference`](mod@reference)
//! are for comparison.
//!
//! # Map
//! [`memory`] holds words and bytes, [`arena`] the two ends of an arena and the pool, [`entry`] versions and
//! their chains, [`kind`] the kinds and their room, [`art`], [`btree`], [`vector`], [`hash`] and
//! [`reference`](mod@reference) the structures, [`table`] and [`order`] their parts, [`tail`] the entries
//! since a moment, [`merged`] the merge of parts, [`structure`] the dispatch, [`cursor`] the cursor,
//! [`ranges`] the range tombstones, [`memtable`] the interface. Unsafe code is in [`memory`] (the range
//! itself), [`entry`] (bytes of keys and values) and the searches of nodes in [`art`] and [`btree`] only:
//! structures are made of checked word accesses, so a defect in them is a panic or a wrong answer, never a
//! stray access. `tests/loom.rs` explores the structures themselves, over a model of [`memory`].

mod arena;
mod art;
mod btree;
mod cursor;
mod entry;
mod hash;
mod kind;
mod memory;
mod memtable;
mod merged;
mod order;
mod ranges;
mod reference;
mod structure;
mod table;
mod tail;
mod vector;

pub use arena::ArenaPool;
pub use cursor::MemtableCursor;
pub use entry::Operation;
pub use kind::MemtableKind;
pub use memtable::{Inserter, Memtable, PreparedInsert};
pub use ranges::{MAX_RANGE_DELETES, RANGE_DELETE_OVERHEAD_BYTES};
pub use reference::sharded::{Ring, ShardPlan};
pub use tail::{NoSorting, Tail};

/// Only in builds with `--cfg loom`: deliberate defects for the models to find.
#[cfg(loom)]
pub mod model {
    pub use crate::memory::model::{Mutant, set_mutant};
}

/// Most keys in one [`Memtable::multi_get`].
pub const MULTI_GET_KEYS: usize = 32;

/// Keys of a batch that descend together. More of them overlap no more misses (measured).
const LOCKSTEP_KEYS: usize = 16;
