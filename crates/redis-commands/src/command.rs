//! What is known of a command: arity, flags, categories, keys, and its documentation.

use crate::channel::Channels;
use crate::flags::{Categories, CommandFlags};
use crate::key_rule::KeyRule;
use crate::key_spec::{KeyRange, KeySpec};

/// The group of commands that Redis 7.0.15 does not have, as it names those of modules.
pub(crate) const EXTENSIONS: &str = "module";

/// A command or subcommand of Redis 7.0.15, or of Esker.
#[derive(Debug)]
pub struct Command {
    pub(crate) index: usize,
    pub(crate) name: &'static str,
    /// The name without the container's.
    pub(crate) own_name: &'static str,
    pub(crate) parent: Option<usize>,
    pub(crate) subcommands: std::ops::Range<usize>,
    pub(crate) arity: i32,
    pub(crate) flags: CommandFlags,
    pub(crate) categories: Categories,
    pub(crate) tips: Vec<&'static str>,
    pub(crate) key_specs: Vec<KeySpec>,
    pub(crate) key_range: KeyRange,
    pub(crate) key_rule: KeyRule,
    /// Whether some specification finds keys.
    pub(crate) has_key_specs: bool,
    /// Whether other arguments change how keys are used, so that the specifications do not tell.
    pub(crate) key_use_varies: bool,
    pub(crate) channels: Option<Channels>,
    pub(crate) docs: Docs,
}

/// What `COMMAND DOCS` tells of a command.
#[derive(Debug, Default)]
pub struct Docs {
    /// One sentence.
    pub summary: &'static str,
    /// The version of Redis that brought the command, or of Esker if it is an extension.
    pub since: &'static str,
    /// The kind of data or work.
    pub group: &'static str,
    /// How the time grows.
    pub complexity: Option<&'static str>,
    /// Since which version another command is better, and which.
    pub deprecated: Option<Deprecated>,
    /// Whether `COMMAND DOCS` calls the command one for the system itself.
    pub internal: bool,
    /// The arguments after the command's name; none is told of a command with subcommands.
    pub arguments: Option<Vec<Argument>>,
}

/// What replaces a command.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// The version.
    pub since: &'static str,
    /// The other command, in Markdown.
    pub replaced_by: &'static str,
    /// Whether the documentation flags say so, too; two subcommands are deprecated without it.
    pub flagged: bool,
}

/// An argument in the documentation.
#[derive(Debug, Default)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Its type: `string`, `integer`, `double`, `key`, `pattern`, `unix-time`, `pure-token`, `oneof` or
    /// `block`.
    pub kind: &'static str,
    /// Which of the command's key specifications finds it.
    pub key_spec_index: Option<i64>,
    /// The word that stands before it, or instead of it.
    pub token: Option<&'static str>,
    /// The version that brought it.
    pub since: Option<&'static str>,
    /// The version since which it is deprecated.
    pub deprecated_since: Option<&'static str>,
    /// It may be absent.
    pub optional: bool,
    /// It may be repeated.
    pub multiple: bool,
    /// It is repeated with its word.
    pub multiple_token: bool,
    /// The parts of a block, or the choices.
    pub arguments: Vec<Argument>,
}

impl Command {
    /// The name in small letters; of a subcommand with its container's name, as `client|list`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The position in the table of this build, below
    /// [`count_with_subcommands`](crate::table::count_with_subcommands). It numbers commands
    /// densely, so that a server can keep a function for each in an array; it is never stored.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of arguments with the command's name (and its subcommand's); if negative, at least so many.
    pub fn arity(&self) -> i32 {
        self.arity
    }

    /// Whether so many arguments, names included, are allowed.
    pub fn accepts(&self, arguments: usize) -> bool {
        let arity = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        if self.arity > 0 { arguments == arity } else { arguments >= arity }
    }

    /// What it does and where it may run.
    pub fn flags(&self) -> CommandFlags {
        self.flags
    }

    /// Its ACL categories.
    pub fn categories(&self) -> Categories {
        self.categories
    }

    /// Hints for clients and proxies.
    pub fn tips(&self) -> &[&'static str] {
        &self.tips
    }

    /// Where its keys are.
    pub fn key_specs(&self) -> &[KeySpec] {
        &self.key_specs
    }

    /// The range of keys that `COMMAND INFO` shows.
    pub fn key_range(&self) -> KeyRange {
        self.key_range
    }

    /// What it does with channels; none if it has none.
    pub fn channels(&self) -> Option<Channels> {
        self.channels
    }

    /// Whether it is Esker's and Redis 7.0.15 does not have it.
    pub fn is_extension(&self) -> bool {
        self.docs.group == EXTENSIONS
    }

    /// Its documentation.
    pub fn docs(&self) -> &Docs {
        &self.docs
    }
}
