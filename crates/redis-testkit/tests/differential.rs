//! The differential test is silent between two equal servers, and finds and shortens what differs.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a proxy has threads; what is measured is another program")]

use esker_redis_testkit::Server;
use esker_redis_testkit::differential::{Plan, compare};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Redis looks for clients that have waited long enough so often a second.
const SETTINGS: [&str; 2] = ["--hz", "500"];

#[test]
fn redis_agrees_with_itself() {
    let (Some(left), Some(right)) = (Server::redis(&SETTINGS), Server::redis(&SETTINGS)) else { return };
    let plan = Plan::from_environment(20_000);
    let report = compare(&left, &right, &plan);
    assert!(report.failures.is_empty(), "{report}");
    if std::env::var("ESKER_COMMANDS").is_ok() {
        for (command, (values, errors)) in &report.replies {
            println!("{command}: {values} values, {errors} errors");
        }
    }
}

#[test]
fn a_wrong_reply_is_found_and_its_requests_are_few() {
    let (Some(left), Some(right)) = (Server::redis(&SETTINGS), Server::redis(&SETTINGS)) else { return };
    let proxy = Server::at(proxy(right.address().to_owned()));
    let plan = Plan { seeds: 1..9, requests: 1_000, groups: vec!["list".to_owned()], failures: 1 };
    let report = compare(&left, &proxy, &plan);
    let [failure] = &report.failures[..] else { panic!("{report}") };
    assert!(failure.disagreement.left.contains(":4\\r\\n"), "{report}");
    assert!(failure.requests.len() <= 5, "{report}");
}

/// Passes connections on to a server and makes each integer 4 in its replies a 5.
fn proxy(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let own = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&address) else { return };
            let (from_client, to_client) = (client.try_clone().expect("a socket"), client);
            let (from_server, to_server) = (server.try_clone().expect("a socket"), server);
            std::thread::spawn(move || pass_on(from_client, to_server, |_| ()));
            std::thread::spawn(move || {
                pass_on(from_server, to_client, |bytes| {
                    let found = bytes.windows(4).position(|window| window == b":4\r\n");
                    if let Some(at) = found {
                        bytes[at + 1] = b'5';
                    }
                });
            });
        }
    });
    own
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        change(&mut piece[..length]);
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
