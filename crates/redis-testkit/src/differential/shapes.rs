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
pub(super) type Shape = fn(&mut Random) -> Vec<Request>;

/// The group of commands that a shape is about, as the table names it; empty for all groups.
const SHAPES: [(&str, Shape); 22] = [
    ("", creations),
    ("", creations),
    ("", creations),
    ("", creations),
    ("", conversions),
    ("transactions", transactions),
    ("transactions", transactions),
    ("transactions", watches),
    ("scripting", scripts),
    ("scripting", scripts),
    ("scripting", functions),
    ("pubsub", subscriptions),
    ("bitmap", bit_fields),
    ("string", lcs),
    ("generic", sorts),
    ("server", settings),
    ("server", users),
    ("connection", sessions),
    ("stream", groups),
    ("generic", introspection),
    ("generic", restores),
    ("generic", soon_expired),
];

/// The shapes of some groups, or all if none is named.
pub(super) fn of_groups(groups: &[String]) -> Vec<Shape> {
    let is_meant =
        |group: &str| groups.is_empty() || group.is_empty() || groups.iter().any(|one| one == group);
    SHAPES.iter().filter(|(group, _)| is_meant(group)).map(|(_, shape)| *shape).collect()
}
