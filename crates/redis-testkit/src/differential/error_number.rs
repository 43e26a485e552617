//! Clears C's error number before SORT: Redis takes an `ERANGE` that an earlier command has left for its own.
//!
//! Redis 7.0 converts the numbers that SORT compares by `strtod` and asks `errno` whether they were in range,
//! without setting it to zero before. After `ZADD k 1e-400 m`, every SORT by numbers answers that scores
//! cannot be converted, whatever it sorts, until another command clears the number. Esker answers by what is
//! sorted. So a command that clears it, and changes nothing, is sent before each: what disagrees then is no
//! error of an earlier command.

use super::request::{Request, words};

/// Redis clears the error number before it converts each of these numbers. There is no such key.
const CLEARING: &str = "GEORADIUS_RO no-such-key 0 0 1 m";

/// The requests with a clearing one before each SORT, where none stands there.
pub(super) fn with_error_number_cleared(requests: Vec<Request>) -> Vec<Request> {
    let clearing = words(CLEARING);
    let mut cleared: Vec<Request> = Vec::with_capacity(requests.len());
    for request in requests {
        if is_sort(&request) && cleared.last() != Some(&clearing) {
            cleared.push(clearing.clone());
        }
        cleared.push(request);
    }
    cleared
}

fn is_sort(request: &[Vec<u8>]) -> bool {
    let is = |name: &[u8]| request.first().is_some_and(|first| first.eq_ignore_ascii_case(name));
    is(b"SORT") || is(b"SORT_RO")
}
