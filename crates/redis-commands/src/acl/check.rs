//! Checks whether a user may run a command with its keys and channels.

use super::selector::{Access, Selector};
use super::user::User;
use crate::channel::Channels;
use crate::command::Command;
use crate::flags::{CommandFlags, KeyFlags};
use crate::key_spec::KeyRef;
use crate::keys::{has_keys, keys};
use crate::text::before_nul;
use esker_resp::glob::{self, Case};

/// What a user may not do, with the position of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// The key at this position.
    Key(usize),
    /// The channel at this position.
    Channel(usize),
}

impl Denied {
    /// The error that a client gets, with its code.
    pub fn error(self, command: &Command) -> String {
        match self {
            Self::Command => {
                format!("NOPERM this user has no permissions to run the '{}' command", command.name())
            }
            Self::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            Self::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments"
                    .to_owned()
            }
        }
    }

    /// The reason in a script's error.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Command => "can't run this command or subcommand",
            Self::Key(_) => "can't access at least one of the keys mentioned in the command arguments",
            Self::Channel(_) => "can't publish to the channel mentioned in the command",
        }
    }
}

impl User {
    /// Whether the user may run a command with these arguments, the first of which is its name.
    ///
    /// The command is what [`resolve`](crate::resolve) found for the arguments. If no selector allows it, the
    /// denial is the one that came closest: of a channel before a key before the command, and the last
    /// argument. `scratch` is room for keys that calls may share. Takes time O(selectors * patterns * keys).
    #[doc(alias = "ACLCheckAllUserCommandPerm")]
    pub fn check<A: AsRef<[u8]>>(
        &self,
        command: &Command,
        arguments: &[A],
        scratch: &mut Vec<KeyRef>,
    ) -> Result<(), Denied> {
        self.check_with(command, arguments, scratch, |_| true)
    }

    /// Whether the user may run a command that reads or changes keys which cannot be told in advance, as the
    /// patterns of SORT: a selector must allow the command and every key for `access`.
    #[doc(alias = "ACLUserCheckCmdWithUnrestrictedKeyAccess")]
    pub fn check_with_all_keys<A: AsRef<[u8]>>(
        &self,
        command: &Command,
        arguments: &[A],
        scratch: &mut Vec<KeyRef>,
        access: KeyFlags,
    ) -> bool {
        self.check_with(command, arguments, scratch, |selector| selector.allows_all_keys(access)).is_ok()
    }

    fn check_with<A: AsRef<[u8]>>(
        &self,
        command: &Command,
        arguments: &[A],
        scratch: &mut Vec<KeyRef>,
        accepts: impl Fn(&Selector) -> bool,
    ) -> Result<(), Denied> {
        let mut searched = false;
        let mut denied = Denied::Command;
        for selector in &self.selectors {
            if !searched && !selector.all_keys && has_keys(command) {
                keys(command, arguments, scratch);
                searched = true;
            }
            match selector.check(command, arguments, scratch) {
                Ok(()) if accepts(selector) => return Ok(()),
                Ok(()) => {}
                Err(reason) => denied = denied.max(reason),
            }
        }
        Err(denied)
    }

    /// Whether a selector allows a key to be used so, whatever the command.
    pub fn allows_key(&self, key: &[u8], flags: KeyFlags) -> bool {
        self.selectors.iter().any(|selector| selector.allows_key(key, flags))
    }

    /// Whether a selector allows a channel, or a pattern to subscribe by.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Whether every channel that an earlier state of this user allowed is allowed by name still. If not,
    /// each subscription of its connections must pass [`User::allows_channel`] or be closed.
    pub fn keeps_channels_of(&self, earlier: &User) -> bool {
        if self.selectors.iter().any(|selector| selector.all_channels) {
            return true;
        }
        let kept =
            |pattern: &Vec<u8>| self.selectors.iter().any(|selector| selector.channels.contains(pattern));
        let mut selectors = earlier.selectors.iter();
        selectors.all(|old| !old.all_channels && old.channels.iter().all(|(pattern, ())| kept(pattern)))
    }
}

impl Selector {
    fn check<A: AsRef<[u8]>>(
        &self,
        command: &Command,
        arguments: &[A],
        keys: &[KeyRef],
    ) -> Result<(), Denied> {
        if !self.allows_command(command, arguments) {
            return Err(Denied::Command);
        }
        if !self.all_keys && has_keys(command) {
            let denied =
                keys.iter().find(|key| !self.allows_key(arguments[key.position].as_ref(), key.flags));
            if let Some(key) = denied {
                return Err(Denied::Key(key.position));
            }
        }
        let Some(channels) = command.channels().filter(|channels| *channels != Channels::Unsubscribe) else {
            return Ok(());
        };
        let is_pattern = channels == Channels::SubscribePatterns;
        let mut positions = channels.positions(arguments.len());
        match positions.find(|at| !self.allows_channel(arguments[*at].as_ref(), is_pattern)) {
            Some(at) => Err(Denied::Channel(at)),
            None => Ok(()),
        }
    }

    fn allows_command<A: AsRef<[u8]>>(&self, command: &Command, arguments: &[A]) -> bool {
        if self.all_commands
            || command.flags().contains(CommandFlags::NO_AUTH)
            || self.commands.contains(command)
        {
            return true;
        }
        let (Some(allowed), Some(first)) = (self.first_arguments.get(&command.index()), arguments.get(1))
        else {
            return false;
        };
        let first = before_nul(first.as_ref());
        allowed.iter().any(|(known, _)| known.eq_ignore_ascii_case(first))
    }

    fn allows_key(&self, key: &[u8], flags: KeyFlags) -> bool {
        let needed = needed(flags);
        self.all_keys
            || self.keys.iter().any(|(pattern, access)| {
                grants(*access, needed) && glob::matches(pattern, key, Case::Sensitive)
            })
    }

    fn allows_all_keys(&self, flags: KeyFlags) -> bool {
        let needed = needed(flags);
        self.all_keys || self.keys.iter().any(|(pattern, access)| grants(*access, needed) && pattern == b"*")
    }

    /// A pattern to subscribe by must be written in the rules as it is, since what it matches is unbounded.
    fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let matches = |pattern: &[u8]| {
            if is_pattern { pattern == channel } else { glob::matches(pattern, channel, Case::Sensitive) }
        };
        self.all_channels || self.channels.iter().any(|(pattern, ())| matches(pattern))
    }
}

/// What a use of a key needs. A key of which only the existence matters needs no more than a pattern.
fn needed(flags: KeyFlags) -> Access {
    let changes = KeyFlags::INSERT.with(KeyFlags::DELETE).with(KeyFlags::UPDATE);
    Access { read: flags.contains(KeyFlags::ACCESS), write: flags.intersects(changes) }
}

const fn grants(access: Access, needed: Access) -> bool {
    (access.read || !needed.read) && (access.write || !needed.write)
}
