//! Limits: one part of a store alone, as fast as it could be if the rest took no time.

mod append;
pub(super) mod array;
pub(super) mod btree;
pub(super) mod copy;
pub(super) mod raw_map;
pub(super) mod raw_write;
pub(super) mod skiplist;
