//! Keys of a stream's elements, and a reader of the fixed fields of their values.

use super::StreamId;
use crate::layout::object_key;
use crate::types::malformed;
use esker::Result;

pub(super) const ENTRY: u8 = 1;
pub(super) const GROUP: u8 = 2;
pub(super) const CONSUMER: u8 = 4;
pub(super) const CONSUMER_NAME: u8 = 5;
pub(super) const PENDING: u8 = 6;
pub(super) const PENDING_OF_CONSUMER: u8 = 7;
pub(super) const NODE: u8 = 8;

/// The key of an element: its kind and what follows.
pub(super) fn key(object: u64, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(9 + length);
    bytes.extend_from_slice(&object.to_be_bytes());
    bytes.push(kind);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// All keys of a kind that begin with `prefix`, as a range from the first bytes to below the second.
pub(super) fn range(object: u64, kind: u8, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let start = key(object, kind, &[prefix]);
    let mut end = start.clone();
    // The kind is below 255, so the prefix has a successor.
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (start, end)
}

/// The key of something that has an id, behind a prefix.
pub(super) fn id_key(object: u64, kind: u8, prefix: &[u8], id: StreamId) -> Vec<u8> {
    key(object, kind, &[prefix, &id.to_be_bytes()])
}

/// The id at the end of a key.
pub(super) fn id_at_end(key: &[u8]) -> Result<StreamId> {
    let bytes = key.last_chunk::<16>().ok_or_else(|| malformed("key of a stream"))?;
    Ok(StreamId::from_be_bytes(*bytes))
}

/// The name at the end of a key: behind object, kind and `prefix_bytes`.
pub(super) fn name_at_end(key: &[u8], prefix_bytes: usize) -> &[u8] {
    key.get(object_key(0, &[]).len() + 1 + prefix_bytes..).unwrap_or_default()
}

/// Reads fixed fields one after the other.
pub(super) struct Fields<'v>(pub(super) &'v [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) =
            self.0.split_first_chunk::<N>().ok_or_else(|| malformed("element of a stream"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn id(&mut self) -> Result<StreamId> {
        Ok(StreamId::from_be_bytes(self.take()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.take()?))
    }
}
