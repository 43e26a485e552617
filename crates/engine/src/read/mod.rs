//! The read path: one key ([`point`]), many keys ([`multi`]), entries other than plain puts ([`resolve`],
//! [`versions`]), ranges ([`cursor`], [`range`]), and visible range tombstones ([`range_tombstones`]).
//! [`layer`] reads one level alone, and [`last_run_predictor`] predicts where keys are found.
//!
//! Every read pins a view, then loads the sequence number it reads at (RV1; see [`crate::view`]), and
//! searches the sources newest first: active memtable, sealed memtables, runs in reading order. The key is
//! hashed once.

pub(crate) mod cursor;
mod key_range;
pub(crate) mod keys;
mod last_run_predictor;
pub(crate) mod layer;
pub(crate) mod multi;
pub(crate) mod open_readers;
mod pinned;
pub(crate) mod point;
pub(crate) mod range;
pub(crate) mod range_tombstones;
pub(crate) mod resolve;
pub(crate) mod run_cursor;
pub(crate) mod scan_tally;
pub(crate) mod source;
pub(crate) mod versions;

pub(crate) use key_range::HalfOpen;
pub use key_range::KeyRange;
pub(crate) use pinned::Pinned;
