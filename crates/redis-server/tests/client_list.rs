//! What a client is told of itself and gets although it wants no replies.

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
