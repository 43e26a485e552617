//! The reply of `COMMAND INFO` for one command.

use crate::command::Command;
use crate::key_spec::{Begin, Extent, KeySpec};
use crate::reply::Reply;
use std::borrow::Cow;

/// The ten parts of a command, subcommands included.
pub(super) fn info(command: &Command) -> Reply {
    let range = command.key_range();
    let categories = command.categories().names().map(|name| Reply::Status(Cow::Owned(format!("@{name}"))));
    Reply::Array(vec![
        Reply::text(command.name()),
        integer(command.arity()),
        Reply::statuses(command.flags().names()),
        integer(range.first),
        integer(range.last),
        integer(range.step),
        Reply::Set(categories.collect()),
        Reply::Set(command.tips().iter().map(|tip| Reply::text(tip)).collect()),
        Reply::Set(command.key_specs().iter().map(key_spec).collect()),
        subcommands(command),
    ])
}

/// Redis calls an absent list of subcommands a set and a present one an array.
fn subcommands(command: &Command) -> Reply {
    if command.subcommands().is_empty() {
        return Reply::Set(Vec::new());
    }
    Reply::Array(command.subcommands().iter().map(info).collect())
}

fn key_spec(spec: &KeySpec) -> Reply {
    let begin = match spec.begin {
        Begin::Index(index) => ("index", vec![("index", integer(index))]),
        Begin::Keyword { word, from } => {
            ("keyword", vec![("keyword", Reply::text(word)), ("startfrom", integer(from))])
        }
        Begin::Unknown => ("unknown", Vec::new()),
    };
    let extent = match spec.extent {
        Extent::Range { last, step, limit } => {
            let parts =
                vec![("lastkey", integer(last)), ("keystep", integer(step)), ("limit", integer(limit))];
            ("range", parts)
        }
        Extent::Counted => {
            let parts = vec![("keynumidx", integer(0)), ("firstkey", integer(1)), ("keystep", integer(1))];
            ("keynum", parts)
        }
        Extent::Unknown => ("unknown", Vec::new()),
    };
    let note = spec.note.map(|note| ("notes", Reply::text(note)));
    map(note.into_iter().chain([
        ("flags", Reply::statuses(spec.flags.names())),
        ("begin_search", typed(begin)),
        ("find_keys", typed(extent)),
    ]))
}

fn typed(rule: (&'static str, Vec<(&'static str, Reply)>)) -> Reply {
    map([("type", Reply::text(rule.0)), ("spec", map(rule.1))])
}

fn map(pairs: impl IntoIterator<Item = (&'static str, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::text(name), value)).collect())
}

fn integer(number: i32) -> Reply {
    Reply::Integer(i64::from(number))
}
