//! Commands of sets.

mod algebra;
mod members;
mod random;
mod scan;
mod smove;

use super::Family;

pub(crate) const COMMANDS: Family = &[
    ("sadd", members::sadd),
    ("scard", members::scard),
    ("sdiff", algebra::sdiff),
    ("sdiffstore", algebra::sdiffstore),
    ("sinter", algebra::sinter),
    ("sintercard", algebra::sintercard),
    ("sinterstore", algebra::sinterstore),
    ("sismember", members::sismember),
    ("smembers", members::smembers),
    ("smismember", members::smismember),
    ("smove", smove::smove),
    ("spop", random::spop),
    ("srandmember", random::srandmember),
    ("srem", members::srem),
    ("sscan", scan::sscan),
    ("sunion", algebra::sunion),
    ("sunionstore", algebra::sunionstore),
];
