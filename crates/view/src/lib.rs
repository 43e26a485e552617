//! What a reader pins, and how it is read.
//!
//! # A SuperVersion
//! A keyspace publishes one [`SuperVersion`] at a time: the active memtable, the immutable (sealed) memtables
//! and the tree of tables, as RocksDB does. It never changes, except that writers add entries to its active
//! memtable. A seal, a flush, a compaction and the closing of cold tables each publish a new one in the
//! keyspace's [`ViewCell`]; readers keep the old one for as long as they need it, and what it refers to stays
//! in memory and on disk until the last of them drops it (IN3).
//!
//! # The order of pinning
//! 1. Pin the view ([`ViewCell::pin`]), which takes no lock and no shared counter.
//! 2. Then load the visible sequence number, or take that of a snapshot (RV1; [`super_version`] says why the
//!    order matters).
//! 3. Read the sources newest first: active memtable, sealed memtables, runs of the tree.
//!
//! A [`read::Pinned`] is the result of the first two steps; everything in [`read`] starts from one.
//!
//! # Map
//!
//! | module | holds |
//! |---|---|
//! | [`super_version`] | [`SuperVersion`], the cell that publishes it, and positioned memtables |
//! | [`tree`] | runs and parts with their table files: opening, the table cache, deletion of obsolete files |
//! | [`tree::blob_files`] | blob files, which hold values that are stored outside the tables |
//! | [`read`] | the read path: point lookups, multi-get, ranges and cursors, open readers |
//! | [`snapshot`] | registered snapshots, which compactions must respect |
//! | [`semantics`], [`time`] | merge operator, expiry and the time of a read |
//! | [`tombstone_span_cache`] | spans of keys that hold nothing but tombstones |
//! | [`lookup_counts`], [`lookup_tracer`] | sampled tracing of lookups, the source of read amplification |
//! | [`value`], [`paths`] | values that pin a block; names of files |
//!
//! Nothing here writes to a file or schedules work: a database directory can be read with this crate alone.
#![forbid(unsafe_code)]

pub mod lookup_counts;
pub mod lookup_tracer;
pub mod paths;
pub mod read;
pub mod semantics;
pub mod snapshot;
pub mod super_version;
pub mod time;
pub mod tombstone_span_cache;
pub mod tree;
pub mod value;

pub use super_version::{MemtableView, PinnedView, SuperVersion, ViewCell};
pub use value::{Value, ValueWithExpiry};
