//! Block-index structures that are kept **for comparison**.
//!
//! The static search tree ([`super::tree`]) is faster than each of them at every measured size, in the same
//! class of memory (`docs/experiments`, `cargo run --release -p esker-sst --example index_bench`). They stay
//! selectable by [`super::IndexKind`] for experiments, and stored names keep their meaning. [`sorted_array`]
//! also serves small tables of the adaptive kind, and prefix-compressed separators that do not fit 32-bit
//! offsets.

pub(crate) mod eytzinger;
pub(crate) mod fast_lane;
pub(crate) mod sorted_array;
