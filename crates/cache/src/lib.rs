//! The block cache: blocks of all tables and keyspaces under one budget of bytes.
//!
//! # Design
//! The cache is cut into a power of two of shards, each a mutex around an open-addressing hash table of
//! [`Arc`](std::sync::Arc)s. The table doubles as the ring of the CLOCK policy (Corbató 1968): a hand walks over its
//! buckets, takes a chance from every entry that has some left and evicts the first one that has none. A hit locks
//! the shard, finds one bucket of 32 bytes, gives the entry a chance back, clones the `Arc` and unlocks; nothing
//! is moved, allocated or shared with other shards. A miss is expected to cost a read, so it may cost more here.
//!
//! *One budget, not one for each shard.* The bytes in use are one atomic number that only insertions and evictions
//! change; hits do not touch it. An insertion evicts from its own shard first, since it holds that lock anyway, and
//! goes on to the others only when its own has nothing left. So a block larger than an even share can be cached,
//! and a shard that got more than its share keeps it without harm: hashing makes all shards equally likely to be
//! asked. Two locks are never held at once.
//!
//! # What holds
//! * **BS1** An entry is removed once, under its shard's mutex: charge and residence are given back exactly once.
//! * **BS4** `used` is the sum of the charges of all resident entries, plus what insertions under way have reserved.
//!   It never exceeds the capacity, but for the moment after the capacity was lowered.
//! * **BS5** Keys name a table by a number that is given to another one only after the first is gone and
//!   [`BlockCache::remove_departed`] has removed what was left of it, so an entry can never be taken for another file's
//!   ([`numbers`]).
//! * **BS6** What is inserted has been verified; the cache hands out what it was given.
//! * Two loads of one block agree on one value: the first insertion wins and later ones get the resident value back.
//! * A value lives as long as anyone holds it; an evicted one leaves the budget when it leaves the cache.
//!
//! # Priorities
//! Index, filter and other meta blocks get more chances than data blocks, because each serves the lookups of many
//! data blocks. Data blocks that a scan brings in get none, and together they may take only [`SCAN_SHARE`] of
//! the cache: beyond it a scan evicts its own blocks, without touching the chances of others. A point lookup that
//! meets such a block makes it an ordinary one.
//!
//! # Rejected
//! * An exact LRU list: every hit would write to the neighbours in the list, three cache lines instead of one.
//! * One budget for each shard: simpler by a few lines, but a large filter or value would never fit.
//! * Single flight for concurrent misses of one block: a waiting state with its own failures, for something
//!   that `duplicate_loads` shows to be rare. To be reconsidered above 1 % of misses.
//!
//! # Shortcuts
//! Whoever owns values may keep other ways to them, such as a table's array of its blocks, so that most hits touch
//! neither a shard nor its hash table (a third of a cached lookup). The cache stays the owner of the budget: a value
//! hears when it enters and when it has left ([`Charge::entered`], [`Charge::left`]), tells before it is evicted
//! whether a shortcut was used ([`Charge::take_use`]), and hits are reported ([`BlockCache::count_shortcut_hits`]).
//!
//! Map: [`entry`] says what is cached, [`numbers`] by which name, `table` is the hash table, `shard` the policy of one
//! shard, [`cache`] the whole, [`stats`] what it tells.

#![forbid(unsafe_code)]

pub mod cache;
pub mod entry;
pub mod numbers;
mod shard;
pub mod stats;
mod table;

pub use cache::{BlockCache, SCAN_SHARE};
pub use entry::{Admission, BlockKind, CacheKey, Charge, ENTRY_OVERHEAD_BYTES};
pub use numbers::TableNumber;
pub use stats::{CacheStats, KindStats};
