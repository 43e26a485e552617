//! Tables that join a keyspace as a whole: ingest of external files, and bulk load, which writes such files
//! itself.
//!
//! # The problem
//! A table is written before its position in the order of writes is known, and it may have any size, so no
//! thread may wait for it under a lock. Yet from one sequence number on every reader must see all of it,
//! before it none, and older writes must lie below it and newer ones above.
//!
//! # The design (protocol 4.6)
//! The tables hold their entries with sequence number 0. All of them count as one number, the *global
//! sequence number* g, which the metadata of the part contains and the open table puts into every tag it
//! returns ([`esker_sst::ExpectedTable`]).
//!
//! 1. The files are brought into the database's directory, verified ([`adopt`]) or written by the loader
//!    ([`load`]), and made durable, bytes and names. Nothing refers to them: if the process dies here they
//!    are orphans, removed by the next open.
//! 2. Under the commit lock ([`esker_engine::write::ingest_commit`]) the active memtable is sealed if it is
//!    not empty, g is assigned as any write's number is, an Ingest record that names the files goes into the
//!    log, the tables join the sealed memtables of the view, as if they were one, and `visible` becomes g.
//!    There is no I/O, and nothing that can fail once g is assigned (CP5).
//! 3. The "flush" of such a pseudo-memtable is an edit of the manifest alone
//!    ([`esker_engine::background::flush`]): everything older is in the tree by then (IN4), so each table
//!    goes to the deepest position at which it overlaps nothing. In an empty range that is the last level.
//!
//! # Invariants
//! * **BL1** All or nothing: tables become part of a keyspace by one record of the log, which is valid as a
//!   whole or not at all; after it, one edit of the manifest. Replay puts tables back among the memtables by
//!   their record, unless the keyspace's `flushed_seqno` says that an edit has them
//!   ([`esker_engine::lifecycle::replay`]).
//! * **BL2** A valid Ingest record names files whose bytes and names are durable: they were synced before it
//!   was written. So recovery finds them, however much of the log a power cut took.
//! * **BL3** The active memtable is sealed before g is assigned, so `flushed_seqno = g` never covers an entry
//!   of a memtable that is not in the tree.
//! * **BL4** Files that a record may name are not deleted. The ingesting thread deletes them only before the
//!   record is written; a failed edit leaves them, because it is repeated
//!   ([`esker_engine::background::install`]).
//! * **BL5** A transaction that depends on a key of the tables finds a version with number g, like any other
//!   change ([`crate::transaction`]).
//! * **BL6** Cached spans without values are invalidated before the tables are visible (GP3).
//!
//! # Rejected
//! * Flushing overlapping memtables first and installing under the commit lock: every writer would wait for
//!   the device.
//! * Writing g into the files: they would have to be made durable once more, under the lock.

mod adopt;
mod load;
mod new_files;
mod writer;

pub use adopt::{IngestMode, IngestOptions, IngestReport};
pub use load::{BulkLoadProgress, BulkLoadReport, BulkLoader};
pub use writer::{TableWriter, WrittenTable};
