//! Structures for comparison: the radix tree is faster than each of them at inserting, at looking up or at
//! both, and none of them beats it elsewhere by as much (`docs/experiments/memtables.md`).

pub(crate) mod hashed_art;
pub(crate) mod locked;
pub(crate) mod sharded;
pub(crate) mod skiplist;
