//! Cost model of LSM trees: a compaction simulator, and closed formulas.
//!
//! A strategy decides by the shape of a tree alone, so the planner of a store also plans for a tree that
//! exists as figures only. [`simulate()`] provides one: tables without keys, whose sizes follow from *when*
//! their contents were written (`content`). 10^12 entries take seconds, and the results (write, space and
//! read amplification, jobs, stalls) are those of the real planner, with its rounding, its thresholds and its
//! intermediate choices. [`cost`] has the formulas of the literature and our own, which take a microsecond
//! instead of a second; tests compare the two.
//!
//! # Content by age
//! In a range of the key space everything that a run holds was written in one interval of time, because runs
//! are ordered by age and merges join neighbours. So a table stores an interval only, and its entries are the
//! expected number of distinct keys among the writes of that interval: `n (1 - exp(-x/n))` for `x` uniform
//! draws of `n` keys, and a sum of such terms for skewed workloads ([`workload`]). That is exact in
//! expectation, in whatever order runs were merged. `docs/design/tree-model.md` has the comparison with a
//! store of real keys and with the engine.
//!
//! Everything here is pure: no clock, no file, no randomness. Equal scenarios give equal outcomes.
//!
//! Map: [`workload`] says what is written, [`scenario`] is the whole input of a simulation, [`outcome`] its
//! result. `source` models the keys, `content` the intervals, `tables` cuts them into tables, `tree` executes
//! plans, `settled` and `paced` advance time, `tally` accumulates, `scale` makes enormous trees affordable.
//! [`cost`] has the formulas, [`advice`] prices them and finds the cheapest design for a workload.
#![forbid(unsafe_code)]

pub mod advice;
mod content;
pub mod cost;
pub mod outcome;
mod paced;
mod scale;
pub mod scenario;
mod settled;
mod simulate;
mod source;
mod tables;
mod tally;
mod tree;
pub mod workload;

pub use outcome::{Amplification, Outcome, Scaling, Stalls};
pub use scenario::{Machine, Pace, Scenario};
pub use simulate::simulate;
pub use workload::{Input, Workload};
