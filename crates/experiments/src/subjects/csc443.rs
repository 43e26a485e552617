//! Reproduces the plots of the CSC443 report: puts, gets and scans of one page by volume, for each step of
//! its store.

mod findings;
mod page_file;
mod pages;
mod theory;

use crate::claim::{Claim, ratio};
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::{ExperimentError, Result};
use crate::experiment::{Experiment, Outcome};
use crate::keys::scatter;
use crate::plot::{Columns, Plot};
use crate::table::{Column, Table};
use esker::options::IndexKind;
use esker::parts::cache::BlockKind;
use esker::parts::env::{Clock, FileSystem, SystemClock};
use esker::{Database, Keyspace, KeyspaceOptions, Options};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "csc443",
    title: "The CSC443 report's steps: puts, gets and one-page scans by volume",
    about: "A database grows from 1 MB to 1 GB of pairs of 8-byte integers with a memtable of 1 MB. At each power of two, gets of random \
            present keys and scans of one page (256 pairs) from random keys are timed, as many as in the report, however long they \
            take. Tables are read past the system's page cache. Step 1 has no cache, no filters and no merging; step 2 has a pool \
            of 10 MB, whatever the size of the data, and compares a static B-tree, whose pages are read through the pool, with a \
            binary search; step 3 merges and divides filter memory by Monkey for R = 0.1, with leveling at a size ratio of 2 or \
            with lazy leveling (Dostoevsky) at 4. The report's formulas of both are drawn beside what was counted.",
    page: "csc443.md",
    run,
    findings: findings::declare,
};

const PAIR_BYTES: u64 = 16;
/// Pairs of a page of 4 KiB.
const SCANNED: usize = 256;
const MEGABYTE: u64 = 1 << 20;

/// One line of the plots.
struct Variant {
    step: u64,
    name: &'static str,
    /// Gets and scans of each size, as in the report.
    operations: u64,
    options: fn() -> esker::Result<Options>,
}

/// The pool of the report, and none.
const POOL: &str = "10MiB";
const NO_POOL: &str = "0";
/// Room for the indexes of a thousand unmerged tables; the pool has its size whatever the budget is.
const UNMERGED_BUDGET: &str = "256MiB";

fn unmerged(pool: &str, index: IndexKind) -> esker::Result<Options> {
    let keyspace = KeyspaceOptions::preset("csc443")?.set("strategy", "none")?.set("filter", "none")?;
    let keyspace = keyspace.block_index(index);
    let options = Options::preset("csc443")?.keyspace_options(keyspace);
    options.set("memory_budget", UNMERGED_BUDGET)?.set("cache_size", pool)
}

const VARIANTS: [Variant; 5] = [
    Variant {
        step: 1,
        name: "no pool, no merging",
        operations: 500,
        options: || unmerged(NO_POOL, IndexKind::SortedArray),
    },
    Variant {
        step: 2,
        name: "pool, binary search",
        operations: 1000,
        options: || unmerged(POOL, IndexKind::SortedArray),
    },
    Variant {
        step: 2,
        name: "pool, static B-tree",
        operations: 1000,
        options: || unmerged(POOL, IndexKind::BTreePages),
    },
    Variant {
        step: 3,
        name: "leveled T=2, Monkey",
        operations: 1000,
        options: || Options::preset("csc443-basic"),
    },
    Variant {
        step: 3,
        name: "Dostoevsky T=4, Monkey",
        operations: 1000,
        options: || Options::preset("csc443"),
    },
];

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let volumes: Vec<u64> = (0..=context.pick(2, 4, 10)).map(|power| 1 << power).collect();
    context.expect_steps(VARIANTS.len() * volumes.len() + pages::steps(volumes.len()));
    let columns = [
        Column::key("step"),
        Column::key("variant"),
        Column::key("megabytes"),
        Column::number("puts_per_second", 0),
        Column::number("gets_per_second", 1),
        Column::number("scans_per_second", 1),
        Column::key("runs"),
        Column::number("tables_per_get", 2),
        Column::number("reads_per_get", 2),
        Column::number("reads_per_scan", 2),
        Column::number("write_amplification", 2),
        Column::number("cache_mb", 1),
    ];
    let mut table = Table::new("volumes", "Operations a second by volume", &columns);
    for variant in &VARIANTS {
        let mut growing = Growing::new(context, variant)?;
        for &megabytes in &volumes {
            context.step(&format!("{}, {megabytes} MB", variant.name));
            let found = growing.at(context, megabytes)?;
            table.push(vec![
                variant.step.into(),
                variant.name.into(),
                megabytes.into(),
                found.puts.into(),
                found.gets.into(),
                found.scans.into(),
                found.runs.into(),
                found.tables_per_get.into(),
                found.reads_per_get.into(),
                found.reads_per_scan.into(),
                found.write_amplification.into(),
                found.cache_mb.into(),
            ]);
        }
        growing.end()?;
    }
    let largest = volumes.last().map(u64::to_string).unwrap_or_default();
    let pages = pages::table(context, &volumes)?;
    let mut claims = claims(&table, &largest);
    claims.extend(pages::claims(&pages, &largest));
    let comparisons = comparisons(&table, context.pick(false, false, true));
    let formulas = theory::table(&table, &volumes);
    let mut plots = plots(&table);
    plots.extend(theory::plots(&formulas));
    plots.extend(pages::plots(&pages));
    Ok(Outcome { setup: setup(), plots, tables: vec![table, formulas, pages], claims, comparisons })
}

