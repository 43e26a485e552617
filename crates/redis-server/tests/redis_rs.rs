//! redis-rs, a client that Rust programs use: values, pipelines, transactions with WATCH, scans,
//! subscriptions, scripts, streams, blocking commands, users and errors, in both protocols.

#![allow(clippy::disallowed_methods, reason = "threads of the test's own")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{
    Client, Commands, Connection, ErrorKind, PubSubCommands, RedisError, RedisResult, Script,
    ServerErrorKind, pipe, transaction,
};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Fails with what the server or the client says.
type Checked = RedisResult<()>;

fn client(address: &str, protocol: u8) -> Client {
    Client::open(format!("redis://{address}/?protocol=resp{protocol}")).expect("an address")
}

/// Does something by a connection of its own, once the other has had time to wait.
fn later(client: &Client, action: impl FnOnce(&mut Connection) + Send + 'static) {
    let client = client.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        action(&mut client.get_connection().expect("the server listens"));
    });
}

fn values(_: &Client, r: &mut Connection) -> Checked {
    r.set_ex::<_, _, ()>("s", "v", 100)?;
    assert_eq!(r.get::<_, Option<String>>("s")?, Some("v".to_owned()));
    assert_eq!(r.get::<_, Option<String>>("absent")?, None);
    assert!((99..=100).contains(&r.ttl::<_, i64>("s")?));
    r.hset_multiple::<_, _, _, ()>("h", &[("a", 1), ("b", 2)])?;
    let pairs: HashMap<String, i64> = r.hgetall("h")?;
    assert_eq!(pairs, HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    assert_eq!(r.zadd_multiple::<_, _, _, i64>("z", &[(1.5, "one"), (2.0, "two")])?, 2);
    let scores: Vec<(String, f64)> = r.zrange_withscores("z", 0, -1)?;
    assert_eq!(scores, [("one".to_owned(), 1.5), ("two".to_owned(), 2.0)]);
    assert_eq!(r.sadd::<_, _, i64>("set", &["x", "y"])?, 2);
    assert!(r.sismember::<_, _, bool>("set", "x")?);
    assert_eq!(r.rpush::<_, _, i64>("l", &[1, 2, 3])?, 3);
    assert_eq!(r.lrange::<_, Vec<i64>>("l", 0, -1)?, [1, 2, 3]);
    let large = vec![b'x'; 3 << 20];
    r.set::<_, _, ()>("large", &large)?;
    assert_eq!(r.get::<_, Vec<u8>>("large")?, large);
    Ok(())
}

fn pipelines(client: &Client, r: &mut Connection) -> Checked {
    let mut pipeline = pipe();
    for number in 0..1000 {
        pipeline.set(format!("p:{number}"), number).ignore();
    }
    pipeline.query::<()>(r)?;
    assert_eq!(pipe().atomic().incr("m", 1).incr("m", 1).query::<(i64, i64)>(r)?, (1, 2));
    let mut attempts = 0;
    let (added,) = transaction(r, &["m"], |r, pipeline| -> RedisResult<Option<(i64,)>> {
        let old: i64 = r.get("m")?;
        attempts += 1;
        if attempts == 1 {
            // Another client changes the key: the transaction is tried once more.
            client.get_connection()?.set::<_, _, ()>("m", 10)?;
        }
        pipeline.set("m", old + 1).ignore().get("m").query(r)
    })?;
    assert_eq!((added, attempts), (11, 2));
    let keys: HashSet<String> = r.scan_match("p:*")?.collect::<RedisResult<_>>()?;
    assert_eq!(keys.len(), 1000);
    Ok(())
}

fn subscriptions(client: &Client, r: &mut Connection) -> Checked {
    later(client, |other| {
        // The subscription may come later still.
        while matches!(other.publish::<_, _, i64>("channel", "hello"), Ok(0)) {
            std::thread::yield_now();
        }
    });
    let mut got = String::new();
    r.subscribe("channel", |message| {
        got = message.get_payload().unwrap_or_default();
        redis::ControlFlow::Break(())
    })?;
    assert_eq!(got, "hello");
    // The connection takes other commands again.
    assert_eq!(redis::cmd("PING").query::<String>(r)?, "PONG");
    Ok(())
}

fn scripts(_: &Client, r: &mut Connection) -> Checked {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    assert_eq!(script.key("sum").arg(5).invoke::<i64>(r)?, 5);
    assert_eq!(script.key("sum").arg(6).invoke::<i64>(r)?, 11);
    Ok(())
}

fn streams(_: &Client, r: &mut Connection) -> Checked {
    let id: String = r.xadd("st", "*", &[("a", "1")])?;
    r.xgroup_create::<_, _, _, ()>("st", "g", "0")?;
    let options = StreamReadOptions::default().group("g", "c").count(1);
    let read: StreamReadReply = r.xread_options(&["st"], &[">"], &options)?;
    assert_eq!(read.keys[0].ids[0].id, id);
    assert_eq!(r.xack::<_, _, _, i64>("st", "g", &[id])?, 1);
    Ok(())
}

fn blocking(client: &Client, r: &mut Connection) -> Checked {
    assert_eq!(r.blpop::<_, Option<(String, String)>>("nothing", 0.05)?, None);
    later(client, |other| drop(other.rpush::<_, _, i64>("queue", "job")));
    assert_eq!(r.blpop::<_, (String, String)>("queue", 60.0)?, ("queue".to_owned(), "job".to_owned()));
    Ok(())
}

fn errors(client: &Client, r: &mut Connection) -> Checked {
    r.set::<_, _, ()>("text", "x")?;
    let error: RedisError = r.incr::<_, _, i64>("text", 1).expect_err("it is no number");
    assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError));
    assert!(error.to_string().contains("value is not an integer"), "{error}");
    let error = r.lpush::<_, _, i64>("text", 1).expect_err("it is a string");
    assert_eq!(error.code(), Some("WRONGTYPE"));
    let error = redis::cmd("EVALSHA").arg("0".repeat(40)).arg(0).query::<()>(r).expect_err("no script");
    assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript));
    redis::cmd("ACL").arg(&["SETUSER", "ann", "on", ">pw", "~mine:*", "+@all"]).query::<()>(r)?;
    let info = client.get_connection_info().clone();
    let settings = info.redis_settings().clone().set_username("ann").set_password("pw");
    let info = info.set_redis_settings(settings);
    let mut ann = Client::open(info)?.get_connection()?;
    ann.set::<_, _, ()>("mine:a", 1)?;
    let error = ann.get::<_, ()>("text").expect_err("another's key");
    assert_eq!(error.code(), Some("NOPERM"));
    Ok(())
}

#[test]
fn redis_rs_works_in_both_protocols() {
    for protocol in [2, 3] {
        let server = TestServer::new(&format!("redis-rs-{protocol}"));
        while_served(&server, 2, |address| {
            let client = client(address, protocol);
            for step in [values, pipelines, subscriptions, scripts, streams, blocking, errors] {
                let mut connection = client.get_connection().expect("the server listens");
                step(&client, &mut connection).unwrap_or_else(|error| panic!("RESP{protocol}: {error}"));
            }
        });
    }
}
