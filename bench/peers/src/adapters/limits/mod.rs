//! What no store is, but a part of one alone: how fast it could be if the rest took no time.

pub(super) mod btree;
pub(super) mod copy;
pub(super) mod raw_map;
pub(super) mod raw_write;
pub(super) mod skiplist;

use crate::engine::{Error, Session};

/// Bytes before key and value of an appended record: the lengths of both.
const FRAME_BYTES: usize = 8;

/// Adds a record to `bytes` as it is appended: the length of the key, that of the value, key and value; no checksum.
fn frame(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
}

/// What is said of a read where there are none. No workload asks.
fn no_reads() -> Error {
    "this limit appends and reads nothing".into()
}

/// A boxed session, for the limits whose sessions are small.
fn boxed<'a>(session: impl Session + 'a) -> Box<dyn Session + 'a> {
    Box::new(session)
}
