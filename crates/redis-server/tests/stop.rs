//! Ends of connections: a server that stops answers what it has received, and idle clients are sent away.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets")]

mod common;

use common::TestServer;
use esker_redis_server::{ListenConfig, Listener, UnixAddress};
use esker_redis_testkit::{Client, ExpectKind};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

/// Commands of a pipeline whose replies need several pieces of output.
const COMMANDS: usize = 20_000;

fn listener() -> Listener {
    let tcp = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    Listener::bind(ListenConfig { tcp, ..ListenConfig::default() }).expect("a free port")
}

#[test]
fn requests_received_before_a_stop_are_answered_and_then_all_connections_end() {
    let server = TestServer::new("stop-answers");
    let listener = listener();
    let address = listener.addresses().expect("bound")[0].to_string();
    let stop = listener.stop();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| listener.serve(server.server()));
        let mut idle = Client::connect(&address);
        idle.words("SET key value");
        assert_eq!(idle.raw(), b"+OK\r\n");
        let mut busy = TcpStream::connect(&address).expect("it listens");
        let mut requests = b"SET big ".to_vec();
        requests.resize(requests.len() + 4000, b'x');
        requests.extend_from_slice(b"\r\n");
        requests.extend(b"INCR number\r\nGET big\r\n".repeat(100));
        busy.write_all(&requests).expect("taken");
        // The first reply shows that the rest has been received, or lies in the socket.
        let mut first = [0; 5];
        busy.read_exact(&mut first).expect("a reply");
        stop.stop();
        let mut replies = first.to_vec();
        busy.read_to_end(&mut replies).expect("the rest, and the end");
        assert!(replies.ends_with(b"x\r\n"), "{}", replies.len());
        assert_eq!(replies.windows(6).filter(|bytes| bytes == b"$4000\r").count(), 100);
        assert!(idle.try_read().is_err(), "clients that wait for nothing are disconnected");
        served.join().expect("no panic").expect("no error");
    });
    assert!(TcpStream::connect(&address).is_err(), "nothing listens any more");
}

#[test]
fn a_client_that_sends_no_more_gets_all_its_replies() {
    let server = TestServer::new("half-closed");
    let listener = listener();
    let address = listener.addresses().expect("bound")[0];
    let stop = listener.stop();
    std::thread::scope(|scope| {
        scope.spawn(|| listener.serve(server.server()));
        let mut client = TcpStream::connect(address).expect("it listens");
        let mut reader = client.try_clone().expect("a second handle");
        let reading = scope.spawn(move || {
            let mut replies = Vec::new();
            reader.read_to_end(&mut replies).map(|_| replies)
        });
        client.write_all(b"SET key 0123456789012345678901234567890123456789\r\n").expect("taken");
        client.write_all(&b"GET key\r\n".repeat(COMMANDS)).expect("taken");
        client.shutdown(Shutdown::Write).expect("shut down");
        let replies = reading.join().expect("no panic").expect("the replies");
        assert_eq!(replies.len(), 5 + COMMANDS * (5 + 40 + 2));
        stop.stop();
    });
}

#[test]
fn a_client_that_takes_no_replies_holds_a_stop_up_for_the_time_that_is_set() {
    let server = TestServer::new("stop-in-time");
    server.server().set_directive(b"shutdown-timeout", b"0").expect("known");
    let listener = listener();
    let address = listener.addresses().expect("bound")[0].to_string();
    let stop = listener.stop();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| listener.serve(server.server()));
        let mut client = Client::connect(&address);
        let value = vec![b'x'; 8 << 20];
        client.call(&[b"SET", b"big", &value]);
        assert_eq!(client.raw(), b"+OK\r\n");
        client.send(b"GET big\r\nGET big\r\n");
        stop.stop();
        served.join().expect("no panic").expect("no error");
    });
}

#[test]
fn a_unix_socket_serves_beside_two_tcp_addresses() {
    let server = TestServer::new("unix");
    let path = std::env::temp_dir().join(format!("esker-stop-{}.sock", std::process::id()));
    let any = || SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let unix = Some(UnixAddress { path: path.clone(), mode: Some(0o600) });
    let listener = Listener::bind(ListenConfig { tcp: vec![any(), any()], unix, ..ListenConfig::default() });
    let listener = listener.expect("a free port");
    let (addresses, stop) = (listener.addresses().expect("bound"), listener.stop());
    std::thread::scope(|scope| {
        scope.spawn(|| listener.serve(server.server()));
        let mut unix = UnixStream::connect(&path).expect("it listens");
        unix.write_all(b"SET key 1\r\n").expect("taken");
        let mut reply = [0; 5];
        unix.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+OK\r\n");
        for (address, seen) in addresses.iter().zip(2..) {
            assert_eq!(Client::connect(&address.to_string()).words("INCR key").integer(), seen);
        }
        stop.stop();
    });
    assert!(!path.exists(), "its file is removed at the end");
}

#[test]
fn clients_that_send_nothing_for_the_time_that_is_set_are_disconnected_and_subscribers_are_not() {
    let server = TestServer::new("idle");
    let listener = listener();
    let address = listener.addresses().expect("bound")[0].to_string();
    let stop = listener.stop();
    std::thread::scope(|scope| {
        scope.spawn(|| listener.serve(server.server()));
        let (mut idle, mut subscriber) = (Client::connect(&address), Client::connect(&address));
        idle.words("PING");
        subscriber.words("SUBSCRIBE channel");
        server.server().set_directive(b"timeout", b"1").expect("known");
        assert!(idle.try_read().is_err(), "it is disconnected");
        // The next client may be slow.
        server.server().set_directive(b"timeout", b"0").expect("known");
        let mut other = Client::connect(&address);
        assert_eq!(other.words("PUBLISH channel message").integer(), 1);
        stop.stop();
    });
}
