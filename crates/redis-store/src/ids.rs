//! Numbers of objects: a counter that survives, so that no number is used twice (KR3).
//!
//! Never the clock: a key that is deleted and made again within its resolution would show the old elements.

use crate::layout::{PhysicalDb, system};
use esker::{Error, Keyspace, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that are taken at once. A process that ends leaves the rest of its last lease unused.
const LEASE: u64 = 1 << 20;

/// Bits of the counter in a number; above them is the database.
const COUNTER_BITS: u32 = 48;

#[derive(Debug)]
pub(crate) struct ObjectIds {
    next: AtomicU64,
    /// Counters below it may be used.
    leased: AtomicU64,
    leasing: Mutex<()>,
}

impl ObjectIds {
    /// Begins behind all counters that were ever leased.
    pub(crate) fn open(system: &Keyspace) -> Result<Self> {
        let next = system.get(system::NEXT_COUNTER)?.as_ref().and_then(crate::layout::number).unwrap_or(1);
        Ok(Self { next: next.into(), leased: next.into(), leasing: Mutex::new(()) })
    }

    /// A number that nothing had before.
    ///
    /// The lease is written before its first number is used, and the log keeps the order of writes, so a
    /// crash that loses the lease loses every use of it.
    pub(crate) fn take(&self, db: PhysicalDb, system: &Keyspace) -> Result<u64> {
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        if counter >= self.leased.load(Ordering::Acquire) {
            let _leasing = self.leasing.lock();
            while counter >= self.leased.load(Ordering::Acquire) {
                let end = self.leased.load(Ordering::Acquire) + LEASE;
                system.put(system::NEXT_COUNTER, end.to_le_bytes())?;
                self.leased.store(end, Ordering::Release);
            }
        }
        if counter >> COUNTER_BITS != 0 {
            return Err(Error::InvalidArgument("the numbers of objects are used up".into()));
        }
        Ok(u64::from(db.0) << COUNTER_BITS | counter)
    }
}

/// The range of the numbers of all objects of a database, for a range from the first to below the second.
pub(crate) fn of_database(db: PhysicalDb) -> (u64, u64) {
    (u64::from(db.0) << COUNTER_BITS, (u64::from(db.0) + 1) << COUNTER_BITS)
}
