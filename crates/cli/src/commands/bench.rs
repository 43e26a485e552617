//! `bench`: measures the database and prints the results.

use crate::args::{BenchArgs, BenchGroup, Global};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::human_counted;
use crate::host;
use crate::interrupt::Interrupt;
use esker::Durability;
use esker_bench::report::{
    AmplificationRow, JsonLines, MemoryBoundRow, MemoryRow, MergeRow, OverwriteRow, Report, Row, Table,
};
use esker_bench::{Group, Settings, Victim, Workload};
use indicatif::ProgressBar;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub(crate) fn run(global: &Global, args: &BenchArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let settings = settings(global, args)?;
    if let Some(puts) = args.victim_puts {
        let victim = Victim { puts, version: args.victim_version };
        esker_bench::fill_until_killed(&settings, &victim, out, &mut host::stdin())?;
        return Ok(Exit::Done);
    }
    if global.shape.json {
        measure(&settings, JsonLines::new(out, host::stderr()))
    } else {
        measure(&settings, Table::new(out, host::stderr()))
    }
}

/// Measures, with the workload that runs on the terminal, until all are done or the user interrupts it.
fn measure(settings: &Settings, report: impl Report) -> Result<Exit, Failure> {
    let interrupt = Interrupt::of(&Caller::default())?;
    let mut shown =
        ShownReport { report, interrupt, bar: host::step_bar(settings.workloads.len() as u64), done: 0 };
    let result = esker_bench::run(settings, &mut shown);
    shown.bar.finish_and_clear();
    result?;
    if shown.done < settings.workloads.len() {
        let (done, all) = (shown.done, human_counted(settings.workloads.len() as u64, "workload"));
        return Err(Failure::interrupted(format!("{done} of {all} were measured")));
    }
    Ok(Exit::Done)
}

/// A report that shows which workload runs, for how long.
struct ShownReport<R> {
    report: R,
    interrupt: Interrupt,
    bar: ProgressBar,
    /// Workloads that ended.
    done: usize,
}

impl<R: Report> ShownReport<R> {
    /// Writes a result without the bar.
    fn result(&mut self, write: impl FnOnce(&mut R) -> io::Result<()>) -> io::Result<()> {
        let (report, bar) = (&mut self.report, &self.bar);
        bar.suspend(|| write(report))
    }
}

impl<R: Report> Report for ShownReport<R> {
    fn begins(&mut self, workload: Workload, number: usize, _workloads: usize) -> bool {
        self.done = number - 1;
        if self.interrupt.is_set() {
            return false;
        }
        self.bar.set_position(self.done as u64);
        self.bar.set_message(format!("{}; Ctrl-C ends after it, twice at once", workload.name()));
        self.bar.enable_steady_tick(Duration::from_secs(1));
        true
    }

    fn ends(&mut self) {
        self.done += 1;
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        self.result(|report| report.note(text))
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        self.result(|report| report.row(row))
    }

    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()> {
        self.result(|report| report.amplification(row))
    }

    fn merge(&mut self, row: &MergeRow) -> io::Result<()> {
        self.result(|report| report.merge(row))
    }

    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()> {
        self.result(|report| report.overwrite(row))
    }

    fn memory_bound(&mut self, row: &MemoryBoundRow) -> io::Result<()> {
        self.result(|report| report.memory_bound(row))
    }

    fn memory(&mut self, row: &MemoryRow) -> io::Result<()> {
        self.result(|report| report.memory(row))
    }
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
