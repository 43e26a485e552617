//! Table slots: where the slots of one table's blocks are now, for blocks that leave the cache.
//!
//! A block outlives the open table that loaded it, so it refers to this and not to a slot array. A table's
//! identity owns it ([`crate::table_identity`] has the invariants HM1 to HM4).

use crate::slots::{Pointer, Slot, Slots};
use parking_lot::Mutex;
use std::sync::Arc;

/// The slots that may hold a table's blocks.
#[derive(Debug)]
pub(crate) struct TableSlots<P: Pointer>(Mutex<SlotArrays<P>>);

#[derive(Debug)]
struct SlotArrays<P: Pointer> {
    /// Those of the open table.
    open: Option<Slots<P>>,
    /// Those of warm blocks of the table that is not open yet, with block numbers, which ascend (HM4).
    warm: Vec<(u32, Slot<P>)>,
}

impl<P: Pointer> TableSlots<P> {
    /// No slots: no table is open.
    pub(crate) fn new() -> Arc<TableSlots<P>> {
        Arc::new(TableSlots(Mutex::new(SlotArrays { open: None, warm: Vec::new() })))
    }

    /// The table with these slots is open from now on; they take over those of warm blocks.
    pub(crate) fn open(&self, slots: &Slots<P>) {
        let mut arrays = self.0.lock();
        for (number, warm) in std::mem::take(&mut arrays.warm) {
            if let Some(own) = slots.get(number as usize) {
                own.take_from(warm);
            }
        }
        arrays.open = Some(Arc::clone(slots));
    }

    /// The table with these slots is dropped (HM3). Its successor may already be open.
    pub(crate) fn close(&self, slots: &Slots<P>) {
        let mut arrays = self.0.lock();
        if arrays.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, slots)) {
            arrays.open = None;
        }
    }

    /// Installs a slot for warm block `number` of the table to be.
    pub(crate) fn add_warm(&self, number: u32, block: &P, is_resident: impl Fn(&P) -> bool) {
        let mut arrays = self.0.lock();
        debug_assert!(arrays.warm.last().is_none_or(|(last, _)| *last < number), "HM4");
        let slot = Slot::new();
        slot.install(block, is_resident);
        arrays.warm.push((number, slot));
    }

    /// Empties the slot of block `number` if it holds the block at this address. The caller holds the block.
    pub(crate) fn empty(&self, number: usize, address: usize) {
        let arrays = self.0.lock();
        if let Some(slot) = arrays.open.as_ref().and_then(|open| open.get(number)) {
            slot.remove(address);
        } else if let Ok(at) = arrays.warm.binary_search_by_key(&number, |(number, _)| *number as usize) {
            arrays.warm[at].1.remove(address);
        }
    }
}
