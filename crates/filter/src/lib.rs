//! Filters: a small summary of a table's keys that answers "certainly not" or "maybe".
//!
//! A filter knows keys by their 64-bit hash ([`esker_base::checksum::key_hash`]) only, computed once per
//! lookup. It is built when its table is written, stored in it, and loaded into memory when the table is
//! opened.
//!
//! What holds:
//! * **No false negatives**: whatever was added is maybe there, in every build on every machine. The SIMD
//!   paths and the plain one give the same answers, bit for bit.
//! * **A stored filter describes itself**: kind, number of probes and size lie in its bytes, and lookups use
//!   these. Options may change at any time without a filter being read with parameters it was not built with.
//! * **Unknown is harmless**: a kind or version that this build does not know answers "maybe" to everything
//!   and says so ([`Filter::is_unknown`]). Damage is an error, because the table's owner should hear of it.
//!
//! # Kinds
//!
//! Each has a number in the stored form that is never used for anything else. `docs/format/filter.md` has the
//! bytes.
//!
//! | number | name | what it is |
//! |---|---|---|
//! | 1 | `blocked-bloom` | the default: all probes of a key in one cache line ([`blocked`]) |
//! | 2 | `bloom` | probes anywhere: the fewest false positives of the Bloom kinds, the most cache misses ([`bloom`]) |
//! | 3 | `local-bloom` | the blocked kind with RocksDB's choices, for comparison ([`local`]) |
//! | 4 | `double-probe-bloom` | half of the probes in each of two lines ([`double`]) |
//! | 5 | `ribbon` | a solved system of equations: a third less memory, slower to build and to ask ([`ribbon`]) |
//! | 6 | `binary-fuse` | fingerprints that add up: three lines for every key, strong for its memory ([`fuse`]) |
//!
//! `none` stores nothing.
//!
//! Map: [`kind`] and [`bits`] are what there is to choose from, [`policy`] is what a user chose, [`model`]
//! predicts false positives and picks the number of probes; [`allocation`] divides memory over a tree's
//! levels, by [`monkey`] or by what [`watch`] saw and [`tuning`] makes of it. [`lines`] is what the Bloom
//! kinds are made of, [`plan`] how large each becomes, [`probe`] their lookups on this machine. [`shards`]
//! are the parts that the kinds which solve equations are built in. [`builder`], [`parallel`] and [`reader`]
//! are the two ends, [`stored`] the bytes between them.

pub mod allocation;
pub mod bits;
mod blocked;
mod bloom;
mod builder;
mod double;
mod fuse;
pub mod kind;
mod lines;
mod local;
pub mod model;
pub mod monkey;
mod parallel;
mod plan;
pub mod policy;
mod probe;
mod reader;
mod ribbon;
mod shards;
mod stored;
pub mod tuning;
pub mod watch;

pub use allocation::{FilterAllocation, FilteredTree, LevelTargets, TargetRate};
pub use bits::{BitsPerKey, FingerprintBits};
pub use builder::FilterBuilder;
pub use kind::FilterKind;
pub use model::expected_false_positive_rate;
pub use monkey::FilteredRun;
pub use parallel::build_parallel;
pub use policy::FilterPolicy;
pub use reader::Filter;
pub use tuning::LevelTuning;
pub use watch::{FilterWatch, Observed};
