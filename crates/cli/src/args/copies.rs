//! Arguments of `checkpoint`, `backup`, `restore`, `export` and `import`.

use crate::format::parse_duration;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Copy the database to a new directory on the same disk, sharing its table files
///
/// The copy is a database that shows one moment. Files are linked where the file system can, so it takes
/// milliseconds and hardly any space; onto another device everything is copied.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker checkpoint before-the-migration
  esker checkpoint /srv/copies/monday --data /srv/db")]
pub(crate) struct CheckpointArgs {
    /// The new directory; it must be missing or empty
    #[arg(value_name = "DIR")]
    pub(crate) target: PathBuf,
}

/// Create, list, check and remove backups
///
/// A directory holds any number of backups. Each is whole, and they share unchanged tables: only new ones are
/// copied.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker backup create /mnt/backups --data ./esker-data
  esker backup list /mnt/backups
  esker backup verify /mnt/backups
  esker backup prune /mnt/backups --keep 7 --within 30d
  esker restore /mnt/backups --data ./restored")]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(crate) command: BackupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    Create(BackupCreateArgs),
    List(BackupListArgs),
    Verify(BackupVerifyArgs),
    Prune(BackupPruneArgs),
}

/// Add a backup of the present state to a directory of backups
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  esker backup create /mnt/backups --data ./esker-data")]
pub(crate) struct BackupCreateArgs {
    /// The directory of backups; created if missing
    #[arg(value_name = "BACKUPS")]
    pub(crate) dir: PathBuf,
}

/// List the backups of a directory
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  esker backup list /mnt/backups --json")]
pub(crate) struct BackupListArgs {
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    pub(crate) dir: PathBuf,
}

/// Prove that backups can be restored by reading and checking them; exit code 3 if something is damaged
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  esker backup verify /mnt/backups\n  esker backup verify /mnt/backups --id 3"
)]
pub(crate) struct BackupVerifyArgs {
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    pub(crate) dir: PathBuf,
    /// Only this backup
    #[arg(long, value_name = "N")]
    pub(crate) id: Option<u32>,
}

/// Remove old backups, and the tables that only they had; the newest always stays
///
/// A backup stays if any part of the rule keeps it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  esker backup prune /mnt/backups --keep 7 --within 30d")]
pub(crate) struct BackupPruneArgs {
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    pub(crate) dir: PathBuf,
    /// Keep this many of the newest
    #[arg(long, value_name = "N", required_unless_present = "within")]
    pub(crate) keep: Option<usize>,
    /// Keep those no older than this, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub(crate) within: Option<Duration>,
}

/// Restore a backup into the directory --data, which must be missing or empty
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker restore /mnt/backups --data ./restored
  esker restore /mnt/backups --id 3 --data ./as-it-was")]
pub(crate) struct RestoreArgs {
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    pub(crate) dir: PathBuf,
    /// Which backup [default: the newest]
    #[arg(long, value_name = "N")]
    pub(crate) id: Option<u32>,
}

/// Write keyspaces to a portable file
///
/// The file has what a reader sees at one moment: keys, values and expiry times, with checksums, compressed.
/// Without --keyspace, all keyspaces. `dump` writes text instead.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker export everything.esker --data ./esker-data
  esker export - --keyspace users | ssh elsewhere esker import - --data ./esker-data")]
pub(crate) struct ExportArgs {
    /// The file, or - for standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Leave out keys whose operands the merge operator refuses, and say which, instead of failing
    #[arg(long)]
    pub(crate) skip_failed_merges: bool,
}

/// Read a file of `export` into its keyspaces, or check it
///
/// Missing keyspaces are created. Existing keys get the file's values, others stay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker import everything.esker --data ./new
  esker import everything.esker --check")]
pub(crate) struct ImportArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Read and check it, without importing
    #[arg(long)]
    pub(crate) check: bool,
}

/// List damaged tables and the keys that need them, or replace them from a backup or checkpoint
///
/// Opens the database although tables or blob files are damaged, missing or other files, as the option
/// `recovery_mode = "quarantine"` does. Exit code 3 if such files are left.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker quarantine --data ./esker-data
  esker quarantine --data ./esker-data --replace-from /mnt/backups/esker-data
  esker quarantine --data ./esker-data --replace-from ./checkpoint")]
pub(crate) struct QuarantineArgs {
    /// Directory of backups, checkpoint or other copy of the database that has undamaged copies of the files
    #[arg(long, value_name = "DIR")]
    pub(crate) replace_from: Option<PathBuf>,
}
