//! Clears C's error number before SORT: Redis takes an `ERANGE` that an earlier command has left for its own.
//!
//! Redis 7.0 converts the numbers that SORT compares by `strtod` and asks `errno` whether they were in range,
//! without setting it to zero before. After `ZADD k 1e-400 m`, every SORT by numbers answers that scores
//! cannot be converted, whatever it sorts, until another command clears the number. Esker answers by what is
//! sorted. So a command that clears it, and changes nothing, is sent before each: what disagrees then is no
//! error of an earlier command.
//!
//! SORT of a sorted set first makes a skip list of a packed one, by `strtod` of its scores, and takes an
//! underflow there for one of what it sorts. So the set is made a skip list before, by a SORT of no element.

use super::request::{Request, words};

/// Redis clears the error number before it converts each of these numbers. There is no such key.
const CLEARING: &str = "GEORADIUS_RO no-such-key 0 0 1 m";

/// The requests with what prepares it before each SORT, where it does not stand there.
pub(super) fn with_error_number_cleared(requests: Vec<Request>) -> Vec<Request> {
    let mut cleared: Vec<Request> = Vec::with_capacity(requests.len());
    for request in requests {
        let before = preparation(&request);
        if !cleared.ends_with(&before) {
            cleared.extend(before);
        }
        cleared.push(request);
    }
    cleared
}

/// What is sent before a SORT; nothing before other requests, and those that are a preparation themselves.
fn preparation(request: &[Vec<u8>]) -> Vec<Request> {
    let [name, key, ..] = request else { return Vec::new() };
    let unpacking = [words("SORT_RO"), vec![key.clone()], words("BY nosort LIMIT 0 0")].concat();
    let is_sort = name.eq_ignore_ascii_case(b"SORT") || name.eq_ignore_ascii_case(b"SORT_RO");
    if is_sort && request != unpacking { vec![unpacking, words(CLEARING)] } else { Vec::new() }
}
