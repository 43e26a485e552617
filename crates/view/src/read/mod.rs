//! The read path: one key ([`point`]), many keys ([`multi`]), entries other than plain puts ([`resolve`],
//! [`versions`]), ranges ([`cursor`], [`range`]), and visible range tombstones ([`range_tombstones`]).
//! [`layer`] reads one level alone, and [`last_run_predictor`] predicts where keys are found. [`range_size`]
//! and [`split_points`] estimate without reading entries.
//!
//! Every read pins a view, then loads the sequence number it reads at (RV1; see [`crate::super_version`]),
//! and searches the sources newest first: active memtable, sealed memtables, runs in reading order. The key
//! is hashed once.

pub mod cursor;
mod fenced_run;
mod key_range;
pub mod keys;
pub mod last_run_predictor;
pub mod layer;
pub mod multi;
mod observed_point;
mod observed_scan;
mod observed_source;
pub mod open_readers;
mod pinned;
pub mod point;
pub mod range;
pub mod range_size;
pub mod range_tombstones;
pub mod resolve;
pub mod run_cursor;
pub mod scan_tally;
pub mod source;
pub mod split_points;
pub mod versions;

pub use key_range::HalfOpen;
pub use key_range::KeyRange;
pub use observed_point::{KeyOutcome, LookupSource, ObservedLookup, SourceOutcome};
pub use observed_scan::{ObservedScan, ScanLimits, ScanSource};
pub use observed_source::SourcePlace;
pub use pinned::Pinned;
