//! The strategies of CS265 with one size ratio for all, at several sizes of data, and gets while merges are
//! still under way: its section 4.5 compares them so.

use super::run::{self, TreeForm};
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::table::{Column, Table};
use esker::options::Strategy;

/// The report's fanout for all. Its lazy leveling tiers level 0 only, which is `tiered-leveled` here;
/// Dostoevsky's stands beside it.
const SUBJECTS: [&str; 5] =
    ["tiered:4", "leveled:4", "lazy-leveled:4", "tiered-leveled:4", "partial:4,least-overlap"];

fn sizes(context: &Context<'_>) -> &'static [u64] {
    context.pick(&[3_000, 6_000], &[10_000, 30_000], &[300_000, 1_000_000, 3_000_000])
}

pub(super) fn steps(context: &Context<'_>) -> usize {
    sizes(context).len() * SUBJECTS.len()
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let columns = [
        Column::key("strategy"),
        Column::key("entries"),
        Column::number("puts_per_second", 0),
        Column::number("drained_puts_per_second", 0),
        Column::number("write_amplification", 2),
        Column::number("space_drained", 2),
        Column::key("runs_drained"),
        Column::number("gets_undrained", 0),
        Column::number("tables_undrained", 2),
        Column::number("gets_drained", 0),
        Column::number("tables_drained", 2),
    ];
    let title = "Size ratio 4 for all, by the size of the data; gets of present keys before merges are done, and after";
    let mut table = Table::new("equal", title, &columns);
    for &entries in sizes(context) {
        let form = TreeForm::sized(context, entries, true);
        for name in SUBJECTS {
            context.step(&format!("{name} of {entries} entries"));
            let strategy: Strategy = name.parse().map_err(ExperimentError::WrongAnswer)?;
            let found = run::measure(context, &form, strategy)?;
            table.push(vec![
                name.into(),
                entries.into(),
                (found.puts / found.put_seconds).into(),
                (found.puts / found.drained.seconds).into(),
                found.written(found.drained.written_bytes).into(),
                found.space(found.drained.table_bytes as f64).into(),
                found.drained.runs.into(),
                found.undrained.per_second.into(),
                found.undrained.tables.into(),
                found.present.per_second.into(),
                found.present.tables.into(),
            ]);
        }
    }
    Ok(table)
}
