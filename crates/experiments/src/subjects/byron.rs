//! Reproduces the tables of the byron report: gets, puts, ranges, deletes, memtables, filters, and tables
//! probed in parallel.
//!
//! The document (a store for CS265, 2025) reports cycles, instructions, cache misses and seconds of a whole
//! run, its load included. Here the load is timed separately; the document's absolute figures are printed
//! beside ours, but only ratios are compared.

mod bits;
mod document;
mod findings;
mod parallel;
mod probing;
mod reads;
mod stores;
mod varints;
mod writes;

use crate::claim::ratio;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::counters::Counters;
use crate::error::Result;
use crate::experiment::{Experiment, Outcome};
use crate::plot::{Columns, Plot};
use crate::table::Table;
use reads::{GAUSSIAN, UNIFORM};
use stores::PRESET;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "byron",
    title: "The byron report's tables: gets, puts, ranges, deletes, memtables and filter bits",
    about: "One thread works on databases of pairs of 32-bit integers, as the generator of the document's course makes them. The \
            default options stand beside the preset `byron`, which has the document's choices, with its memtables of 2 MB. Means and \
            standard deviations are over rounds in turn; what loads a database is timed apart. The document's seconds are those of \
            another machine and contain the load: sizes and directions can be compared, seconds cannot.",
    page: "byron.md",
    run,
    findings: findings::declare,
};

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let reading = reads::gets_steps(context) + reads::ranges_steps(context) + bits::steps(context);
    let writing = writes::puts_steps(context)? + writes::deletes_steps(context);
    context.expect_steps(reading + writing + probing::steps(context) + parallel::steps(context));
    let counters = Counters::look();
    let tables = Tables {
        gets: reads::gets(context, &counters)?,
        puts: writes::puts(context, &counters)?,
        ranges: reads::ranges(context, &counters)?,
        deletes: writes::deletes(context, &counters)?,
        filters: bits::measure(context, &counters)?,
        probing: probing::measure(context)?,
        parallel: parallel::measure(context)?,
        varints: varints::table(context),
    };
    let setup = vec![
        "entries: keys of 4 bytes in scattered order, values of 4 bytes; memory budget 1 GiB, one thread".to_owned(),
        "durability: every put and delete is in the log's mapped file before it returns (`process`); the document's store has no log"
            .to_owned(),
        format!(
            "rounds in turn: {}, of the larger numbers of puts {}; mean and standard deviation are over them",
            reads::rounds(context),
            context.pick(1, 2, 2)
        ),
        "load: puts, flush, and until compactions have caught up, so that what is read afterwards lies in tables".to_owned(),
        "drained: until flushes and compactions that the writes caused have caught up; the rate is that until drained".to_owned(),
        "skew 0.2: one get in five repeats one of the last 1,000; Gaussian: starts around the middle of the keys, an eighth of them as \
         standard deviation"
            .to_owned(),
        "every answer of gets and ranges is checked, and one written entry in 997; the checks of reads are in their time".to_owned(),
        "cpu seconds: processor time of all threads, in ticks of 10 ms".to_owned(),
        counters.setup(),
    ];
    Ok(Outcome {
        setup,
        plots: tables.plots(),
        comparisons: tables.comparisons(),
        tables: tables.all(),
        claims: vec![],
    })
}

/// A table for each of the document's, or section.
struct Tables {
    gets: Table,
    puts: Table,
    ranges: Table,
    deletes: Table,
    filters: Table,
    probing: Table,
    parallel: Table,
    varints: Table,
}

impl Tables {
    fn all(self) -> Vec<Table> {
        let Tables { gets, puts, ranges, deletes, filters, probing, parallel, varints } = self;
        vec![gets, puts, ranges, deletes, filters, probing, parallel, varints, document::table()]
    }

