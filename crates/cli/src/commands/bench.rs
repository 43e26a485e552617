//! `bench`.

use crate::args::{BenchArgs, BenchGroup, Global};
use crate::failure::{Exit, Failure};
use crate::host;
use esker::Durability;
use esker_bench::report::{JsonLines, Table};
use esker_bench::{Group, Settings};
use std::io::Write;
use std::path::PathBuf;

pub(crate) fn run(global: &Global, args: &BenchArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let settings = settings(global, args);
    if global.shape.json {
        esker_bench::run(&settings, &mut JsonLines::new(out, host::stderr()))?;
    } else {
        esker_bench::run(&settings, &mut Table::new(out, host::stderr()))?;
    }
    Ok(Exit::Done)
}

fn settings(global: &Global, args: &BenchArgs) -> Settings {
    let group = match args.group {
        BenchGroup::Fill => Group::Fill,
        BenchGroup::Read => Group::Read,
        BenchGroup::Scan => Group::Scan,
        BenchGroup::Mixed => Group::Mixed,
        BenchGroup::All => Group::All,
    };
    Settings {
        directory: global.data.clone().unwrap_or_else(|| PathBuf::from("./esker-bench")),
        workloads: args.benchmarks.clone().unwrap_or_else(|| group.workloads().collect()),
        use_existing_db: args.use_existing_db,
        num: args.num,
        reads: args.reads,
        key_size: args.key_size,
        value_size: args.value_size,
        threads: args.threads,
        batch_size: args.batch_size,
        multi_get_size: args.multi_get_size,
        seek_nexts: args.seek_nexts,
        read_percent: args.read_percent,
        seed: args.seed,
        durability: if args.sync { Durability::Power } else { args.durability.into() },
        memory_budget_bytes: args.memory_budget.or(global.memory),
        histogram: args.histogram,
    }
}
