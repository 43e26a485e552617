//! What lies in the cache, and how it got there.

/// Names a block: which table, and which of its blocks. Two halves of a word, so that a bucket has room for a
/// pointer to a value that knows its length.
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

/// What a block is for; decides its priority and is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// Keys and values.
    Data,
    /// Part of a block index.
    Index,
    /// A filter or part of one.
    Filter,
    /// Anything else that serves a whole table: range deletes, dictionaries.
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

    /// Rounds of the clock hand that an entry survives from its insertion on without being used.
    ///
    /// A data block that a lookup asked for gets one, so that a second use has a full round to come. An index
    /// block stands for hundreds of data blocks, a filter for thousands: losing one makes all their lookups
    /// read twice, so three rounds more.
    #[inline]
    pub(crate) const fn initial_chances(self) -> u8 {
        match self {
            BlockKind::Data => 1,
            BlockKind::Index | BlockKind::Filter | BlockKind::Meta => 4,
        }
    }

    /// Most rounds an entry can earn by being used: one more than it started with. More would only make the
    /// hand's first round longer when everything is hot.
    #[inline]
    pub(crate) const fn most_chances(self) -> u8 {
        self.initial_chances() + 1
    }
}

/// On whose behalf the cache is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A lookup of a key: the block may well be asked for again.
    Point,
    /// A scan: it comes by once. Its data blocks enter without a chance and within the scans' share; its hits
    /// prove nothing. Blocks of other kinds are treated as for a lookup.
    Scan,
}

/// What a value has to say to the cache: how much of the budget it takes, and, if there are *shortcuts* to
/// it, ways to use it without asking the cache, what the cache must know and tell for their sake.
pub trait Charge {
    /// Bytes the value holds, its own struct and allocations included. Must not change while it is cached.
    fn charge_bytes(&self) -> usize;

    /// The value is in the cache, and somebody may have use of shortcuts to it: they may be made. It may be
    /// found there before, and go again without having heard anything. Called with a lock of the cache held,
    /// so it must not call the cache.
    #[inline]
    fn entered(&self) {}

    /// The value is not in the cache any more: shortcuts to it must go, lest they keep it alive outside of
    /// the budget. Called once for each [`Charge::entered`], after it, without any lock of the cache held.
    #[inline]
    fn left(&self) {}

    /// Whether a lookup used the value by a shortcut since this was last called. The cache asks before it
    /// evicts.
    #[inline]
    fn take_use(&self) -> bool {
        false
    }

    /// As [`Charge::take_use`], which goes on to say so.
    #[inline]
    fn is_used(&self) -> bool {
        false
    }

    /// Asks for the memory that [`Charge::take_use`] and [`Charge::left`] look at. Called with a lock of the
    /// cache held.
    #[inline]
    fn prefetch(&self) {}

    /// Which stretch of memory the value lies in, if the values of a stretch go back to the system together.
    fn stretch(&self) -> Option<usize> {
        None
    }

    /// The cache is about to let go of `count` values in this one's stretch: nothing is to be put there any
    /// more. `false` if they should better stay, because the stretch would not go back for it. Called without
    /// any lock of the cache held.
    fn close_stretch(&self, _count: usize) -> bool {
        false
    }
}

/// A handle speaks for what it leads to.
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

    fn stretch(&self) -> Option<usize> {
        (**self).stretch()
    }

    fn close_stretch(&self, count: usize) -> bool {
        (**self).close_stretch(count)
    }
}
