//! Requests by hand: what the documentation of arguments cannot say, and sequences that belong together.

mod connection;
mod creation;
mod scripting;
mod values;

pub(super) use creation::creations;

use super::request::Request;
use crate::random::Random;
use connection::{sessions, settings, subscriptions, transactions, users, watches};
use creation::conversions;
use scripting::{functions, scripts};
use values::{bit_fields, groups, introspection, lcs, restores, soon_expired, sorts};

/// Makes requests that are sent one after another.
type Shape = fn(&mut Random) -> Vec<Request>;

const SHAPES: [Shape; 22] = [
    creations,
    creations,
    creations,
    creations,
    conversions,
    transactions,
    transactions,
    watches,
    scripts,
    scripts,
    functions,
    subscriptions,
    bit_fields,
    lcs,
    sorts,
    settings,
    users,
    sessions,
    groups,
    introspection,
    restores,
    soon_expired,
];

/// Requests of a random shape.
pub(super) fn any(random: &mut Random) -> Vec<Request> {
    let shape = *random.pick(&SHAPES);
    shape(random)
}
