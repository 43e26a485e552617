//! The DSL from files, pipes and sockets: `exec`, `shell` and `serve`.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{Served, WorkingDir};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Stdio;

const SESSION: &str = "p 1 2\np \"a b\" 3\n\ng 1\ng \"a b\"\ng 9\nr 0 5\nd 1\ns 1\ng 1";
const ANSWERS: &str = "OK\nOK\n2\n3\n\n1:2\nOK\nLogical Pairs: 1\nLVL0: 1\n\"a b\":3:L0\n\n\n";

#[test]
fn exec_runs_a_file() {
    let dir = WorkingDir::new();
    dir.write("session.txt", SESSION);
    assert_eq!(dir.ok("exec session.txt"), ANSWERS);
    assert_eq!(dir.run_with("exec - --data other", SESSION).text(), ANSWERS);
    dir.write("pairs.bin", [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let ran = dir.run_with("exec -", "l \"pairs.bin\"\ng 1\nl \"none.bin\"\nnonsense\nq\np 5 5\n");
    let lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert_eq!(lines[..2], ["OK", "-1"]);
    assert!(lines[2..].iter().all(|line| line.starts_with("Error: ")) && lines.len() == 4, "{lines:?}");
    assert_eq!(ran.code, 5);
    assert_eq!(dir.run_with("exec -", "g 5").text(), "\n");
    assert_eq!(dir.ok("get --keyspace dsl.int --key int --value int 1"), "-1\n");
}

#[test]
fn the_shell_reads_a_pipe() {
    let dir = WorkingDir::new();
    let ran = dir.run_with("shell", SESSION);
    assert_eq!((ran.code, ran.text().as_str()), (0, ANSWERS));
    let ran = dir.run_with(
        "shell",
        "put fruit 'red apple'\nget fruit\nget nothing\nuse users\nput 1 Ada\nscan\nscan --keyspace default\n\
         count --json\nkeyspaces\nhelp get\nflush\nlevels\nquit\nput 2 Bob\n",
    );
    let text = ran.text();
    let head = "red apple\nError: there is no such key\n1\tAda\nfruit\tred apple\n{\"count\":1}\n";
    assert!(text.starts_with(head), "{text}");
    assert!(text.contains("Print the value of a key") && text.contains("users, "), "{text}");
    assert_eq!(ran.code, 5);
    assert_eq!(dir.ok("count --keyspace users"), "1\n");
    let ran = dir.run_with("shell", "frob\nput\nput 'a\nscan --limit many\n");
    let lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert!(lines.len() == 4 && lines.iter().all(|line| line.starts_with("Error: ")), "{lines:?}");
    dir.write("words.txt", "get fruit");
    assert_eq!(dir.ok("shell --file words.txt"), "red apple\n");
}

#[test]
fn a_server_answers_the_shell() {
    let dir = WorkingDir::new();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    dir.write("files/pairs.bin", [1, 0, 0, 0, 2, 0, 0, 0]);
    dir.write("outside.bin", [1, 0, 0, 0, 2, 0, 0, 0]);
    let served = Served::start(&dir, "--load-dir files");
    let connect = format!("shell --connect {}", served.address);
    let ran = dir.run_with(&connect, SESSION);
    assert_eq!((ran.code, ran.text().as_str()), (0, ANSWERS), "{ran:?}");
    let ran = dir.run_with(&connect, "l \"pairs.bin\"\ng 1\nl \"../outside.bin\"\ns x\ng 1\nq\ng 1\n");
    let lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert_eq!(lines[..2], ["OK", "2"]);
    assert!(lines[2].starts_with("Error: there is no file") && lines[3].starts_with("Error: "), "{lines:?}");
    assert_eq!(lines[4..], ["2"]);
    assert_eq!(ran.code, 5);
    // Thousands of commands under way at once, in both directions.
    let puts: String = (0..30_000).map(|key| format!("p {key} {key}\n")).collect();
    dir.write("puts.txt", format!("{puts}r 0 100000\n"));
    let answers = dir.ok(&format!("{connect} --file puts.txt"));
    assert_eq!(answers.lines().filter(|line| *line == "OK").count(), 30_000);
    assert_eq!(answers.lines().last().unwrap().split(' ').count(), 30_000);
    std::fs::remove_file(dir.path().join("esker-data/control.sock")).unwrap();
    let ran = dir.run("get 1");
    assert!(ran.code == 4 && ran.err.contains("esker shell --connect"), "{ran:?}");
    assert_eq!(served.end("-TERM"), Some(0));
    assert_eq!(dir.ok("count --keyspace dsl.int"), "30000\n");
}

#[test]
fn answers_of_a_server_are_timed_and_shown_as_json() {
    let dir = WorkingDir::new();
    // The client may start before the server: it tries to connect until there is one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let session = "p 1 2\ng 1\ng 9\n\nfrob\ns\nq\n";
    let (ran, served) = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            dir.run_with(&format!("shell --connect {address} --json --timing --wait 60s"), session)
        });
        let served = Served::spawn(dir.command(&format!("serve --redis off --log off --dsl {address}")));
        (client.join().unwrap(), served)
    });
    let answers: Vec<serde_json::Value> =
        ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ran.code, 5, "{ran:?}");
    let of = |at: usize, member: &str| answers[at][member].clone();
    assert_eq!((of(0, "command"), of(0, "answer"), of(0, "line")), ("p 1 2".into(), "OK".into(), 1.into()));
    assert_eq!((of(1, "answer"), of(2, "answer")), ("2".into(), serde_json::Value::Null));
    assert!(of(3, "error").as_str().is_some_and(|error| error.contains("frob")), "{ran:?}");
    assert_eq!((of(3, "line"), of(4, "answer")[0].clone()), (5.into(), "Logical Pairs: 1".into()));
    assert!(answers.iter().all(|answer| answer["ms"].as_f64().is_some_and(|ms| ms > 0.0)), "{ran:?}");
    assert!(ran.err.contains("6 commands in ") && ran.err.contains("; 1 errors;"), "{}", ran.err);
    let ran = dir.run_with(&format!("shell --connect {address}"), "p 1 3\n");
    assert_eq!((ran.text().as_str(), ran.err.as_str()), ("OK\n", ""));
    assert_eq!(served.end("-TERM"), Some(0));
    let ran = dir.run_with(&format!("shell --connect {address}"), "p 1 3\n");
    assert!(ran.code == 4 && ran.err.contains("cannot talk to"), "{ran:?}");
}

