//! The replies of `COMMAND` are those of Redis 7.0.15, in both versions of the protocol.

mod server;

use esker_redis_commands::{Names, Reply, describe, table};
use esker_redis_testkit::Server;
use server::{Commands, encoded};

/// Sorts commands, which Redis lists in an order that depends on a random seed.
fn sorted(reply: Reply) -> Reply {
    match reply {
        Reply::Array(items) => {
            let mut items: Vec<Reply> = items.into_iter().map(sorted).collect();
            if items.iter().all(is_command) {
                items.sort_by_key(|item| encoded(item, 3));
            }
            Reply::Array(items)
        }
        Reply::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            if pairs.iter().all(|(_, value)| value_of(value, b"summary").is_some()) {
                pairs.sort_by_key(|(key, _)| encoded(key, 3));
            }
            Reply::Map(pairs)
        }
        other => other,
    }
}

fn is_command(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(parts) if parts.len() == 10 && matches!(parts[0], Reply::Bulk(_)))
}

fn value_of<'a>(reply: &'a Reply, wanted: &[u8]) -> Option<&'a Reply> {
    let Reply::Map(pairs) = reply else { return None };
    pairs.iter().find(|(key, _)| matches!(key, Reply::Bulk(key) if **key == *wanted)).map(|(_, value)| value)
}

/// Replaces our own sentences: summaries, the words of complexities, remarks; and drops the history.
fn without_sentences(reply: Reply) -> Reply {
    match reply {
        Reply::Array(items) => Reply::Array(items.into_iter().map(without_sentences).collect()),
        Reply::Set(items) => Reply::Set(items.into_iter().map(without_sentences).collect()),
        Reply::Map(pairs) => {
            let is = |key: &Reply, name: &[u8]| matches!(key, Reply::Bulk(key) if **key == *name);
            let pairs = pairs.into_iter().filter(|(key, _)| !is(key, b"history"));
            let pairs = pairs.map(|(key, value)| {
                let sentence = is(&key, b"summary") || is(&key, b"complexity") || is(&key, b"notes");
                let value = if sentence { Reply::Null } else { without_sentences(value) };
                (key, value)
            });
            Reply::Map(pairs.collect())
        }
        other => other,
    }
}

/// Compares trees and, since trees are read from bytes, bytes.
fn assert_same(ours: Reply, theirs: Reply, version: u8, what: &str) {
    let ours = encoded(&without_sentences(sorted(ours)), version);
    let theirs = encoded(&without_sentences(sorted(theirs)), version);
    assert!(
        ours == theirs,
        "{what} in version {version}\nours:   {}\ntheirs: {}",
        String::from_utf8_lossy(&ours),
        String::from_utf8_lossy(&theirs)
    );
}

#[test]
fn every_command_is_described_as_by_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = Commands::connect(&server, 3);
    assert_same(describe::all(&Names::of_redis()), client.call(&["COMMAND"]), 3, "COMMAND");
    assert_eq!(describe::count(&Names::of_redis()), client.call(&["COMMAND", "COUNT"]));
    assert_same(
        describe::docs::<&str>(&Names::of_redis(), &[]),
        client.call(&["COMMAND", "DOCS"]),
        3,
        "COMMAND DOCS",
    );
}

/// Version 2 of the protocol has no maps, so only replies whose order is fixed can be compared as bytes.
#[test]
fn single_commands_are_described_with_the_same_bytes() {
    let Some(server) = Server::redis(&[]) else { return };
    for version in [2, 3] {
        let mut client = Commands::connect(&server, version);
        for command in table::all().iter().filter(|command| !command.is_extension()) {
            let name = command.name();
            let notes = command.key_specs().iter().any(|spec| spec.note.is_some());
            if command.subcommands().is_empty() && !notes {
                client.call(&["COMMAND", "INFO", name]);
                let ours = encoded(&describe::info(&Names::of_redis(), &[name]), version);
                assert!(ours == client.client.raw(), "{name} in version {version}");
            }
        }
        for names in [&["nope", "get|x", "client|x", "", "|", "get"][..], &["GET", "Client|LIST"]] {
            let request = [&["COMMAND", "INFO"], names].concat();
            client.call(&request);
            assert_eq!(
                encoded(&describe::info(&Names::of_redis(), names), version),
                client.client.raw(),
                "{names:?}"
            );
        }
        assert_same(
            describe::docs(&Names::of_redis(), &["nope", "hset", "x|y", "Config|SET"]),
            {
                let mut three = Commands::connect(&server, 3);
                three.call(&["COMMAND", "DOCS", "nope", "hset", "x|y", "Config|SET"])
            },
            3,
            "some",
        );
    }
}

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(text.as_bytes().into())
}