fn setup() -> Vec<String> {
    vec![
        "options: the preset csc443, in steps 1 and 2 without filter and compaction, in step 3 with leveling as csc443-basic".to_owned(),
        format!(
            "block cache of {NO_POOL} bytes in step 1 and {POOL} in the others; tables are read directly, so that a block which \
             is not cached is read from the device; `reads`: blocks, nodes of the B-tree and filters that were not in the cache"
        ),
        "put: of all pairs up to this volume, until drained, one thread, in random order".to_owned(),
        "get and scan: 500 in step 1 and 1,000 in the others; every answer is checked".to_owned(),
    ]
}

struct Growing<'a> {
    variant: &'a Variant,
    directory: std::path::PathBuf,
    database: Database,
    keyspace: Keyspace,
    pairs: u64,
    put_ns: u64,
}

/// What was measured at one volume.
struct Found {
    puts: f64,
    gets: f64,
    scans: f64,
    runs: u64,
    tables_per_get: Option<f64>,
    reads_per_get: f64,
    reads_per_scan: f64,
    write_amplification: Option<f64>,
    cache_mb: f64,
}

impl<'a> Growing<'a> {
    fn new(context: &Context<'_>, variant: &'a Variant) -> Result<Growing<'a>> {
        let directory = context.directory("csc443")?;
        let database = Database::open_with(&directory, (variant.options)()?)?;
        let keyspace = database.keyspace(esker::DEFAULT_KEYSPACE)?;
        Ok(Growing { variant, directory, database, keyspace, pairs: 0, put_ns: 0 })
    }

    fn end(self) -> Result<()> {
        let Growing { directory, database, keyspace, .. } = self;
        drop(keyspace);
        database.close()?;
        drop(database);
        Ok(esker::parts::env::StdFileSystem.remove_dir_all(&directory)?)
    }

    fn at(&mut self, context: &Context<'_>, megabytes: u64) -> Result<Found> {
        let clock = context.clock();
        let start_ns = clock.monotonic_ns();
        let pairs = megabytes * MEGABYTE / PAIR_BYTES;
        for pair in self.pairs..pairs {
            self.keyspace.put(scatter(pair).to_be_bytes(), pair.to_be_bytes())?;
        }
        self.database.drain()?;
        self.put_ns += clock.monotonic_ns() - start_ns;
        self.pairs = pairs;
        let before = self.reads();
        let (gets, reads_per_get) = self.rate(&clock, 1, |growing, pair| growing.get(pair))?;
        let (scans, reads_per_scan) = self.rate(&clock, 2, |growing, pair| growing.scan(pair))?;
        let (lookups, searched) = self.reads();
        let metrics = self.database.metrics();
        let keyspace = metrics.keyspaces.iter().find(|keyspace| keyspace.name == esker::DEFAULT_KEYSPACE);
        Ok(Found {
            puts: pairs as f64 * 1e9 / self.put_ns as f64,
            gets,
            scans,
            runs: keyspace.map_or(0, |keyspace| keyspace.runs as u64),
            reads_per_get,
            reads_per_scan,
            tables_per_get: ratio(Some((searched - before.1) as f64), Some((lookups - before.0) as f64)),
            write_amplification: keyspace.and_then(|keyspace| keyspace.amplification.write()),
            cache_mb: metrics.memory.cache_capacity_bytes as f64 / 1e6,
        })
    }

    /// Sampled lookups, and the tables that they searched.
    fn reads(&self) -> (u64, u64) {
        let metrics = self.database.metrics();
        let keyspace = metrics.keyspaces.iter().find(|keyspace| keyspace.name == esker::DEFAULT_KEYSPACE);
        keyspace.map_or((0, 0), |keyspace| {
            let reads = &keyspace.amplification.reads;
            (reads.lookups, reads.tables_searched)
        })
    }

    /// Operations a second, and blocks read for each of them.
    fn rate(
        &self,
        clock: &SystemClock,
        purpose: u64,
        operation: impl Fn(&Growing<'_>, u64) -> Result<()>,
    ) -> Result<(f64, f64)> {
        let operations = self.variant.operations;
        let (missed, start_ns) = (self.missed(), clock.monotonic_ns());
        for number in 0..operations {
            operation(self, scatter(number ^ (purpose << 32)) % self.pairs)?;
        }
        let seconds = (clock.monotonic_ns() - start_ns) as f64 / 1e9;
        let missed = (self.missed() - missed) as f64;
        Ok((operations as f64 / seconds, missed / operations as f64))
    }

    /// Blocks of all kinds that were not in the cache.
    fn missed(&self) -> u64 {
        let cache = self.database.metrics().cache;
        BlockKind::ALL.iter().map(|&kind| cache[kind].misses).sum()
    }

    fn get(&self, pair: u64) -> Result<()> {
        let found = self.keyspace.get(scatter(pair).to_be_bytes())?;
        if found.as_deref() == Some(&pair.to_be_bytes()[..]) {
            return Ok(());
        }
        Err(ExperimentError::WrongAnswer(format!("the value of pair {pair} was not found")))
    }

    fn scan(&self, pair: u64) -> Result<()> {
        let start = scatter(pair).to_be_bytes();
        let mut last: Option<esker::Value> = None;
        for entry in self.keyspace.range(start..).take(SCANNED) {
            let (key, _) = entry?;
            let is_right = match &last {
                None => key[..] == start[..],
                Some(last) => key[..] > last[..],
            };
            if !is_right {
                return Err(ExperimentError::WrongAnswer(format!("a scan from pair {pair} is out of order")));
            }
            last = Some(key);
        }
        last.map(|_| ()).ok_or_else(|| ExperimentError::WrongAnswer("a scan found nothing".to_owned()))
    }
}

