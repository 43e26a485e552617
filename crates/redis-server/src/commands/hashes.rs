//! Commands of hashes.

mod numbers;
mod random;
mod read;
mod scan;
mod write;

use super::Family;

pub(crate) const COMMANDS: Family = &[
    ("hdel", write::hdel),
    ("hexists", read::hexists),
    ("hget", read::hget),
    ("hgetall", read::hgetall),
    ("hincrby", numbers::hincrby),
    ("hincrbyfloat", numbers::hincrbyfloat),
    ("hkeys", read::hkeys),
    ("hlen", read::hlen),
    ("hmget", read::hmget),
    ("hmset", write::hmset),
    ("hrandfield", random::hrandfield),
    ("hscan", scan::hscan),
    ("hset", write::hset),
    ("hsetnx", write::hsetnx),
    ("hstrlen", read::hstrlen),
    ("hvals", read::hvals),
];
