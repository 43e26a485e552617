//! Compaction strategies: pure functions from the shape of a tree to a compaction plan.
//!
//! A [`Strategy`] takes a [`Shape`], the running jobs ([`Busy`]) and the options, and returns a
//! [`CompactionPlan`] or nothing. It does no I/O, has no clock and no randomness, and decides in integers, so
//! equal inputs give equal plans on every platform. The same code plans for a real store, for a test that
//! draws a tree as text and for a simulation of a trillion entries. One executor carries out any plan.
//!
//! [`validate()`] checks every plan: the rules V1 to V5 state when a plan keeps the versions of each key in
//! order, may run beside others, and brings compaction nearer to its end.
//!
//! Map: [`options`], [`plan`], [`busy`], [`shape`] define the terms and [`mod@validate`] the rules; [`cut`]
//! splits output tables and [`place`] places flushes. `draft` builds a plan from inputs and a target. `fluid`
//! holds leveling, tiering and lazy leveling, with [`parts`] also partial leveling and the golden ratio;
//! `partitioned` is the default, which merges `column`s over windows of the last level and uses the garbage
//! estimate of `weight`; [`fifo`] drops old tables. [`migration`] brings a tree from one strategy's form to
//! another's. `clean`, [`collect`] and [`manual`] are shared by all. [`kind`] names the strategies.
#![forbid(unsafe_code)]

pub mod busy;
mod clean;
pub mod collect;
mod column;
pub mod cut;
mod draft;
pub mod fifo;
mod fluid;
pub mod kind;
pub mod manual;
pub mod migration;
pub mod options;
mod partitioned;
pub mod parts;
pub mod place;
pub mod plan;
pub mod runs;
mod score;
pub mod shape;
mod space;
pub mod validate;
mod weight;
mod worst_case;
pub mod write_control;

pub use busy::{Busy, BusyJob, JobId};
pub use clean::oldest_gone_ms;
pub use collect::{BlobAccount, Collection, due_permille, plan_collection};
pub use cut::{Cut, Cutter};
pub use fifo::FifoLimits;
pub use kind::Strategy;
pub use manual::{ManualMark, ManualStep};
pub use migration::Migration;
pub use options::{IDLE_ALLOWANCE_BYTES, SizeRatio, StrategyOptions};
pub use parts::Pick;
pub use place::flush_placement;
pub use plan::{
    Anchor, Class, CompactionPlan, InputPart, PlanInput, PlanKind, Position, Reason, RunPosition,
};
pub use runs::RunsPerLevel;
pub use shape::{Shape, base_bytes, base_run, upper_bytes, upper_runs};
pub use space::Allowance;
pub use validate::validate;
pub use worst_case::WorstCase;