/// A server that answers three commands and goes away.
#[test]
fn a_client_says_what_was_answered_when_the_server_breaks_off() {
    let dir = WorkingDir::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let commands: String = (1..=10).map(|key| format!("p {key} 1\n")).collect();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            for _ in 0..3 {
                lines.read_line(&mut line).unwrap();
                (&stream).write_all(b"OK\n").unwrap();
            }
        });
        dir.run_with(&format!("shell --connect {address}"), commands)
    });
    assert_eq!((ran.code, ran.text().as_str()), (4, "OK\nOK\nOK\n"), "{ran:?}");
    assert!(
        ran.err.contains("3 commands were answered; the one of line 4 and later ones may or may not"),
        "{}",
        ran.err
    );
}

#[test]
fn signals_end_the_server_and_keep_acknowledged_writes() {
    for signal in ["-TERM", "-INT"] {
        let dir = WorkingDir::new();
        let served = Served::start(&dir, "");
        let stream = TcpStream::connect(&served.address).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut acknowledged = 0;
        let code = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let mut stream = stream;
                (0..).take_while(|key| stream.write_all(format!("p {key} 1\n").as_bytes()).is_ok()).count()
            });
            let mut line = String::new();
            let mut ender = Some(served);
            let mut code = None;
            // Until the server breaks off: it is told to end in the middle of the stream.
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line == "OK\n" {
                acknowledged += 1;
                line.clear();
                if acknowledged == 2000 {
                    code = ender.take().map(|served| scope.spawn(move || served.end(signal)));
                }
            }
            writer.join().unwrap();
            code.unwrap().join().unwrap()
        });
        assert_eq!(code, Some(0), "{signal}");
        let count: u64 = dir.ok("count --keyspace dsl.int").trim().parse().unwrap();
        assert!(
            count >= acknowledged && acknowledged >= 2000,
            "{signal}: {acknowledged} acknowledged, {count} kept"
        );
    }
}

