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
//! Map: [`options`], [`plan`], [`running_jobs`], [`shape`] define the terms and [`mod@validate`] the rules;
//! [`cut`] splits output tables and [`flush_placement()`] places flushes. `plan_builder` builds a plan from
//! inputs and a target. `fluid` holds leveling, tiering and lazy leveling, with [`partial`] also partial
//! leveling and the golden ratio; `partitioned` is the default, which merges columns (`partition_window`)
//! over windows of the last level and uses the garbage estimate of `garbage_estimate`; [`fifo`] drops old
//! tables. [`LevelLimit`] is what a level may hold before it is compacted. [`migration`] brings a tree from
//! one strategy's form to another's. `tombstone_rules`, [`blob_gc`] and [`manual`] are shared by all.
//! [`kind`] names the strategies.
#![forbid(unsafe_code)]

pub mod blob_gc;
pub mod cut;
pub mod fifo;
mod fluid;
pub mod flush_placement;
mod garbage_budget;
mod garbage_estimate;
pub mod kind;
mod level_limit;
pub mod manual;
pub mod migration;
pub mod options;
pub mod partial;
mod partition_window;
mod partitioned;
pub mod plan;
mod plan_builder;
mod position;
pub mod running_jobs;
pub mod runs_per_level;
mod score;
pub mod shape;
mod space_target;
mod tombstone_rules;
pub mod validate;
mod work_round;
mod worst_case;
pub mod write_control;

pub use blob_gc::{BlobGc, BlobSpace, due_permille, plan_blob_gc};
pub use cut::{Cut, Cutter};
pub use fifo::FifoLimits;
pub use flush_placement::flush_placement;
pub use kind::Strategy;
pub use level_limit::LevelLimit;
pub use manual::{ManualMark, ManualStep};
pub use migration::Migration;
pub use options::{IDLE_BUDGET_BYTES, SizeRatio, StrategyOptions};
pub use partial::CompactionPriority;
pub use plan::{Anchor, Class, CompactionPlan, InputPart, PlanInput, PlanKind, Reason};
pub use position::{Position, RunPosition};
pub use running_jobs::{Busy, JobId, RunningJob, SetAside};
pub use runs_per_level::RunsPerLevel;
pub use shape::{Shape, base_bytes, upper_bytes, upper_runs};
pub use space_target::SpaceBudget;
pub use tombstone_rules::oldest_gone_ms;
pub use validate::validate;
pub use worst_case::WorstCase;
