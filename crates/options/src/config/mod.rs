//! Options in TOML files.
//!
//! ```toml
//! preset = "write-heavy"      # where everything starts; optional
//! memory_budget = "512MiB"    # options of the database
//! durability = "power"
//!
//! [keyspace_defaults]         # options of keyspaces that have no section of their own when they are created
//! compression = ["none", "lz4", "zstd:3"]
//!
//! [keyspace.users]            # options of one keyspace; applied also if it exists
//! block_size = "16KiB"
//! default_ttl = "30d"
//! ```
//!
//! Every option has the name and the values that [`Options::set`] takes; numbers, `true` and `false` need no
//! quotes, and lists by level may be arrays.

mod read;
#[cfg(test)]
mod tests;
mod write;

use super::Options;
use esker_base::{Error, Result};
use esker_env::{Env, OpenMode};
use std::path::Path;

/// The longest configuration file: a thousand keyspaces with all their options.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl Options {
    /// Options from TOML text. Options of the database are at the top level, with `preset` to start from one;
    /// those below `[keyspace_defaults]` apply to keyspaces that are created, and those below
    /// `[keyspace.NAME]` to one keyspace ([`Options::set_keyspace`]). Values are written as for
    /// [`Options::set`]; numbers need no quotes.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// let options = esker_options::Options::from_toml(
    ///     r#"
    ///     memory_budget = "256MiB"
    ///
    ///     [keyspace.users]
    ///     compression = ["none", "lz4", "zstd:3"]
    ///     "#,
    /// )?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, naming the line, the option, and the allowed values or a similar name.
    #[doc(alias = "GetDBOptionsFromString")]
    pub fn from_toml(text: &str) -> Result<Options> {
        read::read(text, None)
    }

    /// Options from a TOML file; see [`Options::from_toml`].
    ///
    /// # Errors
    /// Those of reading the file, and `InvalidArgument` naming file and line.
    #[doc(alias = "LoadOptionsFromFile")]
    pub fn from_file(path: impl AsRef<Path>) -> Result<Options> {
        let path = path.as_ref();
        let wrong = |what: &str| Error::invalid(format!("configuration {}: {what}", path.display()));
        let file = Env::real().fs.open(path, OpenMode::Read)?;
        let len = file.len()?;
        if len > MAX_FILE_BYTES {
            return Err(wrong(&format!("the file has {len} bytes, at most {MAX_FILE_BYTES} are read")));
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| wrong("the file is too large"))?];
        file.read_exact_at(&mut bytes, 0)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("the file is not UTF-8"))?;
        read::read(&text, Some(path))
    }

    /// The options that differ from their defaults as TOML text, which [`Options::from_toml`] reads back.
    /// Code is left out: the functions of merge operators, compaction filters, the environment.
    pub fn to_toml(&self) -> String {
        write::write(self)
    }
}
