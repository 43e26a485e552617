//! The table of commands in `docs/redis.md` is that of the command table, with what differs here.
//!
//! `ESKER_WRITE=1 cargo test -p esker-redis-server --test documentation` writes it anew.

#![allow(clippy::disallowed_methods, reason = "the test reads and writes a file of the repository")]

use esker_redis_commands::{Command, CommandFlags, table};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- commands: written by `--test documentation` -->\n";
const END: &str = "<!-- end of commands -->\n";

/// What differs from Redis, by the full name of the command or of its container. A name that ends with `*`
/// means all that begin so.
const DIFFERENCES: &[(&str, &str)] = &[
    ("asking", "error: there is no cluster"),
    ("bgrewriteaof", "error: there is no append-only file to rewrite"),
    ("bgsave", "makes a checkpoint; the last two are kept"),
    ("cluster", "error: there is no cluster"),
    ("config|rewrite", "keeps the values with the data, not in a file"),
    (
        "copy",
        "O(1) while the value lies in the record of its key; a large string is copied chunk by chunk, other elements one by one",
    ),
    ("debug", "see above"),
    ("del", "O(1) for each key: elements are deleted in the background"),
    ("esker.explain", "Esker's own, see above"),
    ("expire*", "a record of its own for each expiry; expired within 100 ms"),
    ("failover", "error: there are no replicas"),
    ("flushall", "O(1)"),
    ("flushdb", "O(1)"),
    ("hrandfield", "exactly uniform"),
    ("keys", "a pattern that begins with plain letters reads only the keys that do"),
    ("lastsave", "when the last checkpoint was made"),
    ("latency|doctor", "words of its own"),
    ("latency|graph", "a drawing of its own"),
    ("lolwut", "the version without a picture"),
    ("memory|doctor", "words of its own"),
    ("memory|malloc-stats", "the allocator tells nothing"),
    ("memory|purge", "does nothing: memory goes back by itself"),
    ("memory|stats", "fields of its own"),
    ("memory|usage", "bytes as they are stored"),
    ("migrate", "error for keys that are there: DUMP and RESTORE them"),
    ("module|load*", "error: no modules are loaded"),
    ("module|unload", "error: no modules are loaded"),
    ("move", "as COPY"),
    ("object|freq", "an estimate, see above"),
    ("object|idletime", "at most the true time, see above"),
    ("psync", "error: there is no replication"),
    ("readonly", "error: there is no cluster"),
    ("readwrite", "error: there is no cluster"),
    ("replconf", "error: there is no replication"),
    ("replicaof", "OK for NO ONE, else an error: there is no replication"),
    ("save", "makes a checkpoint; the last two are kept"),
    ("scan", "cursors stay valid while keys change, and over a restart"),
    ("script|debug", "error: scripts are not debugged"),
    ("slaveof", "OK for NO ONE, else an error: there is no replication"),
    ("shutdown", "nothing needs to be saved; SAVE makes a checkpoint"),
    ("spop", "exactly uniform"),
    ("srandmember", "exactly uniform"),
    ("swapdb", "O(1)"),
    ("sync", "error: there is no replication"),
    ("time", "whole milliseconds"),
    ("unlink", "as DEL"),
    ("wait", "0: there are no replicas"),
];

fn difference(command: &Command) -> &'static str {
    let is_it = |known: &str, name: &str| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => known == name,
    };
    let parent = command.parent().map_or("", Command::name);
    let found = DIFFERENCES.iter().find(|(known, _)| is_it(known, command.name()) || is_it(known, parent));
    found.map_or("", |(_, text)| text)
}

/// The table of all commands, by groups.
fn written() -> String {
    let mut text = String::new();
    let mut group = "";
    for command in table::all() {
        if !command.subcommands().is_empty() {
            continue;
        }
        if command.docs().group != group {
            group = command.docs().group;
            // A String takes everything.
            let _written =
                write!(text, "\n### {group}\n\n| command | complexity | what differs |\n|---|---|---|\n");
        }
        let name = command.name().to_ascii_uppercase().replace('|', " ");
        let complexity = command.docs().complexity.unwrap_or("").replace('|', "\\|");
        let _written = writeln!(text, "| {name} | {complexity} | {} |", difference(command));
    }
    text.push('\n');
    text
}

fn file() -> PathBuf {
    // The manifest's directory may be reached by a link; the repository is above what it names.
    let crate_directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().expect("the crate's directory");
    crate_directory.join("../../docs/redis.md")
}

#[test]
fn the_documented_commands_are_those_of_the_table() {
    let text = std::fs::read_to_string(file()).expect("docs/redis.md");
    let start = text.find(BEGIN).expect("the beginning of the table") + BEGIN.len();
    let end = text.find(END).expect("the end of the table");
    let expected = written();
    if std::env::var_os("ESKER_WRITE").is_some() {
        let whole = [&text[..start], &expected, &text[end..]].concat();
        std::fs::write(file(), whole).expect("it can be written");
        return;
    }
    assert!(
        text[start..end] == expected,
        "docs/redis.md is stale: ESKER_WRITE=1 cargo test -p esker-redis-server --test documentation"
    );
}

#[test]
fn every_difference_is_that_of_a_command() {
    for (name, _) in DIFFERENCES {
        let is_it = |command: &&Command| match name.strip_suffix('*') {
            Some(beginning) => command.name().starts_with(beginning),
            None => command.name() == *name,
        };
        assert!(table::all().iter().any(|command| is_it(&command)), "{name}");
    }
}

#[test]
fn what_is_deprecated_or_internal_is_still_in_the_table() {
    let internal = table::all().iter().filter(|command| command.docs().internal);
    let text = written();
    for command in internal.filter(|command| command.subcommands().is_empty()) {
        let name = command.name().to_ascii_uppercase().replace('|', " ");
        assert!(text.contains(&format!("| {name} |")), "{name}");
    }
    let writes = table::all().iter().filter(|command| command.flags().contains(CommandFlags::WRITE)).count();
    assert!(writes > 100);
}
