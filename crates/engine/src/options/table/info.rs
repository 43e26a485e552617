//! What there is to know of an option, for programs that show it.

use std::fmt;

/// Whose option it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionScope {
    /// The database's: holds for one open, and is not stored.
    Database,
    /// A keyspace's: stored with it.
    Keyspace,
    /// A parameter of a preset, under the name that it has elsewhere.
    Preset,
}

impl fmt::Display for OptionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionScope::Database => "database",
            OptionScope::Keyspace => "keyspace",
            OptionScope::Preset => "preset",
        })
    }
}

/// Whether an option can change while the database is open, and from when on a change holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionChange {
    /// From the next write, or the next plan of a compaction.
    AtOnce,
    /// For the next memtable.
    NextMemtable,
    /// For tables, and blob files, that are written from then on; those that are there stay until a
    /// compaction rewrites them.
    NewTables,
    /// For tables that are opened from then on; what is in them does not change.
    OpenedTables,
    /// It is given when the database is opened.
    NextOpen,
    /// It can be given to a keyspace that has none, and then stays.
    Once,
}

impl OptionChange {
    /// Whether it can change while the database is open.
    pub const fn is_online(self) -> bool {
        !matches!(self, OptionChange::NextOpen)
    }
}

impl fmt::Display for OptionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionChange::AtOnce => "at once",
            OptionChange::NextMemtable => "next memtable",
            OptionChange::NewTables => "new tables",
            OptionChange::OpenedTables => "opened tables",
            OptionChange::NextOpen => "next open",
            OptionChange::Once => "once",
        })
    }
}

/// What there is to know of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionInfo {
    /// Whose option it is.
    pub scope: OptionScope,
    /// Its name.
    pub name: &'static str,
    /// The name under which it is stored, where it is.
    pub stored: &'static str,
    /// Other names that are understood, known from elsewhere.
    pub aliases: &'static [&'static str],
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Whether it can change while the database is open.
    pub change: OptionChange,
    /// Its default, written as it is set.
    pub default: String,
    /// What the default follows from or means, where it is a word.
    pub default_means: Option<&'static str>,
    /// What it may be: a range, or the choices.
    pub allowed: String,
}

/// An option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionValue {
    /// The option's name.
    pub name: &'static str,
    /// The value, written as it is set.
    pub text: String,
    /// The value if it is a plain number or a number of bytes.
    pub number: Option<u64>,
    /// Whether it is the default.
    pub is_default: bool,
}
