//! `peers`: Esker and other stores, measured beside each other.
//!
//! `bench/peers/README.md` explains what is measured, what is equal and what is not. The map of the code:
//! [`engine`] is the interface, [`adapters`] has a file for each store, [`data`] makes keys and values,
//! [`bench`] runs the workloads on one engine, [`suite`] runs engines in turn, [`report`] makes tables and
//! plots.

#![cfg_attr(
    not(all(feature = "esker", feature = "surrealkv", feature = "redb")),
    allow(
        dead_code,
        reason = "each store uses what it needs; a build without some of them leaves things unused"
    )
)]

mod adapters;
mod bench;
mod cores;
mod data;
mod engine;
mod memory_group;
mod process;
mod record;
mod report;
mod settings;
mod suite;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Esker and other stores, measured beside each other", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs all workloads on one engine, with a line of JSON for each.
    Run(settings::RunSettings),
    /// Runs engines in turn, several rounds, and reports.
    Suite(suite::SuiteSettings),
    /// Makes tables and plots of lines of JSON.
    Report(report::ReportSettings),
    /// Lists the engines in this binary.
    Engines,
    /// Lists the configurations of the suite.
    Configurations,
    /// Part of `run`.
    #[command(name = bench::KILLED_COMMAND, hide = true)]
    RunKilled(settings::RunSettings),
}

fn main() -> ExitCode {
    match execute(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> engine::Result<()> {
    match command {
        Command::Run(settings) => run(settings),
        Command::RunKilled(settings) => bench::Bench::new(settings)?.write_and_be_killed(),
        Command::Suite(settings) => suite::run(&settings),
        Command::Report(settings) => report::run(&settings),
        Command::Engines => {
            for adapter in adapters::ADAPTERS {
                println!("{:<20} {}", adapter.name, adapter.about);
            }
            Ok(())
        }
        Command::Configurations => {
            for configuration in suite::CONFIGURATIONS {
                println!("{:<14} {}", configuration.name, configuration.about);
            }
            Ok(())
        }
    }
}

/// Runs one engine, within a memory group if the settings limit memory.
fn run(settings: settings::RunSettings) -> engine::Result<()> {
    let limit_bytes = settings.memory_limit_mib << 20;
    let _group = if limit_bytes > 0 {
        process::share_one_heap()?;
        Some(memory_group::MemoryGroup::enter(limit_bytes)?)
    } else {
        None
    };
    match bench::Bench::new(settings)?.run()? {
        0 => Ok(()),
        errors => Err(format!("{errors} wrong results: what was measured is void").into()),
    }
}
