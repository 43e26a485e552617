//! Policies for comparison. The default has a higher hit rate than LRU at every size and pattern, and than
//! LFU but for caches of a fifth of the data, and takes less memory for an entry
//! (`docs/experiments/caches.md`).

pub(super) mod lfu;
pub(super) mod lru;
