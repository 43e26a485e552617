//! `use`: the text protocol on keyspaces that other interfaces see.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files and threads")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{Running, TempDir};
use esker::Database;
use esker::parts::env::SeededRandom;
use esker_protocol::{Scalar, ScalarRef, answer};
use esker_server::{Config, LoadDirectory, LoadFiles};
use std::collections::BTreeMap;

#[test]
fn a_client_reads_and_writes_what_the_library_sees() {
    let dir = TempDir::new();
    let database = Database::open(dir.path()).unwrap();
    let cities = database.keyspace("cities").unwrap();
    cities.put("berlin", "3.7 million").unwrap();
    cities.put("7", "seven").unwrap();
    cities.put("dsl.int:12345678", "dsl.text:x").unwrap();
    let server = Running::serve(database, Config::default());
    let mut client = server.client();
    for (command, answer) in [
        ("p 7 70", "OK"),
        ("use cities", "OK"),
        ("g \"berlin\"", "\"3.7 million\""),
        ("g 7", "seven"),
        ("g \"7\"", "seven"),
        ("g \"dsl.int:12345678\"", "\"dsl.text:x\""),
        ("p \"rome\" 28", "OK"),
        ("p 10 \"ten\"", "OK"),
        ("r 1 9", "10:ten 7:seven"),
        ("r \"a\" \"c\"", "berlin:\"3.7 million\""),
        ("d 7", "OK"),
        ("g 7", ""),
        ("use", "OK"),
        ("g 7", "70"),
        ("g 10", ""),
        ("use \"cities\"", "OK"),
        ("g 10", "ten"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    assert_eq!(cities.get("rome").unwrap().as_deref(), Some(&b"28"[..]));
    assert_eq!(cities.get("7").unwrap(), None);
    assert_eq!(
        client.ask_lines("s"),
        [
            "Logical Pairs: 4",
            "LVL0: 4",
            "10:ten:L0 berlin:\"3.7 million\":L0 \"dsl.int:12345678\":\"dsl.text:x\":L0 rome:28:L0"
        ]
    );
    // Which keyspace is in use belongs to the connection.
    assert_eq!(server.client().ask("g 10"), "");
    server.stop();
}

#[test]
fn keyspaces_that_cannot_be_used_are_named_and_the_one_in_use_stays() {
    let dir = TempDir::new();
    let database = Database::open(dir.path()).unwrap();
    for name in ["cities", "redis/keys", "a\nb"] {
        database.keyspace(name).unwrap().put("k", name).unwrap();
    }
    let server = Running::serve(database.clone(), Config::default());
    let mut client = server.client();
    assert_eq!(client.ask("use cities"), "OK");
    for (command, answer) in [
        ("use towns", "Error: there is no keyspace 'towns'; there are: default, cities, a\\nb"),
        (
            "use redis/keys",
            "Error: the keyspace 'redis/keys' holds entries of Redis; read and write them by the protocol of Redis",
        ),
        ("use redis/none", "Error: the keyspace 'redis/none' holds entries of Redis"),
        ("use dsl.int", "Error: 'dsl.int' holds the protocol's own pairs; write use without a name"),
        ("use dsl.text", "Error: 'dsl.text' holds the protocol's own pairs; write use without a name"),
        ("use \"\"", "Error: there is no keyspace ''"),
        ("use a b", "Error: extra words after the command; write use [KEYSPACE]"),
    ] {
        let said = client.ask(command);
        assert!(said.starts_with(answer), "{command}: {said}");
        assert_eq!(client.ask("g \"k\""), "cities");
    }
    assert_eq!(client.ask("use \"a\\nb\""), "OK");
    assert_eq!(client.ask("g \"k\""), "\"a\\nb\"");
    database.drop_keyspace("a\nb").unwrap();
    for command in ["g \"k\"", "p 1 2", "d 1", "r 1 2", "s"] {
        let said = client.ask(command);
        assert!(said.starts_with("Error: "), "{command}: {said}");
    }
    assert_eq!(client.ask("use"), "OK");
    assert_eq!(client.ask("p 1 2"), "OK");
    server.stop();
}

#[test]
fn a_file_of_pairs_is_loaded_as_puts_would_write_it() {
    let (dir, files) = (TempDir::new(), TempDir::new());
    std::fs::write(files.path().join("pairs.bin"), esker_protocol::pairs::encode(-5, 17)).unwrap();
    let database = Database::open(dir.path()).unwrap();
    let numbers = database.keyspace("numbers").unwrap();
    let load_files = LoadFiles::Within(LoadDirectory::new(files.path()).unwrap());
    let server = Running::serve(database, Config { load_files, ..Config::default() });
    let mut client = server.client();
    assert_eq!(client.ask("use numbers"), "OK");
    assert_eq!(client.ask("l \"pairs.bin\""), "OK");
    assert_eq!(client.ask("g -5"), "17");
    assert_eq!(numbers.get("-5").unwrap().as_deref(), Some(&b"17"[..]));
    assert_eq!(client.ask("use"), "OK");
    assert_eq!(client.ask("g -5"), "");
    server.stop();
}

/// What the model holds: pairs of the three keyspaces that the test uses, as answers show them.
#[derive(Default)]
struct Model {
    own: BTreeMap<i64, Scalar>,
    other: [BTreeMap<Vec<u8>, Vec<u8>>; 2],
}

/// Random commands and `use` of random keyspaces answer as a model does, and the library sees the same pairs.
#[test]
fn random_conversations_answer_as_the_model() {
    const NAMES: [&str; 2] = ["first", "second"];
    let dir = TempDir::new();
    let database = Database::open(dir.path()).unwrap();
    let keyspaces = NAMES.map(|name| database.keyspace(name).unwrap());
    let server = Running::serve(database, Config::default());
    let mut client = server.client();
    let random = SeededRandom::new(7);
    let mut model = Model::default();
    let mut used: Option<usize> = None;
    for step in 0..4_000 {
        let key = random.below(30) as i64 - 10;
        let value = match random.below(2) {
            0 => Scalar::Integer(random.below(1000) as i64),
            _ => Scalar::Text(format!("v {}", random.below(1000)).into_bytes()),
        };
        let digits = |number: i64| number.to_string().into_bytes();
        let (command, expected) = match random.below(8) {
            0 => {
                used = Some(random.below(3) as usize).filter(|at| *at < NAMES.len());
                (format!("use {}", used.map_or("", |at| NAMES[at])), "OK".to_owned())
            }
            1..=3 => {
                match used {
                    None => drop(model.own.insert(key, value.clone())),
                    Some(at) => drop(model.other[at].insert(digits(key), raw(&value))),
                }
                let written = match &value {
                    Scalar::Integer(number) => number.to_string(),
                    Scalar::Text(text) => format!("\"{}\"", text.escape_ascii()),
                };
                (format!("p {key} {written}"), "OK".to_owned())
            }
            4 => {
                match used {
                    None => drop(model.own.remove(&key)),
                    Some(at) => drop(model.other[at].remove(&digits(key))),
                }
                (format!("d {key}"), "OK".to_owned())
            }
            5 => {
                let end = random.below(30) as i64 - 10;
                let shown = match used {
                    None if key < end => {
                        model.own.range(key..end).map(|(key, value)| pair(*key, value)).collect()
                    }
                    Some(at) if digits(key) < digits(end) => {
                        model.other[at].range(digits(key)..digits(end)).map(|(k, v)| texts(k, v)).collect()
                    }
                    _ => Vec::new(),
                };
                (format!("r {key} {end}"), shown.join(" "))
            }
            _ => {
                let shown = match used {
                    None => model.own.get(&key).map(|value| shown(value.borrowed())),
                    Some(at) => model.other[at].get(&digits(key)).map(|value| shown(ScalarRef::Text(value))),
                };
                (format!("g {key}"), shown.unwrap_or_default())
            }
        };
        assert_eq!(client.ask(&command), expected, "step {step}: {command} in {used:?}");
    }
    for (keyspace, pairs) in keyspaces.iter().zip(&model.other) {
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        let mut stored = Vec::new();
        while let Some((key, value)) = cursor.entry() {
            stored.push((key.to_vec(), value.to_vec()));
            cursor.advance().unwrap();
        }
        assert!(!stored.is_empty());
        assert_eq!(stored, pairs.iter().map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>());
    }
    server.stop();
}

fn raw(value: &Scalar) -> Vec<u8> {
    match value {
        Scalar::Integer(number) => number.to_string().into_bytes(),
        Scalar::Text(text) => text.clone(),
    }
}

fn shown(scalar: ScalarRef<'_>) -> String {
    let mut out = Vec::new();
    answer::scalar(scalar, &mut out);
    String::from_utf8(out).unwrap()
}

fn pair(key: i64, value: &Scalar) -> String {
    format!("{key}:{}", shown(value.borrowed()))
}

fn texts(key: &[u8], value: &[u8]) -> String {
    format!("{}:{}", shown(ScalarRef::Text(key)), shown(ScalarRef::Text(value)))
}
