//! What a tree costs before it is built: a simulator of compaction, and closed formulas.
//!
//! A strategy decides by the shape of a tree alone, so the code that plans for a store plans for a tree that
//! exists as figures only. [`simulate()`] gives it one: tables without keys, whose sizes follow from *when*
//! their contents were written (`content`). A million million entries take seconds, and what comes out
//! (write, space and read amplification, jobs, stalls) is that of the very planner, with its rounding, its
//! thresholds and its choices under way. [`cost`] has the formulas of the literature and our own, which say
//! in a microsecond what the simulator says in a second, and each is held against the other.
//!
//! # Content by age
//! In a piece of the key space everything that a run holds was written in one interval of time, because runs
//! lie in the order of their age and merges join neighbours. So an interval is all that a table remembers,
//! and how many entries it has is the expected number of different keys among the writes of that interval:
//! `n (1 - exp(-x/n))` for `x` even draws of `n` keys, and a sum of such terms where some keys are written
//! more often than others ([`workload`]). That is exact in expectation, whatever was merged with what.
//! `docs/design/tree-model.md` has the comparison with a store of real keys and with the engine.
//!
//! Everything here is pure: no clock, no file, no randomness. Equal scenarios give equal outcomes.
//!
//! Map: [`workload`] says what is written, [`scenario`] everything that a run depends on, [`outcome`] what it
//! gives. `source` knows the keys, `content` the intervals, `tables` cuts them into tables, `tree` carries
//! plans out, `settled` and `paced` move time, `tally` adds up, `scale` makes enormous trees affordable.
//! [`cost`] are the formulas, [`advice`] prices them and finds the cheapest design for a workload.
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
