//! Keyspace events: each command makes those of Redis 7.0.15, whichever classes are chosen.

mod common;

use common::TestServer;
use esker_redis_testkit::Server;
use esker_resp::value::Value;

/// Commands of one client, in order.
const COMMANDS: &[&str] = &[
    "set a 1",
    "set a 2",
    "setrange a 3 b",
    "append a b",
    "incr c",
    "incrbyfloat c 1.5",
    "getdel c",
    "getex a ex 100",
    "getex a persist",
    "expire a 10",
    "persist a",
    "expire a -1",
    "setex e 10 x",
    "rename e e2",
    "copy e2 e3",
    "move e2 1",
    "mset m 1 n 2",
    "msetnx o 1",
    "getset m 3",
    "set m 4 get",
    "del m",
    "unlink n",
    "lpush l a b c d",
    "rpoplpush l l2",
    "lmove l l2 left left",
    "ltrim l 0 0",
    "linsert l before c q",
    "lset l 0 z",
    "lrem l 0 z",
    "lmpop 2 l l2 left count 10",
    "lpop l2",
    "sadd s a b c",
    "smove s s2 a",
    "srem s b",
    "spop s",
    "sunionstore s3 s s2",
    "sinterstore s3 s s2",
    "hset h a 1 b 2",
    "hincrby h a 1",
    "hincrbyfloat h a 1",
    "hdel h a b",
    "zadd z 1 a 2 b 3 c",
    "zadd z 1 a",
    "zadd z xx ch 5 a",
    "zincrby z 1 a",
    "zadd z incr 1 a",
    "zrem z a",
    "zrangestore z2 z 0 -1",
    "zunionstore z3 2 z z2",
    "zpopmin z",
    "zpopmax z",
    "zmpop 1 z2 min",
    "zremrangebyrank z3 0 0",
    "zremrangebyscore z3 0 100",
    "xadd x 1-1 a b",
    "xadd x maxlen 1 2-1 a b",
    "xgroup create x g 0",
    "xreadgroup group g c streams x >",
    "xgroup createconsumer x g c2",
    "xgroup delconsumer x g c2",
    "xgroup setid x g 0",
    "xgroup destroy x g",
    "xsetid x 9-9",
    "xtrim x maxlen 0",
    "geoadd g 1 1 a",
    "geosearchstore g2 g fromlonlat 1 1 byradius 1 km",
    "pfadd p a b",
    "pfmerge p2 p",
    "setbit b 1 1",
    "bitfield b set u8 0 1",
    "bitop not b2 b",
    "rpush q 2 1",
    "sort q store q2",
    "eval return(redis.call('set',KEYS[1],1)) 1 script",
    "multi",
    "set t 1",
    "del t",
    "get t",
    "exec",
    // Keys that are not there.
    "get none",
    "exists none none2",
    "ttl none",
    "type none",
    "strlen none",
    "hget none f",
    "mget none p none2",
    "sinter none none2",
    "llen none",
    "dump none",
    "touch none",
    "object encoding none",
    "memory usage none",
    "xlen none",
    "zscore none m",
    "getbit none 1",
    "incr none3",
    "lpop none",
    "hdel none f",
    "eval return(redis.call('get',KEYS[1])) 1 none",
    "getdel none",
    "getex none",
    "getex none ex 10",
    "getset none4 1",
    "set none5 1 get",
    "set none6 1 xx get",
    "set none6 1 xx",
    "append none7 a",
    "bitfield none get u8 0",
    "bitfield none8 set u8 0 1",
    "bitop not none9 none",
    "bitop xor none9 none a none",
    "pfmerge none10 none p",
    "copy none none11",
    "copy a none12",
    "rename none none11",
    "move none 1",
    "sinterstore none13 s none",
    "sunionstore none13 none s",
    "sdiffstore none13 s none",
    "smove none s a",
    "zunionstore none14 2 z none",
    "zinterstore none14 2 z none",
    "zdiffstore none14 2 none z",
    "zrangestore none14 none 0 -1",
    "zpopmin none",
    "geosearchstore none15 none fromlonlat 1 1 byradius 1 km",
    "georadius none 1 1 1 km store none15",
    "georadiusbymember none a 1 km",
    "sort none",
    "sort none store none16",
    "sort q by none_* get none_* get q_* store none16",
    "sort_ro q by none_*->f",
    "xgroup create x2 g 0 mkstream",
    "xread streams none 0",
    "xread block 1 streams none $",
    "xread block 1 streams x2 $",
    "xreadgroup group g c streams none >",
    "xreadgroup group g c streams x2 none > >",
    "xreadgroup group g c block 1 streams x2 >",
    "xack none g 1-1",
    "xack x2 g 1-1",
    "xclaim none g c 0 1-1",
    "xautoclaim none g c 0 0",
    "xgroup destroy none g",
    "lmpop 2 none none2 left",
    "migrate 127.0.0.1 1 none 0 10",
    "set l3 1",
    "getset p2 1",
    "eval return(redis.call('getex',KEYS[1])) 1 none",
    "sinterstore none17 q none s",
    "sinter q none",
    "pfcount q none",
    "bitop or none18 q none",
    "pfmerge none18 q none",
    "swapdb 0 1",
    "flushdb",
];

