//! Closed formulas: the cost of a tree form, in a microsecond.
//!
//! # Derivation
//! The tree is in its steady state: a constant number of keys, overwritten uniformly. `b` is its size in
//! memtables. Everything follows from how often a byte is written again on its way down, and how much of it
//! is dropped by then.
//!
//! * *Dedup*: of `x` uniform draws out of `n` keys `n (1 - exp(-x/n))` are distinct, so draws of `x` times
//!   the tree leave the share `d(x) = (1 - exp(-x)) / x`. The flush writes `d(1/b)` for a byte.
//! * *A tier* writes a byte once: `d` of the draws of its merge. A *leveled* level between the first and the
//!   last takes `n` arrivals until it exceeds its capacity, and is rewritten at each: `(n+1)/2` but for
//!   dedup, where `n` is close to the size ratio. It is emptied with all of the last arrival, so it brings
//!   more than its capacity to the next level, which matters where levels are hardly larger than a batch of
//!   level 0.
//! * *The last level* is rewritten for each `u` of its size that arrives: `1/u` for a byte. Under overwrites
//!   this is the largest term. Dayan and Idreos ("Dostoevsky", SIGMOD 2018) give `(T-1)/2` for it, for a tree
//!   that grows and is full; under overwrites it is more, because the last level is at full size in every
//!   merge.
//! * *Partitioned*: the densest window is merged each time, so densities are spread from 0 to `2g` and a byte
//!   costs `1/(2g)`, half of merging everything at garbage `g`.
//! * *Filters*: false-positive rates proportional to sizes (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD
//!   2017), on the average sizes of the form.
//!
//! Tests compare the formulas with the table of the design, and with [`crate::simulate()`] within a fifth.

mod form;
mod levels;
mod reads;
mod worst;

pub use form::Form;
pub use levels::{Costs, RunClass, dedup};
pub use reads::{ideal_reads_in_vain, monkey_reads_in_vain};
pub use worst::{ReadBound, worst_reads};
