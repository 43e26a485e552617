//! Options by name, for command lines, configuration files and programs that show them.

use super::schema::{self, OptionInfo, OptionValue, Row};
use super::{KeyspaceOptions, Options};
use esker_base::Result;

impl KeyspaceOptions {
    /// Descriptions of every option of a keyspace that is data: all but the compaction filter.
    pub fn list() -> Vec<OptionInfo> {
        schema::describe::<KeyspaceOptions>()
    }

    /// Every option with its value.
    pub fn values(&self) -> Vec<OptionValue> {
        schema::values(self)
    }

    /// Every option by its name, with its value as [`KeyspaceOptions::set`] takes it; and the name of the
    /// compaction filter if there is one.
    pub fn named_values(&self) -> Vec<(String, String)> {
        let filter = self.compaction_filter_name();
        let filter = filter.map(|filter| ("compaction_filter".to_owned(), filter.to_owned()));
        named(self.values()).chain(filter).collect()
    }

    /// Sets an option from text. Sizes and times may have units (`64KiB`, `10s`). Names used by other engines
    /// are accepted, such as `bottommost_compression`; so are the stored names, whose numbers have no unit.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// let options = esker_options::KeyspaceOptions::default().set("compression_last", "zstd:3")?;
    /// assert!(options.named_values().contains(&("compression_last".into(), "zstd:3".into())));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option, its value and the allowed values; or, if there is no such
    /// option, a similar one.
    pub fn set(mut self, name: &str, value: &str) -> Result<KeyspaceOptions> {
        schema::set(&mut self, name, value)?;
        Ok(self)
    }
}

impl OptionInfo {
    /// Descriptions of every option, those of databases first.
    pub fn all() -> Vec<OptionInfo> {
        let mut all = Options::list();
        all.append(&mut KeyspaceOptions::list());
        all
    }

    /// The option with this name, of a database or of a keyspace.
    ///
    /// # Errors
    /// `InvalidArgument`, with a similar name.
    pub fn find(name: &str) -> Result<OptionInfo> {
        schema::find::<Options>(name)
            .map(Row::info)
            .or_else(|_| schema::find::<KeyspaceOptions>(name).map(Row::info))
    }
}

impl Options {
    /// Descriptions of every option of a database that is data; without options of keyspaces, user-defined
    /// merge operators, and the environment.
    pub fn list() -> Vec<OptionInfo> {
        schema::describe::<Options>()
    }

    /// Every option with its value.
    pub fn values(&self) -> Vec<OptionValue> {
        schema::values(self)
    }

    /// Every option by its name, with its value as [`Options::set`] takes it.
    pub fn named_values(&self) -> Vec<(String, String)> {
        named(self.values()).collect()
    }

    /// Sets an option from text, as [`KeyspaceOptions::set`] does.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// let options = esker_options::Options::default();
    /// let options = options.set("memory_budget", "512MiB")?.set("durability", "power")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`KeyspaceOptions::set`].
    pub fn set(mut self, name: &str, value: &str) -> Result<Options> {
        schema::set(&mut self, name, value)?;
        Ok(self)
    }
}

fn named(values: Vec<OptionValue>) -> impl Iterator<Item = (String, String)> {
    values.into_iter().map(|value| (value.name.to_owned(), value.text))
}
