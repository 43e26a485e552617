//! Reports of a server over HTTP: the same text as over the control socket, and clear errors.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{RunResult, Served, WorkingDir};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

const TOKEN: &str = "correct-horse-battery";

/// A server of the text protocol and over HTTP, and the address of the latter.
fn serve(dir: &WorkingDir, arguments: &str) -> (Served, String) {
    let mut command = dir
        .command(&format!("serve --redis off --dsl 127.0.0.1:0 --admin 127.0.0.1:0 --log off {arguments}"));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut served = Served::spawn(command);
    let mut line = String::new();
    BufReader::new(served.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit(' ').next().unwrap();
    let address = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(line.contains("status page"), "{line}");
    (served, address)
}

/// Text without numbers, which move on between two questions.
fn without_figures(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.replace(|char: char| char.is_ascii_digit(), ""));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn reports_are_those_of_the_control_socket() {
    let dir = WorkingDir::new();
    let (served, address) = serve(&dir, "");
    dir.write("pairs.csv", (0..5000).map(|number| format!("key{number},{number}\n")).collect::<String>());
    dir.ok("load pairs.csv --keyspace users&co");
    dir.ok("compact --keyspace users&co");
    for report in [
        "stats",
        "stats --json",
        "levels",
        "levels --json",
        "levels --tables --keyspace users&co",
        "levels --keyspace users&co --key hex --json --tables",
        "stalls",
        "stalls --json --keyspace users&co",
        "advise --keyspace users&co --writes 50 --reads-present 50",
        "advise --keyspace users&co --writes 50 --reads-present 50 --merge-rate 1MiB --json",
        "explain put --keyspace users&co",
        "explain space --json",
        "explain memory",
        "explain stall",
    ] {
        let there = dir.ok(&format!("{report} --connect ./esker-data"));
        let here = dir.ok(&format!("{report} --connect {address}"));
        assert!(!here.is_empty(), "{report}");
        assert_eq!(without_figures(&here), without_figures(&there), "{report}");
        // What does not move on is the same to the last byte.
        if report.starts_with("levels") || report.starts_with("advise") {
            assert_eq!(here, there, "{report}");
        }
    }
    let refused = |connect: &str| dir.run(&format!("levels --keyspace nowhere --connect {connect}"));
    let (there, here) = (refused("./esker-data"), refused(&address));
    assert_eq!((here.code, &here.err), (there.code, &there.err));
    assert!(here.err.contains("there are: ") && here.text().is_empty(), "{here:?}");
    assert_eq!(served.end("-TERM"), Some(0));
}

#[test]
fn what_changes_or_reads_data_is_refused_before_it_is_sent() {
    let dir = WorkingDir::new();
    for words in
        ["put a 1", "get a", "compact", "advise --apply", "stats --watch 1s", "explain get a", "scan"]
    {
        // Nothing listens on port 1.
        let refused = dir.run(&format!("{words} --connect 127.0.0.1:1"));
        assert_eq!(refused.code, 2, "{words}: {refused:?}");
        assert!(refused.err.contains("control socket"), "{words}: {refused:?}");
    }
    let ignored = dir.run("stats --connect 127.0.0.1:1 --memory 1GiB");
    assert!(ignored.err.contains("makes no use of --memory"), "{ignored:?}");
    let nothing = dir.run("stats --connect 127.0.0.1:1");
    assert_eq!(nothing.code, 4);
    assert!(
        nothing.err.contains("cannot connect to 127.0.0.1:1") && nothing.err.contains("--admin"),
        "{nothing:?}"
    );
}

#[test]
fn the_token_is_that_of_a_file_or_of_the_environment() {
    let dir = WorkingDir::new();
    dir.write("token", format!("{TOKEN}\n"));
    dir.write("wrong", "incorrect-horse-battery\n");
    let (served, address) = serve(&dir, "--admin-token-file token");
    let without = dir.run(&format!("stalls --connect {address}"));
    assert!(without.code == 4 && without.err.contains("wants a token"), "{without:?}");
    let wrong = dir.run(&format!("stalls --connect {address} --token-file wrong"));
    assert!(wrong.code == 4 && wrong.err.contains("does not accept the token"), "{wrong:?}");
    assert!(!wrong.err.contains("incorrect"), "{wrong:?}");
    assert!(dir.ok(&format!("stalls --connect {address} --token-file token")).contains("writes slowed"));
    let mut command = dir.command(&format!("stats --connect {address}"));
    let output = command.env("ESKER_ADMIN_TOKEN", TOKEN).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("memory budget"));
    let no_file = dir.run(&format!("stats --connect {address} --token-file nowhere"));
    assert!(no_file.code != 0 && no_file.err.contains("nowhere"), "{no_file:?}");
    assert_eq!(served.end("-TERM"), Some(0));
}

/// Answers one connection with these bytes, and runs `stats` against it.
fn against(dir: &WorkingDir, answer: &'static [u8]) -> RunResult {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            stream.write_all(answer).unwrap();
        });
        dir.run(&format!("stats --connect {address}"))
    })
}

#[test]
fn what_is_no_esker_or_an_older_one_is_named() {
    let dir = WorkingDir::new();
    for (answer, told) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..], "no admin address of esker"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "no admin address of esker"),
        (b"-ERR unknown command 'GET'\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 66\r\n\r\n\
              {\"error\":\"there is no such page; /api/v1 lists the reports\"}     \n",
            "is older than this command",
        ),
        (b"HTTP/1.1 200 OK\r\nesker-admin: 1\r\nContent-Length: 100\r\n\r\nhalf", "broke off"),
        (b"HTTP/1.1 200 OK\r\nesker-admin: 1\r\nContent-Length: 99999999999\r\n\r\n", "is longer than"),
        (
            b"HTTP/1.1 400 Bad Request\r\nesker-admin: 1\r\nContent-Length: 33\r\n\r\n\
              {\"error\":\"a word\",\"exit_code\":3}\n",
            "esker: a word",
        ),
    ] {
        let refused = against(&dir, answer);
        assert!(refused.err.contains(told), "{told}: {refused:?}");
        assert_eq!(refused.code, if told.ends_with("a word") { 3 } else { 4 }, "{refused:?}");
        assert!(refused.out.is_empty(), "{refused:?}");
    }
}
