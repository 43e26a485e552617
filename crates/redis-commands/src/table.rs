//! The command table: text in `table/*.txt`, one file a group, read once; and its hash index.
//!
//! Each command is some lines:
//!
//! ```text
//! set -3 ; write denyoom ; string ; 1.0.0            name, arity ; flags ; categories ; version
//!   Sets a string, with conditions                   summary
//!   cost O(1)                                        complexity
//!   tip request_policy:multi_shard                   one line a tip
//!   deprecated 6.2.0 ; `OTHER`                       since when, and what replaces it
//!   internal                                         a command for the system itself
//!   keys RW access ; at 1 to -1 step 2 ; remark      one line a key specification
//!   args key@0 value count:integer=COUNT?            arguments
//! ```
//!
//! Categories that follow from flags are left out, as is the flag `movablekeys`, which follows from the keys.
//! Keys begin `at` an argument or `after WORD from` one; they end `to` the last, with `step` and `limit`, or
//! are `counted`, or `unknown`. A subcommand follows its container and has its name before a `|`.
//!
//! An argument is `name:type@spec=TOKEN^since!deprecated` and marks: `?` optional, `*` repeated, `+`
//! repeated with its token. `{...}` are choices and `(...)` is a block. Without a type it is a key if it has
//! a specification, a pure token if it has a token, else a string.
//!
//! The index is a table of twice as many places as names, searched linearly from a hash of the name in small
//! letters; container and subcommand are hashed together. A lookup compares one or two names.

mod argument;
mod parse;

use crate::command::Command;
use std::sync::LazyLock;

/// Places of the index: a power of two, at least twice the number of commands with subcommands.
const PLACES: usize = 1024;
/// The longest name, `georadiusbymember_ro`; longer words are not hashed.
const NAME_BYTES_MAX: usize = 24;
/// An empty place.
const EMPTY: u16 = u16::MAX;

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

struct Table {
    commands: Vec<Command>,
    places: Box<[u16; PLACES]>,
}

impl Table {
    fn read() -> Self {
        let commands = parse::commands();
        let mut places = Box::new([EMPTY; PLACES]);
        for command in &commands {
            let mut at = place_of(command.parent, command.own_name.as_bytes());
            while places[at] != EMPTY {
                at = (at + 1) % PLACES;
            }
            places[at] = u16::try_from(command.index).unwrap_or(EMPTY);
        }
        Self { commands, places }
    }

    fn find(&self, parent: Option<usize>, name: &[u8]) -> Option<&Command> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let mut at = place_of(parent, name);
        while let Some(command) = self.commands.get(usize::from(self.places[at])) {
            if command.parent == parent && command.own_name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(command);
            }
            at = (at + 1) % PLACES;
        }
        None
    }
}

/// FNV-1a of the name in small letters, begun with the container's number.
fn place_of(parent: Option<usize>, name: &[u8]) -> usize {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ parent.map_or(0, |parent| parent as u64 + 1);
    let hash = name
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(byte | 0x20)).wrapping_mul(0x0000_0100_0000_01b3));
    ((hash >> 32) ^ hash) as usize % PLACES
}

/// All commands, each followed by its subcommands, by group and name.
pub fn all() -> &'static [Command] {
    &TABLE.commands
}

/// The number of commands without subcommands, which `COMMAND COUNT` tells.
pub fn count() -> usize {
    top_level().count()
}

/// The number of commands and subcommands.
pub fn count_with_subcommands() -> usize {
    TABLE.commands.len()
}

/// All commands that are no subcommands.
pub fn top_level() -> impl Iterator<Item = &'static Command> {
    TABLE.commands.iter().filter(|command| command.parent.is_none())
}

/// The command of a name, in letters of either case. Constant time, no allocation.
///
/// ```
/// assert_eq!(esker_redis_commands::find(b"GeT").unwrap().name(), "get");
/// assert!(esker_redis_commands::find(b"client|list").is_none());
/// ```
#[doc(alias = "lookupCommand")]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    TABLE.find(None, name)
}

/// The command or subcommand that the arguments call: of a container with a second argument the subcommand,
/// and none if there is no such subcommand. Constant time, no allocation.
///
/// ```
/// use esker_redis_commands::resolve;
/// assert_eq!(resolve(&["CONFIG", "GET", "port"]).unwrap().name(), "config|get");
/// assert_eq!(resolve(&["config"]).unwrap().name(), "config");
/// assert!(resolve(&["config", "frobnicate"]).is_none());
/// ```
pub fn resolve<A: AsRef<[u8]>>(arguments: &[A]) -> Option<&'static Command> {
    let command = find(arguments.first()?.as_ref())?;
    match arguments.get(1) {
        Some(name) if !command.subcommands.is_empty() => command.subcommand(name.as_ref()),
        _ => Some(command),
    }
}

/// The command of a whole name as `COMMAND INFO` and rules of the ACL write it: `get`, `client|list`.
///
/// ```
/// use esker_redis_commands::find_full;
/// assert_eq!(find_full(b"Client|List").unwrap().arity(), -2);
/// assert!(find_full(b"get|x").is_none());
/// ```
pub fn find_full(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|byte| *byte == b'|') {
        None => find(name),
        Some(at) => find(&name[..at])?.subcommand(&name[at + 1..]),
    }
}

impl Command {
    /// The command that it is a subcommand of.
    pub fn parent(&self) -> Option<&'static Command> {
        self.parent.map(|index| &all()[index])
    }

    /// Its subcommands, by name; none if it takes ordinary arguments.
    pub fn subcommands(&self) -> &'static [Command] {
        &all()[self.subcommands.clone()]
    }

    /// The subcommand of a name, in letters of either case. Constant time, no allocation.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        TABLE.find(Some(self.index), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_either_case_and_in_few_steps() {
        for command in all() {
            let upper = command.name.to_uppercase();
            assert_eq!(find_full(upper.as_bytes()).map(|found| found.index), Some(command.index));
            assert!(command.own_name.len() <= NAME_BYTES_MAX);
        }
        assert!(all().len() * 2 <= PLACES);
        let longest = TABLE.places.split(|place| *place == EMPTY).map(<[u16]>::len).max();
        assert!(longest < Some(16), "{longest:?} names lie beside each other");
    }

    #[test]
    fn other_words_are_not_found() {
        for word in ["", "|", "get|", "|get", "client|", "client|list|x", "client|get", "ge", "gett", "\0"] {
            assert!(find_full(word.as_bytes()).is_none(), "{word}");
        }
        assert!(find(&vec![b'a'; 1 << 20]).is_none());
        // Bytes that differ from a letter by the bit that makes letters small.
        assert!(find(&[b'g', b'e', b't' ^ 0x20 ^ 0x80]).is_none());
    }

    #[test]
    fn numbers_are_positions_and_subcommands_follow_their_container() {
        for (at, command) in all().iter().enumerate() {
            assert_eq!(command.index, at);
            for subcommand in command.subcommands() {
                assert_eq!(subcommand.parent().map(|parent| parent.index), Some(at));
                assert!(subcommand.name.starts_with(command.name));
            }
        }
    }
}
