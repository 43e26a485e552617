//! What the cache holds of tables.

use crate::block::BlockRef;
use esker_cache::{BlockCache, Charge};
use esker_filter::Filter;
use std::sync::Arc;

/// The cache of all tables.
pub type TableCache = BlockCache<CachedPart>;

/// A part of a table in the cache. As small as a pointer to a block with its length, so that buckets stay
/// half a cache line.
#[derive(Clone, Debug)]
pub enum CachedPart {
    /// Entries.
    Block(BlockRef),
    /// The filter, if it is paged.
    Filter(Arc<Filter>),
}

const _: () = assert!(size_of::<CachedPart>() == size_of::<BlockRef>());

impl Charge for CachedPart {
    fn charge_bytes(&self) -> usize {
        match self {
            CachedPart::Block(block) => block.charge_bytes(),
            CachedPart::Filter(filter) => size_of::<Filter>() + filter.memory_bytes(),
        }
    }

    fn entered(&self) {
        if let CachedPart::Block(block) = self {
            block.entered();
        }
    }

    fn left(&self) {
        if let CachedPart::Block(block) = self {
            block.left();
        }
    }

    #[inline]
    fn take_use(&self) -> bool {
        match self {
            CachedPart::Block(block) => block.take_use(),
            CachedPart::Filter(_) => false,
        }
    }

    #[inline]
    fn is_used(&self) -> bool {
        match self {
            CachedPart::Block(block) => block.is_used(),
            CachedPart::Filter(_) => false,
        }
    }

    #[inline]
    fn prefetch(&self) {
        if let CachedPart::Block(block) = self {
            block.prefetch();
        }
    }

    fn stretch(&self) -> Option<usize> {
        match self {
            CachedPart::Block(block) => Some(block.stretch()),
            CachedPart::Filter(_) => None,
        }
    }

    fn close_stretch(&self, count: usize) -> bool {
        match self {
            CachedPart::Block(block) => block.close_stretch(count),
            CachedPart::Filter(_) => false,
        }
    }
}
