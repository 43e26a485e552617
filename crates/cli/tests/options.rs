//! `options`, and options in files.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;

#[test]
fn options_are_listed_with_all_details() {
    let dir = WorkingDir::new();
    let mut command = dir.command("options");
    let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    // The tests give a budget, so values are shown.
    assert!(listed.contains("memory_budget") && listed.contains("32MiB"), "{listed}");
    for line in dir.ok("options --presets").lines().filter(|line| !line.starts_with(' ')) {
        let text = dir.ok(&format!("options --preset {line} --toml"));
        dir.write("preset.toml", &text);
        assert!(!dir.ok("options --config preset.toml --toml").is_empty(), "{line}");
    }
    let ran = dir.run("options blok_size");
    assert!(ran.code == 2 && ran.err.contains("did you mean block_size?"), "{ran:?}");
    let json = dir.ok("options bottommost_compression --json");
    assert!(json.contains(r#""option":"compression_last","scope":"keyspace""#), "{json}");
}

#[test]
fn the_page_of_the_manual_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let page = WorkingDir::new().ok("options --markdown");
    let written = std::fs::read_to_string(path).unwrap();
    assert!(
        written == page,
        "print docs/options.md anew: cargo run -p esker-cli -- options --markdown > docs/options.md"
    );
}

#[test]
fn options_of_a_database_are_shown_and_changed() {
    let dir = WorkingDir::new();
    dir.ok("put k v");
    let changed = dir.ok("options --db esker-data block_size=16KiB bottommost_compression=zstd:3");
    let lines: Vec<&str> = changed.lines().collect();
    let [first, kept, second, also_kept] = lines[..] else { panic!("{changed}") };
    assert_eq!(first, "block_size: 4KiB -> 16KiB (holds: new tables)");
    assert_eq!(second, "compression_last: lz4 -> zstd:3 (holds: new tables)");
    assert!(
        kept.starts_with("  1 table of ") && kept.ends_with(" from before the change, until merged"),
        "{kept}"
    );
    assert_eq!(kept, also_kept);
    let at_once = dir.ok("options --data esker-data level0_stop_runs=30");
    assert_eq!(at_once.lines().count(), 1, "no table keeps it: {at_once}");
    let json = dir.ok("options --data esker-data index_type=b-tree-pages --json");
    assert!(json.contains(r#""kept_tables":1,"kept_bytes":"#), "{json}");
    let json = dir.ok("options --data esker-data index_type=eytzinger level0_stop_runs=auto --json");
    assert!(json.contains(r#""kept_tables":0,"kept_bytes":0"#), "made when a table is opened: {json}");
    assert_eq!(dir.ok("options --data esker-data block_size=16384"), "block_size was 16KiB already\n");
    let shown = dir.ok("options --data esker-data");
    assert!(shown.contains("* block_size") && shown.contains("\n  block_layout "), "{shown}");
    let toml = dir.ok("options --data esker-data --toml");
    assert!(toml.contains("[keyspace.\"default\"]\nblock_size = \"16KiB\"\n"), "{toml}");
    let json = dir.ok("options --data esker-data block_size --json");
    assert!(json.contains(r#""value":16384,"text":"16KiB","is_default":false"#), "{json}");
    for (arguments, reason) in [
        ("options --data esker-data block_size=1", "block_size is 1 B, it must be from 512 B to 64 KiB"),
        ("options --data esker-data block_size=512 stall_limit=1s", "stall_limit is not stored"),
        ("options --data esker-data blok_size=1", "did you mean block_size?"),
        ("options --data esker-data --keyspace x", "x"),
        ("options --data nowhere", "nowhere"),
    ] {
        let ran = dir.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(reason), "{arguments}: {ran:?}");
    }
    assert_eq!(dir.ok("options --data esker-data"), shown, "what was refused changed nothing");
}

#[test]
fn a_configuration_is_for_every_command_that_opens_a_database() {
    let dir = WorkingDir::new();
    dir.write(
        "esker.toml",
        "[keyspace.default]\nblock_size = \"1KiB\"\n[keyspace.users]\nmemtable = \"skiplist\"\n",
    );
    dir.ok("put k v --config esker.toml");
    dir.ok("put k v --config esker.toml --keyspace users");
    assert!(dir.ok("keyspaces --options").contains("block_size=1KiB\n"));
    assert!(dir.ok("keyspaces --options --keyspace users").contains("memtable=skiplist\n"));
    dir.write("esker.toml", "[keyspace.default]\nblock_size = \"2KiB\"\n");
    dir.ok("compact --config esker.toml");
    assert!(dir.ok("keyspaces --options").contains("block_size=2KiB\n"));
    dir.write("esker.toml", "\nmemory_bugdet = \"1GiB\"\n");
    for command in ["get k", "put k v", "options", "serve", "bench fill"] {
        let ran = dir.run(&format!("{command} --config esker.toml"));
        let told = "esker.toml, line 2: there is no option memory_bugdet; did you mean memory_budget?";
        assert!(ran.code == 2 && ran.err.contains(told), "{command}: {ran:?}");
    }
    let ran = dir.run("get k --config nothing.toml");
    assert!(ran.code != 0 && ran.err.contains("nothing.toml"), "{ran:?}");
}

#[test]
fn the_file_of_all_options_can_be_read() {
    let dir = WorkingDir::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_esker"));
    let template = command.args(["options", "--toml"]).current_dir(dir.path()).output().unwrap().stdout;
    let template = String::from_utf8(template).unwrap();
    dir.write("esker.toml", &template);
    dir.ok("put k v --config esker.toml");
    // Uncommented, every option has its default.
    let assignment =
        |line: &&str| line.contains(" = ") && !line.contains("preset") && !line.starts_with("# [");
    let lines = template.lines().take_while(|line| !line.starts_with("# Options of one keyspace"));
    let all: Vec<&str> = lines
        .map(|line| Some(line).filter(assignment).and_then(|line| line.strip_prefix("# ")).unwrap_or(line))
        .collect();
    dir.write("all.toml", all.join("\n"));
    assert_eq!(dir.ok("options --config all.toml --toml"), "memory_budget = \"32MiB\"\n");
}
