//! Work in the background of a listening server.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_testkit::{Client, ExpectKind};
use esker_resp::value::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[test]
fn keys_whose_time_comes_are_deleted_without_a_command_that_reads_them() {
    let server = TestServer::new("background-expiry");
    let tcp = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let listener = Listener::bind(ListenConfig { tcp, ..ListenConfig::default() }).expect("a free port");
    let address = listener.addresses().expect("an address")[0].to_string();
    let stop = listener.stop();
    std::thread::scope(|scope| {
        scope.spawn(|| listener.serve(server.server()));
        let mut client = Client::connect(&address);
        for number in 0..1000 {
            let key = format!("key{number}");
            client.words(&format!("SET {key} 1"));
            if number % 10 > 0 {
                client.words(&format!("PEXPIRE {key} {}", number % 7 + 1));
            }
        }
        // The client's patience ends the test if the keys stay.
        while client.words("DBSIZE").integer() > 100 {}
        assert_eq!(client.words("KEYS *").array().len(), 100);
        stop.stop();
    });
    let store = server.server().store();
    assert_eq!((store.keys(0), store.expiring_keys(0)), (100, 0));
    assert_eq!(store.check().expect("a check"), [""; 0]);
}

#[test]
fn a_search_for_expired_keys_that_takes_long_is_an_event_of_latency() {
    let server = TestServer::new("background-latency");
    while_served(&server, 2, |address| {
        let mut client = Client::connect(address);
        client.words("CONFIG SET latency-monitor-threshold 1");
        let text = b"local function now() local t=redis.call('time') return t[1]*1000+t[2]/1000 end
            local last=now()+200 while now()<last do end";
        let began = Instant::now();
        // The script keeps the key's stripe beyond its end, and the search waits for that a while. On a busy
        // machine the key may be gone before the script begins.
        while client.words("LATENCY HISTORY expire-cycle").array().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "there is no event");
            client.words("SET k 1 PX 20");
            assert_eq!(client.call(&[b"EVAL", text, b"1", b"k"]), Value::NullBulk);
        }
    });
}
