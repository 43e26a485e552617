//! Change stream: committed batches in their order, read from the log (change data capture).
//!
//! The log has every batch anyway, whole and in order. A stream ([`Changes`]) reads it behind the writers, by
//! file reads of its own; for it, segments are kept that recovery no longer needs. A *consumer*
//! ([`Consumer`]) is a named position that outlives the process: it is stored in the manifest, and the log is
//! kept for it across reopens, up to [`crate::Options::change_history_limit`]. The kept segments and reading
//! them are in [`esker_wal::history`], with the invariants HS1 to HS6.
//!
//! # Invariants
//!
//! * **TS1** A stream returns nothing that a crash could undo at its durability level. At
//!   [`crate::Durability::Power`], the default, it returns what is on the device, and flushes the log itself
//!   where necessary, sharing the flush with concurrent waiters. A consumer's acknowledgement is durable only
//!   after the batches it acknowledges.
//! * **TS2** No gap and no repeat in a stream; batches are whole, and in the order of their sequence numbers.
//!   A consumer that continues after a crash gets the batches behind its position that survived the crash,
//!   and no others.
//! * **CS1** A put costs no more than the test of a flag under the lock that it holds anyway. A thread that
//!   waits for a batch sets the flag under that lock, after it has checked `visible` there; the writer that
//!   finds it set clears it, releases the lock and notifies. So no publication between the check and the wait
//!   is missed.
//! * **CS2** Every wait ends when the database is closed or can no longer be written to.
//! * **HS6** While there are consumers the log is durable up to a memtable's last entry before the memtable's
//!   tables count as flushed. Otherwise tables could survive a power cut that their records do not, and the
//!   history would have a hole.
//!
//! While there is a stream or a consumer every batch is logged, also one at [`crate::Durability::None`]: UL3
//! of the commit pipeline. A position before numbers that were not logged is refused as gone.
//!
//! # Notifications
//! A notification is a system call made by a writer. So a stream without a new batch first waits [`LINGER`]
//! without requesting one: a busy database then makes at most a thousand notifications a second, whatever its
//! rate of writes, and an idle one wakes no thread. Rejected: a stream that only polls (wakes an idle
//! process), a stream that is notified of every batch (a put would cost several times as much).
//!
//! # Limits
//! Creation, dropping and renaming of keyspaces, and changes of options, are not in the stream: they are not
//! batches. A change names its keyspace by id and by the name that it has when the batch is returned.
//!
//! [`LINGER`]: stream::LINGER

mod batch;
pub(crate) mod consumer;
mod stream;

pub use batch::{Change, ChangeBatch, ChangeIter, ChangedKeyspace};
pub use consumer::{Consumer, ConsumerInfo};
pub use stream::Changes;
