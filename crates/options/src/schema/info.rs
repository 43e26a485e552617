//! Descriptions of options, for programs that show them.

use std::fmt;

/// The owner of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionScope {
    /// The database: applies to one open, and is not stored.
    Database,
    /// A keyspace: stored with it.
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

/// Whether an option can change while the database is open, and what a change applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionChange {
    /// The next write, or the next plan of a compaction.
    AtOnce,
    /// The next memtable.
    NextMemtable,
    /// Tables, and blob files, that are written from then on; existing ones stay until a compaction rewrites
    /// them.
    NewTables,
    /// Tables that are opened from then on; their contents do not change.
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

/// Which users need an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionGroup {
    /// Most users choose these.
    Everyday,
    /// For tuning, after a measurement.
    Expert,
    /// For comparing the kinds of a part; leave them alone otherwise.
    Experiment,
}

impl fmt::Display for OptionGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionGroup::Everyday => "everyday",
            OptionGroup::Expert => "expert",
            OptionGroup::Experiment => "experiment",
        })
    }
}

/// The description of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionInfo {
    /// Its owner.
    pub scope: OptionScope,
    /// Which users need it.
    pub group: OptionGroup,
    /// Its name.
    pub name: &'static str,
    /// The name under which it is stored, if it is.
    pub stored: &'static str,
    /// Other accepted names, known from elsewhere.
    pub aliases: &'static [&'static str],
    /// What it does, in a sentence.
    pub help: &'static str,
    /// Whether it can change while the database is open.
    pub change: OptionChange,
    /// Its default, written as it is set.
    pub default: String,
    /// What the default is derived from or means, where it is a word.
    pub default_means: Option<&'static str>,
    /// The allowed values: a range, or the choices.
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