/// What Redis does not have is told as Redis tells of the commands of modules.
#[test]
fn commands_of_our_own_are_described_beside_those_of_redis() {
    let of_redis = table::top_level().filter(|command| !command.is_extension()).count();
    assert_eq!(describe::count(&Names::of_redis()), Reply::Integer(of_redis as i64));
    assert_eq!(describe::count(&Names::default()), Reply::Integer(of_redis as i64 + 1));
    let get = ["esker.explain|get"];
    let Reply::Array(told) = describe::info(&Names::default(), &get) else { panic!("an array") };
    assert!(matches!(&told[0], Reply::Array(parts) if parts[0] == bulk("esker.explain|get")));
    let Reply::Map(docs) = describe::docs(&Names::default(), &get) else { panic!("a map") };
    assert_eq!(value_of(&docs[0].1, b"group"), Some(&bulk("module")));
    let keys = describe::getkeys(&Names::default(), &["esker.explain", "GET", "k", "JSON"], false);
    assert_eq!(keys, Reply::Array(vec![bulk("k")]));
    assert_eq!(describe::info(&Names::of_redis(), &get), Reply::Array(vec![Reply::Null]));
}

/// Where Redis gives a formula alone, ours is the same; where it gives a sentence, ours has the same formula.
#[test]
fn complexities_have_the_formulas_of_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = Commands::connect(&server, 3);
    for command in table::all().iter().filter(|command| !command.is_extension()) {
        let Reply::Map(docs) = client.call(&["COMMAND", "DOCS", command.name()]) else { panic!("a map") };
        let theirs = match value_of(&docs[0].1, b"complexity") {
            Some(Reply::Bulk(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let ours = command.docs().complexity.unwrap_or_default();
        assert_eq!(ours.is_empty(), theirs.is_empty(), "{}", command.name());
        let formula = |text: &str| {
            text.split_whitespace().next().unwrap_or("").trim_end_matches([':', ',', '.', ';']).to_owned()
        };
        if theirs.starts_with("O(") && ours.starts_with("O(") {
            let (ours, theirs) = (formula(ours), formula(&theirs));
            assert!(ours == theirs, "{}: {ours} {theirs}", command.name());
        }
    }
}

#[test]
fn lists_and_their_filters_name_the_same_commands() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = Commands::connect(&server, 3);
    let mut cases: Vec<Vec<&str>> = vec![vec![]];
    for pattern in ["*", "z*", "client|*", "*[xy]", "GET", "", "[", "?et", "x\\read*", "[^a-y]*"] {
        cases.push(vec!["FILTERBY", "PATTERN", pattern]);
    }
    for category in ["read", "WRITE", "blocking", "nope", ""] {
        cases.push(vec!["filterby", "aclcat", category]);
    }
    cases.push(vec!["FILTERBY", "MODULE", "json"]);
    cases.push(vec!["FILTERBY", "X", "json"]);
    cases.push(vec!["FILTERBY", "PATTERN"]);
    cases.push(vec!["X"]);
    cases.push(vec!["FILTERBY", "PATTERN", "a", "b"]);
    let names = |reply: Reply| match reply {
        Reply::Array(mut items) => {
            items.sort_by_key(|item| encoded(item, 3));
            Reply::Array(items)
        }
        other => other,
    };
    for options in cases {
        let request = [&["COMMAND", "LIST"], &options[..]].concat();
        assert_eq!(
            names(describe::list(&Names::of_redis(), &options)),
            names(client.call(&request)),
            "{options:?}"
        );
    }
}
