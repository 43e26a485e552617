//! Large values are stored outside the tables, in blob files (key-value separation).
//!
//! Log and memtable hold values whole. When a flush or a compaction writes a value of at least the keyspace's
//! threshold, it goes to a blob file and the table gets a pointer ([`separate`]). From then on compactions
//! copy the pointer. Readers follow it ([`files`]); reads of keys alone never touch a blob file.
//!
//! # Invariants
//! * BF1. The live data of a blob file follows from the tables of a version: each records what it points to.
//!   No count is kept on disk, so none can be wrong after a crash.
//! * BF2. A blob file is in the manifest exactly as long as some table of the present version points to it:
//!   the edit that adds a table adds the files it points to, and the edit that removes the last such table
//!   removes the file. A file that no manifest names is an orphan, and deleted at the next open. So a crash
//!   neither loses a value nor leaks one.
//! * BF3. A blob file is durable, with its name, before an edit names it (IN1).
//! * BF4. A blob file is deleted after the edit that drops it is durable and after the last tree that refers
//!   to it is dropped (IN3): a reader's view keeps its tree, and the tree keeps its files.
//! * BF5. A value is verified before it is returned, and so is that it belongs to the requested key.
//!
//! # Garbage collection
//! Garbage is what nothing points to. When blob files exceed the keyspace's space target, a compaction merges
//! the tables that point to the files with the most garbage, and on the way copies the live values of those
//! files to new ones ([`separate::Relocation`], planned by `esker_strategy::plan_collection`). The files are
//! dropped by BF2 with the edit of the last of these compactions. It is a compaction like any other:
//! snapshots keep what they see, closing cancels it, and a failed one has changed nothing.
//!
//! # Rejected
//! * A log of values that is also the write-ahead log: one copy less, but every value would have to be
//!   rewritten when the log is released, small ones too, and a torn batch would concern the values.
//! * Reference counts in the manifest: redundant to the tables, and wrong after the first mistake.
//! * Blob values in the block cache: its blocks are decoded forms that tables reach by slots. Values of
//!   several KiB are one positioned read from the page cache away, which usually costs less than processing
//!   them.

pub(crate) mod files;
pub(crate) mod separate;

pub(crate) use files::{LargeFiles, LargeMap};
pub(crate) use separate::{Relocation, Separator};
