//! Block-index structures that are kept **for comparison**.
//!
//! The static search tree ([`super::tree`]) answers faster than each of them at every size that was
//! measured, in the same class of memory (`docs/experiments`,
//! `cargo run --release -p esker-sst --example index_bench`). They stay selectable by [`super::IndexKind`],
//! so that experiments measure them on whole databases, and their names are stored with keyspaces and keep
//! their meaning. [`sorted_array`] has two further uses: small tables of the adaptive kind, and
//! prefix-compressed separators that do not fit 32-bit offsets.

pub(crate) mod eytzinger;
pub(crate) mod fast_lane;
pub(crate) mod sorted_array;
