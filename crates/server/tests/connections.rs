//! Many clients, odd packets, endless lines, broken connections; and stopping the server.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files and threads")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{Client, Running, TempDir};
use esker::parts::env::fault::{FaultFs, Operation};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Options};
use esker_server::{Config, Limits};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn many_clients_are_served_at_once() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let (clients, puts) = (24, 200);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let mut connection = server.client();
            scope.spawn(move || {
                for put in 0..puts {
                    let key = client * puts + put;
                    assert_eq!(connection.ask(&format!("p {key} {}", -key)), "OK");
                    assert_eq!(connection.ask(&format!("g {key}")), (-key).to_string());
                }
            });
        }
    });
    let shown = server.client().ask_lines("s 0");
    assert_eq!(shown[0], format!("Logical Pairs: {}", clients * puts));
    server.stop();
}

#[test]
fn packets_may_be_cut_anywhere() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    let session = b"p 1 2\r\np \"a b\" \"c\\n\"\n\n  \ng 1\ng \"a b\"\nnonsense\nr 0 9\n";
    let expected = ["OK", "OK", "2", "\"c\\n\"", "Error", "1:2"];
    for piece in [1, 2, 3, 7, session.len()] {
        for bytes in session.chunks(piece) {
            client.send(bytes);
        }
        for expected in expected {
            let line = client.line().unwrap();
            assert!(line == expected || expected == "Error" && line.starts_with("Error: "), "{line}");
        }
    }
    server.stop();
}

#[test]
fn an_over_long_line_is_an_error_and_the_next_is_not() {
    let dir = TempDir::new();
    let config = Config { max_line_bytes: 1000, ..Config::default() };
    let server = Running::start(dir.path(), config);
    let mut client = server.client();
    let exact = format!("p 1 \"{}\"", "v".repeat(1000 - 6));
    assert_eq!(exact.len(), 1000);
    assert_eq!(client.ask(&exact), "OK");
    assert_eq!(client.ask(&format!("{exact} ")), "Error: the line is longer than 1000 bytes");
    client.send(&vec![b'x'; 3 << 20]);
    assert_eq!(client.line().as_deref(), Some("Error: the line is longer than 1000 bytes"));
    client.send(b" the end of it\np 2 3\n");
    assert_eq!(client.line().as_deref(), Some("OK"));
    assert_eq!(client.ask("g 2"), "3");
    server.stop();
}

#[test]
fn one_client_too_many_gets_an_error() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config { limits: Limits::new(2, 1 << 20), ..Config::default() });
    let (mut first, mut second) = (server.client(), server.client());
    assert_eq!(first.ask("p 1 1"), "OK");
    assert_eq!(second.ask("g 1"), "1");
    let mut third = server.client();
    assert_eq!(third.line().as_deref(), Some("Error: too many clients"));
    assert_eq!(third.line(), None);
    first.send(b"q\n");
    assert_eq!(first.line(), None);
    drop((first, third));
    // The slot becomes free when the server has noticed; until then new clients are refused.
    loop {
        let mut client = server.client();
        client.send(b"g 1\n");
        let mut answer = [0; 2];
        // A refusal may also show as a reset, because the command was not read.
        match client.reader.read_exact(&mut answer) {
            Ok(()) if &answer == b"1\n" => break,
            Ok(()) => assert_eq!(&answer, b"Er"),
            Err(_) => {}
        }
    }
    assert_eq!(second.ask("g 1"), "1");
    server.stop();
}

