//! Finds which arguments of a command are keys: by the key specifications of the table, or by a rule of its
//! own where they do not tell.
//!
//! Access control, locks of keys, transactions, scripts and `COMMAND GETKEYS` all use [`keys`], so that a key
//! that one of them sees is seen by all. The specifications come first, if they tell how keys are used
//! (those of SET and BITFIELD do not); if they find an argument that cannot be, or say that they are not
//! complete, the command's own rule decides.
//!
//! A command that is wrong may have no keys here, or keys of a shorter form: Redis counts `1x` as one key,
//! and a count of 4294967297 as one as well. What runs the command refuses it before it touches any key.

mod by_spec;

use crate::command::Command;
use crate::key_rule::KeyRule;
use crate::key_spec::KeyRef;

/// Replaces `found` by the keys among the arguments, in the order in which Redis lists them.
///
/// `arguments` begins with the command's name. Without the number of arguments that the command accepts, or
/// where the arguments cannot be right, nothing is found. Takes time O(arguments); allocates only if `found`
/// has too little room, and never more than a place for each argument.
///
/// ```
/// use esker_redis_commands::{find, keys};
/// let (union, mut found) = (find(b"zunionstore").unwrap(), Vec::new());
/// keys(union, &["ZUNIONSTORE", "to", "2", "a", "b", "WEIGHTS", "1", "2"], &mut found);
/// assert_eq!(found.iter().map(|key| key.position).collect::<Vec<_>>(), [1, 3, 4]);
/// keys(union, &["ZUNIONSTORE", "to", "2000000000", "a"], &mut found);
/// assert!(found.is_empty());
/// ```
#[doc(alias = "getKeysFromCommandWithSpecs")]
pub fn keys<A: AsRef<[u8]>>(command: &Command, arguments: &[A], found: &mut Vec<KeyRef>) {
    found.clear();
    if !command.accepts(arguments.len()) {
        return;
    }
    if command.has_key_specs && !command.key_use_varies {
        if by_spec::find(&command.key_specs, arguments, found).is_ok() {
            return;
        }
        found.clear();
    }
    command.key_rule.find(arguments, found);
}

/// Whether the command can have keys at all.
pub fn has_keys(command: &Command) -> bool {
    command.has_key_specs || command.key_rule != KeyRule::None
}
