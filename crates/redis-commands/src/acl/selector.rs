//! A selector: the commands, keys and channels that belong together, and the rules that change it.

use super::command_set::{CATEGORIES, CommandSet};
use super::ordered::Ordered;
use super::rule::RuleError;
use crate::table;
use crate::text::{before_nul, is_one_word, same_word};
use std::collections::BTreeMap;

/// What a key pattern allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Data may be read.
    pub read: bool,
    /// Data may be changed.
    pub write: bool,
}

impl Access {
    /// Both.
    pub const ALL: Self = Self { read: true, write: true };
}

/// What is allowed together: a command must be allowed with all its keys and channels by one selector.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// Every key, even one that no pattern matches.
    pub(super) all_keys: bool,
    pub(super) all_channels: bool,
    /// Every command, as long as no rule took one away.
    pub(super) all_commands: bool,
    pub(super) commands: CommandSet,
    /// Allowed first arguments of commands that are not allowed otherwise, by the command's number; keyed in
    /// small letters.
    pub(super) first_arguments: BTreeMap<usize, Ordered<Vec<u8>, Vec<u8>>>,
    pub(super) keys: Ordered<Vec<u8>, Access>,
    pub(super) channels: Ordered<Vec<u8>, ()>,
}

impl Selector {
    /// A selector that allows nothing, except all channels if `all_channels` is set.
    pub(super) fn new(all_channels: bool) -> Self {
        Self { all_channels, ..Self::default() }
    }

    /// Applies one rule. A refused rule changes nothing.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| same_word(rule, word);
        match before_nul(rule) {
            _ if is("allkeys") || is("~*") => self.set_keys(true),
            _ if is("resetkeys") => self.set_keys(false),
            _ if is("allchannels") || is("&*") => self.set_channels(true),
            _ if is("resetchannels") => self.set_channels(false),
            _ if is("allcommands") || is("+@all") => self.set_commands(true),
            _ if is("nocommands") || is("-@all") => self.set_commands(false),
            [b'~', ..] => return self.add_key_pattern(&rule[1..], Access::ALL),
            [b'%', ..] => return self.add_key_rule(&rule[1..]),
            [b'&', ..] => return self.add_channel(&rule[1..]),
            [b'+', b'@', category @ ..] => return self.set_category(category, true),
            [b'-', b'@', category @ ..] => return self.set_category(category, false),
            [b'+', command @ ..] => return self.allow(command),
            [b'-', command @ ..] => return self.set_command(command, false),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn set_commands(&mut self, all: bool) {
        self.all_commands = all;
        self.commands = if all { CommandSet::ALL } else { CommandSet::default() };
        self.first_arguments.clear();
    }

    /// `R~pattern`, `W~pattern` or `RW~pattern`. Neither letter would allow nothing, which is refused.
    fn add_key_rule(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeyAfterAll);
        }
        let mut access = Access { read: false, write: false };
        let mut rest = rule;
        while let [letter, behind @ ..] = rest {
            rest = behind;
            match letter.to_ascii_uppercase() {
                b'R' if !access.read => access.read = true,
                b'W' if !access.write => access.write = true,
                b'~' if access.read || access.write => break,
                _ => return Err(RuleError::Syntax),
            }
        }
        if !access.read && !access.write {
            return Err(RuleError::Syntax);
        }
        self.add_key_pattern(rest, access)
    }

    /// A pattern that is there already gains what the rule allows.
    fn add_key_pattern(&mut self, pattern: &[u8], access: Access) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeyAfterAll);
        }
        if !is_one_word(pattern) {
            return Err(RuleError::Syntax);
        }
        let known = self.keys.entry(pattern.to_vec(), access);
        *known = Access { read: known.read || access.read, write: known.write || access.write };
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelAfterAll);
        }
        if !is_one_word(pattern) {
            return Err(RuleError::Syntax);
        }
        self.channels.entry(pattern.to_vec(), ());
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let category = CATEGORIES.iter().find(|category| same_word(name, category.name));
        let category = category.ok_or(RuleError::Unknown)?;
        self.commands.set_all(&category.reach, allowed);
        self.all_commands &= allowed;
        self.first_arguments.retain(|index, _| !category.members.contains(&table::all()[*index]));
        Ok(())
    }

    fn set_command(&mut self, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let command = table::find_full(name).ok_or(RuleError::Unknown)?;
        self.commands.set_whole(command, allowed);
        self.all_commands &= allowed;
        self.first_arguments.remove(&command.index());
        Ok(())
    }

    /// A command, a subcommand, or a command with one first argument.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            return self.set_command(name, true);
        };
        let (container, argument) = (&name[..bar], &name[bar + 1..]);
        let command = table::find_full(container).ok_or(RuleError::Unknown)?;
        if command.parent().is_some() {
            return Err(RuleError::FirstArgumentOfSubcommand);
        }
        // Redis accepts white space here, and reads what it wrote as several rules.
        if argument.is_empty() || !is_one_word(argument) {
            return Err(RuleError::Syntax);
        }
        if !command.subcommands().is_empty() {
            return self.set_command(name, true);
        }
        let arguments = self.first_arguments.entry(command.index()).or_default();
        arguments.entry(argument.to_ascii_lowercase(), argument.to_vec());
        Ok(())
    }
}