#[test]
fn a_command_without_an_end_is_not_executed() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    client.send(b"p 1 10\np 1 1");
    client.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.line().as_deref(), Some("OK"));
    assert!(client.line().unwrap().starts_with("Error: "));
    assert_eq!(client.line(), None);
    assert_eq!(server.client().ask("g 1"), "10");
    server.stop();
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let dir = TempDir::new();
    let config = Config { write_timeout: Duration::from_millis(300), ..Config::default() };
    let server = Running::start(dir.path(), config);
    let mut client = server.client();
    assert_eq!(client.ask(&format!("p 1 \"{}\"", "v".repeat(500_000))), "OK");
    // Unread answers: first the server stops reading, then it disconnects the client, and serves others all
    // the while.
    let mut stream = client.reader.get_ref().try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut others = server.client();
    let flood = "g 1\n".repeat(1000);
    let given_up = loop {
        if let Err(error) = stream.write_all(flood.as_bytes()) {
            break error;
        }
        assert_eq!(others.ask("g 2"), "");
    };
    assert!(!matches!(given_up.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{given_up}");
    assert_eq!(others.ask("g 2"), "");
    server.stop();
}

#[test]
fn stalled_writes_are_answered_in_the_end() {
    let dir = TempDir::new();
    let faults = FaultFs::new(Arc::new(StdFileSystem));
    let env = Env { fs: Arc::new(faults.clone()), ..Env::real() };
    // Memtables of half a megabyte, whose flush waits at a gate until a write waits for it.
    let options = Options::default().memory_budget(8 << 20).env(env);
    let database = Database::open_with(dir.path(), options).unwrap();
    let (gate, opened) = channel::<()>();
    faults.interrupt(Operation::Create, "tables/", move || {
        let _opened = opened.recv();
    });
    let server = Running::serve(database.clone(), Config::default());
    let (clients, puts) = (4, 250);
    let value = "v".repeat(64 << 10);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..clients)
            .map(|client| {
                let (mut connection, value) = (server.client(), &value);
                scope.spawn(move || {
                    for put in 0..puts {
                        let key = client * puts + put;
                        assert_eq!(connection.ask(&format!("p {key} \"{value}\"")), "OK");
                    }
                })
            })
            .collect();
        // Other clients are served meanwhile.
        let (mut reader, done) = (server.client(), &done);
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                assert_eq!(reader.ask("g -1"), "");
            }
        });
        while database.stalls().waiting.is_empty() && !writers.iter().all(|writer| writer.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(gate);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
    });
    assert!(database.metrics().stalls > 0, "nothing stalled, so nothing was tested");
    assert_eq!(server.client().ask_lines("s 0")[0], format!("Logical Pairs: {}", clients * puts));
    server.stop();
}

#[test]
fn stopping_loses_nothing_that_was_acknowledged() {
    let dir = TempDir::new();
    let mut server = Running::start(dir.path(), Config::default());
    let address = server.address;
    let busy = AtomicUsize::new(0);
    let acknowledged: Vec<i64> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let busy = &busy;
                scope.spawn(move || put_until_closed(Client::connect(address), client, busy))
            })
            .collect();
        // A client that ended early has failed: the loop ends, and its thread reports why.
        while busy.load(Ordering::Acquire) < clients.len()
            && !clients.iter().any(|client| client.is_finished())
        {
            std::thread::yield_now();
        }
        server.request_stop();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    server.stop();
    assert!(acknowledged.iter().all(|&count| count > 0));
    let server = Running::start(dir.path(), Config::default());
    let mut client = server.client();
    for (writer, count) in acknowledged.iter().enumerate() {
        let start = writer as i64 * 1_000_000_000;
        let found = client.ask(&format!("r {start} {}", start + 1_000_000_000));
        let found = found.split(' ').count() as i64;
        assert!(found >= *count, "client {writer}: {count} acknowledged, {found} found");
    }
    server.stop();
}

