//! Scripts and transactions act once, although they may be executed once more: they read what is not in
//! memory, or keys that they have not declared.

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker::parts::env::fault::{FaultFs, Operation, StrictFs};
use esker::parts::env::{Background, Env};
use esker::{Database, Options, WriteOptions};
use esker_redis_store::layout::Space;
use esker_redis_testkit::{Client, ExpectKind};
use esker_resp::value::Value;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

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

#[test]
fn a_script_with_undeclared_keys_lets_no_command_beside_it_be_executed_twice() {
    let server = server_with_keys_on_the_device("script-beside");
    while_served(&server, 1, |address| {
        let mut client = Client::connect(address);
        for number in (0..KEYS).step_by(100) {
            let mut other = Client::connect(address);
            let id = other.words("CLIENT ID").integer();
            let key = format!("key:{number}");
            client.words("MULTI");
            client.words(&format!("CLIENT KILL ID {id}"));
            client.call(&[b"EVAL", b"return redis.call('STRLEN', ARGV[1])", b"0", key.as_bytes()]);
            let replies: Vec<_> = client.words("EXEC").array().into_iter().map(ExpectKind::integer).collect();
            assert_eq!(replies, [1, 500]);
        }
    });
}

/// Blocks the next table that is begun until the sender is dropped.
fn hold_flush(faults: &FaultFs) -> Sender<()> {
    let (open, opened) = channel::<()>();
    faults.interrupt(Operation::Create, "tables/", move || {
        let _ = opened.recv();
    });
    open
}

#[test]
fn a_transaction_whose_batch_is_held_back_is_executed_once() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    let options = Options::default().memory_budget(64 << 20);
    let server = TestServer::over(Database::open_with("/db", options.env(env)).expect("it opens"));
    let database = server.server().store().database();
    let keys = database.keyspace(Space::Keys.name()).expect("it is open");
    while_served(&server, 1, |address| {
        let (mut client, mut other) = (Client::connect(address), Client::connect(address));
        let (mut watcher, id) = (Client::connect(address), other.words("CLIENT ID").integer());
        let gate = hold_flush(&faults);
        // Above the keys of all databases.
        let is_held_back = |number: u64| {
            let mut batch = database.batch();
            batch.put(&keys, [&[0xFF; 8][..], &number.to_be_bytes()].concat(), vec![7; 8 << 10]);
            match database.write_with(&batch, WriteOptions::new().no_stall()) {
                Ok(_) => false,
                Err(error) => matches!(error, esker::Error::WouldStall { .. }),
            }
        };
        // The clock stands still: what is held back stays so until a memtable is flushed.
        assert!((0..1 << 20).any(is_held_back), "no write is held back");
        client.words("MULTI");
        client.words(&format!("CLIENT KILL ID {id}"));
        client.words("SET key value");
        client.send(b"EXEC\r\n");
        let id = format!("id={id} ").into_bytes();
        while watcher.words("CLIENT LIST").bulk().windows(id.len()).any(|part| part == id) {}
        drop(gate);
        let mut replies = client.read().array();
        assert_eq!(replies.pop(), Some(Value::Status(b"OK".to_vec())));
        assert_eq!(replies.pop().expect("of CLIENT KILL").integer(), 1);
        assert_eq!(client.words("GET key").bulk(), b"value");
    });
}
