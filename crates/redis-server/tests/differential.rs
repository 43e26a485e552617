//! Random commands of the whole table, compared with Redis 7.0.15.
//!
//! `ESKER_COMMANDS` sets how many, `ESKER_SEED` where to begin, `ESKER_GROUPS` limits them to groups of the
//! table (`hash,set`), `ESKER_BINARY` compares a process of `esker serve` and not the server in this process.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets")]

mod common;

use common::TestServer;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_testkit::Server;
use esker_redis_testkit::differential::{Plan, compare};
use std::net::SocketAddr;
use std::path::Path;

#[test]
fn every_command_answers_as_redis_does() {
    // Redis looks for clients that have waited long enough so often a second.
    let Some(redis) = Server::redis(&["--hz", "500"]) else { return };
    let esker = match std::env::var("ESKER_BINARY") {
        Ok(binary) => Server::esker(Path::new(&binary), &[]),
        Err(_) => in_process(),
    };
    let plan = Plan::from_environment(200_000);
    let report = compare(&redis, &esker, &plan);
    let is_whole = plan.groups.is_empty();
    assert!(report.failures.is_empty() && (!is_whole || report.missing.is_empty()), "{report}");
}

/// A server in this process, which ends with it.
fn in_process() -> Server {
    let server: &'static TestServer = Box::leak(Box::new(TestServer::new("differential")));
    let config =
        ListenConfig { tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()], ..ListenConfig::default() };
    let listener = Listener::bind(config).expect("a free port");
    let address = listener.addresses().expect("bound")[0];
    std::thread::spawn(|| listener.serve(server.server()));
    Server::at(address.to_string())
}
