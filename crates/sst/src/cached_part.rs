//! The values of the block cache: blocks and paged filters of tables.

use crate::block::BlockRef;
use esker_cache::{BlockCache, Charge};
use esker_filter::Filter;
use std::sync::Arc;

/// The cache of all tables.
pub type TableCache = BlockCache<CachedPart>;

/// A cached part of a table. As small as a fat pointer, so that buckets of the cache stay half a cache line.
#[derive(Clone, Debug)]
pub enum CachedPart {
    /// A block of entries or of index pages.
    Block(BlockRef),
    /// A paged filter.
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
}
