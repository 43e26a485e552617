//! Random commands of sorted sets and positions, whose replies are byte for byte those of Redis.

mod common;

use common::TestServer;
use esker_redis_testkit::{Client, Random, Server};

/// Commands of a run; `ESKER_COMMANDS` sets more.
const COMMANDS: usize = 8_000;

/// Members of the key `big`: enough for the rank index.
const MEMBERS: usize = 5_000;

/// Words of shapes: K is a key, M a member, S a score, B a bound of scores, L a bound of members, I an
/// integer, N a number of keys; others stand for themselves.
const SHAPES: &[&str] = &[
    "zadd K S M",
    "zadd K S M S M S M",
    "zadd K nx S M S M",
    "zadd K xx ch S M S M",
    "zadd K gt ch S M S M",
    "zadd K lt S M",
    "zadd K incr S M",
    "zadd K gt incr S M",
    "zadd K nx xx S M",
    "zadd K gt lt S M",
    "zadd K incr S M S M",
    "zadd K S M S",
    "zincrby K S M",
    "zincrby K nx M",
    "zrem K M M M",
    "zscore K M",
    "zmscore K M M M",
    "zcard K",
    "zcount K B B",
    "zlexcount lex L L",
    "zrank K M",
    "zrevrank K M",
    "zrange K I I",
    "zrange K I I rev withscores",
    "zrange K B B byscore limit I I",
    "zrange K B B byscore rev withscores limit I I",
    "zrange lex L L bylex limit I I",
    "zrange lex L L bylex rev",
    "zrange K I I limit 0 1",
    "zrange K L L bylex withscores",
    "zrevrange K I I withscores",
    "zrangebyscore K B B withscores",
    "zrangebyscore K B B limit I I",
    "zrevrangebyscore K B B limit I I withscores",
    "zrangebylex lex L L limit I I",
    "zrevrangebylex lex L L",
    "zrangestore K K I I",
    "zrangestore K K B B byscore limit I I",
    "zrangestore found K I I rev",
    "zremrangebyrank K I I",
    "zremrangebyscore K B B",
    "zremrangebylex lex L L",
    "zpopmin K",
    "zpopmax K",
    "zpopmin K I",
    "zpopmax K I",
    "zmpop N K K min",
    "zmpop 2 K K max count I",
    "zmpop 1 K min count",
    "zunion 2 K K withscores",
    "zunion N K K K weights S S S aggregate max",
    "zinter 2 K K withscores aggregate min",
    "zinter 2 K K weights S S withscores",
    "zdiff 3 K K K withscores",
    "zintercard 2 K K limit I",
    "zunionstore K 2 K K weights S S",
    "zinterstore K 2 K K aggregate min",
    "zdiffstore K 2 K K",
    "zunionstore K N K K",
    "zscan small I match m* count I",
    "zadd small S m1 S m2",
    "zadd small S m3",
    "zadd lex 0 M 0 M 0 M",
    "zadd lex 0 M 0 M 0 M",
    "sadd set M M M",
    "object encoding K",
    "zrandmember K I withscore",
    "zrandmember absent I",
    "geoadd geo P M",
    "geoadd geo ch P M P M",
    "geoadd geo nx P",
    "geopos geo M M",
    "geopos K M",
    "geohash geo M M",
    "geodist geo M M km",
    "geodist geo M M yard",
    "geosearch geo frommember M byradius 3000 km asc withdist",
    "geosearch geo fromlonlat P bybox 4000 8000 km desc withcoord withdist withhash",
    "geosearch geo fromlonlat P bybox 4000 -1 km",
    "geosearch geo byradius 1 km",
    "geosearchstore found geo fromlonlat P byradius 9000 mi storedist",
    "georadius geo P 5000000 m asc count 3",
    "georadius geo P 5000 km store found",
    "georadius geo P 5000 km store found withdist",
    "georadiusbymember geo M 2000 mi desc",
    "georadius_ro geo P 5000 km store found",
];

