//! Arguments of `verify` and `repair`.

use clap::Args;
use std::path::PathBuf;

/// Read and check everything, without opening the database; exit code 3 if something is damaged
///
/// All damage is listed: the file, the place in it, the keyspace and keys that it concerns, and what that
/// means. The database need not open, and nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker verify --data ./esker-data
  esker verify --data ./esker-data --against /mnt/backups")]
pub(crate) struct VerifyArgs {
    /// Also compare the tables and blob files with this directory of backups, checkpoint or other copy
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,
}

/// Make a new database of what can be read of a damaged one; exit code 3 if something is lost or doubtful
///
/// The damaged directory is not changed: it may lack CURRENT, its manifest, its log, and any table or blob
/// file. What is whole is linked, or copied to another disk. The report says what was kept, what is lost
/// (keys and at most how many entries) and what is doubtful. Look at `esker verify DIR` first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker repair ./esker-data --into ./repaired
  esker repair ./esker-data --into /mnt/new/data --refill /mnt/backups")]
pub(crate) struct RepairArgs {
    /// The directory of the damaged database
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The directory of the new database; it must be missing or empty
    #[arg(long, value_name = "NEW")]
    pub(crate) into: PathBuf,
    /// Take damaged and missing files from this directory of backups, checkpoint or other copy, where it has
    /// them
    #[arg(long, value_name = "DIR")]
    pub(crate) refill: Option<PathBuf>,
    /// Copy whole files instead of linking them
    #[arg(long)]
    pub(crate) copy: bool,
}
