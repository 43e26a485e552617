//! Keys, kinds and charges of cached blocks, and the admission of a lookup.

/// Names a block: table and block number. Two half words leave a bucket room for a wide pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    /// The table's [`crate::TableNumber`].
    pub table: u32,
    /// Number of the block within the table.
    pub block: u32,
}

impl CacheKey {
    /// Both halves in one word.
    #[inline]
    pub(crate) const fn packed(&self) -> u64 {
        (self.table as u64) << 32 | self.block as u64
    }
}

/// What a block is for. Decides its priority; each kind has counters of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// Keys and values.
    Data,
    /// Part of a block index.
    Index,
    /// A filter or part of one.
    Filter,
    /// Anything else that serves a whole table: range tombstones, dictionaries.
    Meta,
}

impl BlockKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [BlockKind; 4] = [BlockKind::Data, BlockKind::Index, BlockKind::Filter, BlockKind::Meta];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            BlockKind::Data => "data",
            BlockKind::Index => "index",
            BlockKind::Filter => "filter",
            BlockKind::Meta => "meta",
        }
    }

    /// Rounds of the clock's hand that an entry survives unused after its insertion.
    ///
    /// A data block of a lookup gets one, so that a second use has a full round to come. An index block
    /// stands for hundreds of data blocks, a filter for thousands: evicting one makes all their lookups read
    /// twice, so they get three rounds more.
    #[inline]
    pub(crate) const fn initial_chances(self) -> u8 {
        match self {
            BlockKind::Data => 1,
            BlockKind::Index | BlockKind::Filter | BlockKind::Meta => 4,
        }
    }

    /// Most chances that an entry can gain by being used: two more than it started with. With only one more,
    /// the hit rate of a cache for a tenth of the data (Zipf 0.99) is 0.3 points lower. With five more it is
    /// 0.4 points higher, but the cache follows a change of the working set more slowly.
    #[inline]
    pub(crate) const fn most_chances(self) -> u8 {
        self.initial_chances() + 2
    }
}

/// The kind of access that probes the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A lookup of a key: the block is likely to be used again.
    Point,
    /// A scan passes once: data blocks enter without a chance, in the scans' share; hits are no uses.
    Scan,
}

/// What the cache needs of a value: its bytes, and, if *shortcuts* to it exist (ways to use it without
/// probing the cache), their notifications and reference bit.
pub trait Charge {
    /// Bytes of the value, its own struct and allocations included. Must not change while it is cached.
    fn charge_bytes(&self) -> usize;

    /// The value is in the cache and shortcuts to it may be made. Lookups may find the value before this
    /// call, and it may leave without one. Called with a lock of the cache held, so it must not call the
    /// cache.
    #[inline]
    fn entered(&self) {}

    /// The value has left the cache: shortcuts to it must be removed, since they would keep it alive outside
    /// of the budget. Called once for each [`Charge::entered`], after it, without any lock of the cache held.
    #[inline]
    fn left(&self) {}

    /// Reads and clears the reference bit: whether a shortcut was used since. Called before eviction.
    #[inline]
    fn take_use(&self) -> bool {
        false
    }

    /// Reads the reference bit without clearing it.
    #[inline]
    fn is_used(&self) -> bool {
        false
    }

    /// Prefetches what [`Charge::take_use`] and [`Charge::left`] read. Called with a lock of the cache held.
    #[inline]
    fn prefetch(&self) {}
}

impl<T: ?Sized + Charge> Charge for std::sync::Arc<T> {
    fn charge_bytes(&self) -> usize {
        (**self).charge_bytes()
    }

    #[inline]
    fn entered(&self) {
        (**self).entered();
    }

    #[inline]
    fn left(&self) {
        (**self).left();
    }

    #[inline]
    fn take_use(&self) -> bool {
        (**self).take_use()
    }

    #[inline]
    fn is_used(&self) -> bool {
        (**self).is_used()
    }

    #[inline]
    fn prefetch(&self) {
        (**self).prefetch();
    }
}
