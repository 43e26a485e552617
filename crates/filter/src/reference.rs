//! Filters for comparison: the blocked Bloom filter with RocksDB's choices, and a Bloom filter with two lines
//! for each key. The default answers faster with the same memory; binary fuse and Ribbon filters have fewer
//! false positives for it (`docs/experiments/filters.md`).

pub(crate) mod double;
pub(crate) mod local;
