//! Sets of commands as bits, and the commands of each category.

use crate::command::Command;
use crate::flags::Categories;
use crate::table;
use std::sync::LazyLock;

/// Words of 64 bits: room for 512 commands and subcommands, of which Redis 7.0 has 366 and Esker 8 of its
/// own.
const WORDS: usize = 8;

/// A set of commands and subcommands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandSet {
    words: [u64; WORDS],
    /// Whether commands that later builds bring are in the set; only `+@all` puts them there.
    pub(super) future: bool,
}

impl CommandSet {
    /// All commands, those of later builds included.
    pub(super) const ALL: Self = Self { words: [u64::MAX; WORDS], future: true };

    pub(super) fn contains(&self, command: &Command) -> bool {
        self.words[command.index() / 64] & bit(command) != 0
    }

    pub(super) fn set(&mut self, command: &Command, allowed: bool) {
        let word = &mut self.words[command.index() / 64];
        *word = if allowed { *word | bit(command) } else { *word & !bit(command) };
    }

    /// Sets a command and its subcommands.
    pub(super) fn set_whole(&mut self, command: &Command, allowed: bool) {
        self.set(command, allowed);
        for subcommand in command.subcommands() {
            self.set(subcommand, allowed);
        }
    }

    /// Sets all of another set.
    pub(super) fn set_all(&mut self, other: &Self, allowed: bool) {
        for (word, other) in self.words.iter_mut().zip(other.words) {
            *word = if allowed { *word | other } else { *word & !other };
        }
    }

    /// How many commands of another set are in this one, and how many are not.
    pub(super) fn count_in(&self, other: &Self) -> (u32, u32) {
        let pairs = self.words.iter().zip(other.words);
        pairs.fold((0, 0), |(inside, outside), (word, other)| {
            (inside + (word & other).count_ones(), outside + (!word & other).count_ones())
        })
    }
}

const fn bit(command: &Command) -> u64 {
    1 << (command.index % 64)
}

/// A category as a set.
#[derive(Debug)]
pub(super) struct Category {
    pub(super) name: &'static str,
    /// The commands of the category.
    pub(super) members: CommandSet,
    /// Those that Redis has as well. Users are described by them, so that it is as in Redis.
    pub(super) of_redis: CommandSet,
    /// What a rule about the category sets: the members and all subcommands of members.
    pub(super) reach: CommandSet,
}

/// All categories, in the order in which Redis lists them.
pub(super) static CATEGORIES: LazyLock<Vec<Category>> = LazyLock::new(|| {
    let category = |(name, flag): &(&'static str, Categories)| {
        let [mut members, mut of_redis, mut reach] = [CommandSet::default(); 3];
        for command in table::all().iter().filter(|command| command.categories().contains(*flag)) {
            members.set(command, true);
            of_redis.set(command, !command.is_extension());
            reach.set_whole(command, true);
        }
        Category { name, members, of_redis, reach }
    };
    Categories::NAMES.iter().map(category).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_has_room_for_the_table() {
        assert!(table::count_with_subcommands() <= WORDS * 64);
        let last = table::all().last().expect("there are commands");
        let mut set = CommandSet::default();
        set.set(last, true);
        assert!(set.contains(last) && set.count_in(&CommandSet::ALL).0 == 1);
    }
}
