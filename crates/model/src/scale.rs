//! Scaling down enormous trees.
//!
//! A tree of 10^12 entries takes 1.7 million flushes of 64 MiB for each pass over its keys, and 10^5 tables.
//! Both are more than needed to observe a strategy:
//!
//! * *Tables* larger than usual, so that there are about five hundred, change only the granularity of
//!   windows.
//! * *Small levels* are left out by a memtable as large as one of them. All levels between the first and the
//!   last behave alike, as the formulas of [`crate::cost`] assume and tests check on complete trees, so their
//!   part is added by formula. The outcome reports it.

use crate::cost::Form;
use crate::outcome::Scaling;
use crate::scenario::Scenario;
use esker_strategy::StrategyOptions;

/// The approximate limit of tables in the last level.
const MOST_TABLES: f64 = 512.0;

/// The options to simulate with, and what was left out.
pub(crate) fn affordable(scenario: &Scenario) -> (StrategyOptions, Option<Scaling>) {
    let mut options = scenario.options.clone();
    let data_bytes = scenario.workload.live_bytes() * scenario.table_overhead;
    let table_bytes = options.table_bytes(data_bytes as u64).max((data_bytes / MOST_TABLES) as u64);
    options.table_bytes = Some(table_bytes);
    let flushes = scenario.flushes_per_pass();
    let too_many = flushes / scenario.most_flushes;
    if too_many <= 1.0 {
        return (options, None);
    }
    let Some(form) = Form::of(&scenario.strategy, &options) else {
        let scaling =
            Scaling { memtable_factor: too_many, levels: 0, writes_of_a_level: 0.0, runs_of_a_level: 0.0 };
        options.memtable_bytes = (options.memtable_bytes as f64 * too_many) as u64;
        return (options, Some(scaling));
    };
    let growth = form.growth();
    let levels = (too_many.ln() / growth.ln()).ceil().min(f64::from(form.levels_between(flushes)));
    let factor = growth.powf(levels);
    options.memtable_bytes = (options.memtable_bytes as f64 * factor) as u64;
    let (writes_of_a_level, runs_of_a_level) = form.level_between();
    (
        options,
        Some(Scaling { memtable_factor: factor, levels: levels as u32, writes_of_a_level, runs_of_a_level }),
    )
}
