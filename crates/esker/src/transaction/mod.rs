//! Optimistic transactions: work on a snapshot, remember what was read, and find out at the commit whether it
//! still holds.
//!
//! # The design
//! A transaction is three things: a registered snapshot, a tree of uncommitted changes, and a memory of what
//! it depends on. Nothing is locked while it runs, nobody sees its changes, and dropping it leaves no trace.
//! Its commit is one batch, so that all or nothing of it survives a crash, like any other batch; before the
//! batch is let in, under the commit lock, [`validate`] asks whether anything the transaction depends on has
//! changed since its snapshot.
//!
//! # Invariants
//! * TX1: *what is read is one moment.* All reads are at the snapshot's sequence number, whatever view they
//!   use; the snapshot is registered before the first view is loaded, so that every view holds the versions
//!   it needs (RV4, RV5).
//! * TX2: *read your writes.* A change of the transaction hides the stored versions of its key, in gets and
//!   in ranges.
//! * TX3: *what is depended on is remembered before it is known.* A key is remembered before it is looked up,
//!   a range in full before its first entry; the range is narrowed to what was walked when its iterator is
//!   dropped. So neither an error nor a forgotten iterator makes a transaction depend on less than it saw.
//! * TX4: *nothing depended on has changed when the commit becomes visible.* Argued in [`validate`].
//! * TX5: *memory is bounded.* Changes, what is needed to undo them, and what is remembered count against a
//!   limit; the call that would exceed it fails and changes nothing.
//!
//! A transaction that changes nothing commits without a question: everything it read was true at its
//! snapshot, and that is the place in the order of commits where it belongs. With TX1 to TX4 every other
//! serializable transaction belongs at its commit: what it read was unchanged there. So the order of commits
//! is a serial order.
//!
//! Rejected: locks for keys (deadlocks, timeouts, and a write to memory that threads share for each read);
//! following read-write dependencies as PostgreSQL does, which lets some more transactions commit but
//! remembers committed ones.
//!
//! Files, in reading order: [`options`]; [`handle`] the transaction; [`writes`], [`reads`] what it holds;
//! [`range`] its scans; [`read_set`] what a commit depends on; [`validate`] the question at the commit;
//! [`retry`] trying again; [`one_key`] the smallest transactions.

mod handle;
mod one_key;
mod options;
mod range;
mod read_set;
mod reads;
mod retry;
mod validate;
mod writes;

pub use handle::{Savepoint, Transaction};
pub use one_key::CompareAndSet;
pub(crate) use one_key::Next;
pub use options::{Isolation, TransactionOptions};
pub use range::TransactionRange;