#[test]
fn the_port_comes_from_the_environment() {
    let dir = WorkingDir::new();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = dir.command("serve --redis off --log off");
    command.env("SERVER_PORT", port.to_string()).stderr(Stdio::null());
    let served = Served::spawn(command);
    assert_eq!(served.address, format!("127.0.0.1:{port}"));
    let taken = dir.run(&format!("serve --redis off --data other --dsl {}", served.address));
    assert!(taken.code == 4 && taken.err.contains("cannot listen on"), "{taken:?}");
    assert!(!dir.path().join("other").exists(), "the address is known to be taken before a database is made");
    assert_eq!(served.end("-INT"), Some(0));
    assert!(dir.path().join("esker-data").is_dir());
}

#[test]
fn bench_reports_in_json() {
    let dir = WorkingDir::new();
    let out = dir.ok("bench --num 2000 --benchmarks fillrandom,readrandom --json --threads 2");
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (row, workload) in rows.iter().zip(["fillrandom", "readrandom"]) {
        assert_eq!(row["workload"], workload);
        for field in ["ops", "seconds", "ops_per_second", "p50_us", "p99_us", "p999_us", "options"] {
            assert!(!row[field].is_null(), "{workload} has no {field}");
        }
    }
    assert!(dir.path().join("esker-bench").is_dir() && !dir.path().join("esker-data").exists());
    // Of which one kills a second process of this program.
    let out = dir.ok("bench open --num 2000 --json");
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let opened = rows.iter().map(|row| (row["workload"].as_str().unwrap(), row["found"].as_u64().unwrap()));
    assert_eq!(opened.collect::<Vec<_>>(), [("reopen", 5 * 2000), ("reopenkill", 5 * 2000)]);
    let table = dir.run("bench read --num 2000");
    assert!(table.code == 0 && table.text().contains("multireadrandom"), "{table:?}");
}

#[test]
fn a_generated_workload_runs_and_answers_as_told() {
    let dir = WorkingDir::new();
    let ran =
        dir.run("generate --puts 500 --gets 200 --deletes 50 --ranges 5 --gets-misses-ratio 0.25 --seed 7");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("200 gets (150 find their key, 50 do not;"), "{}", ran.err);
    let answers = dir.run_with("exec -", ran.text());
    assert_eq!(answers.code, 0, "{}", answers.err);
    let found = |line: &&str| !line.is_empty() && *line != "OK" && !line.contains(':');
    assert_eq!(answers.text().lines().filter(found).count(), 150);
    let again =
        dir.run("generate --puts 500 --gets 200 --deletes 50 --ranges 5 --gets-misses-ratio 0.25 --seed 7");
    assert_eq!(again.text(), ran.text());
    let ran = dir.run(
        "generate --puts 500 --gets 50 --gets-misses-ratio 0 --external-puts files --pairs-per-file 200",
    );
    assert_eq!(ran.text().lines().filter(|line| line.starts_with("l \"files/")).count(), 3);
    let answers = dir.run_with("exec - --data loaded", ran.text());
    assert_eq!(answers.text().lines().filter(found).count(), 50, "{}", answers.text());
    let refused = dir.run("generate --gets 10 --gets-misses-ratio 0.5");
    assert!(refused.code == 2 && refused.err.contains("no puts"), "{} {}", refused.code, refused.err);
}
