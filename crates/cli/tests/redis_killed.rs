//! `esker serve` is killed while it executes random commands; what it holds afterwards is what Redis holds
//! that got the same commands.
//!
//! A client sends pipelines of commands on all types of data, some in transactions, and the server is killed
//! by SIGKILL at a random reply. Redis 7.0.15 gets the commands that were acknowledged, and then, one by one,
//! some of those under way, until both hold the same: keys and their number, types, times to live, values and
//! consumer groups, and DUMP of each is restored by the other. `ESKER_KILLS` sets how often it is killed,
//! `ESKER_SEED` where to begin.

use esker_redis_testkit::differential::{Request, same_state, timeless_requests};
use esker_redis_testkit::{Random, Server, encode};
use std::path::Path;

const KILLS: usize = 8;
/// Requests of a life, of which it executes some.
const REQUESTS: usize = 500;
/// Most requests of a pipeline. So many may be under way when the server ends.
const PIPELINE: usize = 12;
const LEVELS: [&str; 3] = ["no", "everysec", "always"];

#[test]
fn a_killed_server_holds_what_redis_holds_after_the_acknowledged_commands() {
    let kills = std::env::var("ESKER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let Some(redis) = Server::redis(&["--enable-debug-command", "yes"]) else { return };
    let mut random = Random::new(41);
    for level in LEVELS {
        redis.connect().words("FLUSHALL");
        let binary = Path::new(env!("CARGO_BIN_EXE_esker"));
        let settings = ["--redis-set", "appendfsync", level, "--log", "off"];
        let mut esker = Server::esker(binary, &settings);
        for kill in 0..kills.div_ceil(LEVELS.len()) {
            let requests = timeless_requests(&mut random, REQUESTS);
            let replies = 1 + random.below(requests.len());
            live(&esker, &requests, &mut random, replies);
            esker.kill();
            esker = esker.started_again();
            let (acknowledged, under_way) = requests.split_at(replies);
            let told = format!("appendfsync {level}, kill {kill}, {replies} commands acknowledged");
            follow(&redis, &esker, acknowledged, under_way, &told);
        }
    }
}

/// Sends pipelines until so many replies were read; up to a pipeline more was sent.
fn live(esker: &Server, requests: &[Request], random: &mut Random, replies: usize) {
    let mut client = esker.connect();
    let mut sent = 0;
    for read in 0..replies {
        if sent == read {
            let end = (sent + 1 + random.below(PIPELINE)).min(requests.len());
            client.send(&requests[sent..end].iter().flat_map(encoded).collect::<Vec<_>>());
            sent = end;
        }
        client.read();
    }
}

/// Brings Redis to where Esker was killed. Fails if Esker is nowhere between the last acknowledged request
/// and the last that may have been sent.
fn follow(redis: &Server, esker: &Server, acknowledged: &[Request], under_way: &[Request], told: &str) {
    let mut client = redis.connect();
    let mut execute = |request: &Request| {
        client.send(&encoded(request));
        client.read();
    };
    acknowledged.iter().for_each(&mut execute);
    let mut first = None;
    let mut under_way = under_way.iter().take(PIPELINE);
    loop {
        let Err(difference) = same_state(redis, esker) else { return };
        first.get_or_insert(difference);
        let Some(request) = under_way.next() else {
            panic!("{told}: before any other, Redis holds on the left, Esker on the right: {first:#?}")
        };
        execute(request);
    }
}

fn encoded(request: &Request) -> Vec<u8> {
    encode(&request.iter().map(Vec::as_slice).collect::<Vec<_>>())
}
