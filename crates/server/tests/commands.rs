//! Every command over a real socket.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files and threads")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{Running, TempDir};
use esker_server::{Config, LoadDirectory, LoadFiles};

#[test]
fn the_answers_are_those_of_the_course() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    for (command, answer) in [
        ("p 10 7", "OK"),
        ("p -5 9223372036854775807", "OK"),
        ("p 63 222", "OK"),
        ("g 10", "7"),
        ("g -5", "9223372036854775807"),
        ("g 11", ""),
        ("r -5 63", "-5:9223372036854775807 10:7"),
        ("r 11 63", ""),
        ("r 63 -5", ""),
        ("d 10", "OK"),
        ("d 10", "OK"),
        ("g 10", ""),
        ("p 63 2", "OK"),
        ("g 63", "2"),
        ("p \"a key\" \"a value\"", "OK"),
        ("p \"plain\" \"plain\"", "OK"),
        ("g \"plain\"", "plain"),
        ("g \"a key\"", "\"a value\""),
        ("p \"number\" 5", "OK"),
        ("p 5 \"text\"", "OK"),
        ("g 5", "text"),
        ("r \"a\" \"zz\"", "\"a key\":\"a value\" number:5 plain:plain"),
        ("r -100 100", "-5:9223372036854775807 5:text 63:2"),
        ("p \"nothing\" \"\"", "OK"),
        ("g \"nothing\"", "\"\""),
        ("g \"63\"", ""),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    client.send(b"q\n");
    assert_eq!(client.line(), None);
    server.stop();
}

#[test]
fn errors_are_one_line_and_the_connection_goes_on() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    let long_key = format!("p \"{}\" 1", "k".repeat(70_000));
    for command in
        ["p 1", "p 1 2 3", "g x", "x", "r 1 \"a\"", "g \"open", "l \"file\"", "s x", long_key.as_str()]
    {
        let answer = client.ask(command);
        assert!(answer.starts_with("Error: "), "{command}: {answer}");
        assert_eq!(client.ask("g 1"), "");
    }
    server.stop();
}

#[test]
fn show_counts_and_lists() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    assert_eq!(client.ask_lines("s"), ["Logical Pairs: 0"]);
    for command in ["p 1 2", "p 1 3", "p 2 4", "d 2", "p \"a b\" 1"] {
        assert_eq!(client.ask(command), "OK");
    }
    assert_eq!(client.ask_lines("s"), ["Logical Pairs: 2", "LVL0: 2", "1:3:L0 \"a b\":1:L0"]);
    assert_eq!(client.ask_lines("s 1"), ["Logical Pairs: 2", "LVL0: 2", "1:3:L0"]);
    assert_eq!(client.ask_lines("s 0"), ["Logical Pairs: 2", "LVL0: 2"]);
    assert_eq!(client.ask("g 1"), "3");
    server.stop();
}

#[test]
fn long_answers_come_whole() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    // Enough for many pieces of output, of `r` and of `s`.
    let count = 60_000;
    let puts: String = (0..count).map(|key| format!("p {key} {}\n", key * 7)).collect();
    std::thread::scope(|scope| {
        let mut writer = client.reader.get_ref().try_clone().unwrap();
        scope.spawn(move || std::io::Write::write_all(&mut writer, puts.as_bytes()).unwrap());
        for _ in 0..count {
            assert_eq!(client.line().as_deref(), Some("OK"));
        }
    });
    let expected: Vec<String> = (0..count).map(|key| format!("{key}:{}", key * 7)).collect();
    assert_eq!(client.ask("r 0 1000000"), expected.join(" "));
    let shown = client.ask_lines("s");
    assert_eq!(shown[0], format!("Logical Pairs: {count}"));
    let pairs: usize = shown[2..].iter().map(|line| line.split(' ').count()).sum();
    assert_eq!(pairs, count as usize);
    server.stop();
}

#[test]
fn a_range_is_read_at_one_moment() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let value = "v".repeat(1000);
    let mut writer = server.client();
    for key in 0..20_000 {
        writer.send(format!("p {key} \"{value}\"\n").as_bytes());
        assert_eq!(writer.line().as_deref(), Some("OK"));
    }
    // 20 MB exceed all buffers between the two, so the server is inside the answer when keys are deleted.
    let mut reader = server.client();
    reader.send(b"r 0 20000\n");
    use std::io::BufRead;
    assert!(!reader.reader.fill_buf().unwrap().is_empty());
    for key in 0..20_000 {
        assert_eq!(writer.ask(&format!("d {key}")), "OK");
    }
    assert_eq!(reader.line().unwrap().split(' ').count(), 20_000);
    assert_eq!(reader.ask("r 0 20000"), "");
    server.stop();
}

#[test]
fn load_reads_pairs_of_the_named_directory_only() {
    let (dir, files) = (TempDir::new(), TempDir::new());
    let inside = files.path().join("inside");
    std::fs::create_dir_all(inside.join("deeper")).unwrap();
    let pairs: Vec<u8> =
        (0..40_000).flat_map(|key| esker_protocol::pairs::encode(key - 20_000, key)).collect();
    std::fs::write(inside.join("deeper/pairs.bin"), &pairs).unwrap();
    std::fs::write(inside.join("torn.bin"), &pairs[..13]).unwrap();
    std::fs::write(inside.join("empty.bin"), b"").unwrap();
    std::fs::write(files.path().join("secret.bin"), &pairs).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(files.path().join("secret.bin"), inside.join("link.bin")).unwrap();
        std::os::unix::fs::symlink(files.path(), inside.join("up")).unwrap();
        std::os::unix::fs::symlink(inside.join("deeper/pairs.bin"), inside.join("good-link.bin")).unwrap();
    }
    let load_files = LoadFiles::Within(LoadDirectory::new(&inside).unwrap());
    let server = Running::start(dir.path(), Config { load_files, ..Config::default() });
    let mut client = server.client();
    let absolute = files.path().join("secret.bin");
    for path in [
        "../secret.bin",
        "deeper/../../secret.bin",
        "link.bin",
        "up/secret.bin",
        absolute.to_str().unwrap(),
        "/etc/passwd",
        "missing.bin",
        "deeper",
        ".",
        "a\\x00b",
    ] {
        let answer = client.ask(&format!("l \"{path}\""));
        assert!(answer.starts_with("Error: "), "{path}: {answer}");
    }
    assert_eq!(
        client.ask("l \"torn.bin\""),
        "Error: 'torn.bin' is no file of pairs: 13 bytes are 5 more than a multiple of 8"
    );
    assert_eq!(client.ask_lines("s"), ["Logical Pairs: 0"]);
    assert_eq!(client.ask("l \"empty.bin\""), "OK");
    assert_eq!(client.ask("l \"deeper/pairs.bin\""), "OK");
    assert_eq!(client.ask_lines("s 0")[0], "Logical Pairs: 40000");
    assert_eq!(client.ask("g -20000"), "0");
    assert_eq!(client.ask("g 19999"), "39999");
    #[cfg(unix)]
    {
        let inside_absolute = inside.join("deeper/pairs.bin");
        assert_eq!(client.ask(&format!("l \"{}\"", inside_absolute.display())), "OK");
        assert_eq!(client.ask("l \"good-link.bin\""), "OK");
    }
    server.stop();
}