fn plots(table: &Table) -> Vec<Plot> {
    let plot = |name, title, y, label| {
        Plot::lines(name, title, table, &[], Columns { series: "variant", x: "megabytes", y })
            .labels("MB of pairs", label)
            .logarithmic(true, true)
    };
    vec![
        plot("put", "Puts a second by volume", "puts_per_second", "puts a second"),
        plot("get", "Gets a second by volume", "gets_per_second", "gets a second"),
        plot("scan", "One-page scans a second by volume", "scans_per_second", "scans a second"),
    ]
}

/// The report's claims in words, as ratios: on which side of 1 they lie.
fn claims(table: &Table, largest: &str) -> Vec<Claim> {
    let of = |variant: usize, megabytes: &str, column: &str| {
        table.number(&[("variant", VARIANTS[variant].name), ("megabytes", megabytes)], column)
    };
    let over = |one: usize, other: usize, megabytes: &str, column: &str| {
        ratio(of(one, megabytes, column), of(other, megabytes, column))
    };
    let mut claims = Vec::new();
    let mut at_least = |what: String, measured| claims.push(Claim::at_least(1.0, what, measured));
    for (what, column) in [("gets", "gets_per_second"), ("scans", "scans_per_second")] {
        at_least(
            format!("step 2: static B-tree over binary search, {what} at {largest} MB"),
            over(2, 1, largest, column),
        );
        at_least(
            format!("step 3 (T=2) over step 2 (B-tree), {what} at {largest} MB"),
            over(3, 2, largest, column),
        );
    }
    at_least(
        format!("step 2 over step 3 (T=2), puts at {largest} MB"),
        over(2, 3, largest, "puts_per_second"),
    );
    at_least(
        format!("step 3: Dostoevsky over T=2, puts at {largest} MB"),
        over(4, 3, largest, "puts_per_second"),
    );
    at_least(
        format!("step 3: T=2 over Dostoevsky, scans at {largest} MB"),
        over(3, 4, largest, "scans_per_second"),
    );
    at_least("step 3: Dostoevsky over T=2, scans at 4 MB".to_owned(), over(4, 3, "4", "scans_per_second"));
    claims
}

/// The report has no numbers in its text but powers of ten at the largest volume: gets and scans below one a
/// second in step 2, and just below a thousand in step 3 (T=2).
fn comparisons(table: &Table, is_full: bool) -> Vec<Comparison> {
    let of = |variant: usize, column: &str| {
        let wanted = [("variant", VARIANTS[variant].name), ("megabytes", "1024")];
        table.number(&wanted, column).filter(|_| is_full)
    };
    let compared = |what: &str, column: &str| {
        let ours = ratio(of(3, column), of(2, column));
        Comparison::new(
            "CSC443 step 3",
            format!("{what} at 1,024 MB, step 3 (T=2) over step 2 (B-tree)"),
            1000.0,
            ours,
        )
    };
    vec![compared("gets", "gets_per_second"), compared("scans", "scans_per_second")]
}
