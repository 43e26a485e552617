//! The changes of a transaction before they are written: the last one of each key, found by a hash table.
//!
//! All lies in three buffers that are used again, so that a change allocates nothing. Ranges are rare between
//! changes: what is read or deleted by range goes on as an [`IndexedBatch`], which keeps keys in order.
//!
//! What holds:
//! * CH1. Either all changes are in the table, or all are in the indexed batch.

use crate::layout::Space;
use crate::store::Store;
use esker::{Error, IndexedBatch, KeyRange, Result, WriteBatch};
use std::cell::OnceCell;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The longest key and value of the engine.
const MAX_KEY_BYTES: usize = 65_535;
const MAX_VALUE_BYTES: usize = 512 << 20;

/// Bytes that a buffer keeps for the next changes. A group has at most a mebibyte of changes, but for one
/// large command.
const KEPT_BYTES: usize = 2 << 20;

/// Slots of the table at first, and the most that are kept: a group has 256 commands.
const FIRST_SLOTS: usize = 64;
const KEPT_SLOTS: usize = 1024;

fn bit_of(space: Space) -> u8 {
    1 << space as u8
}

/// The last change of a key.
#[derive(Clone, Copy, Debug)]
struct Change {
    hash: u64,
    space: Space,
    /// Where key and value lie in the bytes.
    key: (usize, usize),
    value: Option<(usize, usize)>,
}

/// Changes that are not written yet.
#[derive(Debug)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    /// In the order of the keys' first changes.
    changes: Vec<Change>,
    /// Places in `changes`, plus one; zero is free. At most half of it is used.
    table: Vec<u32>,
    /// The keyspaces of the changes in the table, as bits.
    spaces: u8,
    seed: u64,
    indexed: OnceCell<IndexedBatch>,
    /// Stays without changes.
    nothing: IndexedBatch,
}

impl Changes {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            bytes: Vec::new(),
            changes: Vec::new(),
            table: vec![0; FIRST_SLOTS],
            spaces: 0,
            // Clients must not be able to choose keys that meet.
            seed: store.hash_seed(),
            indexed: OnceCell::new(),
            nothing: store.database().indexed_batch(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.indexed.get().is_none_or(IndexedBatch::is_empty)
    }

