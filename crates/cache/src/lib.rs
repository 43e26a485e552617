//! The block cache: blocks of all tables and keyspaces under one budget of bytes.
//!
//! # Design
//! The cache is divided into a power of two of shards, each a mutex around a *policy*, which owns entries,
//! finds them by key and keeps the order of eviction. A hit locks the shard, finds the entry, notes the use,
//! clones the value (an [`Arc`](std::sync::Arc) as a rule) and unlocks; it touches nothing that other shards
//! use. A miss is followed by a read, so it may cost more here.
//!
//! *One cache, several policies.* A [`CacheKind`] is chosen when the cache is created. The guarantees of the
//! cache are kept outside of the policies, in `cache` and `shard`, and are the same for all kinds: a policy
//! never evicts of its own accord, the cache requests it.
//!
//! | kind | what it evicts | a hit writes to | bytes an entry |
//! |---|---|---|---|
//! | `slots` | by CLOCK behind a doorkeeper; hits by shortcuts | a slot, no lock | 92, and 8 a block of open
//! tables |
//! | `clock` | by CLOCK | one byte of its bucket | 80 |
//! | `s3-fifo` | what was not used twice, by the library `quick_cache` | a counter of its entry | 258 |
//! | `lru` | for comparison: what was used longest ago, or is too old | the links of three entries | 166 |
//! | `lfu` | for comparison: what was used least often lately | the links of three entries | 150 |
//!
//! The bytes are those of [`BlockCache::entry_overhead_bytes`]: the most that arrays which double can take.
//!
//! *One budget, not one for each shard.* The bytes in use are one atomic number that only insertions and
//! evictions change; hits do not touch it. An insertion evicts from its own shard first, since it holds that
//! lock anyway, and goes on to the others only when its own is empty. Room for a large entry, one above
//! [`LARGE_SHARE`], is made in all shards alike, so that no shard is emptied for it. So a block larger than
//! an even share can be cached, and a shard that holds more than its share keeps it without harm: hashing
//! makes lookups in all shards equally likely. Two locks are never held at once.
//!
//! # Invariants
//! * **BS1** An entry is removed once, under its shard's mutex: its charge is returned exactly once.
//! * **BS4** `used` is the sum of the charges of all resident entries, plus what insertions under way have
//!   reserved. It never exceeds the capacity, but for the moment after the capacity was lowered.
//! * **BS5** Keys name a table by a number that is reused only after the table is dropped and
//!   [`BlockCache::remove_dropped_tables`] has removed its blocks, so an entry is never taken for another
//!   file's ([`numbers`]).
//! * **BS6** What is inserted has been verified, or is what the file's checksum was computed from; the cache
//!   returns what was inserted.
//! * Two loads of one block agree on one value: the first insertion wins, and later ones return the resident
//!   value.
//! * A value lives as long as a reader holds it; an evicted one leaves the budget when it leaves the cache.
//!
//! # Priorities Index, filter and other meta blocks get more chances than data blocks, because each serves
//! the lookups of many data blocks. Data blocks that a scan inserts get none, and together they may take only
//! a share of the cache ([`BlockCache::with_scan_percent`]): beyond it a scan evicts its own blocks, without
//! touching the chances of others. A point lookup that finds such a block makes it an ordinary one. With
//! `lfu` and `s3-fifo`, scans' blocks are evicted before all others when room is needed. Chances are what
//! `clock` counts; the other policies say how they translate them.
//!
//! # Admission
//! A full cache of the kind `slots` admits a lookup's data block when it was loaded twice within a short
//! while ([`doorkeeper`]). So blocks that are used once do not cost the eviction of others. Blocks of other
//! kinds and large ones are admitted at once. Scans ask before they insert ([`scan_admission`]); what they
//! insert is admitted. The other policies have no such filter.
//!
//! # Rejected
//! * An exact LRU list as the default: every hit writes to the neighbours in the list, three cache lines
//!   instead of one.
//! * S3-FIFO as the default. Its hit rate exceeds that of the default by 0.3 to 1.2 points (Zipf 0.99, a
//!   cache for 1 to 10 % of the data, `docs/experiments/caches.md`). But each miss inserts into its small
//!   queue and evicts a block, which takes a fifth of a lookup whose block comes from the page cache; the
//!   default evicts on one miss in six. A small queue behind the slots would have the same cost.
//! * The caches of libraries as a whole: their guarantees on budgets, large entries, scans and shortcuts
//!   differ from one to the next, or do not exist. Their policies can be used behind this interface.
//! * One budget for each shard: simpler by a few lines, but a large filter or value would never fit.
//! * A separate space for large entries beside the shards: one more policy with a share to be chosen, for few
//!   entries; they take the same memory, and all shards can give it.
//! * Single flight for concurrent misses of one block: a waiting state with its own failures, for something
//!   that `duplicate_loads` shows to be rare. To be reconsidered above 1 % of misses.
//!
//! # Shortcuts
//! Owners of values may keep other ways to them, such as a table's array of its blocks, so that most hits
//! touch neither a shard nor its hash table (a third of a cached lookup). The cache still owns the budget. It
//! notifies a value when it has entered, unless it left before any lookup found it, and when it has left
//! ([`Charge::entered`], [`Charge::left`]). It reads the value's reference bit before it evicts
//! ([`Charge::take_use`]). Hits are reported to it ([`BlockCache::count_shortcut_hits`]). Shortcuts are for
//! kinds with [`CacheKind::has_shortcuts`] only.
//!
//! Map: [`entry`] defines keys and charges, [`doorkeeper`] is the admission filter, `scan_admission` that of
//! scans, `warming` inserts blocks in place of others, [`numbers`] identifies tables, [`kind`] lists the
//! kinds; `policy` has the policies, one file each, `shard` counts, [`cache`] is the whole,
//! `full_notification` notifies when it is full, [`stats`] are its counters.

#![forbid(unsafe_code)]

pub mod cache;
mod doorkeeper;
pub mod entry;
mod full_notification;
pub mod kind;
mod number_allocator;
pub mod numbers;
mod policy;
mod scan_admission;
mod shard;
pub mod stats;
mod warming;

pub use cache::{BlockCache, DEFAULT_SCAN_PERCENT, LARGE_SHARE};
pub use entry::{Admission, BlockKind, CacheKey, Charge};
pub use kind::CacheKind;
pub use numbers::TableNumber;
pub use stats::{CacheStats, KindStats};
