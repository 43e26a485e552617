//! Names by which a server calls commands: those of the table, as `rename-command` changes them.
//!
//! A renamed command stays the same for rules of users and in what `COMMAND` tells of it; only what clients
//! and scripts call it changes. Subcommands keep their names.

use crate::command::Command;
use crate::table;
use std::collections::BTreeMap;
use std::fmt;

/// The names of a server's commands.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// What names mean that have another meaning than in the table, in small letters; `None` for no command.
    changed: BTreeMap<Box<[u8]>, Option<&'static Command>>,
}

/// Why a command cannot be renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameError {
    /// No command has the name.
    Unknown(Vec<u8>),
    /// Another command has the new name.
    Taken(Vec<u8>),
}

impl fmt::Display for RenameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no command '{}'", name.escape_ascii()),
            Self::Taken(name) => write!(f, "there is a command '{}' already", name.escape_ascii()),
        }
    }
}

impl std::error::Error for RenameError {}

impl Names {
    /// The names that Redis 7.0.15 has: Esker's own commands have none.
    pub fn of_redis() -> Self {
        let own = table::top_level().filter(|command| command.is_extension());
        Self { changed: own.map(|command| (command.name().as_bytes().into(), None)).collect() }
    }

    /// Gives a command another name, or none if `new` is empty.
    ///
    /// ```
    /// use esker_redis_commands::Names;
    /// let mut names = Names::default();
    /// names.rename(b"config", b"secret").unwrap();
    /// assert_eq!(names.resolve(&["Secret", "get", "*"]).unwrap().name(), "config|get");
    /// assert!(names.find(b"config").is_none());
    /// ```
    ///
    /// # Errors
    /// If there is no such command, or another one has the new name; then nothing has changed.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), RenameError> {
        let command = self.find(old).ok_or_else(|| RenameError::Unknown(old.to_vec()))?;
        let (old, new) = (old.to_ascii_lowercase(), new.to_ascii_lowercase());
        if new != old && self.find(&new).is_some() {
            return Err(RenameError::Taken(new));
        }
        self.changed.insert(old.into(), None);
        if !new.is_empty() {
            self.changed.insert(new.into(), Some(command));
        }
        Ok(())
    }

    /// The command of a name, as [`find`](crate::find).
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        if self.changed.is_empty() {
            return table::find(name);
        }
        match self.changed.get(&name.to_ascii_lowercase()[..]) {
            Some(changed) => *changed,
            None => table::find(name),
        }
    }

    /// What the arguments call, as [`resolve`](crate::resolve).
    pub fn resolve<A: AsRef<[u8]>>(&self, arguments: &[A]) -> Option<&'static Command> {
        let command = self.find(arguments.first()?.as_ref())?;
        match arguments.get(1) {
            Some(name) if !command.subcommands().is_empty() => command.subcommand(name.as_ref()),
            _ => Some(command),
        }
    }

    /// The command of a whole name, as [`find_full`](crate::find_full).
    pub fn find_full(&self, name: &[u8]) -> Option<&'static Command> {
        match name.iter().position(|byte| *byte == b'|') {
            None => self.find(name),
            Some(at) => self.find(&name[..at])?.subcommand(&name[at + 1..]),
        }
    }

    /// Whether clients can call a command by some name.
    pub fn has(&self, command: &Command) -> bool {
        let command = command.parent().unwrap_or(command);
        let mut changed = self.changed.values().flatten();
        match self.changed.get(command.name().as_bytes()) {
            None => true,
            Some(_) => changed.any(|other| other.index() == command.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, RenameError};
    use crate::table;

    #[test]
    fn names_change_one_after_the_other() {
        let mut names = Names::default();
        names.rename(b"GET", b"Fetch").expect("there is GET");
        names.rename(b"set", b"get").expect("the name is free");
        names.rename(b"flushall", b"").expect("there is FLUSHALL");
        names.rename(b"config", b"config").expect("its own name");
        let called = |name: &str| names.find(name.as_bytes()).map(|command| command.name());
        assert_eq!((called("FETCH"), called("Get"), called("set")), (Some("get"), Some("set"), None));
        assert_eq!((called("flushall"), called("")), (None, None));
        assert_eq!(names.find_full(b"config|set").map(|command| command.name()), Some("config|set"));
        let gone: Vec<&str> =
            table::all().iter().filter(|command| !names.has(command)).map(|command| command.name()).collect();
        assert_eq!(gone, ["flushall"]);
    }

    #[test]
    fn what_cannot_be_renamed_changes_nothing() {
        let mut names = Names::default();
        assert_eq!(names.rename(b"nothing", b"x"), Err(RenameError::Unknown(b"nothing".to_vec())));
        assert_eq!(names.rename(b"get", b"SET"), Err(RenameError::Taken(b"set".to_vec())));
        assert!(names.find(b"get").is_some());
        names.rename(b"get", b"").expect("there is GET");
        assert_eq!(names.rename(b"get", b"x"), Err(RenameError::Unknown(b"get".to_vec())));
        assert!(!names.has(crate::find(b"get").expect("in the table")));
    }
}
