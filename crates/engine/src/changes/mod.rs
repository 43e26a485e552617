//! The change stream: committed batches in their order, read from the log.
//!
//! The log has every batch anyway, whole and in order. A stream ([`Changes`]) reads it behind the writers, by
//! file reads of its own; for it, segments are kept that recovery needs no more. A *consumer* ([`Consumer`])
//! is a named position that outlives the process: the manifest has it, and the log is kept for it over
//! reopenings, up to [`crate::Options::change_history_limit`]. The kept segments and the reading of them are
//! in [`esker_wal::history`], with the invariants HS1 to HS6.
//!
//! # Invariants
//!
//! * **TS1** A stream gives out nothing that a crash could undo at its level. At
//!   [`crate::Durability::Power`], the default, it gives out what is on the device, and makes it so where it
//!   has to: it flushes the log itself, sharing the flush with whoever else waits for one. A consumer's
//!   acknowledgement is durable only after what it acknowledges.
//! * **TS2** No gap and no repeat in a stream; batches are whole, and in the order of their sequence numbers.
//!   A consumer that goes on after a crash gets what survived the crash behind its position, and nothing that
//!   did not.
//! * **CS1** A put costs no more than the test of a flag under the lock that it holds anyway. Who waits for a
//!   batch raises the flag under that lock, after it has looked at `visible` there; the writer that finds it
//!   raised lowers it, lets go of the lock and rings the bell. So no publication between the look and the
//!   wait is missed.
//! * **CS2** Every wait ends when the database is closed or can no longer be written to.
//! * **HS6** While there are consumers the log is durable up to a memtable's last entry before the memtable's
//!   tables count as flushed. Otherwise tables could survive a power cut that their records do not, and the
//!   history would have a hole.
//!
//! # Who is woken when
//! A ring is a system call that a writer pays. So a stream that found nothing first waits [`LINGER`] without
//! asking to be woken: a busy database then pays a thousand rings a second at most, whatever its rate of
//! writes, and an idle one is woken by nothing at all. Rejected: a stream that only polls (wakes an idle
//! process), a stream that is woken by every batch (a put would cost several times as much).
//!
//! # What is not in it
//! Keyspaces that are created, dropped or renamed, and options that are changed: they are not batches. A
//! change names its keyspace by id and by the name that it has when the batch is given out.
//!
//! [`LINGER`]: stream::LINGER

mod batch;
mod commit_notifier;
mod consumer;
mod history_recovery;
mod stream;

pub use batch::{Change, ChangeBatch, ChangeIter, ChangedKeyspace};
pub(crate) use commit_notifier::Bell;
pub(crate) use consumer::Consumers;
pub use consumer::{Consumer, ConsumerInfo};
pub(crate) use history_recovery::{history_for_reading, settle_history};
pub use stream::Changes;
