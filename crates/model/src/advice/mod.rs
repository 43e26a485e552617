//! Advice: which design suits a workload, by closed formulas, prices and a search over designs.
//!
//! A *design* is a strategy with its size ratio and runs per level (T, K and Z), and the division of memory
//! into write buffer, filters and block cache. Its cost follows from three inputs: the [`Usage`] (how many
//! entries, which operations), the formulas of [`crate::cost`], and [`Prices`] that convert blocks and bytes
//! to one unit. [`advise()`] tries all designs of a grid and returns the cheapest, the comparison with
//! others, and the reason.
//!
//! # The cost of an operation
//! * A write: its bytes times the write amplification, at the price of a byte that background work reads,
//!   merges and writes.
//! * A lookup of an absent key: a filter probe in each run, and the false-positive block reads `R` for the
//!   best division of filter memory over the runs (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD 2017).
//! * A lookup of a present key: the same above its own run, and its own block.
//! * A scan of `s` entries: the first block in each run (all that a short scan reads), then `s` entries'
//!   worth of blocks times the space amplification, and for each entry passed the comparisons of merging that
//!   many runs (after Dayan and Idreos, "Dostoevsky", SIGMOD 2018, where short and long scans are
//!   distinguished; here the length is sufficient).
//! * A block comes from the cache with the probability `(cache / data)^skew`, where the skew is 1 if all
//!   blocks are equally popular.
//!
//! # Limits of the model
//! The formulas describe a tree in its steady state under uniform overwrites. A growing database writes less;
//! skewed writes are deduplicated earlier. Where measurements exist, [`Calibration`] scales each figure by
//! measured over predicted; it scales all designs alike, so it moves the balance between reading and writing,
//! not the order of designs that differ in one of them only. The page cache of the operating system is not
//! modelled; the price of a block read should be an average over it.
//!
//! The block index that suits the cheapest design is proposed after it ([`IndexAdvice`]): it moves no design
//! before another.
//!
//! [`decide()`] adopts advice automatically, with hysteresis.
//!
//! Pure and fast: some ten thousand designs, a few dozen milliseconds.

mod adaptive;
mod design;
mod explain;
mod figures;
mod index;
mod prices;
mod search;
mod usage;

pub use adaptive::{AdaptiveRules, Decision, History, Observation, decide};
pub use design::{Design, Family, form};
pub use figures::{Figures, Parts, Prediction};
pub use index::{IndexAdvice, IndexForm, IndexPrediction};
pub use prices::{Calibration, Prices};
pub use search::{Advice, Alternative, Knob, Question, advise};
pub use usage::{Operations, Usage};
