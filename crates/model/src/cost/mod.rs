//! Closed formulas: what a form of tree costs, in a microsecond.
//!
//! # Where they come from
//! The tree is in its steady state: as many keys as before, overwritten evenly. `b` is its size in memtables.
//! Everything follows from how often a byte is written again on its way down, and how much of it is gone by
//! then.
//!
//! * *Dedup*: of `x` even draws out of `n` keys `n (1 - exp(-x/n))` are different, so what draws of `x` times
//!   the tree leave is the share `d(x) = (1 - exp(-x)) / x`. The flush writes `d(1/b)` for a byte.
//! * *A tier* writes a byte once: `d` of what its merge brings together. A *leveled* level between the first
//!   and the last takes `n` arrivals until it holds more than it may, and rewrites what it has at each:
//!   `(n+1)/2` but for dedup, where `n` is close to the size ratio. It is emptied with all of the last
//!   arrival, so it brings more to the next level than it may hold, which matters where levels are hardly
//!   larger than what level 0 brings.
//! * *The last level* is rewritten for each `u` of its size that arrives: `1/u` for a byte. Under overwrites
//!   this is the largest term. Dayan and Idreos ("Dostoevsky", SIGMOD 2018) give `(T-1)/2` for it, for a tree
//!   that grows and is full; a tree that is overwritten pays more, because what it merges with is as large as
//!   it ever was.
//! * *Partitioned*: the densest window is merged each time, so densities are spread from 0 to `2g` and a byte
//!   costs `1/(2g)`, half of what merging everything at garbage `g` does.
//! * *Filters*: rates in proportion to sizes (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD 2017), on the
//!   sizes that the form has on average.
//!
//! Tests hold the formulas against the table of the design, and against [`crate::simulate()`] within a fifth.

mod form;
mod levels;
mod reads;
mod worst;

pub use form::Form;
pub use levels::{Costs, RunClass, dedup};
pub use reads::{ideal_reads_in_vain, monkey_reads_in_vain};
pub use worst::{ReadBound, worst_reads};
