//! Requests whose effect is of their arguments and the data alone, so that they may be run again elsewhere
//! and later, and the comparison of what two servers hold behind them.

use super::excluded::depends_on_time;
use super::generator::Generator;
use super::pair::{Disagreement, PATIENCE, Pair, ended};
use super::request::{Request, words};
use super::rules::rule_of;
use super::state;
use crate::random::Random;
use crate::server::Server;
use std::collections::BTreeSet;

/// Groups of commands on data, as the table names them.
const GROUPS: [&str; 10] =
    ["generic", "string", "list", "set", "sorted-set", "hash", "stream", "geo", "hyperloglog", "bitmap"];
/// Each comes once in so many requests.
const RARELY: usize = 200;
const WHOLE_DATABASES: [&str; 3] = ["FLUSHDB", "SWAPDB 0 1", "SWAPDB 0 15"];

/// Requests on data of all types, some in transactions, none of which draws at random or looks at the clock.
/// Times to live are relative, but longer than a test.
pub fn timeless_requests(random: &mut Random, count: usize) -> Vec<Request> {
    let generator = Generator::of_commands(&GROUPS.map(str::to_owned));
    let mut requests: Vec<Request> = generator.requests(random, count, &BTreeSet::new());
    requests.retain(|request| !rule_of(request).stands_alone() && !depends_on_time(request));
    let mut with_transactions = Vec::with_capacity(requests.len());
    let mut left_of_transaction = 0;
    for request in requests {
        if left_of_transaction == 0 && random.once_in(12) {
            with_transactions.push(words("MULTI"));
            left_of_transaction = 2 + random.below(9);
        }
        with_transactions.push(request);
        if random.once_in(RARELY) {
            with_transactions.push(words(random.choose(&WHOLE_DATABASES)));
        }
        if left_of_transaction > 0 {
            left_of_transaction -= 1;
            if left_of_transaction == 0 {
                with_transactions.push(words("EXEC"));
            }
        }
    }
    with_transactions
}

/// Compares what two servers hold: counts and names of keys, types, times to live, values, consumer groups,
/// and DUMP of each given to RESTORE of the other.
///
/// # Errors
/// The first thing that differs.
pub fn same_state(left: &Server, right: &Server) -> Result<(), Disagreement> {
    let mut pair = Pair::connect(left, right, PATIENCE).map_err(|error| ended(0, &error))?;
    pair.call(&words("HELLO 3"));
    state::compare_state(&mut pair, 0)
}
