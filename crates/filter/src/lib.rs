//! Filters: a small summary of a table's keys that answers "certainly not" or "maybe".
//!
//! A filter identifies keys by their 64-bit hash ([`esker_base::checksum::key_hash`]) only, computed once per
//! lookup. It is built when its table is written, stored in it, and loaded into memory when the table is
//! opened.
//!
//! Invariants:
//! * **No false negatives**: an added key is never reported absent, in every build on every machine. The SIMD
//!   paths and the plain one give the same answers, bit for bit.
//! * **A stored filter describes itself**: kind, number of probes and size lie in its bytes, and lookups use
//!   these. Options may change at any time: a filter is read with the parameters it was built with.
//! * **Unknown is harmless**: a kind or version that this build does not know answers "maybe" to everything
//!   and reports it ([`Filter::is_unknown`]). Damage is an error, for the table's owner to report.
//!
//! # Kinds
//!
//! Each has a number in the stored form that is never used for anything else. `docs/format/filter.md` has the
//! bytes.
//!
//! | number | name | what it is |
//! |---|---|---|
//! | 1 | `blocked-bloom` | the default: all probes of a key in one cache line ([`blocked`]) |
//! | 2 | `bloom` | probes anywhere: fewest false positives of Bloom kinds, most cache misses ([`bloom`]) |
//! | 5 | `ribbon` | solved equations: a third less memory, slower to build and to look up ([`ribbon`]) |
//! | 6 | `binary-fuse` | fingerprints in three lines for every key, strong for its memory ([`fuse`]) |
//! | 3 | `local-bloom` | for comparison: the blocked kind with RocksDB's choices ([`reference::local`]) |
//! | 4 | `double-probe-bloom` | for comparison: probes in two lines ([`reference::double`]) |
//!
//! `none` stores nothing.
//!
//! Map: [`kind`] and [`bits`] are the kinds and sizes, [`policy`] a user's choice, [`model`] predicts false
//! positives and chooses the number of probes; [`allocation`] divides memory over a tree's levels, by
//! [`monkey`] or by the counters of [`watch`] through [`tuning`]. [`lines`] is the base of the Bloom kinds,
//! [`plan`] their sizes, [`probe`] their lookups on this machine. [`shards`] divides the keys of kinds that
//! solve equations. [`builder`], [`parallel`] and [`reader`] build and read filters, [`stored`] is the form
//! between them, [`reference`](mod@reference) has kinds for comparison.

pub mod allocation;
pub mod bits;
mod blocked;
mod bloom;
mod builder;
mod fuse;
pub mod kind;
mod lines;
pub mod model;
pub mod monkey;
mod parallel;
mod plan;
pub mod policy;
mod probe;
mod reader;
mod reference;
mod ribbon;
mod shards;
mod stored;
pub mod tuning;
pub mod watch;

pub use allocation::{FilterAllocation, FilteredTree, LevelTargets, TargetRate};
pub use bits::{BitsPerKey, FingerprintBits};
pub use builder::FilterBuilder;
pub use kind::FilterKind;
pub use monkey::FilteredRun;
pub use parallel::build_parallel;
pub use policy::FilterPolicy;
pub use reader::Filter;
pub use tuning::LevelTuning;
pub use watch::{FilterWatch, Observed};
