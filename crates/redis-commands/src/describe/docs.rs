//! The reply of `COMMAND DOCS` for one command.

use crate::command::{Argument, Command};
use crate::reply::Reply;

/// The documentation of a command, subcommands included.
pub(super) fn docs(command: &Command) -> Reply {
    let docs = command.docs();
    let mut pairs = vec![
        ("summary", Reply::text(docs.summary)),
        ("since", Reply::text(docs.since)),
        ("group", Reply::text(docs.group)),
    ];
    pairs.extend(docs.complexity.map(|complexity| ("complexity", Reply::text(complexity))));
    let flagged = docs.deprecated.is_some_and(|deprecated| deprecated.flagged);
    let flags = [(flagged, "deprecated"), (docs.internal, "syscmd")];
    if flags.iter().any(|(given, _)| *given) {
        let names = flags.into_iter().filter(|(given, _)| *given).map(|(_, name)| name);
        pairs.push(("doc_flags", Reply::statuses(names)));
    }
    if let Some(deprecated) = docs.deprecated {
        pairs.push(("deprecated_since", Reply::text(deprecated.since)));
        pairs.push(("replaced_by", Reply::text(deprecated.replaced_by)));
    }
    pairs.extend(docs.arguments.as_ref().map(|list| ("arguments", arguments(list))));
    if !command.subcommands().is_empty() {
        let subcommands = command.subcommands().iter().map(|sub| (Reply::text(sub.name()), self::docs(sub)));
        pairs.push(("subcommands", Reply::Map(subcommands.collect())));
    }
    map(pairs)
}

fn arguments(list: &[Argument]) -> Reply {
    Reply::Array(list.iter().map(argument).collect())
}

fn argument(argument: &Argument) -> Reply {
    let mut pairs = vec![("name", Reply::text(argument.name)), ("type", Reply::text(argument.kind))];
    pairs.extend(argument.key_spec_index.map(|index| ("key_spec_index", Reply::Integer(index))));
    pairs.extend(argument.token.map(|token| ("token", Reply::text(token))));
    pairs.extend(argument.since.map(|since| ("since", Reply::text(since))));
    pairs.extend(argument.deprecated_since.map(|since| ("deprecated_since", Reply::text(since))));
    let flags = [
        (argument.optional, "optional"),
        (argument.multiple, "multiple"),
        (argument.multiple_token, "multiple_token"),
    ];
    if flags.iter().any(|(given, _)| *given) {
        let names = flags.into_iter().filter(|(given, _)| *given).map(|(_, name)| name);
        pairs.push(("flags", Reply::statuses(names)));
    }
    if matches!(argument.kind, "oneof" | "block") {
        pairs.push(("arguments", arguments(&argument.arguments)));
    }
    map(pairs)
}

fn map(pairs: Vec<(&'static str, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::text(name), value)).collect())
}
