//! The header of a stream: what its record says of it.
//!
//! ```text
//!  8 bytes  the object      all numbers little-endian, ids big-endian
//!  8 bytes  entries
//! 16 bytes  the last id ever added; then the smallest id, and the greatest that XDEL deleted
//!  8 bytes  entries ever added
//!  4 bytes  groups; then the number of the next group
//! 56 bytes  the id and the fields of the last node, if there is one
//! ```

use super::node::Node;
use super::places::Fields;
use super::{OBJECT, StreamId};
use crate::entry::Entry;
use crate::record::{Kind, Record};
use crate::txn::Txn;
use esker::Result;

/// A stream in a transaction. Changes of the header are stored by [`Stream::store`].
#[derive(Clone, Debug)]
pub struct Stream {
    pub(super) object: u64,
    pub(super) length: u64,
    /// The largest id ever added.
    pub last_id: StreamId,
    pub(super) first_id: StreamId,
    /// The largest id that was deleted; zero if none was.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
    pub(super) groups: u32,
    pub(super) next_group: u32,
    pub(super) tail: Option<Node>,
}

impl Stream {
    /// The stream of a key, which must be of no other type; `None` if the key is not there.
    ///
    /// # Errors
    /// `Internal` if the record is malformed, here and below; otherwise those of the engine.
    pub fn find(entry: &Entry) -> Result<Option<Self>> {
        entry.record().map(Self::decode).transpose()
    }

    /// An empty stream for a key that is not there; it is, once [`Stream::store`] is called.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn new(txn: &mut Txn<'_>, entry: &Entry) -> Result<Self> {
        Ok(Self {
            object: txn.store().new_object(entry.physical())?,
            length: 0,
            last_id: StreamId::default(),
            first_id: StreamId::default(),
            max_deleted_id: StreamId::default(),
            entries_added: 0,
            groups: 0,
            next_group: 0,
            tail: None,
        })
    }

    fn decode(record: &Record) -> Result<Self> {
        let mut fields = Fields(record.payload());
        Ok(Self {
            object: fields.u64()?,
            length: fields.u64()?,
            last_id: fields.id()?,
            first_id: fields.id()?,
            max_deleted_id: fields.id()?,
            entries_added: fields.u64()?,
            groups: fields.u32()?,
            next_group: fields.u32()?,
            tail: match fields.0.is_empty() {
                true => None,
                false => {
                    let first_id = fields.id()?;
                    Some(Node::decode(first_id, &mut fields)?)
                }
            },
        })
    }

    /// Stores the header in the record of its key, whose expiry stays.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn store(&self, txn: &mut Txn<'_>, entry: &mut Entry) -> Result<()> {
        self.store_with_expiry(txn, entry, entry.expiry_ms())
    }

    pub(super) fn store_with_expiry(
        &self,
        txn: &mut Txn<'_>,
        entry: &mut Entry,
        expiry_ms: Option<u64>,
    ) -> Result<()> {
        let mut payload = Vec::with_capacity(136);
        payload.extend_from_slice(&self.object.to_le_bytes());
        payload.extend_from_slice(&self.length.to_le_bytes());
        for id in [self.last_id, self.first_id, self.max_deleted_id] {
            payload.extend_from_slice(&id.to_be_bytes());
        }
        payload.extend_from_slice(&self.entries_added.to_le_bytes());
        payload.extend_from_slice(&self.groups.to_le_bytes());
        payload.extend_from_slice(&self.next_group.to_le_bytes());
        if let Some(tail) = &self.tail {
            payload.extend_from_slice(&tail.first_id.to_be_bytes());
            payload.extend_from_slice(&tail.encode());
        }
        txn.set_record(entry, Kind::Stream, OBJECT, expiry_ms, &payload)
    }

    /// Entries.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The smallest id; zero if there is no entry.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// Consumer groups.
    pub fn group_count(&self) -> u32 {
        self.groups
    }

    /// The id for a new entry at this time: the time, or the id behind the last if that is not greater.
    pub fn generated_id(&self, now_ms: u64) -> Option<StreamId> {
        match now_ms > self.last_id.milliseconds {
            true => Some(StreamId { milliseconds: now_ms, sequence: 0 }),
            false => super::next_id(self.last_id),
        }
    }

    /// Whether XDEL may have deleted entries between an id and the last one, so that numbers of entries read
    /// cannot be counted on from there.
    pub fn may_have_gaps_from(&self, id: StreamId) -> bool {
        self.length > 0
            && self.max_deleted_id != StreamId::default()
            && self.first_id <= self.max_deleted_id
            && id <= self.max_deleted_id
    }

    /// How many entries ever added have ids up to `id`; `None` if that is unknown.
    pub fn entries_read_up_to(&self, id: StreamId) -> Option<i64> {
        let added = self.entries_added as i64;
        if self.entries_added == 0 {
            return Some(0);
        }
        if id == self.last_id || (self.length == 0 && id < self.last_id) {
            return Some(added);
        }
        let has_gaps = self.max_deleted_id != StreamId::default() && self.max_deleted_id >= self.first_id;
        if id > self.last_id || has_gaps {
            return None;
        }
        let before_first = added.wrapping_sub(self.length as i64);
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }
}
