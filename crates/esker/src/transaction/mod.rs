//! Optimistic transactions: read from a snapshot, record a read set, and validate it at the commit.
//!
//! # The design
//! A transaction consists of a registered snapshot, a tree of uncommitted changes, and a read set. Nothing is
//! locked while it runs, its changes are invisible to others, and dropping it leaves no trace. Its commit is
//! one batch, so that all or nothing of it survives a crash, like any other batch. Before the batch is
//! admitted, under the commit lock, [`validate`] checks whether anything the transaction depends on has
//! changed since its snapshot.
//!
//! # Invariants
//! * TX1: *reads are of one moment.* All reads are at the snapshot's sequence number, whatever view they use;
//!   the snapshot is registered before the first view is loaded, so that every view holds the versions it
//!   needs (RV4, RV5).
//! * TX2: *read your writes.* A change of the transaction hides the stored versions of its key, in gets and
//!   in ranges.
//! * TX3: *a read is recorded before its result is known.* A key is recorded before it is looked up, a range
//!   in full before its first entry; the range is narrowed to the part that was walked over when its iterator
//!   is dropped, or when the cursor seeks again or is dropped. So neither an error nor a forgotten iterator
//!   makes a transaction depend on less than it saw.
//! * TX4: *nothing in the read set has changed when the commit becomes visible.* Argued in [`validate`].
//! * TX5: *memory is bounded.* Changes, their undo information, and the read set count against a limit; the
//!   call that would exceed it fails and changes nothing.
//!
//! A transaction without changes commits without validation: everything it read was true at its snapshot, and
//! that is its position in the order of commits. With TX1 to TX4 the position of every other serializable
//! transaction is its commit: its read set was unchanged there. So the order of commits is a serial order.
//!
//! Rejected: locks for keys (deadlocks, timeouts, and a write to shared memory for each read); tracking
//! read-write dependencies as PostgreSQL does, which lets some more transactions commit but has to record
//! committed ones.
//!
//! Files, in reading order: [`options`]; [`handle`] the transaction; [`changing`] its changes; [`reads`] its
//! read set; [`range`], [`cursor`] its scans; [`read_set`] what a commit depends on; [`validate`] the check
//! at the commit; [`retry`] repeating after conflicts; [`one_key`] single-key operations.

mod changing;
mod cursor;
mod handle;
mod one_key;
mod options;
mod range;
mod read_set;
mod reads;
mod retry;
mod validate;

pub use cursor::TransactionCursor;
pub use handle::{Savepoint, Transaction};
pub use one_key::{Changed, CompareAndSet, KeyDecision};
pub use options::{Isolation, TransactionOptions};
pub use range::{TransactionRange, TransactionRangeWithExpiry};
