//! Commands on data: pairs, ranges, files, exit codes, JSON.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use serde_json::{Value, json};

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn pairs_go_in_and_come_out() {
    let dir = WorkingDir::new();
    dir.ok("put user:1 Ada");
    assert_eq!(dir.run_with("put picture -", b"\x89PNG\0\xff").code, 0);
    let missing = dir.run_with("put nothing", b"");
    assert_eq!(missing.code, 2, "no value, and nothing is stored");
    assert!(missing.err.contains("<VALUE>"), "{}", missing.err);
    assert_eq!(dir.run_with("get nothing", b"").code, 1);
    dir.ok("put empty --value hex 00ff");
    assert_eq!(dir.ok("get user:1"), "Ada\n");
    assert_eq!(dir.run("get picture -n").out, b"\x89PNG\0\xff");
    assert_eq!(dir.ok("get empty --value hex"), "00ff\n");
    assert_eq!(objects(&dir.ok("get user:1 --json")), [json!({"key": "user:1", "value": "Ada"})]);
    dir.ok("put --keyspace numbers --key int --value int -5 70000000000");
    assert_eq!(dir.ok("get --keyspace numbers --key int --value int -5"), "70000000000\n");
    assert_eq!(dir.ok("get --keyspace numbers --key hex --value int 7ffffffffffffffb"), "70000000000\n");
    dir.ok("delete user:1 nobody");
    assert_eq!(dir.run("get user:1").code, 1);
    let listed = dir.ok("keyspaces");
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["default", "numbers"]);
}

