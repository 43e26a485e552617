//! Versions and the manifest: the LSM tree's metadata, its edits, and their durable log.
//!
//! This crate knows table files by their metadata only; it never opens one. A keyspace's tree at one moment
//! is a [`Version`] of levels, each a list of runs (newest first), each a list of disjoint parts in key
//! order. A part is a table file or a slice of one. A [`VersionEdit`] is a set of changes that become durable
//! and visible together; a [`DatabaseState`] is the sum of all edits.
//!
//! ```text
//! L0     run 9 [a....z]          newest: flushes
//!        run 8   [c..m] [n..z]
//! L1     run 5 [a..f] [g......z]
//! Llast  run 2 [a.c][d.f][g..p][q..z]
//! ```
//!
//! Invariants, with the ids of the protocols that rely on them:
//!
//! * I1, IN6: in reading order (level 0 newest run to oldest, level 1, ...) versions of one user key get
//!   older.
//! * I2, I3, IN5: parts of a run share no key, so all versions of a user key in a run lie in one part; a part
//!   that an edit removes exists. [`DatabaseState::apply`] refuses edits that violate it.
//! * BF1, BF2: a blob file is in a version exactly as long as some part points to it; how much of it is
//!   referenced follows from the parts.
//! * RC3: ids, file numbers and sequence numbers never decrease.
//!
//! Map: [`range`], [`part`] and [`blob`] are the elements, [`run`] and [`version`] the tree, [`edit`] and
//! [`state`] its changes, [`keyspaces`] what they change, [`figures`] what was counted of each, [`prepared`]
//! edits that are checked before they are durable, `check` the checks that need no table. [`encode`],
//! [`frame`] and [`current`] are the encodings of the manifest; [`manifest`] writes it,
//! [`recover`](mod@recover) reads it, and [`salvage`] reads a damaged one.
#![forbid(unsafe_code)]

pub mod blob;
mod check;
pub mod current;
pub mod edit;
pub mod encode;
pub mod figures;
pub mod frame;
pub mod keyspaces;
pub mod manifest;
pub mod needed;
pub mod part;
pub mod prepared;
pub mod range;
pub mod recover;
pub mod run;
pub mod salvage;
pub mod state;
pub mod version;

pub use blob::{BlobFileMeta, BlobFiles, LiveBlob};
pub use current::{
    CURRENT_NAME, CURRENT_TEMPORARY_NAME, Current, LOCK_NAME, manifest_name, parse_manifest_name,
};
pub use edit::{EditOp, LogLife, VersionEdit};
pub use figures::{JobFigures, KeyspaceFigures, LevelFigures, LookupFigures, ScanFigures, WriteFigures};
pub use keyspaces::{KeyspaceState, Keyspaces};
pub use manifest::{AppendError, LEAST_AHEAD_BYTES, Manifest, RolloverError};
pub use needed::{NeededFiles, needed_files};
pub use part::BlobReference;
pub use part::{PartFlags, PartMeta};
pub use prepared::PreparedEdit;
pub use range::{Key, KeyEnd, KeyRange, SHARE_ONE};
pub use recover::{ClosedManifest, ManifestFile, ManifestRecord, Recovered, Recovery, recover};
pub use run::Run;
pub use salvage::{SalvagedManifest, salvage_manifest};
pub use state::{Applied, DatabaseState, DatabaseUuid, EditError, FileKind, LiveFile};
pub use version::{Level, LevelIndex, Place, PlacementError, Version};
