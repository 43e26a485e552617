//! Cached parts of large values: nodes of rank indexes and the ends of sorted sets and lists. A transaction
//! takes them from the store, changes them, and gives them back when it has committed (RN1, OE1, LE1).

use super::Txn;
use crate::list_ends::ListEnds;
use crate::order_ends::OrderEnds;
use crate::rank_nodes::Family;

impl Txn<'_> {
    /// Takes nodes of a rank index that are in memory, by the key of the first. The caller holds the set's
    /// stripe alone.
    pub(crate) fn take_rank_nodes(&mut self, key: &[u8]) -> Option<Family> {
        debug_assert!(self.snapshot.is_none(), "a transaction that has freed its stripes changes nothing");
        self.rank_nodes.take(key).or_else(|| self.store.rank_nodes.lock().take(key))
    }

    /// Gives nodes of a rank index back, as this transaction leaves them.
    pub(crate) fn give_rank_nodes(&mut self, key: Vec<u8>, nodes: Family) {
        self.rank_nodes.put(key, nodes);
    }

    /// Takes the ends of a sorted set that are in memory. The caller holds the set's stripe alone.
    pub(crate) fn take_order_ends(&mut self, object: u64) -> Option<OrderEnds> {
        self.order_ends.take(object).or_else(|| self.store.order_ends.lock().take(object))
    }

    /// Gives the ends of a sorted set back, as this transaction leaves them.
    pub(crate) fn give_order_ends(&mut self, object: u64, ends: OrderEnds) {
        self.order_ends.put(object, ends);
    }

    /// Takes the ends of a list that are in memory. The caller holds the list's stripe alone.
    pub(crate) fn take_list_ends(&mut self, object: u64) -> Option<ListEnds> {
        debug_assert!(self.snapshot.is_none(), "a transaction that has freed its stripes changes nothing");
        self.list_ends.take(object).or_else(|| self.store.list_ends.lock().take(object))
    }

    /// Gives the ends of a list back, as this transaction leaves them.
    pub(crate) fn give_list_ends(&mut self, object: u64, ends: ListEnds) {
        self.list_ends.put(object, ends);
    }

    /// Gives the store what was taken of its memory, which is as the store is now (RN1, OE1, LE1).
    pub(super) fn give_memory_back(&mut self) {
        if !self.rank_nodes.is_empty() {
            self.rank_nodes.move_to(&mut self.store.rank_nodes.lock());
        }
        if !self.order_ends.is_empty() {
            self.order_ends.move_to(&mut self.store.order_ends.lock());
        }
        if !self.list_ends.is_empty() {
            self.list_ends.move_to(&mut self.store.list_ends.lock());
        }
    }
}
