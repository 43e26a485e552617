//! Engines with deliberate faults: the checks of the harness must find them.

use super::{Adapter, Role, limits};
use crate::engine::{
    Abilities, Batch, Engine, EngineSettings, Open, Result, SeeEntry, SeeValue, SeeValues, Session,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// One in this many operations of the faulty kind goes wrong; a prime, so that it meets every phase of
/// alternating operations.
const FAULTY_EVERY: u64 = 97;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    PutIsLost,
    GetFindsNothing,
    GetFindsAnother,
    AbsentIsFound,
    MultiGetIsInAnotherOrder,
    ScanLeavesOut,
    BackwardScanLeavesOut,
    OverwriteIsLost,
    DeleteIsIgnored,
    DeleteHitsAnother,
}

impl Fault {
    /// All faults, each with its adapter.
    pub(crate) const ALL: [(Fault, Adapter); 11] = [
        (Fault::Nothing, adapter(|_, _| open(Fault::Nothing))),
        (Fault::PutIsLost, adapter(|_, _| open(Fault::PutIsLost))),
        (Fault::GetFindsNothing, adapter(|_, _| open(Fault::GetFindsNothing))),
        (Fault::GetFindsAnother, adapter(|_, _| open(Fault::GetFindsAnother))),
        (Fault::AbsentIsFound, adapter(|_, _| open(Fault::AbsentIsFound))),
        (Fault::MultiGetIsInAnotherOrder, adapter(|_, _| open(Fault::MultiGetIsInAnotherOrder))),
        (Fault::ScanLeavesOut, adapter(|_, _| open(Fault::ScanLeavesOut))),
        (Fault::BackwardScanLeavesOut, adapter(|_, _| open(Fault::BackwardScanLeavesOut))),
        (Fault::OverwriteIsLost, adapter(|_, _| open(Fault::OverwriteIsLost))),
        (Fault::DeleteIsIgnored, adapter(|_, _| open(Fault::DeleteIsIgnored))),
        (Fault::DeleteHitsAnother, adapter(|_, _| open(Fault::DeleteHitsAnother))),
    ];
}

const fn adapter(open: Open) -> Adapter {
    Adapter { name: "faulty", about: "answers wrongly", role: Role::Limit, open }
}

fn open(fault: Fault) -> Result<Box<dyn Engine>> {
    let settings = EngineSettings {
        cache_bytes: 0,
        memtable_bytes: 0,
        durability: crate::engine::Durability::Process,
        expected_bytes: 0,
        is_memory_limited: false,
    };
    let inner = limits::btree::open(Path::new(""), &settings)?;
    Ok(Box::new(Faulty { inner, fault, operations: AtomicU64::new(0) }))
}

struct Faulty {
    inner: Box<dyn Engine>,
    fault: Fault,
    operations: AtomicU64,
}

impl Faulty {
    /// Whether this operation must go wrong.
    fn is_due(&self, fault: Fault) -> bool {
        self.fault == fault
            && self.operations.fetch_add(1, Ordering::Relaxed) % FAULTY_EVERY == FAULTY_EVERY - 1
    }
}

impl Engine for Faulty {
    fn abilities(&self) -> Abilities {
        Abilities::MEMORY
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FaultySession { store: self, inner: self.inner.session()? }))
    }

    fn version(&self) -> String {
        String::new()
    }
}

struct FaultySession<'a> {
    store: &'a Faulty,
    inner: Box<dyn Session + 'a>,
}

impl FaultySession<'_> {
    /// Deletes the first entry instead, or the second if that is the right one.
    fn delete_first_but(&mut self, key: &[u8]) -> Result<()> {
        let mut other = Vec::new();
        self.inner.scan(&[], 2, &mut |found, _| {
            if other.is_empty() && found != key {
                other = found.to_vec();
            }
        })?;
        self.inner.delete(&other)
    }
}

impl Session for FaultySession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.store.is_due(Fault::PutIsLost) {
            return Ok(());
        }
        // The old value stays.
        if self.store.fault == Fault::OverwriteIsLost
            && self.inner.get(key, &mut |_| {})?
            && self.store.is_due(Fault::OverwriteIsLost)
        {
            return Ok(());
        }
        self.inner.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        if self.store.is_due(Fault::DeleteIsIgnored) {
            return Ok(());
        }
        if self.store.is_due(Fault::DeleteHitsAnother) {
            return self.delete_first_but(key);
        }
        self.inner.delete(key)
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.inner.write_batch(batch)
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        if self.store.is_due(Fault::GetFindsNothing) {
            return Ok(false);
        }
        if self.store.is_due(Fault::GetFindsAnother) {
            // The first entry.
            self.inner.scan(&[], 1, &mut |_, value| see(value))?;
            return Ok(true);
        }
        let is_found = self.inner.get(key, see)?;
        Ok(is_found || self.store.fault == Fault::AbsentIsFound)
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        let is_turned = self.store.fault == Fault::MultiGetIsInAnotherOrder;
        self.inner.multi_get(keys, &mut |place, value| {
            see(if is_turned { keys.len() - 1 - place } else { place }, value);
        })
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        self.inner.scan(from, limit, &mut |key, value| {
            if !self.store.is_due(Fault::ScanLeavesOut) {
                see(key, value);
            }
        })
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        self.inner.scan_backward(&mut |key, value| {
            if !self.store.is_due(Fault::BackwardScanLeavesOut) {
                see(key, value);
            }
        })
    }
}
