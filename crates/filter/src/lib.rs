//! Filters: a small summary of a table's keys that answers "certainly not" or "maybe".
//!
//! A filter knows keys by their 64-bit hash ([`esker_base::checksum::key_hash`]) only, computed once per lookup.
//! It is built when its table is written, stored in it, and loaded into memory when the table is opened.
//!
//! What holds:
//! * **No false negatives**: whatever was added is maybe there, in every build on every machine. The SIMD paths
//!   and the plain one give the same answers, bit for bit.
//! * **A stored filter describes itself**: kind, number of probes and size lie in its bytes, and lookups use these.
//!   Options may change at any time without a filter being read with parameters it was not built with.
//! * **Unknown is harmless**: a kind or version that this build does not know answers "maybe" to everything and
//!   says so ([`Filter::is_unknown`]). Damage is an error, because the table's owner should hear of it.
//!
//! # Stored form
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind: 1 = blocked Bloom; other numbers are unknown |
//! | 1 | version of the kind's layout: 1 |
//! | 2 | number of probes, 1 to 16 |
//! | 3 | zero |
//! | 4..8 | number of lines, little-endian, at least 1 |
//! | 8.. | the lines, 64 bytes each: sixteen little-endian 32-bit words |
//!
//! The meaning of the bits is in [`blocked`]. Checksums are the business of the section the filter lies in.
//!
//! Map: [`kind`] and [`bits`] are what there is to choose from, [`policy`] is what a user chose, [`model`] predicts false positives and picks the number of probes,
//! [`allocation`] divides memory over a tree's levels, by [`monkey`] or by what [`watch`] saw and [`tuning`] makes of it,
//! [`blocked`] is the structure, [`probe`] its lookups on this machine, [`builder`] and [`reader`] the two ends.

pub mod allocation;
pub mod bits;
mod blocked;
mod builder;
pub mod kind;
pub mod model;
pub mod monkey;
pub mod policy;
mod probe;
mod reader;
pub mod tuning;
pub mod watch;

pub use allocation::{FilterAllocation, FilteredTree, LevelTargets, TargetRate};
pub use bits::BitsPerKey;
pub use builder::FilterBuilder;
pub use kind::FilterKind;
pub use model::expected_false_positive_rate;
pub use monkey::FilteredRun;
pub use policy::FilterPolicy;
pub use reader::Filter;
pub use tuning::LevelTuning;
pub use watch::{FilterWatch, Observed};
