//! Kinds of commands: what the executor asks of every command, found once and kept by its index in the table.

use esker_redis_commands::{Command, CommandFlags, table};
use std::sync::LazyLock;

/// What the executor wants to know of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandKind {
    /// Whether it may change its keys. PFCOUNT counts as reading and stores the count that it computed.
    pub(crate) changes_keys: bool,
    /// Whether it reads or changes keys that its arguments do not name, or holds all keys (PZ1).
    pub(crate) locks_everything: bool,
    /// Whether it shares a group with its neighbours: it only reads and changes its keys, or has no effect at
    /// all, and does not wait.
    pub(crate) shares_a_group: bool,
    /// Whether its first argument is its only key.
    pub(crate) has_one_key: bool,
    /// Whether it uses its keys, as OBJECT IDLETIME tells.
    pub(crate) uses_keys: bool,
}

/// Commands that name keys and do not use them, as in Redis. RESTORE notes the use itself, and of scripts the
/// commands do.
const LEAVES_TIME_OF_USE: [&str; 25] = [
    "del",
    "unlink",
    "exists",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "object|encoding",
    "object|freq",
    "object|idletime",
    "object|refcount",
    "memory|usage",
    "watch",
    "restore",
    "restore-asking",
    "migrate",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "esker.explain|get",
    "debug",
];

static KINDS: LazyLock<Vec<CommandKind>> =
    LazyLock::new(|| table::all().iter().map(CommandKind::find).collect());

impl CommandKind {
    /// The kind of a command.
    pub(crate) fn of(command: &Command) -> Self {
        KINDS[command.index()]
    }

    fn find(command: &Command) -> Self {
        let (name, flags, range) = (command.name(), command.flags(), command.key_range());
        let locks_everything = matches!(
            name,
            "flushall"
                | "flushdb"
                | "swapdb"
                | "sort"
                | "sort_ro"
                | "move"
                | "copy"
                | "debug"
                | "client|pause"
        );
        let is_of_keys = flags.intersects(CommandFlags::WRITE.with(CommandFlags::READONLY))
            && !flags.intersects(CommandFlags::BLOCKING.with(CommandFlags::NOSCRIPT))
            && !locks_everything;
        Self {
            changes_keys: flags.contains(CommandFlags::WRITE)
                || matches!(name, "eval" | "evalsha" | "fcall" | "pfcount"),
            locks_everything,
            shares_a_group: is_of_keys || matches!(name, "ping" | "echo"),
            has_one_key: (range.first, range.last, range.step) == (1, 1, 1)
                && !flags.contains(CommandFlags::MOVABLEKEYS),
            uses_keys: esker_redis_commands::has_keys(command) && !LEAVES_TIME_OF_USE.contains(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_leave_the_time_of_use_are_in_the_table() {
        for name in LEAVES_TIME_OF_USE {
            let command = table::all().iter().find(|command| command.name() == name);
            assert!(command.is_some_and(|command| !CommandKind::of(command).uses_keys), "{name}");
        }
    }

    /// A command without a key keeps a group together only if it neither waits nor has an effect that could
    /// not be taken back with the group.
    #[test]
    fn what_shares_a_group_has_keys_or_no_effect() {
        for command in table::all() {
            let kind = CommandKind::of(command);
            let has_keys = esker_redis_commands::has_keys(command);
            if kind.shares_a_group && !has_keys && !matches!(command.name(), "ping" | "echo") {
                assert!(command.flags().contains(CommandFlags::READONLY), "{}", command.name());
            }
            assert!(!(kind.shares_a_group && kind.locks_everything), "{}", command.name());
        }
        let kind =
            |name: &str| CommandKind::of(esker_redis_commands::find(name.as_bytes()).expect("it is there"));
        assert!(kind("get").has_one_key && !kind("mget").has_one_key && !kind("ping").has_one_key);
        assert!(kind("set").has_one_key && kind("zadd").has_one_key && !kind("zunionstore").has_one_key);
        assert!(
            !kind("blpop").shares_a_group && !kind("select").shares_a_group && !kind("multi").shares_a_group
        );
        assert!(kind("set").changes_keys && kind("pfcount").changes_keys && !kind("get").changes_keys);
    }
}
