//! CONFIG SET of `port` and `bind`: the server listens elsewhere, open connections go on, and what cannot be
//! had changes nothing.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets")]

mod common;

use common::TestServer;
use esker_redis_testkit::{Client, ExpectKind};
use esker_resp::value::Value;
use std::net::{TcpListener, TcpStream};

/// A port that nothing listened on a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

fn listens(host: &str, port: u16) -> bool {
    TcpStream::connect((host, port)).is_ok()
}

fn value(client: &mut Client, name: &str) -> String {
    let pair = client.words(&format!("CONFIG GET {name}")).array();
    String::from_utf8(pair[1].clone().bulk()).expect("text")
}

/// A client of a server at a port of `127.0.0.1`.
fn served(name: &str) -> (Client, u16) {
    let server = TestServer::new(name).listening(&[]);
    let mut client = server.connect();
    let port = value(&mut client, "port").parse().expect("a port");
    (client, port)
}

#[test]
fn a_new_port_takes_new_clients_and_keeps_the_old_ones() {
    let (mut client, old) = served("rebinding-port");
    let new = free_port();
    assert_eq!(client.words(&format!("CONFIG SET port {new}")), Value::Status(b"OK".to_vec()));
    assert_eq!(client.words("PING"), Value::Status(b"PONG".to_vec()), "its connection goes on");
    assert_eq!(value(&mut client, "port"), new.to_string());
    let info = client.words("INFO server").bulk();
    assert!(info.windows(20).any(|part| part.starts_with(format!("tcp_port:{new}").as_bytes())));
    assert!(!listens("127.0.0.1", old));
    let mut other = Client::connect(&format!("127.0.0.1:{new}"));
    assert_eq!(other.words("SET key value"), Value::Status(b"OK".to_vec()));
    assert_eq!(other.words("CONFIG SET port 0"), Value::Status(b"OK".to_vec()));
    assert!(!listens("127.0.0.1", new), "there is no port any more");
    assert_eq!(client.words("GET key").bulk(), b"value");
    assert_eq!(client.words(&format!("CONFIG SET port {old}")), Value::Status(b"OK".to_vec()));
    assert!(listens("127.0.0.1", old));
}

#[test]
fn addresses_are_exchanged_also_where_one_covers_the_other() {
    let (mut client, port) = served("rebinding-bind");
    let failed = "-ERR CONFIG SET failed (possibly related to argument 'bind') - ";
    // Clients beyond this machine would need no password.
    client.words("CONFIG SET bind *");
    assert!(client.raw().starts_with([failed, "clients beyond this machine"].concat().as_bytes()));
    assert!(listens("127.0.0.1", port) && !listens("127.0.0.2", port));
    assert_eq!(
        client.call_with(&["CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2"]),
        Value::Status(b"OK".to_vec())
    );
    assert!(listens("127.0.0.1", port) && listens("127.0.0.2", port));
    assert_eq!(client.words("CONFIG SET protected-mode no"), Value::Status(b"OK".to_vec()));
    assert_eq!(client.words("CONFIG SET bind *"), Value::Status(b"OK".to_vec()));
    assert!(listens("127.0.0.1", port) && listens("127.0.0.3", port));
    assert_eq!(client.words("CONFIG SET bind 127.0.0.3"), Value::Status(b"OK".to_vec()));
    assert!(!listens("127.0.0.1", port) && listens("127.0.0.3", port));
    assert_eq!(value(&mut client, "bind"), "127.0.0.3");
    // Of an address that no machine has, and a port that another program has, nothing remains.
    client.call_with(&["CONFIG", "SET", "bind", "127.0.0.1 192.0.2.1"]);
    assert_eq!(client.raw(), [failed, "Failed to bind to specified addresses.\r\n"].concat().as_bytes());
    client.words("CONFIG SET bind 999.999.999.999");
    let wrong = "Failed to bind to specified addresses. bind: 999.999.999.999 is no address and no name of a host\r\n";
    assert_eq!(client.raw(), [failed, wrong].concat().as_bytes());
    let taken = TcpListener::bind("127.0.0.3:0").expect("a free port");
    let taken_port = taken.local_addr().expect("bound").port();
    client.words(&format!("CONFIG SET port {taken_port}"));
    let text = "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. \
                Check server logs.\r\n";
    assert_eq!(client.raw(), text.as_bytes());
    assert!(!listens("127.0.0.1", port) && listens("127.0.0.3", port));
    assert_eq!(
        (value(&mut client, "bind"), value(&mut client, "port")),
        ("127.0.0.3".into(), port.to_string())
    );
    // Those that may be missing are left out.
    assert_eq!(
        client.call_with(&["CONFIG", "SET", "bind", "127.0.0.1 -192.0.2.1"]),
        Value::Status(b"OK".to_vec())
    );
    assert!(listens("127.0.0.1", port) && !listens("127.0.0.3", port));
}

#[test]
fn what_stands_beside_a_new_port_is_set_with_it_or_not_at_all() {
    let (mut client, old) = served("rebinding-both");
    let new = free_port();
    client.words(&format!("CONFIG SET port {new} timeout x"));
    assert!(client.raw().starts_with(b"-ERR CONFIG SET failed (possibly related to argument 'timeout')"));
    assert!(listens("127.0.0.1", old) && !listens("127.0.0.1", new));
    assert_eq!(client.words(&format!("CONFIG SET port {new} bind 127.0.0.2")), Value::Status(b"OK".to_vec()));
    assert!(!listens("127.0.0.1", old) && !listens("127.0.0.1", new) && listens("127.0.0.2", new));
}

#[test]
fn changes_in_a_transaction_and_beside_new_clients_lose_no_connection() {
    let (mut client, first) = served("rebinding-clients");
    let second = free_port();
    for round in 0..100 {
        let (from, to) = if round % 2 == 0 { (first, second) } else { (second, first) };
        // Connected, and not accepted yet perhaps.
        let mut waiting = Client::connect(&format!("127.0.0.1:{from}"));
        client.words("MULTI");
        client.words(&format!("CONFIG SET port {to}"));
        assert_eq!(client.words("EXEC").array().len(), 1);
        assert_eq!(waiting.words("PING"), Value::Status(b"PONG".to_vec()), "round {round}");
    }
}
