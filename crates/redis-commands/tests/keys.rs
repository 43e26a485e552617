//! The keys of a command are those that Redis 7.0.15 finds, whatever the arguments are.

mod server;

use esker_redis_commands::{Command, Names, describe, keys, resolve, table};
use esker_redis_testkit::{Random, Server};
use server::{Commands, encoded};

/// Words that matter to some command, and hostile numbers.
///
/// Counts for which Redis asks for gigabytes before it looks at the arguments are not here, but below.
const WORDS: [&str; 58] = [
    "key",
    "a",
    "b",
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1x",
    " 2",
    "+1",
    "007",
    "x",
    "STREAMS",
    "streams",
    "BLOCK",
    "COUNT",
    "GROUP",
    "NOACK",
    "STORE",
    "store",
    "STOREDIST",
    "KEYS",
    "keys",
    "AUTH",
    "AUTH2",
    "COPY",
    "REPLACE",
    "LIMIT",
    "GET",
    "get",
    "BY",
    "SET",
    "INCRBY",
    "OVERFLOW",
    "SAT",
    "u8",
    "WEIGHTS",
    "LEFT",
    "RIGHT",
    "MIN",
    "MAX",
    "NX",
    "XX",
    "EX",
    "-9223372036854775808",
    "9223372036854775808",
    "4294967297",
    "18446744073709551617",
    "-4294967295",
    "1 ",
    "one",
    "LIST",
    "host",
    "6379",
    "DESC",
    "ALPHA",
];

#[test]
fn keys_of_random_arguments_are_those_of_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut numbers = Random::new(0x6b65_7973);
    let mut client = Commands::connect(&server, 2);
    let with_keys: Vec<&Command> = table::all()
        .iter()
        .filter(|command| !command.key_specs().is_empty() && !command.is_extension())
        .collect();
    let odd: Vec<&Command> = with_keys
        .iter()
        .copied()
        .filter(|command| command.key_range().first == 0 || command.key_specs().len() > 1)
        .chain(["set", "bitfield", "sort_ro", "mset"].iter().filter_map(|name| table::find(name.as_bytes())))
        .collect();
    for round in 0..8_000 {
        let command = if round % 4 == 0 { numbers.pick(&with_keys) } else { numbers.pick(&odd) };
        let mut arguments: Vec<&str> = command.name().split('|').collect();
        let least = command.arity().unsigned_abs() as usize;
        let more = if command.arity() > 0 { 0 } else { numbers.below(9) };
        while arguments.len() < least + more {
            arguments.push(WORDS[numbers.below(WORDS.len())]);
        }
        // The arity of GETKEYS itself.
        if arguments.len() < 2 {
            continue;
        }
        for (name, with_flags) in [("GETKEYS", false), ("GETKEYSANDFLAGS", true)] {
            let request = [&["COMMAND", name], &arguments[..]].concat();
            let theirs = client.call(&request);
            let ours = describe::getkeys(&Names::default(), &arguments, with_flags);
            assert_eq!(
                encoded(&ours, 2),
                encoded(&theirs, 2),
                "{arguments:?}\nours {ours:?}\ntheirs {theirs:?}"
            );
        }
    }
}

#[test]
fn wrong_requests_for_keys_have_the_errors_of_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = Commands::connect(&server, 2);
    for arguments in [
        &["nope", "x"][..],
        &["ping", "x"],
        &["mset", "a"],
        &["get", "a", "b"],
        &["config", "get"],
        &["config", "nope", "x"],
        &["object", "freq", "k"],
        &["eval", "", "0"],
        &["eval", "", "5", "a"],
        &["fcall", "f", "x"],
        &["xread", "streams", "a"],
        &["xread", "count", "1", "streams", "streams", "0"],
        &["publish", "c", "m"],
        &["migrate", "h", "1", "k", "0", "5", "keys", "a"],
        &["migrate", "h", "1", "", "0", "5", "auth", "keys", "keys", "a", "b"],
        &["sort", "k", "by", "store", "store", "d"],
        &["spublish", "c", "m"],
    ] {
        let request = [&["COMMAND", "GETKEYS"], arguments].concat();
        let theirs = client.call(&request);
        assert_eq!(
            encoded(&describe::getkeys(&Names::default(), arguments, false), 2),
            encoded(&theirs, 2),
            "{arguments:?}"
        );
    }
}

/// Counts for which Redis asks for gigabytes: here they find nothing, and take no memory.
#[test]
fn hostile_counts_find_no_keys_and_take_no_memory() {
    for count in
        ["2147483647", "2000000000", "9223372036854775807", "-2147483648", "4294967295", "6442450943"]
    {
        for command in table::all().iter().filter(|command| !command.key_specs().is_empty()) {
            for length in 1..8 {
                let mut arguments: Vec<&str> = command.name().split('|').collect();
                arguments.resize(arguments.len() + length, count);
                let mut found = Vec::new();
                keys(command, &arguments, &mut found);
                assert!(found.len() <= arguments.len(), "{arguments:?}");
                assert!(found.capacity() <= 2 * arguments.len() + 8, "{arguments:?}");
                let counted = command
                    .key_specs()
                    .iter()
                    .any(|spec| matches!(spec.extent, esker_redis_commands::key_spec::Extent::Counted));
                if counted {
                    let destination = command.key_specs().len() > 1;
                    assert!(found.is_empty(), "{destination} {arguments:?} {found:?}");
                }
            }
        }
    }
}

#[test]
fn positions_are_always_arguments() {
    let mut numbers = Random::new(0x706f_7369);
    let mut found = Vec::new();
    for _ in 0..100_000 {
        let command = numbers.pick(table::all());
        let mut arguments: Vec<&[u8]> = command.name().split('|').map(str::as_bytes).collect();
        for _ in 0..numbers.below(12) {
            let word = WORDS[numbers.below(WORDS.len())];
            arguments.push(if numbers.below(20) == 0 { b"keys\0x\xff" } else { word.as_bytes() });
        }
        keys(command, &arguments, &mut found);
        assert!(found.iter().all(|key| key.position > 0 && key.position < arguments.len()), "{arguments:?}");
        assert!(found.len() <= arguments.len());
        assert!(resolve(&arguments).is_some() || !command.subcommands().is_empty());
    }
}
