//! Options of transactions.

use crate::Durability;

/// The default memory limit of a transaction: room for a few hundred thousand small changes. The batch they
/// are encoded into takes about as much again while the transaction commits.
const DEFAULT_MEMORY_LIMIT_BYTES: u64 = 64 << 20;

/// The default attempts of [`crate::Database::transact`]. With four threads that constantly change one key,
/// an attempt fails three times in four, so this many fail once in 10^12.
const DEFAULT_ATTEMPTS: u32 = 100;

/// Isolation levels.
///
/// At both levels a transaction reads one moment of the database and its own writes, its changes become
/// visible all at once, and of two concurrent transactions that change the same key the second to commit
/// fails. Uncommitted data of other transactions is never visible.
///
/// | anomaly | [`Isolation::Snapshot`] | [`Isolation::Serializable`] |
/// |---|---|---|
/// | dirty writes and reads (G0, G1a, G1b, G1c) | impossible | impossible |
/// | partial visibility (OTV), changing conditions (PMP), read skew (G-single) | impossible | impossible |
/// | lost updates (P4) | impossible | impossible |
/// | write skew, on keys or on conditions (G2-item, G2) | **possible** | impossible |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// The transaction depends on the keys that it changes, and on those read by
    /// [`get_for_update`](crate::Transaction::get_for_update). Two transactions that each read what the other
    /// changes may both commit (write skew).
    Snapshot,
    /// The transaction depends on everything it has read as well: on keys whether they existed or not, and on
    /// the iterated parts of ranges. Committed transactions are equivalent to running one after the other, in
    /// the order of the commits.
    #[default]
    Serializable,
}

/// Options of a transaction.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Database::open("data")?;
/// use esker::{Durability, TransactionOptions};
/// use esker::transaction::Isolation;
/// let options = TransactionOptions::default().isolation(Isolation::Snapshot).durability(Durability::Power);
/// let tx = db.transaction_with(options);
/// # tx.rollback();
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct TransactionOptions {
    pub(super) isolation: Isolation,
    pub(super) durability: Option<Durability>,
    pub(super) memory_limit_bytes: u64,
    pub(super) attempts: u32,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::default(),
            durability: None,
            memory_limit_bytes: DEFAULT_MEMORY_LIMIT_BYTES,
            attempts: DEFAULT_ATTEMPTS,
        }
    }
}

impl TransactionOptions {
    /// The isolation level. Default: [`Isolation::Serializable`].
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// The durability of its commit. Default: the database's.
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// The most bytes of its changes and its read set: keys, values and 80 bytes for each of them. The call
    /// that would exceed it fails with `Full`. Default: 64 MiB.
    pub fn memory_limit(mut self, bytes: u64) -> TransactionOptions {
        self.memory_limit_bytes = bytes;
        self
    }

    /// The most attempts of [`crate::Database::transact_with`], including those with conflicts; at least one.
    /// Default: 100.
    pub fn attempts(mut self, attempts: u32) -> TransactionOptions {
        self.attempts = attempts;
        self
    }
}
