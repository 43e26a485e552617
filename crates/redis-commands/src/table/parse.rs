//! Reads the text of the table. The text is a part of the program, so what is wrong in it panics, and a test
//! that looks at any command notices.

use super::argument;
use crate::channel::Channels;
use crate::command::{Command, Deprecated, Docs, EXTENSIONS};
use crate::flags::{Categories, CommandFlags, KeyFlags};
use crate::key_rule::KeyRule;
use crate::key_spec::{Begin, Extent, KeyRange, KeySpec};

/// The groups and their texts.
const GROUPS: [(&str, &str); 17] = [
    ("bitmap", include_str!("bitmap.txt")),
    ("cluster", include_str!("cluster.txt")),
    ("connection", include_str!("connection.txt")),
    ("generic", include_str!("generic.txt")),
    ("geo", include_str!("geo.txt")),
    ("hash", include_str!("hash.txt")),
    ("hyperloglog", include_str!("hyperloglog.txt")),
    ("list", include_str!("list.txt")),
    ("pubsub", include_str!("pubsub.txt")),
    ("scripting", include_str!("scripting.txt")),
    ("server", include_str!("server.txt")),
    ("set", include_str!("set.txt")),
    ("sorted-set", include_str!("sorted_set.txt")),
    ("stream", include_str!("stream.txt")),
    ("string", include_str!("string.txt")),
    ("transactions", include_str!("transactions.txt")),
    (EXTENSIONS, include_str!("esker.txt")),
];

/// All commands of all groups.
pub(super) fn commands() -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (group, text) in GROUPS {
        for block in text.split("\n\n") {
            let mut command = command(group, block);
            command.index = commands.len();
            command.subcommands = command.index..command.index;
            if let Some((container, _)) = command.name.split_once('|') {
                let parent = commands.iter().rposition(|known| known.name == container);
                let parent = parent.unwrap_or_else(|| panic!("{} has no container before it", command.name));
                let subcommands = &mut commands[parent].subcommands;
                if subcommands.start == subcommands.end {
                    subcommands.start = command.index;
                }
                subcommands.end = command.index + 1;
                command.parent = Some(parent);
            }
            commands.push(command);
        }
    }
    commands
}

fn command(group: &'static str, block: &'static str) -> Command {
    let mut lines = block.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(';').map(str::trim).collect();
    let [name_and_arity, flags, categories, since] = head[..] else {
        panic!("`{head:?}` has not four parts")
    };
    let Some((name, arity)) = name_and_arity.split_once(' ') else { panic!("`{name_and_arity}`: no arity") };
    let summary = lines.next().unwrap_or_default().trim();
    let mut command = Command {
        index: 0,
        name,
        own_name: name.split_once('|').map_or(name, |(_, name)| name),
        parent: None,
        subcommands: 0..0,
        arity: number(arity),
        flags: members(flags, CommandFlags::NONE, CommandFlags::named, CommandFlags::with),
        categories: members(categories, Categories::NONE, Categories::named, Categories::with),
        tips: Vec::new(),
        key_specs: Vec::new(),
        key_range: KeyRange::default(),
        key_rule: KeyRule::of(name),
        has_key_specs: false,
        key_use_varies: false,
        channels: Channels::named(name),
        docs: Docs { summary, since, group, ..Docs::default() },
    };
    for line in lines {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        detail(&mut command, word, rest);
    }
    let (range, movable) = KeyRange::covering(&command.key_specs);
    command.key_range = range;
    command.key_use_varies =
        command.key_specs.iter().any(|spec| spec.flags.contains(KeyFlags::VARIABLE_FLAGS));
    command.has_key_specs = command.key_specs.iter().any(|spec| !spec.flags.contains(KeyFlags::NOT_KEY));
    if movable {
        command.flags = command.flags.with(CommandFlags::MOVABLEKEYS);
    }
    command.categories = with_implied(command.flags, command.categories);
    command
}

/// One of the lines that may follow the summary.
fn detail(command: &mut Command, word: &'static str, rest: &'static str) {
    match word {
        "cost" => command.docs.complexity = Some(rest),
        "tip" => command.tips.push(rest),
        "internal" => command.docs.internal = true,
        "deprecated" | "deprecated*" => {
            let Some((since, replaced_by)) = rest.split_once(" ; ") else { panic!("`{rest}`: no successor") };
            command.docs.deprecated = Some(Deprecated { since, replaced_by, flagged: word == "deprecated" });
        }
        "keys" => command.key_specs.push(key_spec(rest)),
        "args" => command.docs.arguments = Some(argument::list(rest)),
        _ => panic!("{}: unknown line `{word}`", command.name),
    }
}

fn key_spec(text: &'static str) -> KeySpec {
    let mut parts = text.splitn(3, ';').map(str::trim);
    let flags = members(parts.next().unwrap_or(""), KeyFlags::NONE, KeyFlags::named, KeyFlags::with);
    let place: Vec<&str> = parts.next().unwrap_or("").split(' ').collect();
    let (begin, rest) = match place[..] {
        ["at", index, ..] => (Begin::Index(number(index)), &place[2..]),
        ["after", word, "from", from, ..] => (Begin::Keyword { word, from: number(from) }, &place[4..]),
        ["unknown"] => (Begin::Unknown, &place[..]),
        _ => panic!("`{text}`: where do the keys begin?"),
    };
    let range = |last, step, limit| Extent::Range { last: number(last), step, limit };
    let extent = match *rest {
        ["to", last] => range(last, 1, 0),
        ["to", last, "step", step] => range(last, number(step), 0),
        ["to", last, "limit", limit] => range(last, 1, number(limit)),
        ["counted"] => Extent::Counted,
        ["unknown"] => Extent::Unknown,
        _ => panic!("`{text}`: which arguments are keys?"),
    };
    KeySpec { flags, begin, extent, note: parts.next() }
}

/// The set of the members that a text names.
fn members<S>(text: &str, none: S, named: fn(&[u8]) -> Option<S>, with: fn(S, S) -> S) -> S {
    text.split_whitespace().fold(none, |set, name| {
        let member = named(name.as_bytes()).unwrap_or_else(|| panic!("`{name}` is no flag"));
        with(set, member)
    })
}

fn number(text: &str) -> i32 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// The categories together with those that follow from flags.
fn with_implied(flags: CommandFlags, given: Categories) -> Categories {
    let rules = [
        (CommandFlags::WRITE, Categories::WRITE),
        (CommandFlags::ADMIN, Categories::ADMIN.with(Categories::DANGEROUS)),
        (CommandFlags::PUBSUB, Categories::PUBSUB),
        (CommandFlags::FAST, Categories::FAST),
        (CommandFlags::BLOCKING, Categories::BLOCKING),
    ];
    let mut all = given;
    for (flag, categories) in rules {
        if flags.contains(flag) {
            all = all.with(categories);
        }
    }
    // A script that only reads may read anything, so it is not in the category for reading.
    if flags.contains(CommandFlags::READONLY) && !given.contains(Categories::SCRIPTING) {
        all = all.with(Categories::READ);
    }
    if all.contains(Categories::FAST) { all } else { all.with(Categories::SLOW) }
}