fn words(random: &mut Random, shape: &str, position: &mut u64) -> Vec<Vec<u8>> {
    let mut request = Vec::new();
    for word in shape.split(' ') {
        let picked = match word {
            "K" => *random.pick(&["a", "a", "b", "b", "big", "big", "set", "string", "none"]),
            "S" => *random.pick(&["0", "-0", "1", "2.5", "0.1", "-7", "inf", "-inf", "1e300", "nan", "x"]),
            "B" => {
                *random.pick(&["-inf", "+inf", "0", "(1", "2.5", "(-7", "100", "(200", "", " 1", "x", "nan"])
            }
            "L" => *random.pick(&["-", "+", "[m1", "(m1", "[m5", "(m7", "[", "(", "x", ""]),
            "I" => {
                *random.pick(&["0", "1", "-1", "5", "-3", "300", "3000", "-2000", "9223372036854775807", "x"])
            }
            "N" => *random.pick(&["2", "1", "2", "3", "0", "-1", "9223372036854775807", "x"]),
            "M" => {
                let member = match random.below(12) {
                    0 => "m".repeat(70),
                    1 => String::new(),
                    2..4 => format!("big:{}", random.below(MEMBERS)),
                    _ => format!("m{}", random.below(9)),
                };
                request.push(member.into_bytes());
                continue;
            }
            // No two are equal: Redis leaves the order of equal distances open.
            "P" => {
                *position += 1;
                let (east, north) = (*position * 7919 % 35_900, *position * 6151 % 16_900);
                request.push(format!("{}", east as f64 / 100.0 - 179.5).into_bytes());
                request.push(format!("{}", north as f64 / 100.0 - 84.5).into_bytes());
                continue;
            }
            word => word,
        };
        request.push(picked.as_bytes().to_vec());
    }
    request
}

#[test]
fn sorted_sets_answer_as_redis_does() {
    let Some(redis) = Server::redis(&[]) else { return };
    let commands = std::env::var("ESKER_COMMANDS").ok().and_then(|count| count.parse().ok());
    let mut random = Random::new(1);
    for protocol in [2, 3] {
        let server = TestServer::new(&format!("sorted-sets-{protocol}"));
        let (mut ours, mut theirs) = (server.client(), Client::connect(redis.address()));
        theirs.words("FLUSHALL");
        theirs.hello(protocol);
        ours.request(&["HELLO", &protocol.to_string()]);
        let mut position = 0;
        let mut big = vec![b"zadd".to_vec(), b"big".to_vec()];
        for member in 0..MEMBERS {
            big.push((member % 400).to_string().into_bytes());
            big.push(format!("big:{member}").into_bytes());
        }
        let mut requests = vec![big, vec![b"SET".to_vec(), b"string".to_vec(), b"x".to_vec()]];
        for round in 0..commands.unwrap_or(COMMANDS) {
            // Now and then `big` is made anew, as it shrinks.
            if round % 1_000 == 999 {
                requests.push(requests[0].clone());
            }
            let shape = *random.pick(SHAPES);
            requests.push(words(&mut random, shape, &mut position));
        }
        for request in &requests {
            theirs.call_with(request);
            let reply = ours.request(request);
            let shown: Vec<_> = request.iter().take(12).map(|word| word.escape_ascii().to_string()).collect();
            assert_eq!(
                reply.escape_ascii().to_string(),
                theirs.raw().escape_ascii().to_string(),
                "{shown:?} by protocol {protocol}"
            );
        }
    }
}

#[test]
fn hostile_counts_end_in_errors() {
    let server = TestServer::new("sorted-sets-hostile");
    let mut client = server.client();
    client.request(&["zadd", "z", "1", "a", "2", "b"]);
    for count in ["-9223372036854775808", "-4611686018427387905", "-4611686018427387904", "-99999999999"] {
        let reply = client.request(&["zrandmember", "z", count, "withscores"]);
        assert!(reply.starts_with(b"-ERR value is out of range"), "{}", reply.escape_ascii());
    }
    let long = vec![b'm'; 70_000];
    let reply = client.request(&[&b"zadd"[..], b"z", b"3", b"c", b"4", &long]);
    assert!(reply.starts_with(b"-ERR the member has 70000 bytes"), "{}", reply.escape_ascii());
    assert_eq!(client.request(&["zcard", "z"]), b":2\r\n");
    assert_eq!(client.request(&[&b"zscore"[..], b"z", &long]), b"$-1\r\n");
}