#[test]
fn ranges_are_walked_both_ways() {
    let dir = WorkingDir::new();
    dir.write("pairs.tsv", "a\t1\nab\t2\nabc\t3\nb\t4\nb\\xff\t5\nc\t6\n");
    assert_eq!(dir.ok("load pairs.tsv"), "6 pairs loaded\n");
    let keys = |arguments: &str| -> String {
        dir.ok(arguments).lines().map(|line| line.split('\t').next().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys("scan"), "a ab abc b b\\xff c");
    assert_eq!(keys("scan --reverse"), "c b\\xff b abc ab a");
    assert_eq!(keys("scan --start ab --end b"), "ab abc");
    assert_eq!(keys("scan --start ab --end b --reverse"), "abc ab");
    assert_eq!(keys("scan --end b --reverse --limit 2"), "abc ab");
    assert_eq!(keys("scan --prefix ab"), "ab abc");
    assert_eq!(keys("scan --prefix ab --start abb"), "abc");
    assert_eq!(keys("scan --prefix b --reverse"), "b\\xff b");
    assert_eq!(keys("scan --prefix b --end c --reverse --limit 1"), "b\\xff");
    assert_eq!(keys("scan --start c --end a"), "");
    assert_eq!(keys("scan --limit 0"), "");
    assert_eq!(dir.ok("count"), "6\n");
    assert_eq!(dir.ok("count --prefix b"), "2\n");
    assert_eq!(objects(&dir.ok("count --json")), [json!({"count": 6})]);
    let estimate = &objects(&dir.ok("count --estimate --json"))[0];
    assert_eq!(estimate["entries"], json!(6));
    assert!(dir.ok("count --estimate --prefix b").starts_with("about "));
    assert_eq!(
        objects(&dir.ok("scan --prefix b --json")),
        [json!({"key": "b", "value": "4"}), json!({"key_hex": "62ff", "value": "5"})]
    );
}

#[test]
fn a_dump_can_be_loaded() {
    let dir = WorkingDir::new();
    let mut lines = String::new();
    for byte in 0..=255u8 {
        lines += &format!("{{\"key_hex\":\"{byte:02x}\",\"value_hex\":\"{byte:02x}0a22{byte:02x}\"}}\n");
    }
    lines += "{\"key\":\"plain\",\"value\":\"grün, \\\"quoted\\\"\\n\"}\n{\"key\":\"none\",\"value\":\"\"}\n";
    let loaded = dir.run_with("load - --format jsonl --data first", lines);
    assert_eq!((loaded.code, loaded.text().as_str()), (0, "258 pairs loaded\n"), "{loaded:?}");
    let first = dir.ok("dump --data first");
    for (name, options) in [
        ("all.csv", ""),
        ("all.tsv", ""),
        ("all.jsonl", ""),
        ("head.csv", "--header"),
        ("head.tsv", "--header"),
        ("hex.csv", "--key hex --value hex"),
    ] {
        assert_eq!(dir.ok(&format!("dump {name} --data first {options}")), "");
        dir.ok(&format!("load {name} --data {name}.db {options} --batch-size 7"));
        assert_eq!(dir.ok(&format!("dump --data {name}.db")), first, "{name}");
    }
    let bytes: Vec<u8> =
        (-50..50i32).flat_map(|n| [n.to_le_bytes(), (n * n).to_le_bytes()].concat()).collect();
    dir.write("pairs.bin", &bytes);
    dir.ok("load pairs.bin --data ints");
    dir.ok("dump again.bin --data ints");
    assert_eq!(dir.read("again.bin"), bytes);
    assert_eq!(dir.ok("scan --data ints --key int --value int --limit 2"), "-50\t2500\n-49\t2401\n");
    let ran = dir.run("dump no.bin --data first");
    assert!(ran.code == 2 && ran.err.contains("is no stored 32-bit integer"), "{ran:?}");
}

#[test]
fn a_bad_line_stops_its_batch_or_is_skipped() {
    let dir = WorkingDir::new();
    let mut lines = String::new();
    for line in 1..=100 {
        lines += &if line % 33 == 0 { format!("bad{line}\n") } else { format!("k{line:03},v\n") };
    }
    dir.write("some.csv", lines);
    let ran = dir.run("load some.csv --batch-size 20 --data stop");
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("some.csv: line 33: "), "{}", ran.err);
    assert!(
        ran.err.contains("20 pairs were loaded before; nothing of its batch, from line 21 on"),
        "{}",
        ran.err
    );
    assert_eq!(dir.ok("count --data stop"), "20\n");
    let ran = dir.run("load some.csv --batch-size 20 --on-error skip --data skip");
    assert_eq!((ran.code, ran.text().as_str()), (0, "97 pairs loaded, 3 bad line(s) skipped\n"));
    for line in [33, 66, 99] {
        assert!(ran.err.contains(&format!("line {line} skipped")), "{}", ran.err);
    }
    let ran = dir.run("load some.csv --on-error skip --json --data json");
    assert_eq!(objects(&ran.text()), [json!({"loaded": 97, "skipped": 3})]);
    dir.write("long.tsv", format!("fine\tv\n{}\tv\n", "k".repeat(70_000)));
    let ran = dir.run("load long.tsv --data stop");
    assert!(ran.code == 5 && ran.err.contains("line 2: the key has 70000 bytes"), "{ran:?}");
    assert_eq!(dir.run("get fine --data stop").code, 1);
    dir.write("torn.bin", [0; 12]);
    let ran = dir.run("load torn.bin --data stop");
    assert!(ran.code == 5 && ran.err.contains("pair 2: the file ends after 4 of the 8 bytes"), "{ran:?}");
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let dir = WorkingDir::new();
    let ran = dir.run("scan");
    assert!(ran.code == 2 && ran.err.contains("there is no directory ./esker-data"), "{ran:?}");
    dir.ok("put k v");
    dir.write("there.unknown", "");
    dir.write("there.jsonl", "");
    for (arguments, code, reason) in [
        ("get nothing", 1, ""),
        ("frobnicate", 2, "unrecognized subcommand"),
        ("get k --keyspace nowhere", 2, "there are: default"),
        ("get k --key int", 2, "'k' is no signed 64-bit integer"),
        ("put k --value hex 0g", 2, "hexadecimal"),
        ("scan --value int", 2, "an integer has 8"),
        ("load data.unknown", 4, "cannot read data.unknown"),
        ("load there.unknown", 2, "--format csv, tsv, jsonl or pairs"),
        ("load there.jsonl --header", 2, "--header is for CSV and TSV"),
        ("load nowhere.csv", 4, "cannot read nowhere.csv"),
        ("build-table table.sst nowhere", 4, "cannot read nowhere"),
        ("get k --data there.jsonl", 2, "there.jsonl is no directory"),
        ("put k v --data there.jsonl", 2, "there.jsonl is no directory"),
        ("exec nowhere.txt", 4, "cannot read nowhere.txt"),
        ("dump no/such/dir.csv", 4, "cannot write no/such/dir.csv"),
        ("shell --connect 127.0.0.1:1", 4, "esker serve"),
        ("bench fill --key_size 4", 2, "--key_size is 4"),
        ("bench fill --benchmarks none", 2, "fillseq"),
        ("serve --load-dir nowhere", 2, "--load-dir nowhere"),
    ] {
        let ran = dir.run(arguments);
        assert_eq!(ran.code, code, "{arguments}: {ran:?}");
        assert!(ran.err.contains(reason), "{arguments}: {}", ran.err);
    }
    let mut serve = dir.command("serve");
    serve.env("SERVER_PORT", "many");
    let output = serve.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// A mistyped name of a database or of a file creates nothing.
#[test]
fn commands_that_need_a_database_create_none() {
    let dir = WorkingDir::new();
    for arguments in [
        "compact",
        "delete k",
        "delete-range a b",
        "strategy tiered:4",
        "checkpoint copy",
        "backup create backups",
        "keyspaces --drop some",
        "changes --create some",
    ] {
        let ran = dir.run(arguments);
        assert!(
            ran.code == 2 && ran.err.contains("there is no directory ./esker-data"),
            "{arguments}: {ran:?}"
        );
    }
    for arguments in ["load nowhere.csv", "load nowhere --format csv", "ingest nowhere.sst"] {
        let ran = dir.run(arguments);
        assert!(ran.code == 4 && ran.err.contains("cannot read nowhere"), "{arguments}: {ran:?}");
    }
    assert_eq!(dir.run("scan").code, 2, "there is no database still");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let dir = WorkingDir::new();
    let lines: String = (0..50_000).map(|line| format!("key{line}\tvalue\n")).collect();
    dir.write("many.tsv", lines);
    dir.ok("load many.tsv");
    let mut child = dir.command("scan").stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn maintenance_commands_report_results() {
    let dir = WorkingDir::new();
    let lines: String = (0..20_000).map(|line| format!("key{line}\tvalue{line}\n")).collect();
    dir.write("many.tsv", lines);
    dir.ok("load many.tsv");
    dir.ok("compact");
    dir.ok("compact --start key1 --end key2");
    dir.ok("compact --all");
    assert!(dir.ok("verify").ends_with("no damage\n"));
    assert_eq!(objects(&dir.ok("verify --json"))[0]["damage"], json!([]));
    let stats = dir.ok("stats");
    assert!(stats.contains("memory budget            32.0 MiB"), "{stats}");
    assert!(
        stats.contains("last sequence number     20000\n"),
        "a read-only open reports the recovered number: {stats}"
    );
    let stats = &objects(&dir.ok("stats --json"))[0];
    assert_eq!(stats["keyspaces"][0]["name"], "default");
    assert_eq!(stats["memory"]["budget_bytes"], 32 << 20);
    let current = String::from_utf8(dir.read("esker-data/CURRENT")).unwrap();
    let manifest = dir.ok(&format!("inspect manifest esker-data/{}", current.lines().nth(1).unwrap()));
    assert!(manifest.lines().last().is_some_and(|line| line.starts_with("closed  number ")), "{manifest}");
    let picture = dir.ok("levels --tables");
    assert!(picture.lines().all(|line| line.chars().count() <= 80), "{picture}");
    assert!(picture.contains("20,000"), "{picture}");
    let levels = &objects(&dir.ok("levels --json"))[0];
    assert_eq!(levels["keyspace"], "default");
    assert_eq!(dir.run("levels --keyspace nowhere").code, 2);
    let read = &levels["amplification"]["read"];
    assert_eq!((&read["runs"], &read["worst_case"][0]["max_sources"]), (&json!(1), &json!(2)));
    assert_eq!(levels["amplification"]["space"]["ratio"], 1.0);
    assert!(
        picture.contains("(L-1) K + 1 + 1") && picture.contains("KiB, all of it in one run"),
        "{picture}"
    );
}

#[test]
fn events_are_watched() {
    let dir = WorkingDir::new();
    let script = "put a 1\nput b 2\nflush\nstats --watch 10ms --count 3\nlevels --json\nquit\n";
    let ran = dir.run_with("shell", script);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = String::from_utf8(ran.out).unwrap();
    let heads = text.lines().filter(|line| line.contains("writes/s")).count();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| {
            fields.len() == 12 && fields.iter().all(|field| *field == "-" || field.parse::<f64>().is_ok())
        })
        .collect();
    assert_eq!((heads, lines.len()), (1, 3), "{text}");
    assert!(
        lines.iter().all(|line| line[5].parse::<f64>().unwrap() > 1.0),
        "a table has more than its pairs: {text}"
    );
    let levels = objects(text.lines().find(|line| line.starts_with('{')).unwrap());
    let causes = &levels[0]["amplification"]["causes"];
    assert_eq!((&causes[0]["cause"], &causes[0]["jobs"]), (&json!("flush"), &json!(1)));
    assert_eq!(levels[0]["amplification"]["put_bytes"], 4);

    assert_eq!(objects(&dir.ok("stats --watch 10ms --count 2 --json")).len(), 2);
    assert_eq!(dir.run("stats --count 2").code, 2);
    assert_eq!(dir.run("stats --watch 10ms --count 1 --keyspace nowhere").code, 2);
}

#[test]
fn entries_with_a_ttl_expire() {
    let dir = WorkingDir::new();
    dir.ok("put session token --ttl 1d");
    dir.ok("put user:1 Ada");
    dir.ok("put gone now --ttl 0s");
    let left: u64 = dir.ok("ttl session").trim().parse().unwrap();
    assert!((80_000_000..=86_400_000).contains(&left), "{left} ms");
    assert_eq!(dir.ok("ttl user:1"), "forever\n");
    assert_eq!(objects(&dir.ok("ttl user:1 --json")), [json!({"ttl_ms": null, "expires_at_ms": null})]);
    assert_eq!(dir.run("ttl gone").code, 1);
    assert_eq!(dir.run("get gone").code, 1);
    assert_eq!(dir.ok("count"), "2\n");
    dir.write("pairs.tsv", "a\t1\n");
    assert_eq!(dir.ok("load pairs.tsv --ttl 2h"), "1 pairs loaded\n");
    assert!(dir.ok("ttl a").trim().parse::<u64>().unwrap() <= 7_200_000);
    assert_eq!(dir.run("put a 1 --ttl soon").code, 2);
}
