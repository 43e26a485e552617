//! What scripts cost: `cargo run --release -p esker-lua --example speed`.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "prints what it measures, by the clock")]

use esker_lua::{Engine, Host, Invocation, Limits, LogLevel, Script};
use esker_resp::writer::Protocol;
use std::ops::ControlFlow;
use std::time::Instant;

struct Answers;

impl Host for Answers {
    fn call(&mut self, _: &[&[u8]], _: Protocol, reply: &mut Vec<u8>) {
        reply.extend_from_slice(b"$5\r\nvalue\r\n");
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn may_go_on(&mut self) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }
}

fn main() {
    const ROUNDS: u32 = 100_000;
    let mut engine = Engine::new(Limits::default());
    for body in [
        "return 1",
        "return redis.call('GET', KEYS[1])",
        "for i = 1, 10 do redis.call('GET', KEYS[1]) end return 1",
        "local s = 0 for i = 1, 1000 do s = s + i end return s",
        "return cjson.encode(cjson.decode('{\"a\":[1,2,3],\"b\":\"text\"}'))",
        "return {1, 2, 3, 'four', {5, 6}}",
    ] {
        let script = Script::new(body.as_bytes()).expect("no first line");
        let invocation = Invocation { keys: &[b"key:000000000001"], ..Invocation::default() };
        let mut out = Vec::new();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            out.clear();
            engine.run(&script, &invocation, &mut Answers, &mut out);
        }
        println!("{:8.2} us  {body}", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
    }
}