    /// Bytes of memory that the changes take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let indexed = self.indexed.get().map_or(0, IndexedBatch::memory_bytes);
        (self.bytes.len() + self.changes.len() * size_of::<Change>()) as u64 + indexed
    }

    /// The changes by their order, if they are kept so.
    pub(crate) fn indexed(&self) -> Option<&IndexedBatch> {
        self.indexed.get()
    }

    /// Whether a keyspace has none, surely.
    pub(crate) fn leave_alone(&self, space: Space) -> bool {
        self.indexed.get().is_none() && self.spaces & bit_of(space) == 0
    }

    /// The changes by their order, for a range of a keyspace.
    pub(crate) fn ordered(&self, store: &Store, space: Space) -> &IndexedBatch {
        match self.indexed.get() {
            None if self.spaces & bit_of(space) == 0 => &self.nothing,
            _ => self.indexed.get_or_init(|| self.to_indexed(store)),
        }
    }

    fn to_indexed(&self, store: &Store) -> IndexedBatch {
        let mut indexed = store.database().indexed_batch();
        for change in &self.changes {
            let (space, key) = (store.space(change.space), self.slice(change.key));
            let done = match change.value {
                Some(value) => indexed.put(space, key, self.slice(value)),
                None => indexed.delete(space, key),
            };
            debug_assert!(done.is_ok(), "sizes were checked when the change was made");
        }
        indexed
    }

    /// What the changes say of a key: nothing, that it was deleted, or its value. Not for indexed ones.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.changes.is_empty() {
            return None;
        }
        let (_, place) = self.find(self.hash(space, key), space, key);
        let change = &self.changes[place?];
        Some(change.value.map(|value| self.slice(value)))
    }

    /// Sets or deletes a key.
    pub(crate) fn set(
        &mut self,
        store: &Store,
        space: Space,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let value_bytes = value.map_or(0, <[u8]>::len);
        if key.len() > MAX_KEY_BYTES || value_bytes > MAX_VALUE_BYTES {
            let key_bytes = key.len();
            return Err(Error::InvalidArgument(
                format!(
                    "a key of {key_bytes} bytes with a value of {value_bytes} bytes; keys have up to \
                     {MAX_KEY_BYTES} and values up to {MAX_VALUE_BYTES} bytes"
                )
                .into(),
            ));
        }
        if let Some(indexed) = self.indexed.get_mut() {
            return match value {
                Some(value) => indexed.put(store.space(space), key, value),
                None => indexed.delete(store.space(space), key),
            };
        }
        let hash = self.hash(space, key);
        let (slot, place) = self.find(hash, space, key);
        let key = match place {
            Some(place) => self.changes[place].key,
            None => self.append(key),
        };
        let value = value.map(|value| self.append(value));
        let change = Change { hash, space, key, value };
        match place {
            Some(place) => self.changes[place] = change,
            None => {
                self.changes.push(change);
                self.spaces |= bit_of(space);
                self.table[slot] = self.changes.len() as u32;
                if self.changes.len() * 2 > self.table.len() {
                    self.grow();
                }
            }
        }
        Ok(())
    }

    /// Deletes all keys of a range.
    pub(crate) fn delete_range(&mut self, store: &Store, space: Space, range: impl KeyRange) -> Result<()> {
        self.indexed.get_or_init(|| self.to_indexed(store));
        self.forget_table();
        match self.indexed.get_mut() {
            Some(indexed) => indexed.delete_range(store.space(space), range),
            None => Ok(()),
        }
    }

    /// Adds all changes to a batch, those of a keyspace one behind the other: the memtable takes neighbours
    /// of one keyspace in lockstep, so that their cache misses overlap. Each key has one change, so their
    /// order does not matter.
    pub(crate) fn add_to(&self, store: &Store, batch: &mut WriteBatch) -> Result<()> {
        if let Some(indexed) = self.indexed.get() {
            *batch = indexed.to_batch()?;
            return Ok(());
        }
        for space in Space::ALL.into_iter().filter(|space| self.spaces & bit_of(*space) != 0) {
            let keyspace = store.space(space);
            for change in self.changes.iter().filter(|change| change.space == space) {
                let key = self.slice(change.key);
                match change.value {
                    Some(value) => batch.put(keyspace, key, self.slice(value)),
                    None => batch.delete(keyspace, key),
                }
            }
        }
        Ok(())
    }

    /// Forgets all changes.
    pub(crate) fn clear(&mut self) {
        self.indexed.take();
        self.forget_table();
    }

    fn forget_table(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        self.table.fill(0);
        self.changes.clear();
        self.spaces = 0;
        self.bytes.clear();
        // A large table would be filled anew for each few changes.
        if self.bytes.capacity() > KEPT_BYTES || self.table.len() > KEPT_SLOTS {
            self.bytes = Vec::new();
            self.changes = Vec::new();
            self.table = vec![0; FIRST_SLOTS];
        }
    }

    fn hash(&self, space: Space, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed.wrapping_add(space as u64))
    }

    /// The slot of a key and its place in the changes, or the slot where it would be.
    fn find(&self, hash: u64, space: Space, key: &[u8]) -> (usize, Option<usize>) {
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let Some(place) = self.table[slot].checked_sub(1) else { return (slot, None) };
            let change = &self.changes[place as usize];
            if change.hash == hash && change.space == space && self.slice(change.key) == key {
                return (slot, Some(place as usize));
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        self.table = vec![0; self.table.len() * 2];
        let mask = self.table.len() - 1;
        for (place, change) in self.changes.iter().enumerate() {
            let mut slot = change.hash as usize & mask;
            while self.table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = place as u32 + 1;
        }
    }

    fn append(&mut self, bytes: &[u8]) -> (usize, usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (start, self.bytes.len())
    }

    fn slice(&self, (start, end): (usize, usize)) -> &[u8] {
        &self.bytes[start..end]
    }
}
