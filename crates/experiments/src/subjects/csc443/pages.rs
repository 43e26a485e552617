//! Compares the searches of the CSC443 report's second step as the report has them: pages of sorted files,
//! read through a pool of 10 MB past the page cache, by a binary search and by a static B-tree.
//!
//! The table of volumes has what comes nearest in the store, whose sorted array of fences is in memory. There
//! a B-tree in the file cannot win; here both searches have nothing in memory but the pool.

use super::page_file::{PAIRS_PER_PAGE, PAIRS_PER_RUN, PageFile, Search};
use super::{MEGABYTE, SCANNED};
use crate::claim::{Claim, ratio};
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::keys::scatter;
use crate::plot::{Columns, Plot};
use crate::table::{Cell, Column, Table};
use esker::parts::env::Clock;

/// Pages of the pool: 10 MB.
const POOL_PAGES: usize = 10 * MEGABYTE as usize / 4096;

pub(super) const HALVING: &str = "binary search of pages";
pub(super) const TREE: &str = "static B-tree";
const SEARCHES: [(Search, &str); 2] = [(Search::Halving, HALVING), (Search::Tree, TREE)];

pub(super) const fn steps(volumes: usize) -> usize {
    SEARCHES.len() * volumes
}

pub(super) fn table(context: &mut Context<'_>, volumes: &[u64]) -> Result<Table> {
    let columns = [
        Column::key("search"),
        Column::key("megabytes"),
        Column::key("runs"),
        Column::number("gets_per_second", 1),
        Column::number("scans_per_second", 1),
        Column::number("pages_per_run_of_a_scan", 2),
        Column::number("reads_per_get", 2),
        Column::number("reads_per_scan", 2),
    ];
    let title = "Step 2 as the report has it: pages of unmerged files, read through a pool of 10 MB and past the page cache";
    let mut table = Table::new("pages", title, &columns);
    for (search, name) in SEARCHES {
        let path = context.directory(&format!("{search:?}.pages"))?;
        let mut file = PageFile::create(&path, POOL_PAGES)?;
        for &megabytes in volumes {
            context.step(&format!("{name}, {megabytes} MB"));
            fill(&mut file, megabytes)?;
            let mut row: Vec<Cell> = vec![name.into(), megabytes.into(), file.runs().into()];
            row.extend(measure(context, &file, search)?.map(Cell::from));
            table.push(row);
        }
    }
    Ok(table)
}

/// Appends runs up to a volume; pair number `n` has the key `scatter(n)`, so a run's keys lie anywhere.
fn fill(file: &mut PageFile, megabytes: u64) -> Result<()> {
    while file.runs() < megabytes {
        let first = file.runs() * PAIRS_PER_RUN as u64;
        let mut pairs: Vec<(u64, u64)> =
            (first..first + PAIRS_PER_RUN as u64).map(|pair| (scatter(pair), pair)).collect();
        pairs.sort_unstable();
        file.append(&pairs)?;
    }
    file.sync()
}

/// Gets and scans a second, pages that a scan looks at in a run, and pages read for a get and for a scan.
fn measure(context: &Context<'_>, file: &PageFile, search: Search) -> Result<[f64; 5]> {
    let pairs = file.runs() * PAIRS_PER_RUN as u64;
    let operations = context.pick(100, 300, 1000);
    let clock = context.clock();
    let timed = |purpose: u64, operation: &dyn Fn(u64) -> Result<()>| -> Result<[f64; 3]> {
        let (before, start_ns) = (file.counts(), clock.monotonic_ns());
        for number in 0..operations {
            operation(scatter(number ^ (purpose << 32)) % pairs)?;
        }
        let seconds = (clock.monotonic_ns() - start_ns) as f64 / 1e9;
        let after = file.counts();
        let each = |count: u64| count as f64 / operations as f64;
        Ok([operations as f64 / seconds, each(after.0 - before.0), each(after.1 - before.1)])
    };
    let wrong = |what: &str| ExperimentError::WrongAnswer(format!("{search:?}: {what}"));
    let [gets, _, reads_per_get] = timed(1, &|pair| match file.get(search, scatter(pair))? {
        Some(value) if value == pair => Ok(()),
        _ => Err(wrong(&format!("the value of pair {pair} was not found"))),
    })?;
    let [scans, looked_at, reads_per_scan] = timed(2, &|pair| {
        let found = file.scan(search, scatter(pair), SCANNED)?;
        let is_right = found.first() == Some(&(scatter(pair), pair)) && found.is_sorted();
        if is_right { Ok(()) } else { Err(wrong(&format!("a scan from pair {pair} is wrong"))) }
    })?;
    Ok([gets, scans, looked_at / file.runs() as f64, reads_per_get, reads_per_scan])
}

pub(super) fn plots(table: &Table) -> Vec<Plot> {
    let plot = |name, title, y, label| {
        Plot::lines(name, title, table, &[], Columns { series: "search", x: "megabytes", y })
            .labels("MB of pairs", label)
            .logarithmic(true, true)
    };
    vec![
        plot("pages-get", "Step 2 by pages: gets a second", "gets_per_second", "gets a second"),
        plot("pages-scan", "Step 2 by pages: scans a second", "scans_per_second", "scans a second"),
    ]
}

/// That the B-tree is ahead at the largest volume, as the report says of gets and more so of scans.
pub(super) fn claims(table: &Table, largest: &str) -> Vec<Claim> {
    let over = |column: &str| {
        let of = |search: &str| table.number(&[("search", search), ("megabytes", largest)], column);
        ratio(of(TREE), of(HALVING))
    };
    let claim = |what: &str, column: &str| {
        let what = format!("step 2 by pages: static B-tree over binary search, {what} at {largest} MB");
        Claim::at_least(1.0, what, over(column))
    };
    vec![claim("gets", "gets_per_second"), claim("scans", "scans_per_second")]
}

const _: () = assert!(PAIRS_PER_PAGE == SCANNED, "a scan of the report is about a page");
