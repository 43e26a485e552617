//! Nodes: which entries Redis would keep in one listpack of its radix tree.
//!
//! Trimming with `~` removes whole nodes only, and XINFO counts them, so a server that wants to answer as
//! Redis does has to know where they begin. A node is found by the id of its first entry, deleted or not.
//! The last node is part of the header, because every XADD changes it; the others are elements.
//!
//! ```text
//! 16 bytes  the last id that was added, big-endian
//!  8 bytes  entries; entries that were deleted from it; bytes of the listpack: each little-endian
//!  8 bytes
//!  8 bytes
//!  8 bytes  a hash of the names of fields that the listpack stores once
//! ```

use super::StreamId;
use super::places::Fields;
use crate::store::Store;
use esker::Result;
use esker_redis_data::listpack::element_bytes;
use esker_redis_data::{EncodingLimits, Packed};
use xxhash_rust::xxh3::Xxh3;

/// Up to which size entries share a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// `stream-node-max-bytes`; 0 is no limit.
    pub max_bytes: u64,
    /// `stream-node-max-entries`; 0 is no limit.
    pub max_entries: u64,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self { max_bytes: 4096, max_entries: 100 }
    }
}

impl NodeLimits {
    /// Those among the limits of all types.
    pub fn of(limits: &EncodingLimits) -> Self {
        Self {
            max_bytes: limits.stream_node_max_bytes as u64,
            max_entries: limits.stream_node_max_entries as u64,
        }
    }
}

/// Bytes of a listpack that Redis does not exceed, whatever the limits.
const MAX_LISTPACK_BYTES: u64 = 1 << 30;

/// A listpack's header and end.
const EMPTY_LISTPACK_BYTES: u64 = 7;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The id of the first entry that was added.
    pub first_id: StreamId,
    /// The id of the last entry that was added.
    pub last_id: StreamId,
    /// Entries.
    pub live: u64,
    /// Entries that were deleted.
    pub deleted: u64,
    bytes: u64,
    fields_hash: u64,
}

impl Node {
    /// A node that begins with an entry of these strings.
    pub(super) fn new(store: &Store, id: StreamId, strings: &[&[u8]]) -> Self {
        let fields = strings.iter().step_by(2);
        let names: u64 = fields.map(|field| packed_bytes(field)).sum();
        // Numbers of entries, of deleted ones and of fields, the fields, and a zero.
        let head = 2 * number_bytes(0) + number_bytes(strings.len() as i64 / 2) + names + number_bytes(0);
        let mut node = Self {
            first_id: id,
            last_id: id,
            live: 0,
            deleted: 0,
            bytes: EMPTY_LISTPACK_BYTES + head,
            fields_hash: hash_of_fields(store, strings),
        };
        node.add(store, id, strings);
        node
    }

    /// Whether an entry with so many bytes of strings begins a node of its own.
    pub(super) fn is_full(&self, string_bytes: u64, limits: NodeLimits) -> bool {
        let max_bytes = match limits.max_bytes {
            0 => MAX_LISTPACK_BYTES,
            bytes => bytes.min(MAX_LISTPACK_BYTES),
        };
        // Numbers above 127 take a byte more at the head of the listpack.
        let head = number_bytes(self.live as i64) + number_bytes(self.deleted as i64) - 2 * number_bytes(0);
        self.bytes + head + string_bytes >= max_bytes
            || (limits.max_entries > 0 && self.live + self.deleted >= limits.max_entries)
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, store: &Store, id: StreamId, strings: &[&[u8]]) {
        let fields = strings.len() as i64 / 2;
        let bytes_of = |strings: &mut dyn Iterator<Item = &&[u8]>| -> u64 {
            strings.map(|string| packed_bytes(string)).sum()
        };
        let mut elements = fields + 3;
        let has_same_fields = hash_of_fields(store, strings) == self.fields_hash;
        self.bytes += number_bytes(0)
            + number_bytes(id.milliseconds.wrapping_sub(self.first_id.milliseconds) as i64)
            + number_bytes(id.sequence.wrapping_sub(self.first_id.sequence) as i64)
            + bytes_of(&mut strings.iter().skip(1).step_by(2));
        if !has_same_fields {
            self.bytes += number_bytes(fields) + bytes_of(&mut strings.iter().step_by(2));
            elements += fields + 1;
        }
        self.bytes += number_bytes(elements);
        self.live += 1;
        self.last_id = id;
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.last_id.to_be_bytes().to_vec();
        for number in [self.live, self.deleted, self.bytes, self.fields_hash] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(first_id: StreamId, fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            first_id,
            last_id: fields.id()?,
            live: fields.u64()?,
            deleted: fields.u64()?,
            bytes: fields.u64()?,
            fields_hash: fields.u64()?,
        })
    }
}

fn packed_bytes(string: &[u8]) -> u64 {
    element_bytes(Packed::of(string)) as u64
}

fn number_bytes(number: i64) -> u64 {
    element_bytes(Packed::Integer(number)) as u64
}

fn hash_of_fields(store: &Store, strings: &[&[u8]]) -> u64 {
    let mut hash = Xxh3::with_seed(store.hash_seed());
    for field in strings.iter().step_by(2) {
        hash.update(&(field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    hash.digest()
}

/// The number of nodes of Redis' radix tree over keys of sixteen bytes, ascending and all different.
pub fn radix_nodes(keys: &[[u8; 16]]) -> u64 {
    if keys.is_empty() { 1 } else { radix_nodes_below(keys, 0) }
}

/// The same for keys whose first `depth` bytes are equal.
fn radix_nodes_below(keys: &[[u8; 16]], depth: usize) -> u64 {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    // A run of equal bytes is one node, and so is a leaf or a branch behind it.
    let own = u64::from(common > depth) + 1;
    if common == first.len() {
        return own;
    }
    own + keys
        .chunk_by(|a, b| a[common] == b[common])
        .map(|children| radix_nodes_below(children, common + 1))
        .sum::<u64>()
}
