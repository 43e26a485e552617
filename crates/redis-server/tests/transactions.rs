//! Transactions by clients within the process.

mod common;

use common::TestServer;
use std::time::Duration;

#[test]
fn a_transaction_answers_all_its_commands_and_watch_sees_others() {
    let server = TestServer::new("transactions");
    let (mut first, mut second) = (server.client(), server.client());
    assert_eq!(
        first.pipeline(b"MULTI\r\nSET a 1\r\nGET a\r\nEXEC\r\n"),
        b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n"
    );
    assert_eq!(first.pipeline(b"WATCH a\r\nMULTI\r\nSET a 2\r\n"), b"+OK\r\n+OK\r\n+QUEUED\r\n");
    assert_eq!(second.request(&["set", "a", "3"]), b"+OK\r\n");
    assert_eq!(first.request(&["exec"]), b"*-1\r\n");
    assert_eq!(first.request(&["get", "a"]), b"$1\r\n3\r\n");
    // What was watched before counts no longer.
    assert_eq!(first.pipeline(b"MULTI\r\nGET a\r\nEXEC\r\n"), b"+OK\r\n+QUEUED\r\n*1\r\n$1\r\n3\r\n");
}

#[test]
fn a_refused_command_refuses_the_transaction() {
    let server = TestServer::new("transactions-broken");
    let mut client = server.client();
    let replies = client.pipeline(b"MULTI\r\nSET a\r\nSET a 1\r\nEXEC\r\nGET a\r\nEXEC\r\nDISCARD\r\n");
    let expected = "+OK\r\n-ERR wrong number of arguments for 'set' command\r\n+QUEUED\r\n\
        -EXECABORT Transaction discarded because of previous errors.\r\n$-1\r\n-ERR EXEC without MULTI\r\n\
        -ERR DISCARD without MULTI\r\n";
    assert_eq!(String::from_utf8_lossy(&replies), expected);
}

#[test]
fn a_flush_is_a_change_of_watched_keys() {
    let server = TestServer::new("transactions-flush");
    let (mut first, mut second) = (server.client(), server.client());
    for command in [&["flushdb"][..], &["flushall"], &["swapdb", "0", "1"]] {
        assert_eq!(
            first.pipeline(b"SET a 1\r\nWATCH a\r\nMULTI\r\nSET a 2\r\n"),
            b"+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n"
        );
        assert_eq!(second.request(command), b"+OK\r\n");
        assert_eq!(first.request(&["exec"]), b"*-1\r\n", "{command:?}");
    }
}

#[test]
fn a_flush_is_no_change_of_watched_keys_that_are_absent() {
    let server = TestServer::new("transactions-flush-absent");
    let (mut first, mut second) = (server.client(), server.client());
    for command in [&["flushdb"][..], &["flushall"], &["swapdb", "0", "1"]] {
        assert_eq!(second.request(&["set", "other", "1"]), b"+OK\r\n");
        assert_eq!(
            first.pipeline(b"WATCH a\r\nMULTI\r\nPING\r\n"),
            b"+OK\r\n+OK\r\n+QUEUED\r\n",
            "{command:?}"
        );
        assert_eq!(second.request(command), b"+OK\r\n");
        assert_eq!(first.request(&["exec"]), b"*1\r\n+PONG\r\n", "{command:?}");
    }
    // The other database has a key of this name.
    assert_eq!(second.pipeline(b"SELECT 1\r\nSET a 1\r\nSELECT 0\r\n"), b"+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(first.pipeline(b"WATCH a\r\nMULTI\r\nPING\r\n"), b"+OK\r\n+OK\r\n+QUEUED\r\n");
    assert_eq!(second.request(&["swapdb", "0", "1"]), b"+OK\r\n");
    assert_eq!(first.request(&["exec"]), b"*-1\r\n");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "waits until a key expires")]
fn the_removal_of_what_had_expired_when_the_watch_began_is_no_change() {
    let server = TestServer::new("transactions-expired");
    let (mut first, mut second) = (server.client(), server.client());
    let removals: [(&[u8], &str); 4] = [
        (b"FLUSHDB\r\n", "*1\r\n+PONG\r\n"),
        (b"DEL a\r\n", "*1\r\n+PONG\r\n"),
        (b"SWAPDB 0 1\r\n", "*1\r\n+PONG\r\n"),
        (b"SET a 1\r\n", "*-1\r\n"),
    ];
    for (removal, expected) in removals {
        first.pipeline(b"SET a 1 PX 1\r\n");
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(first.pipeline(b"WATCH a\r\nMULTI\r\nPING\r\n"), b"+OK\r\n+OK\r\n+QUEUED\r\n");
        second.pipeline(removal);
        let reply = first.request(&["exec"]);
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{}", removal.escape_ascii());
    }
}

#[test]
fn exec_that_is_refused_gives_up_what_was_watched() {
    let server = TestServer::new("transactions-refused");
    let (mut first, mut second) = (server.client(), server.client());
    assert_eq!(first.request(&["watch", "a"]), b"+OK\r\n");
    assert_eq!(second.request(&["set", "a", "1"]), b"+OK\r\n");
    assert!(first.request(&["exec", "x"]).starts_with(b"-EXECABORT Transaction discarded because of: "));
    let replies = first.pipeline(b"MULTI\r\nPING\r\nEXEC\r\n");
    assert_eq!(String::from_utf8_lossy(&replies), "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

#[test]
fn a_client_watches_a_bounded_number_of_keys() {
    let server = TestServer::new("transactions-many");
    let mut client = server.client();
    let many: Vec<String> =
        ["watch".to_owned()].into_iter().chain((0..65_536).map(|n| n.to_string())).collect();
    assert_eq!(client.request(&many), b"+OK\r\n");
    assert_eq!(client.request(&["watch", "7"]), b"+OK\r\n", "a key that is watched already");
    assert_eq!(
        client.request(&["watch", "more"]),
        b"-ERR a client watches at most 65536 keys and 4194304 bytes of names\r\n"
    );
    assert_eq!(client.request(&["unwatch"]), b"+OK\r\n");
    assert_eq!(client.request(&["watch", "more"]), b"+OK\r\n");
}

#[test]
fn shards_are_not_subscribed_to_within_a_transaction() {
    let server = TestServer::new("transactions-shards");
    let mut client = server.client();
    let replies = client.pipeline(b"MULTI\r\nSSUBSCRIBE a\r\nEXEC\r\n");
    let expected = "+OK\r\n+QUEUED\r\n*1\r\n-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n";
    assert_eq!(String::from_utf8_lossy(&replies), expected);
}
