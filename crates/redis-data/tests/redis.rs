//! Comparison with a running Redis 7.0: what it writes is read here, what is written here it reads, and every
//! algorithm answers the same. Where `redis-server` is missing the tests say so and pass.

#![forbid(unsafe_code)]

#[path = "redis/bits.rs"]
mod bits;
#[path = "redis/dump.rs"]
mod dump;
#[path = "redis/geo.rs"]
mod geo;
#[path = "redis/hostile.rs"]
mod hostile;
#[path = "redis/hyperloglog.rs"]
mod hyperloglog;
#[path = "redis/old_formats.rs"]
mod old_formats;
#[path = "redis/streams.rs"]
mod streams;
#[path = "redis/values.rs"]
mod values;

use esker_redis_testkit::Server;

/// A server with hostile payloads checked and strings bounded; none where it is not installed.
fn redis() -> Option<Server> {
    Server::redis(&[
        "--sanitize-dump-payload",
        "yes",
        "--proto-max-bulk-len",
        "64mb",
        "--enable-debug-command",
        "yes",
    ])
}
