//! The replies of `COMMAND` and its subcommands, from the table.
//!
//! Redis lists commands in the order of a hash table with a random seed; here they come in the order of the
//! table. The texts of `DOCS` are our own and it tells no history; all else is as in Redis 7.0.15.

mod docs;
mod info;

use crate::command::Command;
use crate::flags::{Categories, CommandFlags};
use crate::keys::{has_keys, keys};
use crate::names::Names;
use crate::reply::Reply;
use crate::table;
use crate::text::same_word;
use esker_resp::glob::{self, Case};

/// The reply of `COMMAND` and of `COMMAND INFO` without names: all commands.
pub fn all(names: &Names) -> Reply {
    Reply::Array(commands(names).map(info::info).collect())
}

/// The commands that clients can call.
fn commands(names: &Names) -> impl Iterator<Item = &'static Command> {
    table::top_level().filter(|command| names.has(command))
}

/// The reply of `COMMAND COUNT`.
pub fn count(names: &Names) -> Reply {
    Reply::Integer(i64::try_from(commands(names).count()).unwrap_or(i64::MAX))
}

/// The reply of `COMMAND INFO name ...`: null for what is no command; without names all commands.
pub fn info<A: AsRef<[u8]>>(names: &Names, asked: &[A]) -> Reply {
    if asked.is_empty() {
        return all(names);
    }
    let info = |name: &A| names.find_full(name.as_ref()).map_or(Reply::Null, info::info);
    Reply::Array(asked.iter().map(info).collect())
}

/// The reply of `COMMAND DOCS name ...`: nothing for what is no command; without names all commands.
pub fn docs<A: AsRef<[u8]>>(names: &Names, asked: &[A]) -> Reply {
    let pair = |command: &'static Command| (Reply::text(command.name()), docs::docs(command));
    if asked.is_empty() {
        return Reply::Map(commands(names).map(pair).collect());
    }
    Reply::Map(asked.iter().filter_map(|name| names.find_full(name.as_ref())).map(pair).collect())
}

/// The reply of `COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)]`, subcommands
/// included. There are no modules, so that filter finds nothing.
pub fn list<A: AsRef<[u8]>>(names: &Names, options: &[A]) -> Reply {
    let words: Vec<&[u8]> = options.iter().map(AsRef::as_ref).collect();
    let listed = |wanted: &dyn Fn(&Command) -> bool| {
        let found = table::all().iter().filter(|command| names.has(command) && wanted(command));
        Reply::Array(found.map(|command| Reply::text(command.name())).collect())
    };
    match words[..] {
        [] => listed(&|_| true),
        [filter_by, kind, argument] if same_word(filter_by, "filterby") => {
            if same_word(kind, "module") {
                listed(&|_| false)
            } else if same_word(kind, "aclcat") {
                let category = Categories::named(crate::text::before_nul(argument));
                listed(&|command| category.is_some_and(|category| command.categories().contains(category)))
            } else if same_word(kind, "pattern") {
                listed(&|command| glob::matches(argument, command.name().as_bytes(), Case::Insensitive))
            } else {
                Reply::error("syntax error")
            }
        }
        _ => Reply::error("syntax error"),
    }
}

/// The reply of `COMMAND GETKEYS command argument ...`.
///
/// ```
/// use esker_redis_commands::{Names, Reply, describe};
/// let reply = describe::getkeys(&Names::default(), &["get"], false);
/// assert_eq!(reply, Reply::error("Invalid number of arguments specified for command"));
/// ```
pub fn getkeys<A: AsRef<[u8]>>(names: &Names, arguments: &[A], with_flags: bool) -> Reply {
    let Some(command) = names.resolve(arguments) else {
        return Reply::error("Invalid command specified");
    };
    if !has_keys(command) {
        return Reply::error("The command has no key arguments");
    }
    if !command.accepts(arguments.len()) {
        return Reply::error("Invalid number of arguments specified for command");
    }
    let mut found = Vec::new();
    keys(command, arguments, &mut found);
    if found.is_empty() && !command.flags().contains(CommandFlags::NO_MANDATORY_KEYS) {
        return Reply::error("Invalid arguments specified for command");
    }
    let keys = found.iter().map(|key| {
        let name = Reply::bytes(arguments[key.position].as_ref().to_vec());
        if with_flags { Reply::Array(vec![name, Reply::statuses(key.flags.names())]) } else { name }
    });
    Reply::Array(keys.collect())
}
