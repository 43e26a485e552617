//! Measures commands by a client within the process: microseconds a command, alone and in pipelines of 16,
//! over a million keys with values of 100 bytes. `cpu` is the time of the thread itself, which other work on
//! the machine lengthens less. The commands are those of `bench/redis/run`, in its order: a list and a sorted
//! set grow and are taken from.
//!
//! ```text
//! cargo run --release -p esker-redis-server --example command_speed -- [COMMANDS] [TEST,...]
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example measures time and prints it"
)]

use esker_redis_server::local_client::LocalClient;
use esker_redis_server::server::Server;
use esker_redis_store::Store;
use std::time::Instant;

const KEYS: u64 = 1_000_000;

/// Tests and their commands; `@` is a random number of twelve digits, `$` a value of 100 bytes.
const TESTS: &[(&str, &str)] = &[
    ("PING", "PING"),
    ("SET", "SET key:@ $"),
    ("GET", "GET key:@"),
    ("INCR", "INCR counter:@"),
    ("HSET", "HSET hash:@ field $"),
    ("SADD", "SADD set:@ member:@"),
    ("LPUSH", "LPUSH list $"),
    ("LRANGE_100", "LRANGE list 0 99"),
    ("LRANGE_600", "LRANGE list 0 599"),
    ("LPOP", "LPOP list"),
    ("ZADD", "ZADD zset @ member:@"),
    ("ZPOPMIN", "ZPOPMIN zset"),
    ("MSET_10", "MSET key:@ $ key:@ $ key:@ $ key:@ $ key:@ $ key:@ $ key:@ $ key:@ $ key:@ $ key:@ $"),
];

/// A pipeline of one command.
fn pipeline(command: &str, length: usize, random: &mut u64) -> Vec<u8> {
    let mut next = || {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:012}", (*random >> 33) % KEYS)
    };
    let mut out = Vec::new();
    for _ in 0..length {
        out.extend_from_slice(format!("*{}\r\n", command.split(' ').count()).as_bytes());
        for word in command.split(' ') {
            let argument = match word.split_once('@') {
                Some((before, behind)) => format!("{before}{}{behind}", next()),
                None if word == "$" => "v".repeat(100),
                None => word.to_owned(),
            };
            out.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
        }
    }
    out
}

/// Nanoseconds that this thread has run, as Linux counts them; zero elsewhere.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn measure(client: &mut LocalClient<'_>, test: &str, length: usize, commands: usize) {
    let command = TESTS.iter().find(|(name, _)| *name == test).expect("a test").1;
    let mut random = 42 + length as u64;
    // Requests are made before the time begins.
    let pipelines: Vec<_> = (0..commands / length).map(|_| pipeline(command, length, &mut random)).collect();
    let (start, start_cpu) = (Instant::now(), cpu_nanos());
    let mut replied = 0;
    for pipeline in &pipelines {
        replied += client.pipeline(pipeline).len();
    }
    let took = start.elapsed();
    let micros = took.as_secs_f64() * 1e6 / commands as f64;
    let cpu_micros = (cpu_nanos() - start_cpu) as f64 / 1e3 / commands as f64;
    println!(
        "{test:10} pipelines of {length:2}: {micros:.3} us a command, cpu {cpu_micros:.3} us ({replied} bytes of replies)"
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let commands: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let only = arguments.next();
    let directory = std::env::temp_dir().join(format!("esker-command-speed-{}", std::process::id()));
    let database = esker::Database::open(&directory).expect("a new database");
    let server = Server::new(Store::open(database, 16).expect("a new store"));
    let mut client = LocalClient::new(&server);
    let wanted = |test: &str| only.as_ref().is_none_or(|only| only.split(',').any(|name| name == test));
    for (test, _) in TESTS {
        if wanted(test) {
            // Long replies, and many keys, take ten times as long.
            let commands = if test.contains('_') { commands / 10 } else { commands };
            measure(&mut client, test, 16, commands);
            measure(&mut client, test, 1, commands);
        }
    }
    drop(client);
    drop(server);
    std::fs::remove_dir_all(&directory).expect("it is removed");
}
