//! `bench`: measures the database and prints the results.

use crate::args::{BenchArgs, BenchGroup, Global};
use crate::failure::{Exit, Failure};
use crate::host;
use esker::Durability;
use esker_bench::report::{JsonLines, Table};
use esker_bench::{Group, Settings, Victim};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn run(global: &Global, args: &BenchArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let settings = settings(global, args)?;
    if let Some(puts) = args.victim_puts {
        let victim = Victim { puts, version: args.victim_version };
        esker_bench::fill_until_killed(&settings, &victim, out, &mut host::stdin())?;
        return Ok(Exit::Done);
    }
    if global.shape.json {
        esker_bench::run(&settings, &mut JsonLines::new(out, host::stderr()))?;
    } else {
        esker_bench::run(&settings, &mut Table::new(out, host::stderr()))?;
    }
    Ok(Exit::Done)
}

fn settings(global: &Global, args: &BenchArgs) -> Result<Settings, Failure> {
    let group = match args.group {
        BenchGroup::Fill => Group::Fill,
        BenchGroup::Bulkload => Group::BulkLoad,
        BenchGroup::Read => Group::Read,
        BenchGroup::Scan => Group::Scan,
        BenchGroup::Mixed => Group::Mixed,
        BenchGroup::Shares => Group::Shares,
        BenchGroup::Deleted => Group::Deleted,
        BenchGroup::Open => Group::Open,
        BenchGroup::Blob => Group::Blob,
        BenchGroup::Overwrite => Group::Overwrite,
        BenchGroup::Compact => Group::Compact,
        BenchGroup::Rest => Group::Rest,
        BenchGroup::Keyspaces => Group::Keyspaces,
        BenchGroup::Memory => Group::Memory,
        BenchGroup::Stalls => Group::Stall,
        BenchGroup::All => Group::All,
    };
    Ok(Settings {
        options: super::configured(global)?,
        configuration: global.config.clone(),
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
        distribution: args.distribution,
        idle_seconds: args.idle_seconds,
        keyspaces: args.keyspaces,
        blob_bytes: args.blob_bytes,
        seconds: args.seconds,
        phases: args.phases.clone(),
        data_share: args.data_share,
        series: args.series.clone(),
        seed: args.seed,
        durability: if args.sync { Durability::Power } else { args.durability.into() },
        memory_budget_bytes: args.memory_budget.or(global.memory),
        histogram: args.histogram,
        victim: Some(start_victim),
    })
}

/// Starts this program again as the process to be killed, with the settings it needs.
fn start_victim(settings: &Settings, victim: &Victim) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bench").arg("--data").arg(&settings.directory);
    if let Some(file) = &settings.configuration {
        command.arg("--config").arg(file);
    }
    let mut option = |name: &str, value: u64| {
        command.arg(name).arg(value.to_string());
    };
    option("--victim_puts", victim.puts);
    option("--victim_version", victim.version);
    option("--num", settings.num);
    option("--key_size", settings.key_size as u64);
    option("--value_size", settings.value_size as u64);
    option("--seed", settings.seed);
    if let Some(bytes) = settings.memory_budget_bytes {
        option("--memory", bytes);
    }
    Ok(command)
}
