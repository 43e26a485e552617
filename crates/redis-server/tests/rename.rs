//! `rename-command` beside Redis 7.0.15: what clients, transactions, scripts, COMMAND and rules of users see.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_server::StartConfig;
use esker_redis_testkit::{Client, Server};
use esker_resp::value::Value;

const RENAMES: [(&str, &str); 6] = [
    ("GET", "Fetch"),
    ("set", "get"),
    ("FLUSHALL", ""),
    ("config", "b840fc02d524045429941cc15f59e41cb7be6c52"),
    ("exec", "run"),
    ("client", "c"),
];

const REQUESTS: &[&str] = &[
    "SET k v",
    "GET k v",
    "get k",
    "FETCH k",
    "fetch",
    "FLUSHALL",
    "CONFIG GET port",
    "CONFIG",
    "B840FC02D524045429941CC15F59E41CB7BE6C52 GET databases",
    "b840fc02d524045429941cc15f59e41cb7be6c52",
    "b840fc02d524045429941cc15f59e41cb7be6c52 x",
    "b840fc02d524045429941cc15f59e41cb7be6c52 get",
    "CLIENT GETNAME",
    "C GETNAME",
    "c setname",
    "MULTI",
    "GET k w",
    "EXEC",
    "fetch k",
    "run",
    "run",
    "MULTI",
    "run x",
    "run",
    "EVAL return(redis.call('fetch',KEYS[1])) 1 k",
    "EVAL return(redis.pcall('set',KEYS[1],1)) 1 k",
    "EVAL return(redis.call('get',KEYS[1],1)) 1 k",
    "EVAL return(redis.acl_check_cmd('fetch','k')) 0",
    "COMMAND COUNT",
    "COMMAND INFO get",
    "COMMAND INFO fetch set flushall c|id client|id config|get",
    "COMMAND DOCS flushall set",
    "COMMAND GETKEYS fetch k",
    "COMMAND GETKEYS get k v",
    "COMMAND GETKEYS set k v",
    "COMMAND LIST FILTERBY PATTERN flushall",
    "COMMAND LIST FILTERBY PATTERN client|id",
    "ACL SETUSER u on nopass +get ~*",
    "ACL SETUSER u +fetch",
    // Of several commands Redis lists those first that its hash table has first.
    "ACL GETUSER u",
    "ACL SETUSER u +flushall",
    "ACL DRYRUN u fetch k",
    "ACL DRYRUN u get k v",
    "ACL DRYRUN u set k v",
    "AUTH u x",
    "FETCH k",
    "get k v",
];

/// What is compared of a reply: the names alone of what COMMAND tells, because its texts are our own.
fn compared(request: &str, reply: Value) -> Value {
    match reply {
        Value::Array(commands) if request.starts_with("COMMAND INFO") => Value::Array(
            commands
                .into_iter()
                .map(|command| match command {
                    Value::Array(parts) => parts.into_iter().next().expect("a name"),
                    none => none,
                })
                .collect(),
        ),
        Value::Array(commands) if request.starts_with("COMMAND DOCS") => {
            Value::Array(commands.into_iter().step_by(2).collect())
        }
        Value::Map(commands) if request.starts_with("COMMAND DOCS") => {
            Value::Array(commands.into_iter().map(|(name, _)| name).collect())
        }
        reply => reply,
    }
}

#[test]
fn commands_have_the_names_that_the_configuration_gives_them() {
    let mut config = StartConfig::default();
    let mut settings = Vec::new();
    for (old, new) in RENAMES {
        let words = ["--rename-command", old, new].map(|word| word.as_bytes().to_vec());
        config.add_words(&words).expect("there is such a command");
        settings.extend(["--rename-command", old, new]);
    }
    // What Redis does not have would be counted.
    config
        .add_words(&["--rename-command", "esker.explain", ""].map(|word| word.as_bytes().to_vec()))
        .expect("ours");
    let server = TestServer::new("rename");
    server.server().configure(&config).expect("right");
    while_served(&server, 2, |address| {
        let Some(redis) = Server::redis(&settings) else { return };
        for version in [2, 3] {
            let (mut ours, mut theirs) = (Client::connect(address), redis.connect());
            for client in [&mut ours, &mut theirs] {
                client.hello(version);
                client.words("ACL DELUSER u");
                client.words("DEL k");
            }
            for request in REQUESTS {
                let replies =
                    [ours.words(request), theirs.words(request)].map(|reply| compared(request, reply));
                assert_eq!(replies[0], replies[1], "{request}, RESP{version}");
            }
        }
    });
}

#[test]
fn pipelines_are_executed_under_the_new_names() {
    let mut config = StartConfig::default();
    let words = ["--rename-command", "get", "fetch", "--rename-command", "set", "put"];
    config.add_words(&words.map(|word| word.as_bytes().to_vec())).expect("there are such commands");
    let server = TestServer::new("rename-pipeline");
    server.server().configure(&config).expect("right");
    let mut client = server.client();
    let replies = client.pipeline(b"PUT a 1\r\nPUT b 2\r\nFETCH a\r\nGET a\r\nFETCH b\r\n");
    let text = String::from_utf8(replies).expect("text");
    assert!(text.starts_with("+OK\r\n+OK\r\n$1\r\n1\r\n-ERR unknown command 'GET'"), "{text}");
    assert!(text.ends_with("$1\r\n2\r\n"), "{text}");
}
