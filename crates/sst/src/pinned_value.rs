//! A value found in a table, which pins the block or the mapped file that it lies in.

use crate::block::{BlockRef, FoundEntry};
use esker_base::Tag;
use esker_env::File;
use std::ops::Deref;
use std::sync::Arc;

/// A value that keeps its block in memory; derefs to its bytes.
#[derive(Clone)]
pub struct PinnedValue {
    owner: ValueOwner,
    /// Offset in the block's memory, or in the file.
    start: u64,
    len: u32,
}

#[derive(Clone)]
enum ValueOwner {
    Block(BlockRef),
    File(Arc<dyn File>),
}

impl PinnedValue {
    #[inline(always)]
    pub(crate) fn new(block: BlockRef, found: FoundEntry) -> PinnedValue {
        PinnedValue { owner: ValueOwner::Block(block), start: u64::from(found.start), len: found.len }
    }

    pub(crate) fn mapped(file: Arc<dyn File>, start: u64, len: u32) -> PinnedValue {
        PinnedValue { owner: ValueOwner::File(file), start, len }
    }

    /// The value without its first `count` bytes, or an empty one if it has fewer.
    #[inline]
    #[must_use]
    pub fn skip(mut self, count: usize) -> PinnedValue {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.len);
        self.start += u64::from(count);
        self.len -= count;
        self
    }

    /// Bytes of memory that this value keeps allocated; none if it lies in the page cache.
    pub fn pinned_bytes(&self) -> usize {
        match &self.owner {
            ValueOwner::Block(block) => block.memory_bytes(),
            ValueOwner::File(_) => 0,
        }
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        let range = start..start + self.len as usize;
        match &self.owner {
            ValueOwner::Block(block) => block.contents().slice(range),
            // The range was checked when the value was found, and a mapped file does not shrink (MP2).
            ValueOwner::File(file) => file.mapped().and_then(|bytes| bytes.get(range)).unwrap_or_default(),
        }
    }
}

impl std::fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

/// An entry found by a lookup.
#[derive(Clone, Debug)]
pub struct TableHit {
    /// Sequence number and kind; the entry may be a tombstone.
    pub tag: Tag,
    /// The value; empty for tombstones.
    pub value: PinnedValue,
}
