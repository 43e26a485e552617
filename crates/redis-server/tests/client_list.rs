//! What a client is told of itself, and which replies it gets by CLIENT REPLY.

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind};

#[test]
fn client_list_tells_the_command_and_its_bytes() {
    let server = TestServer::new("client-list");
    while_served(&server, 1, |address| {
        let (mut first, mut second) = (Client::connect(address), Client::connect(address));
        first.words("CONFIG GET port");
        let line = String::from_utf8(second.words("CLIENT LIST").bulk()).expect("text");
        assert!(line.contains(" cmd=config|get "), "{line}");
        second.send(b"CLIENT INFO\r\n");
        let line = String::from_utf8(second.read().bulk()).expect("text");
        assert!(line.contains(" qbuf=13 ") && line.contains(" cmd=client|info "), "{line}");
    });
}

#[test]
fn subscriptions_are_confirmed_to_a_client_that_wants_no_replies() {
    let server = TestServer::new("client-reply-off");
    while_served(&server, 1, |address| {
        let mut client = Client::connect(address);
        client.send(b"CLIENT REPLY OFF\r\nPING\r\nSUBSCRIBE a\r\nPING\r\nUNSUBSCRIBE a\r\n");
        client.read();
        assert_eq!(client.raw(), b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
        client.read();
        assert_eq!(client.raw(), b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
    });
}

#[test]
fn the_reply_of_one_command_is_left_out() {
    let server = TestServer::new("client-reply-skip");
    let cases: [(&[u8], &[u8]); 7] = [
        (b"CLIENT REPLY SKIP\r\nECHO 1\r\nECHO 2\r\n", b"$1\r\n2\r\n"),
        // Of two in a row the second one counts as well.
        (b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nECHO 1\r\nECHO 2\r\n", b"$1\r\n2\r\n"),
        (b"CLIENT REPLY SKIP\r\nCLIENT REPLY OFF\r\nECHO 1\r\nCLIENT REPLY ON\r\n", b"+OK\r\n"),
        (b"CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nECHO 1\r\n", b"+OK\r\n$1\r\n1\r\n"),
        (b"CLIENT REPLY SKIP\r\nRESET\r\nECHO 1\r\n", b"$1\r\n1\r\n"),
        (b"CLIENT REPLY OFF\r\nRESET\r\nECHO 1\r\n", b"+RESET\r\n$1\r\n1\r\n"),
        (b"CLIENT REPLY SKIP\r\nGET\r\nECHO 1\r\n", b"$1\r\n1\r\n"),
    ];
    for (requests, replies) in cases {
        let answer = server.client().pipeline(requests);
        assert_eq!(answer, replies, "{}", String::from_utf8_lossy(requests));
    }
}

/// A thread that serves other clients too undoes a group that reads what is not in memory, and another one
/// executes it once more.
#[test]
fn what_counts_for_one_command_counts_when_it_is_executed_once_more() {
    let server = TestServer::new("client-reply-undone");
    let mut client = server.client();
    for number in 0..2_000 {
        client.request(&["set", &format!("key:{number}"), &"v".repeat(500)]);
    }
    drop(client);
    server.server().store().database().flush().expect("a flush");
    // Nothing is in memory.
    let server = server.reopened();
    while_served(&server, 1, |address| {
        let (mut client, mut other) = (Client::connect(address), Client::connect(address));
        client.hello(3);
        client.words("CLIENT TRACKING ON OPTOUT");
        for number in (0..2_000).step_by(50) {
            let requests = format!("CLIENT REPLY SKIP\r\nSET a 1\r\nGET key:{number}\r\n");
            client.send(requests.as_bytes());
            client.read();
            assert!(client.raw().starts_with(b"$500\r\n"), "{:?}", String::from_utf8_lossy(client.raw()));
            let requests = format!("CLIENT CACHING NO\r\nGET b\r\nGET key:{}\r\n", number + 25);
            client.send(requests.as_bytes());
            client.read();
            client.read();
            client.read();
            other.words("SET b 1");
            client.words("PING");
            assert_eq!(client.take_pushes(), [], "CLIENT CACHING NO: b is not tracked");
        }
    });
}