const CLASSES: [&str; 15] =
    ["KEA", "KEm", "KEn", "KEAmn", "Kg", "E$", "Kl", "Es", "Kh", "Ez", "Kt", "Kx", "Ke", "A", "K"];

/// The messages that each command made.
fn messages(server: &Server, classes: &str) -> Vec<(String, Vec<Value>)> {
    let (mut client, mut other, mut subscriber) = (server.connect(), server.connect(), server.connect());
    client.words("flushall");
    client.words(&format!("config set notify-keyspace-events {classes}"));
    subscriber.words("psubscribe __key* end");
    let mut of = |command: &&str| {
        client.words(command);
        other.words("publish end end");
        let messages = std::iter::from_fn(|| Some(subscriber.read())).take_while(|message| !is_end(message));
        (command.to_string(), messages.collect())
    };
    COMMANDS.iter().map(&mut of).collect()
}

fn is_end(message: &Value) -> bool {
    matches!(message, Value::Array(parts) if parts.last() == Some(&Value::Bulk(b"end".to_vec())))
}

#[test]
fn every_command_makes_the_events_of_redis() {
    let Some(redis) = Server::redis(&[]) else { return };
    let esker = TestServer::new("keyspace-events").listening(&[]);
    for classes in CLASSES {
        let (theirs, ours) = (messages(&redis, classes), messages(&esker, classes));
        for (mut theirs, mut ours) in theirs.into_iter().zip(ours) {
            // The place of `new` among the other events of one command is another one for SMOVE.
            if classes == "KEAmn" {
                [&mut theirs, &mut ours]
                    .into_iter()
                    .for_each(|(_, told)| told.sort_by_key(|message| format!("{message:?}")));
            }
            assert_eq!(ours, theirs, "{classes}");
        }
    }
}

/// `keyspace_hits` and `keyspace_misses` after each command.
fn lookups(server: &Server) -> Vec<(String, Vec<String>)> {
    let (mut client, mut other) = (server.connect(), server.connect());
    client.words("flushall");
    client.words("config resetstat");
    let mut of = |command: &&str| {
        client.words(command);
        let Value::Bulk(text) = other.words("info stats") else { panic!("INFO answers a text") };
        let text = String::from_utf8(text).expect("a text");
        let counts = text.lines().filter(|line| line.starts_with("keyspace_")).map(str::to_owned);
        (command.to_string(), counts.collect())
    };
    COMMANDS.iter().map(&mut of).collect()
}

#[test]
fn every_command_counts_the_keys_that_redis_counts() {
    let Some(redis) = Server::redis(&[]) else { return };
    let esker = TestServer::new("keyspace-lookups").listening(&[]);
    for (theirs, ours) in lookups(&redis).into_iter().zip(lookups(&esker)) {
        assert_eq!(ours, theirs);
    }
}
