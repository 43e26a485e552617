//! Consumer groups of a stream and their consumers.

use super::places::{
    CONSUMER, CONSUMER_NAME, Fields, GROUP, PENDING, PENDING_OF_CONSUMER, key, name_at_end, range,
};
use super::{Stream, StreamId};
use crate::layout::Space;
use crate::txn::Txn;
use crate::types::malformed;
use esker::Result;
use std::collections::BTreeMap;

/// Bytes of a name beyond which its entry would not fit: object, kind, number of the group.
pub const MAX_NAME_BYTES: usize = 65_535 - 13;

/// The number of entries read of a group for which it is not known.
pub const UNKNOWN_ENTRIES_READ: i64 = -1;

/// Entries up to which those of a destroyed group are deleted one by one: see `garbage`.
const FEW_ENTRIES: u64 = 64;

/// A group in a transaction. Changes of it and of its consumers are stored by [`Group::store`].
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) object: u64,
    pub(super) number: u32,
    name: Vec<u8>,
    /// The last id that was delivered.
    pub last_id: StreamId,
    /// How many entries the group has read, or [`UNKNOWN_ENTRIES_READ`].
    pub entries_read: i64,
    pub(super) pending: u64,
    consumers: u32,
    next_consumer: u32,
    /// Consumers that were read or changed, by number.
    loaded: BTreeMap<u32, Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    consumer: Consumer,
    is_changed: bool,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it last asked, in milliseconds since 1970.
    pub seen_ms: i64,
    pub(super) pending: u64,
}

impl Consumer {
    /// Entries that were delivered to it and not acknowledged.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.seen_ms.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.pending.to_le_bytes());
        bytes.extend_from_slice(&self.name);
        bytes
    }

    fn decode(value: &[u8]) -> Result<Self> {
        let mut fields = Fields(value);
        let (seen_ms, pending) = (fields.i64()?, fields.u64()?);
        Ok(Self { name: fields.0.to_vec(), seen_ms, pending })
    }
}

impl Stream {
    /// A group by its name.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn group(&self, txn: &Txn<'_>, name: &[u8]) -> Result<Option<Group>> {
        if self.groups == 0 || name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        let value = txn.get(Space::Elements, &key(self.object, GROUP, &[name]))?;
        value.map(|value| Group::decode(self.object, name, &value)).transpose()
    }

    /// The groups, by name.
    pub fn groups(&self, txn: &Txn<'_>) -> impl Iterator<Item = Result<Group>> {
        let (start, end) = range(self.object, GROUP, &[]);
        txn.range(Space::Elements, start..end).map(|item| {
            let (key, value) = item?;
            Group::decode(self.object, name_at_end(&key, 0), &value)
        })
    }

    /// Creates a group. There must be none of this name.
    ///
    /// # Errors
    /// As [`Stream::group`]; `InvalidArgument` for a name over [`MAX_NAME_BYTES`].
    pub fn create_group(
        &mut self,
        txn: &mut Txn<'_>,
        name: &[u8],
        last_id: StreamId,
        entries_read: i64,
    ) -> Result<Group> {
        let group = Group {
            object: self.object,
            number: self.next_group,
            name: name.to_vec(),
            last_id,
            entries_read,
            pending: 0,
            consumers: 0,
            next_consumer: 0,
            loaded: BTreeMap::new(),
        };
        txn.put(Space::Elements, &key(self.object, GROUP, &[name]), &group.encode())?;
        self.next_group += 1;
        self.groups += 1;
        Ok(group)
    }

    /// Removes a group with all it has.
    ///
    /// # Errors
    /// As [`Stream::group`].
    pub fn destroy_group(&mut self, txn: &mut Txn<'_>, group: &Group) -> Result<()> {
        let number = group.number.to_be_bytes();
        let is_small = group.pending + u64::from(group.consumers) <= FEW_ENTRIES;
        for kind in [CONSUMER, CONSUMER_NAME, PENDING, PENDING_OF_CONSUMER] {
            let (start, end) = range(self.object, kind, &number);
            delete_between(txn, start, end, is_small)?;
        }
        txn.delete(Space::Elements, &key(self.object, GROUP, &[&group.name]))?;
        self.groups = self.groups.saturating_sub(1);
        Ok(())
    }
}

impl Group {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Entries that were delivered and not acknowledged.
    pub fn pending_count(&self) -> u64 {
        self.pending
    }

