//! Which tree suits a workload: the closed formulas, priced, and a search over designs.
//!
//! A *design* is a strategy with its size ratio and runs per level (T, K and Z), and how memory is divided
//! into write buffer, filters and block cache. What it costs follows from three things: the [`Usage`] (how
//! many entries, which operations), the formulas of [`crate::cost`], and [`Prices`] that bring blocks and
//! bytes to one unit. [`advise()`] tries all designs of a grid and says which is cheapest, how the others
//! stand, and why.
//!
//! # What an operation costs
//! * A write: its bytes times the write amplification, at the price of a byte that background work reads,
//!   merges and writes.
//! * A lookup of an absent key: a look at the filter of each run, and the blocks read in vain, `R`, for the
//!   best division of filter memory over the runs (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD 2017).
//! * A lookup of a present key: the same above its own run, and its own block.
//! * A scan of `s` entries: a block in each run to begin with (all that a short scan reads), then `s`
//!   entries' worth of blocks times the space amplification, and for each entry passed the comparisons that
//!   merging so many runs takes (after Dayan and Idreos, "Dostoevsky", SIGMOD 2018, who tell short from long
//!   scans; here the length decides by itself).
//! * A block comes from the cache with the probability `(cache / data)^skew`, where the skew is 1 if all
//!   blocks are equally popular.
//!
//! # What it does not know
//! The formulas describe a tree in its steady state under even overwrites. A database that is still growing
//! writes less than they say; skewed writes are deduplicated earlier. Where measurements are at hand,
//! [`Calibration`] corrects each figure by what this very database showed; it corrects all designs alike, so
//! it moves the balance between reading and writing, not the order of designs that differ in one of them
//! only. Pages that the operating system keeps are not known; the price of a block read should be that of the
//! mixture.
//!
//! [`decide()`] follows advice by itself, with patience.
//!
//! Pure and quick: some ten thousand designs, a few dozen milliseconds.

mod adaptive;
mod design;
mod explain;
mod figures;
mod prices;
mod search;
mod usage;

pub use adaptive::{AdaptiveRules, Decision, History, Observation, decide};
pub use design::{Design, Family};
pub use figures::{Figures, Parts, Prediction};
pub use prices::{Calibration, Prices};
pub use search::{Advice, Alternative, Knob, Question, advise};
pub use usage::{Operations, Usage};
