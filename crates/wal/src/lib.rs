//! Write-ahead log: makes a write durable before a flush has put it into a table.
//!
//! One log serves all keyspaces of a database. It is a chain of *segments*: files of a fixed size that are
//! prepared ahead and recycled. A segment holds *records*, one for each batch. Appending a record copies it
//! into the page cache, so a process crash loses no acknowledged write. Writers that must survive a power cut
//! share an `fdatasync` (group commit).
//!
//! ```text
//!   engine, under its writers' lock:  LogWriter::has_room, rotate, append    (writer.rs)
//!   any thread that needs Power:      Log::sync_up_to                        (log/flush.rs, sync.rs)
//!   background job:                   Log::prepare_next, release_below       (log.rs, log/*, file.rs)
//!   open:                             recover, Log::create, Log::delete_old  (recover.rs, scan.rs)
//!   change-stream readers:            Log::hold, HistoryReader               (history.rs)
//! ```
//!
//! # Invariants
//!
//! * **WL1** A segment's life is identified by log id and salt, both part of every record's checksum. Nothing
//!   is appended to a segment that recovery has read.
//! * **WL2** Records, offsets and sequence numbers ascend in the same order.
//! * **WL3** Recovery returns whole records, and none after the first offset without a valid one.
//! * **WL4** A segment is Ready only when its extents, its size and its directory entry are durable, so
//!   neither rotation nor an append can fail on a full disk.
//! * **WL5, WL6** are kept by the engine: keyspace ids are durable before their first use; before a table's
//!   contents count as flushed the log is durable up to there ([`Log::sync_up_to`]).
//! * **WL7** A segment is released after a durable manifest says that it is not needed
//!   ([`Log::release_below`]).
//! * **CP3, CP5, CP7** Acknowledged implies that everything earlier is complete; nothing fails once a
//!   sequence number is taken; durable covers only what was complete before the flush began.
//!
//! # Files
//!
//! | module | holds |
//! |---|---|
//! | [`batch`] | the entries of a batch: encoder and iterator |
//! | [`record`] | record headers, positions in the log |
//! | [`segment`] | segment headers, file names |
//! | [`writer`] | appending, rotation, marks |
//! | [`mod@log`] | the life cycle of segments; the state that threads share |
//! | [`history`] | segments retained for change-stream readers, and reading them |
//! | `file` | one prepared segment: memory-mapped, or written |
//! | `sync` | group commit and the poisoned state |
//! | `scan`, `catalog` | reading records out of a file; which file is which segment |
//! | [`mod@recover`] | recovery: where a log ends, and whether that end is damage |
//! | [`mod@salvage`] | the whole records of a damaged log, for repair |
//! | [`inspect`] | a dump of one segment file |
//!
//! The bytes are documented in `docs/format/wal.md`. No code here is unsafe: stores into mapped memory go
//! through [`esker_env::Mapping`].

#![forbid(unsafe_code)]

pub mod batch;
mod catalog;
mod file;
mod header_copies;
pub mod history;
pub mod inspect;
pub mod log;
pub mod record;
pub mod recover;
pub mod salvage;
mod scan;
pub mod segment;
mod sync;
pub mod writer;

pub use batch::{BatchDamage, BatchEncoder, Entry, EntryIter, Ingest, IngestedFile};
pub use catalog::unneeded_segments;
pub use header_copies::HeaderCopies;
pub use history::{
    HistoryReader, HistoryRecord, HistorySegment, HistoryStep, Hold, HoldInfo, KeptHistory, Located,
};
pub use inspect::{InspectedRecord, SegmentInspector};
pub use log::{Log, LogCounters, LogOptions, LogStart, PrivateSegment, SMALL_SEGMENT_BYTES};
pub use record::{LogPosition, RecordHeader, RecordKind};
pub use recover::{RecordView, RecoverInput, RecoveryReport, WalRecovery, recover};
pub use salvage::{LogFile, LogGap, LogSalvage, SalvageInput, salvage, segment_files};
pub use scan::StopReason;
pub use sync::DurableWait;
pub use writer::{LogWriter, Rotation};