    /// Consumers.
    pub fn consumer_count(&self) -> u32 {
        self.consumers
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.last_id.to_be_bytes());
        bytes.extend_from_slice(&self.entries_read.to_le_bytes());
        bytes.extend_from_slice(&self.pending.to_le_bytes());
        bytes.extend_from_slice(&self.consumers.to_le_bytes());
        bytes.extend_from_slice(&self.next_consumer.to_le_bytes());
        bytes
    }

    fn decode(object: u64, name: &[u8], value: &[u8]) -> Result<Self> {
        let mut fields = Fields(value);
        Ok(Self {
            object,
            number: fields.u32()?,
            name: name.to_vec(),
            last_id: fields.id()?,
            entries_read: fields.i64()?,
            pending: fields.u64()?,
            consumers: fields.u32()?,
            next_consumer: fields.u32()?,
            loaded: BTreeMap::new(),
        })
    }

    /// Stores the group and what was changed of its consumers.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn store(&mut self, txn: &mut Txn<'_>) -> Result<()> {
        txn.put(Space::Elements, &key(self.object, GROUP, &[&self.name]), &self.encode())?;
        for (number, loaded) in self.loaded.iter_mut().filter(|(_, loaded)| loaded.is_changed) {
            let key = key(self.object, CONSUMER, &[&self.number.to_be_bytes(), &number.to_be_bytes()]);
            txn.put(Space::Elements, &key, &loaded.consumer.encode())?;
            loaded.is_changed = false;
        }
        Ok(())
    }

    fn name_key(&self, name: &[u8]) -> Vec<u8> {
        key(self.object, CONSUMER_NAME, &[&self.number.to_be_bytes(), name])
    }

    /// The number of a consumer.
    ///
    /// # Errors
    /// As [`Group::store`].
    pub fn find_consumer(&self, txn: &Txn<'_>, name: &[u8]) -> Result<Option<u32>> {
        if self.consumers == 0 || name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        let value = txn.get(Space::Elements, &self.name_key(name))?;
        value.map(|value| Fields(&value).u32()).transpose()
    }

    /// Creates a consumer. There must be none of this name.
    ///
    /// # Errors
    /// As [`Group::store`]; `InvalidArgument` for a name over [`MAX_NAME_BYTES`].
    pub fn create_consumer(&mut self, txn: &mut Txn<'_>, name: &[u8], now_ms: i64) -> Result<u32> {
        let number = self.next_consumer;
        txn.put(Space::Elements, &self.name_key(name), &number.to_le_bytes())?;
        self.next_consumer += 1;
        self.consumers += 1;
        let consumer = Consumer { name: name.to_vec(), seen_ms: now_ms, pending: 0 };
        self.loaded.insert(number, Loaded { consumer, is_changed: true });
        Ok(number)
    }

    fn load(&mut self, txn: &Txn<'_>, number: u32) -> Result<&mut Loaded> {
        use std::collections::btree_map::Entry;
        match self.loaded.entry(number) {
            Entry::Occupied(loaded) => Ok(loaded.into_mut()),
            Entry::Vacant(place) => {
                let key = key(self.object, CONSUMER, &[&self.number.to_be_bytes(), &number.to_be_bytes()]);
                let value = txn.get(Space::Elements, &key)?;
                let value = value.ok_or_else(|| malformed("consumer of a stream"))?;
                let consumer = Consumer::decode(&value)?;
                Ok(place.insert(Loaded { consumer, is_changed: false }))
            }
        }
    }

    /// A consumer by its number.
    ///
    /// # Errors
    /// As [`Group::store`].
    pub fn consumer(&mut self, txn: &Txn<'_>, number: u32) -> Result<&Consumer> {
        Ok(&self.load(txn, number)?.consumer)
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// As [`Group::store`].
    pub fn consumer_mut(&mut self, txn: &Txn<'_>, number: u32) -> Result<&mut Consumer> {
        let loaded = self.load(txn, number)?;
        loaded.is_changed = true;
        Ok(&mut loaded.consumer)
    }

    /// The numbers of the consumers, by name.
    pub fn consumers(&self, txn: &Txn<'_>) -> impl Iterator<Item = Result<u32>> {
        let (start, end) = range(self.object, CONSUMER_NAME, &self.number.to_be_bytes());
        txn.range(Space::Elements, start..end).map(|item| Fields(&item?.1).u32())
    }

    /// Deletes a consumer and what is pending for it. Returns how many entries that were.
    ///
    /// # Errors
    /// As [`Group::store`].
    pub fn delete_consumer(&mut self, txn: &mut Txn<'_>, number: u32) -> Result<u64> {
        let consumer = self.load(txn, number)?.consumer.clone();
        let parts = [self.number.to_be_bytes(), number.to_be_bytes()].concat();
        loop {
            let ids: Vec<StreamId> = self.pending_ids(txn, number).take(256).collect::<Result<_>>()?;
            if ids.is_empty() {
                break;
            }
            for id in ids {
                self.acknowledge(txn, id)?;
            }
        }
        txn.delete(Space::Elements, &self.name_key(&consumer.name))?;
        txn.delete(Space::Elements, &key(self.object, CONSUMER, &[&parts]))?;
        self.loaded.remove(&number);
        self.consumers = self.consumers.saturating_sub(1);
        Ok(consumer.pending)
    }
}

fn delete_between(txn: &mut Txn<'_>, start: Vec<u8>, end: Vec<u8>, is_small: bool) -> Result<()> {
    if !is_small {
        return txn.delete_range(Space::Elements, start..end);
    }
    let found = txn.range(Space::Elements, start..end);
    let keys: Vec<_> = found.map(|item| Ok(item?.0)).collect::<Result<_>>()?;
    keys.iter().try_for_each(|key| txn.delete(Space::Elements, key))
}
