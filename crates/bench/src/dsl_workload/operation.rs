//! One command of the text protocol on integers, and its line.

use std::fmt;

/// An operation of a DSL workload. Its text is the line of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Store `value` under `key`.
    Put {
        /// The key.
        key: i64,
        /// The value.
        value: i64,
    },
    /// Read `key`.
    Get {
        /// The key.
        key: i64,
    },
    /// Read the keys from `start` up to, but not including, `end`.
    Range {
        /// The first key.
        start: i64,
        /// The first key after the range.
        end: i64,
    },
    /// Delete `key`.
    Delete {
        /// The key.
        key: i64,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Put { key, value } => write!(f, "p {key} {value}"),
            Operation::Get { key } => write!(f, "g {key}"),
            Operation::Range { start, end } => write!(f, "r {start} {end}"),
            Operation::Delete { key } => write!(f, "d {key}"),
        }
    }
}
