//! Encoded write batches: the payload of a commit, and the share of each keyspace in it.

use esker_base::{KeyspaceId, Result, ValueKind};
use esker_wal::{BatchEncoder, EntryIter};

/// The share of one keyspace in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Its entries.
    pub entries: u32,
    /// Key and value bytes.
    pub bytes: u64,
    /// Range deletes among the entries.
    pub range_deletes: u32,
}

impl Share {
    /// An empty share: for sealing without a pending write.
    pub fn nothing(keyspace: KeyspaceId) -> Share {
        Share { keyspace, entries: 0, bytes: 0, range_deletes: 0 }
    }
}

/// A batch in the form of the commit pipeline.
#[derive(Clone, Copy, Debug)]
pub struct EncodedBatch<'a> {
    /// The record.
    pub payload: &'a [u8],
    /// Entries in it.
    pub count: u32,
    /// What each keyspace has in it.
    pub shares: &'a [Share],
    /// Kind byte, key and value if the batch is a single entry, so that the commit need not decode it.
    pub single: Option<(u8, &'a [u8], &'a [u8])>,
}

impl<'a> EncodedBatch<'a> {
    /// The encoded batch, with the share of each keyspace.
    pub fn new(encoder: &'a BatchEncoder, shares: &'a [Share]) -> EncodedBatch<'a> {
        let (payload, count) = (encoder.payload(), encoder.count());
        let first = if count == 1 { EntryIter::new(payload).next().and_then(Result::ok) } else { None };
        let entry = first.filter(|entry| entry.kind_byte != ValueKind::RangeDelete as u8);
        EncodedBatch { payload, count, shares, single: entry.map(|e| (e.kind_byte, e.key, e.value)) }
    }
}
