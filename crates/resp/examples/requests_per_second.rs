//! Measures how many requests are parsed and replies are written in a second, on one thread.
//!
//! `cargo run --release -p esker-resp --example requests_per_second`
//!
//! The input is a pipeline of 16 KiB, as it comes from a socket. Of some rounds the best counts.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use esker_resp::limits::Limits;
use esker_resp::request::{Progress, RequestParser};
use esker_resp::writer::{Protocol, ReplyWriter};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PIPELINE_BYTES: usize = 16 << 10;
const ROUNDS: usize = 2_000;

/// Writes a reply.
type Write<'w> = &'w dyn Fn(&mut ReplyWriter<'_>);

fn main() {
    let get = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n".to_owned();
    let set = format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$100\r\n{}\r\n", "x".repeat(100));
    let mset = format!("*21\r\n$4\r\nMSET\r\n{}", "$16\r\nkey:000000012345\r\n$3\r\nabc\r\n".repeat(10));
    for (name, request) in [
        ("GET", get),
        ("SET of 100 bytes", set),
        ("MSET of 10 pairs", mset),
        ("inline GET", "get key:000000012345\r\n".to_owned()),
    ] {
        let count = PIPELINE_BYTES / request.len();
        let mut input = request.repeat(count).into_bytes();
        let best = (0..ROUNDS).map(|_| time(|| parse_all(&mut input))).min().unwrap_or_default();
        print(&format!("parse {name}"), count, best);
    }
    let mut out = Vec::with_capacity(PIPELINE_BYTES);
    let replies: [(&str, Write<'_>); 4] = [
        ("bulk of 100 bytes", &|reply| reply.bulk(&[b'x'; 100])),
        ("integer", &|reply| reply.integer(black_box(12_345))),
        ("double 0.1", &|reply| reply.double(black_box(0.1))),
        ("double 17", &|reply| reply.double(black_box(17.0))),
    ];
    for (name, write) in replies {
        let count = 128;
        let mut write_all = || {
            out.clear();
            for _ in 0..count {
                write(&mut ReplyWriter::new(&mut out, Protocol::Resp2));
            }
            black_box(&out);
        };
        let best = (0..ROUNDS).map(|_| time(&mut write_all)).min().unwrap_or_default();
        print(&format!("write {name}"), count, best);
    }
}

fn parse_all(input: &mut [u8]) {
    let mut parser = RequestParser::new();
    let limits = Limits::default();
    let mut start = 0;
    while let Ok(Progress::Request { consumed }) = parser.parse(&mut input[start..], &limits) {
        black_box(parser.arguments());
        start += consumed;
    }
    assert_eq!(start, input.len(), "the pipeline is whole");
}

fn time(mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn print(name: &str, count: usize, time: Duration) {
    let nanoseconds = time.as_nanos() as f64 / count as f64;
    println!("{name:<28} {:>7.1} million/s {nanoseconds:>8.1} ns", 1e3 / nanoseconds);
}