    fn plots(&self) -> Vec<Plot> {
        let uniform = [("keys_asked", UNIFORM)];
        let columns = |series, x, y| Columns { series, x, y };
        vec![
            Plot::lines(
                "gets",
                "Uniform gets a second, by number of gets",
                &self.gets,
                &uniform,
                columns("store", "gets", "per_second"),
            )
            .labels("gets", "gets a second")
            .logarithmic(true, false),
            Plot::bars(
                "puts",
                "Puts a second until drained, by memtable",
                &self.puts,
                &[],
                columns("store", "puts", "per_second"),
            )
            .labels("puts", "puts a second"),
            Plot::bars(
                "deletes",
                "Deletes a second until drained",
                &self.deletes,
                &[],
                columns("store", "deletes", "per_second"),
            )
            .labels("deletes", "deletes a second"),
            Plot::bars(
                "probing",
                "Gets over ten runs, 90 % absent: one by one and many at a time",
                &self.probing,
                &[],
                columns("way", "filter", "get_ns"),
            )
            .labels("filter", "ns a get"),
        ]
    }

    fn comparisons(&self) -> Vec<Comparison> {
        let mut all = Vec::new();
        let mut add =
            |source, what: &str, theirs, ours| all.push(Comparison::new(source, what, theirs, ours));
        let gets = |count| {
            let wanted = [("store", PRESET), ("keys_asked", UNIFORM), ("gets", count)];
            self.gets.number(&wanted, "mean_seconds")
        };
        let load = document::LOAD_SECONDS;
        add(
            "byron 2.1",
            "seconds, 2.5 M gets over 1 M, less its load",
            (107.24 - load) / (29.97 - load),
            ratio(gets("2500000"), gets("1000000")),
        );
        let puts = |store, count| self.puts.number(&[("store", store), ("puts", count)], "drained_seconds");
        let preset = |count| puts(PRESET, count);
        add(
            "byron 2.2",
            "seconds, 5 M puts over 1 M",
            13.12 / 2.25,
            ratio(preset("5000000"), preset("1000000")),
        );
        add(
            "byron 2.2",
            "seconds, 10 M puts over 1 M",
            27.92 / 2.25,
            ratio(preset("10000000"), preset("1000000")),
        );
        let vector = |count| ratio(puts("default, vector", count), puts("default, skiplist", count));
        add("byron 3.1", "seconds, vector over skiplist, 1 M puts", 2.53 / 2.25, vector("1000000"));
        add("byron 3.1", "seconds, vector over skiplist, 5 M puts", 21.40 / 13.12, vector("5000000"));
        add("byron 3.1", "seconds, vector over skiplist, 10 M puts", 136.41 / 27.92, vector("10000000"));
        let ranges = |starts| self.ranges.number(&[("store", PRESET), ("starts", starts)], "mean_seconds");
        add(
            "byron 2.3",
            "seconds, uniform ranges over Gaussian, less its load",
            (11.23 - load) / (11.09 - load),
            ratio(ranges(UNIFORM), ranges(GAUSSIAN)),
        );
        let deletes = |count, column| self.deletes.number(&[("store", PRESET), ("deletes", count)], column);
        let seconds = |count| deletes(count, "mean_seconds");
        let with_load = |count| Some(deletes(count, "load_seconds")? + seconds(count)?);
        add(
            "byron table 4",
            "seconds with the load, 1 M deletes over 100 K",
            1.82 / 1.90,
            ratio(with_load("1000000"), with_load("100000")),
        );
        add(
            "byron conclusion",
            "seconds, 1 M deletes over 100 K",
            2.0 / 0.2,
            ratio(seconds("1000000"), seconds("100000")),
        );
        let bits = |bits| self.filters.number(&[("bits_asked", bits)], "mean_seconds");
        add("byron 3.2", "seconds, 1 bit a key over 0.1, half absent", 0.92, ratio(bits("1"), bits("0.1")));
        add("byron 3.2", "seconds, 10 bits a key over 1, half absent", 0.96, ratio(bits("10"), bits("1")));
        all
    }
}
