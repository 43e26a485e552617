//! The block cache: blocks of all tables and keyspaces under one budget of bytes.
//!
//! # Design
//! The cache is cut into a power of two of shards, each a mutex around a *policy*, which owns entries, finds
//! them by key and knows in which order they go. A hit locks the shard, finds the entry, notes the use,
//! clones the value, an [`Arc`](std::sync::Arc) as a rule, and unlocks; nothing is shared with other shards.
//! A miss is expected to cost a read, so it may cost more here.
//!
//! *One cache, several policies.* A [`CacheKind`] is chosen when the cache is made. Whatever the cache
//! promises is kept outside of the policies, in `cache` and `shard`, and is therefore the same for all: a
//! policy never evicts of its own accord, it is asked who goes.
//!
//! | kind | who goes | a hit writes to | bytes an entry |
//! |---|---|---|---|
//! | `slots` | CLOCK behind a door; hits by shortcuts, both below | a slot, without a lock | 88, and 8 a block of an open table |
//! | `clock` | CLOCK | one byte of its bucket | 80 |
//! | `lru` | what was used longest ago, exactly; optionally what is too old | the links of three entries | 166 |
//! | `lfu` | what was used least often lately | the links of three entries | 150 |
//! | `s3-fifo` | what was not asked for twice, by the library `quick_cache` | a counter of its entry | 258 |
//!
//! The bytes are what [`BlockCache::entry_overhead_bytes`] charges: the most that arrays which double can
//! take.
//!
//! *One budget, not one for each shard.* The bytes in use are one atomic number that only insertions and
//! evictions change; hits do not touch it. An insertion evicts from its own shard first, since it holds that
//! lock anyway, and goes on to the others only when its own has nothing left. Room for a large entry, more
//! than [`LARGE_SHARE`] says, is made in all shards alike, so that no shard is emptied for it. So a block
//! larger than an even share can be cached, and a shard that got more than its share keeps it without harm:
//! hashing makes all shards equally likely to be asked. Two locks are never held at once.
//!
//! # What holds
//! * **BS1** An entry is removed once, under its shard's mutex: charge and residence are given back exactly
//!   once.
//! * **BS4** `used` is the sum of the charges of all resident entries, plus what insertions under way have
//!   reserved. It never exceeds the capacity, but for the moment after the capacity was lowered.
//! * **BS5** Keys name a table by a number that is given to another one only after the first is gone and
//!   [`BlockCache::remove_departed`] has removed what was left of it, so an entry can never be taken for
//!   another file's ([`numbers`]).
//! * **BS6** What is inserted has been verified, or is what the file's checksum was computed from; the cache
//!   hands out what it was given.
//! * Two loads of one block agree on one value: the first insertion wins and later ones get the resident
//!   value back.
//! * A value lives as long as anyone holds it; an evicted one leaves the budget when it leaves the cache.
//!
//! # Priorities
//! Index, filter and other meta blocks get more chances than data blocks, because each serves the lookups of
//! many data blocks. Data blocks that a scan brings in get none, and together they may take only
//! [`SCAN_SHARE`] of the cache: beyond it a scan evicts its own blocks, without touching the chances of
//! others. A point lookup that meets such a block makes it an ordinary one. With `lfu` and `s3-fifo` scans'
//! blocks have the share only while nobody else wants it: when room is needed they go first. Chances are what
//! `clock` counts; the other policies say how they translate them.
//!
//! # The door
//! A full cache of the kind `slots` takes a lookup's data block in when it was loaded twice, lately, or used
//! while it waited at the door ([`door`]). So blocks that are asked for once do not cost the eviction of
//! others, nor push them out. Blocks of other kinds and of scans, and large ones, enter as they do elsewhere,
//! and the other policies have ways of their own.
//!
//! # Rejected
//! * An exact LRU list as the default: every hit writes to the neighbours in the list, three cache lines
//!   instead of one.
//! * The caches of libraries as a whole: what they promise of budgets, large entries, scans and shortcuts
//!   differs from one to the next, or is nothing. Their policies are welcome behind the face of the others.
//! * One budget for each shard: simpler by a few lines, but a large filter or value would never fit.
//! * A place of their own for large entries, beside the shards: one more policy with a share to be chosen,
//!   for entries that are few; what they take is the same memory, and all shards can give it.
//! * Single flight for concurrent misses of one block: a waiting state with its own failures, for something
//!   that `duplicate_loads` shows to be rare. To be reconsidered above 1 % of misses.
//!
//! # Shortcuts
//! Whoever owns values may keep other ways to them, such as a table's array of its blocks, so that most hits
//! touch neither a shard nor its hash table (a third of a cached lookup). The cache stays the owner of the
//! budget: a value hears when it has entered, unless it went again before anybody could have used a shortcut,
//! and when it has left ([`Charge::entered`], [`Charge::left`]), tells before it is evicted whether a
//! shortcut was used ([`Charge::take_use`]), and hits are reported ([`BlockCache::count_shortcut_hits`]).
//! Only kinds that say so are to be used with shortcuts ([`CacheKind::has_shortcuts`]).
//!
//! Map: [`entry`] says what is cached, [`door`] who may enter, `handing` what takes the place of others,
//! [`numbers`] by which name, [`kind`] what can be chosen; `policy` has the policies, one file each, `shard`
//! counts, [`cache`] is the whole, `need` says when it is full, `stretches` gives memory back, [`stats`] is
//! what it tells.

#![forbid(unsafe_code)]

pub mod cache;
mod door;
pub mod entry;
mod handing;
pub mod kind;
mod need;
pub mod numbers;
mod policy;
mod shard;
pub mod stats;
mod stretches;

pub use cache::{BlockCache, LARGE_SHARE, SCAN_SHARE};
pub use entry::{Admission, BlockKind, CacheKey, Charge};
pub use kind::CacheKind;
pub use numbers::TableNumber;
pub use stats::{CacheStats, KindStats};