/// Puts ascending keys, many in one packet, until the server closes the connection; how many were
/// acknowledged. Counts itself among the `busy` after a thousand puts.
fn put_until_closed(mut client: Client, number: i64, busy: &AtomicUsize) -> i64 {
    let mut acknowledged = 0;
    loop {
        let first = number * 1_000_000_000 + acknowledged;
        let packet: String = (0..50).map(|put| format!("p {} 1\n", first + put)).collect();
        if client.reader.get_mut().write_all(packet.as_bytes()).is_err() {
            return acknowledged;
        }
        for _ in 0..50 {
            let mut answer = [0; 3];
            if client.reader.read_exact(&mut answer).is_err() {
                return acknowledged;
            }
            assert_eq!(&answer, b"OK\n");
            acknowledged += 1;
        }
        if acknowledged == 1000 {
            busy.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// As many clients as there are threads and more send commands without a pause; one that comes later is
/// answered meanwhile.
#[test]
fn clients_that_never_pause_leave_threads_to_others() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let streams = 2 * std::thread::available_parallelism().map_or(4, |count| count.get());
    let (busy, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let answer = std::thread::scope(|scope| {
        for number in 0..streams {
            let incoming = TcpStream::connect(server.address).unwrap();
            let outgoing = incoming.try_clone().unwrap();
            let (busy, done) = (&busy, &done);
            scope.spawn(move || send_until(outgoing, number, done));
            scope.spawn(move || read_to_end(incoming, busy));
        }
        while busy.load(Ordering::Acquire) < streams / 2 {
            std::thread::yield_now();
        }
        let mut other = TcpStream::connect(server.address).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = [0; 3];
        let read = other.write_all(b"p -1 2\n").and_then(|()| other.read_exact(&mut answer));
        done.store(true, Ordering::Release);
        read.map(|()| answer)
    });
    assert_eq!(answer.expect("an answer while others send"), *b"OK\n");
    server.stop();
}

fn send_until(mut stream: TcpStream, number: usize, done: &AtomicBool) {
    let packet = format!("p {number} 1\n").repeat(200);
    while !done.load(Ordering::Acquire) {
        stream.write_all(packet.as_bytes()).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Counts itself among the `busy` after some answers.
fn read_to_end(mut stream: TcpStream, busy: &AtomicUsize) {
    let (mut answers, mut total) = ([0; 4096], 0);
    while let Ok(bytes @ 1..) = stream.read(&mut answers) {
        if total <= 100_000 && total + bytes > 100_000 {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        total += bytes;
    }
}

#[test]
fn stopping_waits_for_no_idle_client() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let mut idle = server.client();
    assert_eq!(idle.ask("p 1 2"), "OK");
    server.stop();
    assert_eq!(idle.line(), None);
}

/// The body of a request that a web page makes a browser send would be commands.
#[test]
fn a_connection_ends_at_the_first_line_of_http() {
    let dir = TempDir::new();
    let server = Running::start(dir.path(), Config::default());
    let requests = [
        "POST / HTTP/1.1\r\nHost: x\r\n\r\np 10 7\nd 1\n",
        "GET /p%2010%207 HTTP/1.0\r\n\r\np 10 7\n",
        "host: 127.0.0.1\r\np 10 7\n",
    ];
    for request in requests {
        let mut client = server.client();
        client.send(request.as_bytes());
        let answer = client.line().unwrap();
        assert_eq!(answer, "Error: this is not an HTTP server; the connection is closed");
        assert_eq!(client.line(), None, "nothing behind it is answered");
    }
    let mut client = server.client();
    assert_eq!(client.ask("g 10"), "", "nothing behind it is executed");
    server.stop();
}

#[test]
fn silent_clients_are_disconnected() {
    let dir = TempDir::new();
    let config = Config { idle_timeout: Duration::from_millis(300), ..Config::default() };
    let server = Running::start(dir.path(), config);
    // One that has said nothing at all.
    let mut silent = server.client();
    assert!(silent.line().unwrap().starts_with("Error: nothing was sent for"));
    assert_eq!(silent.line(), None);
    // One that was answered: on a busy machine it may be too late for that, and the next one tries.
    let answered = (0..50).find_map(|_| {
        let (mut client, mut answer) = (server.client(), [0; 3]);
        let sent = client.reader.get_mut().write_all(b"p 1 2\n");
        let read = sent.and_then(|()| client.reader.read_exact(&mut answer));
        (read.is_ok() && &answer == b"OK\n").then_some(client)
    });
    let mut silent = answered.expect("an answer in time");
    assert!(silent.line().unwrap().starts_with("Error: nothing was sent for"));
    assert_eq!(silent.line(), None);
    server.stop();
}

#[test]
fn unfinished_lines_are_disconnected() {
    let dir = TempDir::new();
    let config = Config { line_timeout: Duration::from_millis(200), ..Config::default() };
    let server = Running::start(dir.path(), config);
    let mut halfway = server.client();
    let (mut sender, is_over) = (halfway.reader.get_ref().try_clone().unwrap(), AtomicBool::new(false));
    // A byte now and then is no reason to wait longer.
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && sender.write_all(b"p").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let told = halfway.line();
        is_over.store(true, Ordering::Relaxed);
        told
    });
    assert!(told.unwrap().starts_with("Error: a line did not end within"));
    assert_eq!(server.client().ask("p 1 2"), "OK", "others are served");
    server.stop();
}

#[test]
fn long_lines_take_turns_and_all_are_answered() {
    let dir = TempDir::new();
    // One place for a long line.
    let config = Config { long_lines_bytes: 1, ..Config::default() };
    let server = Running::start(dir.path(), config);
    std::thread::scope(|scope| {
        for client in 0..16 {
            let mut connection = server.client();
            scope.spawn(move || {
                let line = format!("p {client} \"{}\"", "v".repeat(300_000));
                assert_eq!(connection.ask(&line), "OK");
                assert_eq!(connection.ask(&format!("g {client}")).len(), 300_000);
            });
        }
    });
    server.stop();
}

/// The next client meets the limit of its moment; those that are connected stay.
#[test]
fn the_limit_on_clients_changes_while_the_server_runs() {
    let dir = TempDir::new();
    let limits = Limits::new(1, 1 << 20);
    let server = Running::start(dir.path(), Config { limits: limits.clone(), ..Config::default() });
    let mut first = server.client();
    assert_eq!(first.ask("p 1 1"), "OK");
    assert_eq!(server.client().line().as_deref(), Some("Error: too many clients"));
    limits.set(&Limits::new(2, 1 << 20));
    let mut second = server.client();
    assert_eq!(second.ask("g 1"), "1");
    limits.set(&Limits::new(1, 1 << 20));
    assert_eq!(server.client().line().as_deref(), Some("Error: too many clients"));
    assert_eq!((first.ask("g 1").as_str(), second.ask("g 1").as_str()), ("1", "1"));
    server.stop();
}

/// However many clients do not read, what they keep waiting is bounded, long before the write timeout.
#[test]
fn clients_that_do_not_read_are_bounded_together() {
    const SILENT: usize = 6;
    let dir = TempDir::new();
    // One answer always fits; the next one that waits takes its place.
    let config = Config {
        limits: Limits::new(1024, 1),
        write_timeout: Duration::from_secs(3600),
        ..Config::default()
    };
    let server = Running::start(dir.path(), config);
    let mut client = server.client();
    assert_eq!(client.ask(&format!("p 1 \"{}\"", "v".repeat(500_000))), "OK");
    let disconnected = AtomicUsize::new(0);
    let silent: Vec<Client> = (0..SILENT).map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        for silent in &silent {
            let (mut stream, disconnected) = (silent.reader.get_ref().try_clone().unwrap(), &disconnected);
            scope.spawn(move || {
                let flood = "g 1\n".repeat(1000);
                while stream.write_all(flood.as_bytes()).is_ok() {}
                disconnected.fetch_add(1, Ordering::Relaxed);
            });
        }
        while disconnected.load(Ordering::Relaxed) < SILENT - 1 {
            assert_eq!(client.ask("g 2"), "", "those who read are served");
        }
        // The last one is alone, and waits.
        silent.iter().for_each(|client| drop(client.reader.get_ref().shutdown(Shutdown::Both)));
    });
    assert_eq!(client.ask("g 1").len(), 500_000);
    server.stop();
}
