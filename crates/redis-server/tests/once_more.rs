//! Scripts and transactions act once, although they may be executed once more: they read what is not in
//! memory, or keys that they have not declared.

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind};

const KEYS: usize = 2_000;

/// A server with keys of which none is in memory.
fn server_with_keys_on_the_device(name: &str) -> TestServer {
    let server = TestServer::new(name);
    let mut client = server.client();
    for number in 0..KEYS {
        client.request(&["set", &format!("key:{number}"), &"v".repeat(500)]);
    }
    drop(client);
    server.server().store().database().flush().expect("a flush");
    server.reopened()
}

#[test]
fn a_message_of_a_command_that_comes_once_more_is_published_once() {
    let server = server_with_keys_on_the_device("published-once");
    while_served(&server, 1, |address| {
        let (mut client, mut subscriber) = (Client::connect(address), Client::connect(address));
        subscriber.words("SUBSCRIBE channel");
        let message = |number: usize| format!("[message, channel, {number}]");
        let mut expected = Vec::new();
        for number in (0..KEYS).step_by(100) {
            let key = |behind: usize| format!("key:{}", number + behind);
            let script = "local count = redis.call('PUBLISH', 'channel', ARGV[1]) redis.call('GET', ARGV[2]) return count";
            let publish = |name: &str, declared: &[&str]| {
                let count = declared.len().to_string();
                let mut words = vec!["EVAL", script, &count];
                words.extend(declared);
                words.extend([name, declared.first().copied().unwrap_or("key:1")]);
                words.into_iter().map(str::to_owned).collect::<Vec<_>>()
            };
            let name = number.to_string();
            assert_eq!(client.call_with(&publish(&name, &[&key(0)])).integer(), 1);
            assert_eq!(client.call_with(&publish(&name, &[])).integer(), 1);
            client.words("MULTI");
            client.words(&format!("PUBLISH channel {number}"));
            client.words(&format!("GET {}", key(50)));
            client.words("EXEC");
            expected.extend([message(number), message(number), message(number)]);
        }
        client.words("PUBLISH channel end");
        for expected in expected {
            let words: Vec<_> = subscriber.read().array().into_iter().map(ExpectKind::bulk).collect();
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(format!("[{}]", words.join(", ")), expected);
        }
        assert_eq!(subscriber.read().array().pop().expect("a message").bulk(), b"end");
    });
}

#[test]
fn commands_of_administration_in_a_transaction_are_executed_once() {
    let server = server_with_keys_on_the_device("transaction-once");
    while_served(&server, 1, |address| {
        let mut client = Client::connect(address);
        for number in (0..KEYS).step_by(100) {
            let mut other = Client::connect(address);
            let id = other.words("CLIENT ID").integer();
            client.words("MULTI");
            client.words(&format!("CLIENT KILL ID {id}"));
            client.call(&[
                b"FUNCTION",
                b"LOAD",
                format!("#!lua name=lib{number}\nredis.register_function('f{number}', function() end)")
                    .as_bytes(),
            ]);
            client.words(&format!("GET key:{number}"));
            let mut replies = client.words("EXEC").array();
            replies.truncate(2);
            let library = format!("lib{number}").into_bytes();
            assert_eq!(replies.pop().expect("of FUNCTION LOAD").bulk(), library);
            assert_eq!(replies.pop().expect("of CLIENT KILL").integer(), 1);
        }
    });
}
