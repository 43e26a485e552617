//! Global options: those that every command accepts, and the keyspace and formats that it works with.

use super::connect::{ClientTlsArgs, Connect};
use crate::format::{Format, parse_bytes};
use clap::Args;
use std::path::{Path, PathBuf};
use tracing::level_filters::LevelFilter;

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Directory of the database [default: ./esker-data; of `bench` ./esker-bench]
    #[arg(long, visible_alias = "db", global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Let the process that has the database open execute the command: PATH is its control socket, or the
    /// directory of the database. Commands that report, such as `stats` and `top`, also take HOST:PORT of
    /// `serve --admin`; `shell` that of a server of the text protocol
    #[arg(long, global = true, value_name = "PATH", value_parser = Connect::parse)]
    pub(crate) connect: Option<Connect>,
    /// File with the token of `serve --admin-token-file` [default: the variable ESKER_ADMIN_TOKEN]
    #[arg(long, global = true, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTlsArgs,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// File with options, in the form of `esker options --toml`; the command line takes precedence
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Memory budget of the database, such as 256MiB [default: a quarter of the available memory]
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Log level for standard error: off, error, warn, info, debug or trace [default: warn; of `serve` info,
    /// of `top` off]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<LevelFilter>,
}

impl Global {
    pub(crate) fn data(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new("./esker-data"))
    }
}

/// The keyspace, and the formats of keys and values.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ShapeArgs {
    /// Keyspace to work on [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
    /// Format of keys in input and output: text, int or hex [default: text]
    #[arg(long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) key: Option<Format>,
    /// Format of values in input and output: text, int or hex [default: text]
    #[arg(long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) value: Option<Format>,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ShapeArgs {
    /// The given values, and those of `otherwise` for the rest.
    pub(crate) fn or(&self, otherwise: &Shape) -> Shape {
        Shape {
            keyspace: self.keyspace.clone().unwrap_or_else(|| otherwise.keyspace.clone()),
            key: self.key.unwrap_or(otherwise.key),
            value: self.value.unwrap_or(otherwise.value),
            json: self.json || otherwise.json,
        }
    }
}

/// [`ShapeArgs`] with the defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) keyspace: String,
    pub(crate) key: Format,
    pub(crate) value: Format,
    pub(crate) json: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { keyspace: "default".into(), key: Format::Text, value: Format::Text, json: false }
    }
}
