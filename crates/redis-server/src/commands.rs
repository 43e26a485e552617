//! The handlers of commands, by family.

pub(crate) mod acl;
pub(crate) mod administration;
pub(crate) mod alone;
pub(crate) mod bits;
pub(crate) mod client_waits;
pub(crate) mod clients;
pub(crate) mod configuration;
pub(crate) mod connection;
pub(crate) mod databases;
pub(crate) mod debug;
pub(crate) mod dump;
pub(crate) mod expiry;
pub(crate) mod explain;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod hyperloglog;
pub(crate) mod information;
pub(crate) mod keys;
pub(crate) mod latency;
pub(crate) mod lists;
pub(crate) mod memory;
pub(crate) mod monitor;
pub(crate) mod object;
pub(crate) mod pubsub;
pub(crate) mod random_count;
pub(crate) mod saving;
pub(crate) mod scan;
pub(crate) mod scan_options;
pub(crate) mod scripting;
pub(crate) mod sets;
pub(crate) mod slow_log;
pub(crate) mod sort;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod tracking;
pub(crate) mod transactions;
pub(crate) mod wait;

use crate::call::Call;
use crate::failure::{Failure, Outcome, shown};
use esker_redis_commands::{Command, table};
use std::sync::LazyLock;

/// Executes a call and writes its reply.
pub(crate) type Handler = fn(&mut Call<'_, '_>) -> Outcome;

/// Names of commands, as `client|list` for subcommands, and their handlers.
pub(crate) type Family = &'static [(&'static str, Handler)];

/// All families.
const FAMILIES: &[Family] = &[
    acl::COMMANDS,
    administration::COMMANDS,
    alone::COMMANDS,
    bits::COMMANDS,
    client_waits::COMMANDS,
    clients::COMMANDS,
    configuration::COMMANDS,
    connection::COMMANDS,
    information::COMMANDS,
    databases::COMMANDS,
    debug::COMMANDS,
    dump::COMMANDS,
    expiry::COMMANDS,
    explain::COMMANDS,
    geo::COMMANDS,
    hashes::COMMANDS,
    hyperloglog::COMMANDS,
    keys::COMMANDS,
    latency::COMMANDS,
    lists::COMMANDS,
    memory::COMMANDS,
    monitor::COMMANDS,
    object::COMMANDS,
    pubsub::COMMANDS,
    saving::COMMANDS,
    scan::COMMANDS,
    scripting::COMMANDS,
    sets::COMMANDS,
    slow_log::COMMANDS,
    sort::COMMANDS,
    sorted_sets::COMMANDS,
    streams::COMMANDS,
    strings::COMMANDS,
    tracking::COMMANDS,
    transactions::COMMANDS,
    wait::COMMANDS,
];

static HANDLERS: LazyLock<Vec<Option<Handler>>> = LazyLock::new(|| {
    let mut handlers = vec![None; table::count_with_subcommands()];
    for (name, handler) in FAMILIES.iter().flat_map(|family| family.iter()) {
        let command = esker_redis_commands::find_full(name.as_bytes());
        let command = command.unwrap_or_else(|| panic!("{name} is not in the command table"));
        assert!(handlers[command.index()].is_none(), "{name} has two handlers");
        handlers[command.index()] = Some(*handler);
    }
    handlers
});

/// The handler of a command; `None` for one that this server does not have.
pub(crate) fn handler(command: &Command) -> Option<Handler> {
    HANDLERS[command.index()]
}

/// The error of arguments that no subcommand has.
pub(crate) fn subcommand_syntax(call: &Call<'_, '_>) -> Failure {
    let shown_subcommand = shown(call.args[1]);
    let subcommand = &shown_subcommand[..shown_subcommand.len().min(128)];
    let command = shown(call.args[0]).to_ascii_uppercase();
    [
        b"ERR unknown subcommand or wrong number of arguments for '",
        subcommand,
        b"'. Try ",
        &command[..],
        b" HELP.",
    ]
    .concat()
    .into()
}

/// Replies to HELP: one status a line.
pub(crate) fn reply_help(call: &mut Call<'_, '_>, lines: &[&str]) {
    let command = call.args[0].to_ascii_uppercase();
    call.reply.array(lines.len() + 3);
    call.reply.status(&[&command[..], b" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"].concat());
    lines.iter().for_each(|line| call.reply.status(line.as_bytes()));
    call.reply.status(b"HELP");
    call.reply.status(b"    Prints this help.");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that are answered elsewhere, or whose handlers are written with what they need: clients that
    /// wait, rules of users, tracking.
    const WITHOUT_HANDLER: [&str; 9] = [
        "bzmpop",
        "bzpopmax",
        "bzpopmin",
        "client|caching",
        "client|tracking",
        "client|trackinginfo",
        "client|unblock",
        // The executor's own.
        "exec",
        "acl",
    ];

    #[test]
    fn every_command_of_the_table_is_answered() {
        let missing = table::all().iter().filter(|command| {
            // A container without a subcommand is an error before it is called.
            command.subcommands().is_empty() && handler(command).is_none()
        });
        let missing: Vec<&str> = missing
            .filter(|command| {
                let parent = command.parent().map_or("", Command::name);
                !WITHOUT_HANDLER.contains(&command.name()) && !WITHOUT_HANDLER.contains(&parent)
            })
            .map(Command::name)
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
