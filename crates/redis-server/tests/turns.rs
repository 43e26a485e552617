//! Figures of execution: turns and groups with what cut them, scripts, messages, clients that are held back,
//! and the queue of the slow lane.

#![allow(clippy::disallowed_methods, reason = "threads and waits of the tests")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_server::figures::{Figures, TURN_STEPS};
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::{Client, ExpectKind, encode};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Scripts that run at once.
const SCRIPTS: u64 = 40;

fn cut(figures: &Figures, cause: &str) -> u64 {
    figures.group_cuts.iter().find(|(name, _)| *name == cause).expect("a cause").1
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn pipeline<'w>(requests: impl IntoIterator<Item = &'w str>) -> Vec<u8> {
    let words = |line: &str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    requests.into_iter().flat_map(words).collect()
}

#[test]
fn a_pipeline_is_one_turn_of_groups_and_each_cut_has_its_cause() {
    let server = TestServer::new("turns");
    let mut client = LocalClient::new(server.server());
    let figures = || server.server().figures();
    client.pipeline(&pipeline(["SET a 1", "SET b 2", "GET a"]));
    let first = figures();
    assert_eq!((first.groups, first.turns.1, first.turn_commands), (1, 1, 3));
    // Within 4 and all above, but not within 2.
    assert_eq!((TURN_STEPS[1], first.turns.0[1], first.turns.0[2], first.turns.0[10]), (2, 0, 1, 1));
    assert!(first.group_cuts.iter().all(|(_, count)| *count == 0), "{:?}", first.group_cuts);

    // PING shares a group, what changes all keys does not.
    client.pipeline(&pipeline(["SET a 1", "FLUSHDB", "SET a 1"]));
    let alone = figures();
    assert_eq!((alone.groups, cut(&alone, "alone")), (4, 2), "before it and behind it");

    let many: Vec<String> = (0..600).map(|number| format!("SET k{number} v")).collect();
    client.pipeline(&pipeline(many.iter().map(String::as_str)));
    let full = figures();
    assert_eq!((full.groups, cut(&full, "full")), (7, 2));
    assert_eq!((full.turns.1, full.turn_commands), (3, 606));
}

#[test]
fn runs_of_scripts_are_counted_and_those_begun_anew() {
    let server = TestServer::new("script-figures");
    let mut client = LocalClient::new(server.server());
    client.request(&["EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "key"]);
    let figures = server.server().figures();
    assert_eq!((figures.scripts.1, figures.script_reruns), (1, 0));
    assert!(figures.script_ns > 0 && figures.scripts.0[11] == 1, "{figures:?}");
    // A key that is not declared is used under the locks of all.
    let reply = client.request(&["EVAL", "return redis.call('get', 'key')", "0"]);
    assert_eq!(reply, b"$1\r\nv\r\n");
    let figures = server.server().figures();
    assert_eq!((figures.scripts.1, figures.script_reruns), (3, 1));
}

#[test]
fn messages_are_counted_once_for_each_subscriber() {
    let server = TestServer::new("messages");
    while_served(&server, 2, |address| {
        let mut client = Client::connect(address);
        client.words("PUBLISH news nobody");
        assert_eq!(server.server().figures().delivered_messages, 0);
        let (mut one, mut other) = (Client::connect(address), Client::connect(address));
        one.words("SUBSCRIBE news");
        other.words("PSUBSCRIBE n*");
        assert_eq!(client.words("PUBLISH news hello").integer(), 2);
        assert_eq!(client.words("SPUBLISH news hello").integer(), 0);
        assert_eq!(server.server().figures().delivered_messages, 2);
    });
}

#[test]
fn a_client_that_takes_no_replies_is_held_back_and_the_time_is_counted() {
    let server = TestServer::new("backpressure");
    while_served(&server, 1, |address| {
        let mut client = Client::connect(address);
        client.call(&[b"SET", b"large", &vec![b'v'; 1 << 20]]);
        assert_eq!(client.raw(), b"+OK\r\n");
        assert_eq!(server.server().figures().backpressure_ns, 0);
        let mut deaf = Client::connect(address);
        // More than the sockets' buffers hold, so that the rest waits in the server.
        (0..64).for_each(|_| deaf.send(&encode(&[b"GET", b"large"])));
        // It is counted while it lasts, and others are served.
        until("the client is held back", || server.server().figures().backpressure_ns > 0);
        let before = server.server().figures().backpressure_ns;
        until("it lasts", || server.server().figures().backpressure_ns > before);
        assert_eq!(client.words("EXISTS large").integer(), 1);
        (0..64).for_each(|_| assert_eq!(deaf.read().bulk().len(), 1 << 20));
        until("it is over", || {
            let before = server.server().figures().backpressure_ns;
            // Longer than the second in which lasting time is added.
            std::thread::sleep(Duration::from_millis(1_500));
            server.server().figures().backpressure_ns == before
        });
    });
}

#[test]
fn work_that_waits_for_a_thread_of_the_slow_lane_is_shown() {
    let server = TestServer::new("lane-queue");
    while_served(&server, 1, |address| {
        let mut admin = Client::connect(address);
        // Each runs until it is stopped, and has a key of its own. There are far fewer threads.
        let script = "redis.call('set', KEYS[1], 1) while true do end";
        let mut busy: Vec<Client> = (0..SCRIPTS).map(|_| Client::connect(address)).collect();
        for (client, number) in busy.iter_mut().zip(0..) {
            client.send(&encode(&[b"EVAL", script.as_bytes(), b"1", format!("key{number}").as_bytes()]));
        }
        until("some wait", || server.server().figures().slow_lane_jobs > 0);
        until("all are stopped", || {
            admin.words("SCRIPT KILL");
            let figures = server.server().figures();
            let eval = figures.commands.iter().find(|command| command.name == "eval");
            eval.is_some_and(|eval| eval.calls + eval.rejected == SCRIPTS)
        });
        for client in &mut busy {
            client.read().error().expect("it was stopped");
        }
        assert_eq!(server.server().figures().slow_lane_jobs, 0);
    });
}
