//! What came since some moment, for the kinds that keep entries as they came.
//!
//! Order in a `vector` or `hash` memtable is made for whoever asks ([`crate::order`]), and who asks first
//! after many insertions pays for all of them. Who holds a lock for which others wait must not be the one.
//! Such a caller takes a [`Tail`] before it takes the lock, looks at what came before in whatever way it
//! likes, and under the lock goes over the tail: in the order of insertion, at the cost of a step for each
//! entry, without sorting.
//!
//! * OD5: every entry of a memtable whose insertion was published before [`Tail::from_now`] was called is
//!   seen by a look that begins after it, and every later one that was published is in the tail: none is
//!   missed between the two. Both go by the one word that says where entries end ([`Order::end`]).
//! * OD6: nobody sorts while a [`NoSorting`] of the thread lives. Builds with debug assertions panic where it
//!   happens.

use crate::memtable::Memtable;
use crate::order::{self, Order};
use esker_base::Tag;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The entries of a memtable from a place on, in the order of their insertion; new ones join them.
#[derive(Clone)]
pub struct Tail {
    memtable: Arc<Memtable>,
    order: Arc<Order>,
    from: u32,
}

impl Tail {
    pub(crate) fn of_all(memtable: &Arc<Memtable>, order: &Arc<Order>) -> Tail {
        Tail { memtable: Arc::clone(memtable), order: Arc::clone(order), from: order::START }
    }

    /// The same memtable's entries from now on.
    #[must_use]
    pub fn from_now(mut self) -> Tail {
        self.from = self.order.end(self.memtable.memory());
        self
    }

    /// Whether these are entries of `memtable`.
    pub fn is_of(&self, memtable: &Arc<Memtable>) -> bool {
        Arc::ptr_eq(&self.memtable, memtable)
    }

    /// Keys and tags of the entries that were published when the call began, oldest first. A step is a load
    /// or two.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Tag)> {
        let memory = self.memtable.memory();
        order::between(memory, self.from, self.order.end(memory))
            .map(move |entry| (entry.key(memory), entry.tag(memory)))
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("from", &self.from).field("memtable", &self.memtable).finish()
    }
}

thread_local! {
    /// How many [`NoSorting`] of this thread live; always zero without debug assertions.
    static FORBIDDEN: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread must not cause a sort: it holds a lock for which others wait. It stays in its
/// thread. Where debug assertions are off it does nothing and takes nothing.
#[derive(Debug)]
pub struct NoSorting(PhantomData<*const ()>);

impl NoSorting {
    /// Forbids it from here on.
    #[inline]
    #[expect(clippy::new_without_default, reason = "a default that forbids would surprise")]
    pub fn new() -> NoSorting {
        if cfg!(debug_assertions) {
            FORBIDDEN.with(|count| count.set(count.get() + 1));
        }
        NoSorting(PhantomData)
    }

    /// Whether this thread may sort now; yes without debug assertions.
    #[inline]
    pub(crate) fn may_sort() -> bool {
        !cfg!(debug_assertions) || FORBIDDEN.with(Cell::get) == 0
    }
}

impl Drop for NoSorting {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            FORBIDDEN.with(|count| count.set(count.get() - 1));
        }
    }
}
