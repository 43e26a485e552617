//! redis-rs against a server: what applications use of it, each checked.
//!
//! ```text
//! PORT=6379 PROTOCOL=3 RESTART='command that restarts the server' cargo run
//! ```

use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{Client, Commands, Connection, PubSubCommands, RedisResult, Script, pipe, transaction};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::time::Duration;

#[derive(Default)]
struct Checks {
    count: usize,
    failures: Vec<String>,
}

impl Checks {
    fn that<T: PartialEq + Debug>(&mut self, name: &str, found: RedisResult<T>, wanted: T) {
        self.count += 1;
        match found {
            Ok(found) if found == wanted => {}
            found => self.failures.push(format!("{name}: {found:?} is not {wanted:?}")),
        }
    }
}

fn client() -> Client {
    let version = std::env::var("PROTOCOL").unwrap_or_else(|_| "3".to_owned());
    let port = std::env::var("PORT").expect("PORT");
    Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp{version}")).expect("an address")
}

fn connect() -> Connection {
    let connection = client().get_connection().expect("the server listens");
    connection.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    connection
}

fn later(action: impl FnOnce(&mut Connection) + Send + 'static) {
    std::thread::spawn(|| {
        let mut connection = connect();
        std::thread::sleep(Duration::from_millis(100));
        action(&mut connection);
    });
}

fn values(c: &mut Checks, r: &mut Connection) {
    c.that("set_ex", r.set_ex("s", "v", 100), "OK".to_owned());
    c.that("get", r.get("s"), Some("v".to_owned()));
    c.that("absent", r.get("absent"), None::<String>);
    c.that("hset", r.hset_multiple("h", &[("a", 1), ("b", 2)]), "OK".to_owned());
    c.that("hgetall", r.hgetall("h"), HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    c.that("zadd", r.zadd_multiple("z", &[(1.5, "one"), (2.0, "two")]), 2);
    c.that("zrange", r.zrange_withscores("z", 0, -1), vec![("one".to_owned(), 1.5), ("two".to_owned(), 2.0)]);
    c.that("sadd", r.sadd("set", &["x", "y"]), 2);
    c.that("sismember", r.sismember("set", "x"), true);
    c.that("rpush", r.rpush("l", &[1, 2, 3]), 3);
    c.that("lrange", r.lrange("l", 0, -1), vec![1, 2, 3]);
}

fn pipelines(c: &mut Checks, r: &mut Connection) {
    let mut pipeline = pipe();
    for number in 0..1000 {
        pipeline.set(format!("p:{number}"), number).ignore();
    }
    c.that("pipeline", pipeline.query(r), ());
    c.that("multi", pipe().atomic().incr("m", 1).incr("m", 1).query(r), (1, 2));
    let mut attempts = 0;
    let added = transaction(r, &["m"], |r, pipeline| {
        let old: i64 = r.get("m")?;
        attempts += 1;
        if attempts == 1 {
            // Another client changes the key: the transaction is tried once more.
            let _: () = connect().set("m", 10)?;
        }
        pipeline.set("m", old + 1).ignore().get("m").query(r)
    });
    c.that("watch", added, (11,));
    c.that("attempts", Ok(attempts), 2);
}

fn scans(c: &mut Checks, r: &mut Connection) {
    let found = r.scan_match::<_, String>("p:*").map(|keys| keys.collect::<HashSet<_>>().len());
    c.that("scan", found, 1000);
}

fn pubsub(c: &mut Checks, r: &mut Connection) {
    later(|other| drop(other.publish::<_, _, i64>("channel", "hello")));
    let mut got = String::new();
    let ended = r.subscribe("channel", |message| {
        got = message.get_payload().unwrap_or_default();
        redis::ControlFlow::Break(())
    });
    c.that("subscribe", ended, ());
    c.that("message", Ok(got), "hello".to_owned());
}

fn scripts(c: &mut Checks, r: &mut Connection) {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    c.that("script", script.key("sum").arg(5).invoke(r), 5);
    c.that("script again", script.key("sum").arg(6).invoke(r), 11);
}

fn streams(c: &mut Checks, r: &mut Connection) {
    let id: String = r.xadd("st", "*", &[("a", "1")]).expect("an identifier");
    c.that("xgroup", r.xgroup_create("st", "g", "0"), "OK".to_owned());
    let options = StreamReadOptions::default().group("g", "c").count(1);
    let read: RedisResult<StreamReadReply> = r.xread_options(&["st"], &[">"], &options);
    let first = read.map(|read| read.keys[0].ids[0].id.clone());
    c.that("xreadgroup", first, id.clone());
    c.that("xack", r.xack("st", "g", &[id]), 1);
}

fn blocking(c: &mut Checks, r: &mut Connection) {
    c.that("blpop times out", r.blpop("nothing", 0.2), None::<(String, String)>);
    later(|other| drop(other.rpush::<_, _, i64>("queue", "job")));
    c.that("blpop", r.blpop("queue", 4.0), Some(("queue".to_owned(), "job".to_owned())));
}

fn restart(c: &mut Checks, r: &mut Connection) {
    c.that("set", r.set("kept", "yes"), "OK".to_owned());
    let command = std::env::var("RESTART").expect("RESTART");
    let status = std::process::Command::new("bash").args(["-c", &command]).status().expect("bash");
    assert!(status.success());
    c.that("the old connection has ended", Ok(r.get::<_, String>("kept").is_err()), true);
    c.that("a new one", connect().get("kept"), "yes".to_owned());
}

fn main() {
    let mut c = Checks::default();
    c.that("flushall", redis::cmd("FLUSHALL").query(&mut connect()), "OK".to_owned());
    let mut steps: Vec<fn(&mut Checks, &mut Connection)> =
        vec![values, pipelines, scans, pubsub, scripts, streams, blocking];
    if std::env::var("RESTART").is_ok() {
        steps.push(restart);
    }
    for step in steps {
        step(&mut c, &mut connect());
    }
    for failure in &c.failures {
        println!("  failed: {failure}");
    }
    let version = std::env::var("PROTOCOL").unwrap_or_else(|_| "3".to_owned());
    println!("redis-rs 0.32, RESP{version}: {} checks, {} failed", c.count, c.failures.len());
    std::process::exit(i32::from(!c.failures.is_empty()));
}
