//! Measures filters larger than any cache: a hundred million keys, where every probe misses the processor's
//! caches and its TLB, and a batch shows the gain of overlapping the misses.

use super::probes::{build, count, sample_lookups};
use super::{BITS_PER_KEY, STANDARD};
use crate::context::Context;
use crate::error::Result;
use crate::keys::scatter;
use crate::statistics::Sample;
use crate::table::{Cell, Column, Table};
use esker::options::FilterPolicy;
use esker::parts::filter::FilterKind;

/// The kinds: others need several times the keys' hashes as memory while they are built.
fn kinds() -> Vec<FilterKind> {
    let standard = FilterKind::from_name(STANDARD);
    [Some(FilterPolicy::default().kind()), standard].into_iter().flatten().collect()
}

fn keys(context: &Context<'_>) -> Option<usize> {
    context.pick(Some(20_000), None, Some(100_000_000))
}

const ROUNDS: usize = 5;

pub(super) fn steps(context: &Context<'_>) -> usize {
    keys(context).map_or(0, |_| kinds().len())
}

pub(super) fn measure(context: &mut Context<'_>) -> Result<Option<Table>> {
    let Some(keys) = keys(context) else { return Ok(None) };
    let columns = [
        Column::key("kind"),
        Column::key("keys"),
        Column::number("build_ns", 1),
        Column::measured("lookup_ns", 1),
        Column::measured("dependent_ns", 1),
        Column::measured("batch_ns", 1),
    ];
    let mut table = Table::new("large", "A filter far beyond the caches: nanoseconds for a key", &columns);
    let random = context.random(3);
    let present: Vec<u64> = (0..count(context)).map(|_| scatter(random.below(keys as u64))).collect();
    for kind in kinds() {
        context.step(&format!("{} of {keys} keys", kind.name()));
        let clock = context.clock();
        let (filter, build_ns) = build(&clock, kind, BITS_PER_KEY, keys, (0..keys as u64).map(scatter))?;
        let rounds =
            (0..ROUNDS).map(|_| sample_lookups(&clock, &filter, &present)).collect::<Result<Vec<_>>>()?;
        let mut row: Vec<Cell> = vec![kind.name().into(), keys.into(), build_ns.into()];
        for number in 0..3 {
            let values: Vec<f64> = rounds.iter().map(|round| round[number]).collect();
            row.push(Sample::of(&values).into());
        }
        table.push(row);
    }
    Ok(Some(table))
}
