//! Tail of a memtable: the entries inserted since some moment, for the kinds that keep entries in the order
//! of their insertion.
//!
//! A `vector` or `hash` memtable is sorted by an ordered read ([`crate::order`]), and the first one after
//! many insertions sorts all of them. A thread that holds a contended lock must not do that. It takes a
//! [`Tail`] before it takes the lock, examines what came before in any way, and under the lock scans the
//! tail: in the order of insertion, a step for each entry, without sorting.
//!
//! * OD5: every entry of a memtable whose insertion was published before [`Tail::from_now`] was called is
//!   seen by a read that begins after it, and every later one that was published is in the tail: none is
//!   missed between the two. Both use the one word that says where entries end ([`Order::end`]).
//! * OD6: a thread does not sort while it has a [`NoSorting`]. Builds with debug assertions panic where it
//!   happens.

use crate::memtable::Memtable;
use crate::order::{self, Order};
use esker_base::Tag;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The entries of a memtable from a place on, in the order of their insertion; new ones are appended.
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

    /// The entries of the same memtable from now on.
    #[must_use]
    pub fn from_now(mut self) -> Tail {
        self.from = self.order.end(self.memtable.memory());
        self
    }

    /// Whether these are entries of `memtable`.
    pub fn is_of(&self, memtable: &Arc<Memtable>) -> bool {
        Arc::ptr_eq(&self.memtable, memtable)
    }

    /// Keys and tags of the entries published when the call began, oldest first. A step is a load or two.
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
    /// Number of [`NoSorting`] of this thread; always zero without debug assertions.
    static FORBIDDEN: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread must not cause a sort, because it holds a contended lock. Cannot be sent to
/// other threads. Does nothing where debug assertions are off.
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
