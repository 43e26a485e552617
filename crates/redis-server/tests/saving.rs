//! SAVE, BGSAVE and SHUTDOWN through sockets: what a checkpoint has, how many are kept, how the server ends.

#![allow(clippy::disallowed_methods, reason = "the test looks at directories and waits for its threads")]

use esker_redis_server::local_client::LocalClient;
use esker_redis_server::server::Server;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_store::Store;
use esker_redis_testkit::{Client, ExpectKind};
use esker_resp::value::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("esker-saving-{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    std::fs::create_dir_all(&directory).expect("a new directory");
    directory
}

fn open(directory: &Path) -> Server {
    let database = esker::Database::open(directory).expect("the database opens");
    Server::new(Store::open(database, 16).expect("the store opens"))
}

fn listener() -> Listener {
    let config =
        ListenConfig { tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()], ..ListenConfig::default() };
    Listener::bind(config).expect("a free port")
}

/// Names of the checkpoints, the oldest first.
fn checkpoints(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn info(client: &mut Client, name: &str) -> String {
    let text = String::from_utf8(client.words("info persistence").bulk()).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
}

fn ok() -> Value {
    Value::Status(b"OK".to_vec())
}

#[test]
fn checkpoints_hold_what_was_written_and_the_last_two_are_kept() {
    let directory = directory("checkpoints");
    let (data, saves) = (directory.join("data"), directory.join("saves"));
    let server = open(&data);
    let listener = listener();
    let address = listener.addresses().expect("bound")[0].to_string();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| listener.serve(&server));
        let mut client = Client::connect(&address);
        let refused = client.words("save");
        assert!(refused.error().is_some_and(|error| error.starts_with(b"ERR no directory")), "{refused:?}");
        server.set_checkpoint_directory(&saves);
        for round in 1..=4 {
            client.words(&format!("set round {round}"));
            if round % 2 == 0 {
                assert_eq!(client.words("save"), ok());
                continue;
            }
            assert_eq!(client.words("bgsave"), Value::Status(b"Background saving started".to_vec()));
            while info(&mut client, "rdb_bgsave_in_progress") != "0" {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
        assert_eq!(info(&mut client, "rdb_last_save_time"), client.words("lastsave").integer().to_string());
        assert_eq!(checkpoints(&saves).len(), 2);
        client.words("set round unsaved");
        client.send(b"shutdown nosave\r\n");
        assert_eq!(client.read_to_end(), b"", "SHUTDOWN has no reply");
        running.join().expect("no panic").expect("it ends well");
    });
    drop(server);
    for (path, round) in checkpoints(&saves).iter().zip(["3", "4"]) {
        let copy = open(path);
        let reply = LocalClient::new(&copy).request(&["get", "round"]);
        assert_eq!(reply, format!("$1\r\n{round}\r\n").into_bytes(), "{}", path.display());
    }
    // What was not saved is in the data: the log has it.
    let again = open(&data);
    assert_eq!(LocalClient::new(&again).request(&["get", "round"]), b"$7\r\nunsaved\r\n");
    drop(again);
    std::fs::remove_dir_all(&directory).expect("it is removed");
}

#[test]
fn a_shutdown_saves_if_it_is_asked_to_and_refuses_if_it_cannot() {
    let directory = directory("shutdown");
    let server = open(&directory.join("data"));
    let listener = listener();
    let address = listener.addresses().expect("bound")[0].to_string();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| listener.serve(&server));
        let mut client = Client::connect(&address);
        let refused = client.words("shutdown save");
        assert!(refused.error().is_some_and(|error| error.starts_with(b"ERR Errors trying to SHUTDOWN")));
        assert_eq!(client.words("ping"), Value::Status(b"PONG".to_vec()));
        server.set_checkpoint_directory(directory.join("saves"));
        client.send(b"shutdown save\r\n");
        assert_eq!(client.read_to_end(), b"");
        running.join().expect("no panic").expect("it ends well");
    });
    assert_eq!(checkpoints(&directory.join("saves")).len(), 1);
    drop(server);
    // Without sockets there is nothing to stop.
    let server = open(&directory.join("data"));
    let reply = LocalClient::new(&server).request(&["shutdown"]);
    assert!(reply.starts_with(b"-ERR this server is part of another program"), "{}", reply.escape_ascii());
    drop(server);
    std::fs::remove_dir_all(&directory).expect("it is removed");
}
