//! Load at a fixed rate: GET and SET by turns from some clients, and how long the replies took.
//!
//! `paced_load PORT RATE SECONDS [CLIENTS [KEYS [VALUE_BYTES]]]`, built by
//! `cargo build --release -p esker-redis-testkit --example paced_load`.
//!
//! Each client has a schedule of its own. A request that is late because the reply before it was late counts
//! from its due time, so a pause of the server is counted as often as it would have been noticed. One line is
//! printed: the rate that was reached, and milliseconds at the 50th, 99th and 99.9th percentile and of the
//! longest. `bench/redis/paced` runs it beside Redis.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a load generator has threads, a clock and an output of its own"
)]

use esker_redis_testkit::{Random, encode};
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Replies that take longer are counted together; the longest is told exactly.
const LONGEST_COUNTED_US: usize = 200_000;

#[derive(Clone, Copy, Debug)]
struct Load {
    port: u16,
    rate: f64,
    seconds: f64,
    clients: u64,
    keys: usize,
    value_bytes: usize,
}

impl Load {
    fn parse(arguments: &[String]) -> Result<Load, String> {
        let [port, rate, seconds, rest @ ..] = arguments else {
            return Err("PORT RATE SECONDS [CLIENTS [KEYS [VALUE_BYTES]]] are needed".to_owned());
        };
        let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        let optional = |at: usize, otherwise: u64| rest.get(at).map_or(Ok(otherwise), number);
        let port = number(port)?;
        Ok(Load {
            port: u16::try_from(port).map_err(|_| format!("a port of {port}"))?,
            rate: number(rate)?.max(1) as f64,
            seconds: number(seconds)? as f64,
            clients: optional(0, 50)?.max(1),
            keys: optional(1, 1_000_000)?.max(1) as usize,
            value_bytes: optional(2, 100)? as usize,
        })
    }
}

/// How many replies took how many microseconds.
struct Times {
    counts: Vec<u32>,
    longest: Duration,
}

impl Times {
    fn new() -> Times {
        Times { counts: vec![0; LONGEST_COUNTED_US + 1], longest: Duration::ZERO }
    }

    fn note(&mut self, took: Duration) {
        self.counts[(took.as_micros() as usize).min(LONGEST_COUNTED_US)] += 1;
        self.longest = self.longest.max(took);
    }

    fn add(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
        self.longest = self.longest.max(other.longest);
    }

    fn total(&self) -> u64 {
        self.counts.iter().copied().map(u64::from).sum()
    }

    fn at_ms(&self, share: f64) -> f64 {
        let (wanted, mut seen) = ((self.total() as f64 * share) as u64, 0);
        let at = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen > wanted
        });
        at.unwrap_or(LONGEST_COUNTED_US) as f64 / 1e3
    }
}

/// One client: waits until each request is due, sends it and reads the reply.
fn client(load: Load, number: u64, began: Instant) -> std::io::Result<Times> {
    let mut stream = TcpStream::connect(("127.0.0.1", load.port))?;
    stream.set_nodelay(true)?;
    let mut random = Random::of(number);
    let (mut times, mut unread) = (Times::new(), vec![0; load.value_bytes + 64]);
    let interval = Duration::from_secs_f64(load.clients as f64 / load.rate);
    let mut due = began + interval.mul_f64(number as f64 / load.clients as f64);
    let ends = began + Duration::from_secs_f64(load.seconds);
    let value = vec![b'x'; load.value_bytes];
    for turn in number.. {
        if due >= ends {
            break;
        }
        let now = Instant::now();
        if now < due {
            std::thread::sleep(due - now);
            // What the sleep took too long is not the server's.
            due = due.max(Instant::now());
        }
        let key = format!("key:{:012}", random.below(load.keys));
        let request = match turn % 2 {
            0 => encode(&[b"GET", key.as_bytes()]),
            _ => encode(&[b"SET", key.as_bytes(), &value]),
        };
        stream.write_all(&request)?;
        read_reply(&mut stream, &mut unread)?;
        times.note(due.elapsed());
        due += interval;
    }
    Ok(times)
}

/// Reads the reply of a GET or a SET.
fn read_reply(stream: &mut TcpStream, bytes: &mut [u8]) -> std::io::Result<()> {
    let mut have = 0;
    loop {
        let more = stream.read(&mut bytes[have..])?;
        have += more;
        let reply = &bytes[..have];
        let lines = reply.windows(2).filter(|pair| pair == b"\r\n").count();
        let wanted = if reply.starts_with(b"$") && !reply.starts_with(b"$-1") { 2 } else { 1 };
        match (more, reply.first()) {
            (0, _) => return Err(std::io::Error::other("the server closed the connection")),
            (_, Some(b'-')) => {
                return Err(std::io::Error::other(String::from_utf8_lossy(reply).into_owned()));
            }
            _ if reply.ends_with(b"\r\n") && lines >= wanted => return Ok(()),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let load = Load::parse(&arguments)?;
    let began = Instant::now() + Duration::from_millis(100);
    let clients: Vec<_> =
        (0..load.clients).map(|number| std::thread::spawn(move || client(load, number, began))).collect();
    let mut all = Times::new();
    for client in clients {
        all.add(&client.join().map_err(|_| "a client panicked")??);
    }
    let rate = all.total() as f64 / began.elapsed().as_secs_f64();
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| all.at_ms(share));
    println!("{rate:.0} {p50:.3} {p99:.3} {p999:.3} {:.3}", all.longest.as_secs_f64() * 1e3);
    Ok(())
}
