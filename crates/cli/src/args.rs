//! Command line grammar: all commands, each with its arguments from a file of its own. It serves parsing,
//! `--help`, the manual pages and the completions.

mod advise;
mod bench;
mod changes;
mod connect;
mod copies;
mod durability;
mod experiment;
mod explain;
mod generate;
mod global;
mod honoured;
mod ingest;
mod inspect;
mod keyspaces;
mod load;
mod merging;
mod options;
mod over_http;
mod pages;
mod point;
mod range;
mod repair;
mod serve;
mod shell;
mod simulate;
mod stats;
mod strategy;
mod top;

pub(crate) use advise::AdviseArgs;
pub(crate) use bench::{BenchArgs, BenchGroup};
pub(crate) use changes::ChangesArgs;
pub(crate) use connect::{ClientTlsArgs, Connect};
pub(crate) use copies::{
    BackupArgs, BackupCommand, BackupCreateArgs, BackupPruneArgs, BackupVerifyArgs, CheckpointArgs,
    ExportArgs, ImportArgs, QuarantineArgs, RestoreArgs,
};
pub(crate) use experiment::ExperimentArgs;
pub(crate) use explain::{ExplainArgs, ExplainCommand, ExplainScanArgs};
pub(crate) use generate::GenerateArgs;
pub(crate) use global::{Global, Shape, ShapeArgs};
pub(crate) use honoured::{check as check_options, check_line as check_line_options};
pub(crate) use ingest::{BuildTableArgs, IngestArgs};
pub(crate) use inspect::{FileKind, InspectArgs};
pub(crate) use keyspaces::KeyspacesArgs;
pub(crate) use load::{DumpArgs, FileFormat, LoadArgs, OnError};
pub(crate) use merging::{AppendArgs, IncrArgs};
pub(crate) use options::OptionsArgs;
pub(crate) use over_http::{OVER_HTTP, refusal_over_http};
pub(crate) use pages::{CompletionsArgs, ManArgs};
pub(crate) use point::{DeleteArgs, DeleteRangeArgs, GetArgs, PutArgs, TtlArgs};
pub(crate) use range::{CompactArgs, CountArgs, RangeArgs, ScanArgs};
pub(crate) use repair::{RepairArgs, VerifyArgs};
pub(crate) use serve::{LogFormat, ServeArgs};
pub(crate) use shell::{ExecArgs, RemoteArgs, ShellArgs};
pub(crate) use simulate::SimulateArgs;
pub(crate) use stats::{LevelsArgs, StatsArgs};
pub(crate) use strategy::StrategyArgs;
pub(crate) use top::TopArgs;

use crate::failure::EXIT_CODES;
use clap::{Parser, Subcommand};

/// How keys and values are written, as `--help` shows it.
const FORMATS: &str = "\
Formats of keys and values:
  text  taken as it is; in lines of `scan` and TSV files with the escapes \\t \\n \\r \\\\ and \\xHH
  int   a signed 64-bit integer in decimal, stored in eight bytes that sort as the numbers do
  hex   any bytes, as hexadecimal digits";

/// Widest page of help, in columns.
const PAGE_COLUMNS: usize = 100;

/// Esker, a log-structured merge-tree key-value store.
#[derive(Debug, Parser)]
#[command(name = "esker", version, max_term_width = PAGE_COLUMNS)]
#[command(after_help = format!("{FORMATS}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<ServeArgs>),
    Shell(ShellArgs),
    Top(TopArgs),
    #[command(flatten)]
    Data(DataCommand),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Repair(RepairArgs),
    Import(ImportArgs),
    BuildTable(BuildTableArgs),
    Inspect(InspectArgs),
    Bench(Box<BenchArgs>),
    Experiment(ExperimentArgs),
    Simulate(Box<SimulateArgs>),
    Options(OptionsArgs),
    Generate(GenerateArgs),
    Exec(ExecArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    /// Whether it works on a database that another process has open.
    pub(crate) fn can_be_shared(&self) -> bool {
        match self {
            Command::Data(_)
            | Command::Import(_)
            | Command::Exec(_)
            | Command::Options(_)
            | Command::Shell(_)
            | Command::Top(_) => true,
            Command::Backup(args) => matches!(args.command, BackupCommand::Create(_)),
            _ => false,
        }
    }
}

/// Commands on an open database; the shell has them, too.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    Get(GetArgs),
    Put(PutArgs),
    Delete(DeleteArgs),
    Incr(IncrArgs),
    Append(AppendArgs),
    Ttl(TtlArgs),
    DeleteRange(DeleteRangeArgs),
    Scan(ScanArgs),
    Count(CountArgs),
    Load(LoadArgs),
    Ingest(IngestArgs),
    Dump(DumpArgs),
    Stats(StatsArgs),
    /// Draw the tree: its levels, runs and tables
    #[command(after_help = "Example:\n  esker levels --keyspace users")]
    Levels(LevelsArgs),
    /// Explain why writes are slowed or stopped, and when that ends
    #[command(
        after_help = "Examples:\n  esker stalls --data ./esker-data\n  esker stalls --connect 127.0.0.1:8081"
    )]
    Stalls,
    Explain(ExplainArgs),
    Compact(CompactArgs),
    Verify(VerifyArgs),
    Quarantine(QuarantineArgs),
    Keyspaces(KeyspacesArgs),
    Strategy(StrategyArgs),
    Advise(Box<AdviseArgs>),
    Changes(ChangesArgs),
    Checkpoint(CheckpointArgs),
    Export(ExportArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Examples and columns are laid out by hand and must not be wrapped; clap wraps the rest to the
    /// terminal's width.
    #[test]
    fn help_formatted_by_hand_fits_the_page() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= PAGE_COLUMNS, "{}: {line}", command.get_name());
            }
            let mut lines = help.lines().zip(help.lines().skip(1));
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let broken = lines.find(|(line, next)| is_prose(line) && is_prose(next) && !line.ends_with('.'));
            assert_eq!(broken, None, "{}: a sentence is broken by hand", command.get_name());
        }
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
