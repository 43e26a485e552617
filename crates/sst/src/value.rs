//! A value found in a table.

use crate::block::{Block, Found};
use esker_base::Tag;
use std::ops::Deref;
use std::sync::Arc;

/// A value that lies in a block and keeps it in memory; derefs to its bytes.
#[derive(Clone)]
pub struct PinnedValue {
    block: Arc<Block>,
    start: u32,
    len: u32,
}

impl PinnedValue {
    #[inline(always)]
    pub(crate) fn new(block: Arc<Block>, found: Found) -> PinnedValue {
        PinnedValue { block, start: found.start, len: found.len }
    }

    /// The value without its first `count` bytes, or an empty one if it has fewer.
    #[inline]
    #[must_use]
    pub fn from(mut self, count: usize) -> PinnedValue {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.len);
        self.start += count;
        self.len -= count;
        self
    }

    /// Bytes of memory that this value keeps from being freed.
    pub fn pinned_bytes(&self) -> usize {
        self.block.memory_bytes()
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        self.block.contents().slice(start..start + self.len as usize)
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
    /// Sequence number and kind; the entry may be a delete.
    pub tag: Tag,
    /// The value; empty for deletes.
    pub value: PinnedValue,
}
