//! Arguments of `options`.

use clap::Args;

/// List all options, or show and change those of a database
///
/// Without a database: all options, with defaults, allowed values, and when a change takes effect. With one
/// (--data): the values of --keyspace, and those that the database is opened with. NAME=VALUE changes an
/// option of --keyspace.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker options
  esker options block_size max_open_files
  esker options --data ./esker-data --keyspace users
  esker options --data ./esker-data --keyspace users block_size=16KiB compression=none,lz4,zstd:3
  esker options --presets
  esker options --preset write-heavy --toml > esker.toml
  esker serve --config esker.toml")]
pub(crate) struct OptionsArgs {
    /// Only these options; NAME=VALUE changes one
    #[arg(value_name = "NAME[=VALUE]")]
    pub(crate) chosen: Vec<String>,
    /// List the presets
    #[arg(long, conflicts_with_all = ["preset", "toml", "markdown", "chosen"])]
    pub(crate) presets: bool,
    /// Show the options of a preset
    #[arg(long, value_name = "NAME", conflicts_with_all = ["data", "config", "markdown"])]
    pub(crate) preset: Option<String>,
    /// Print a configuration file; without a database or preset, one with all options to uncomment
    #[arg(long, conflicts_with_all = ["json", "chosen"])]
    pub(crate) toml: bool,
    /// Print the page of the manual that lists all options
    #[arg(long, conflicts_with_all = ["json", "chosen", "data", "toml"])]
    pub(crate) markdown: bool,
}
