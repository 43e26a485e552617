//! The keyspaces of a database state, by id and by name.
//!
//! A name is looked up for every keyspace that is created or renamed. A search through all of them would make
//! creating, and reading a manifest with the edits of it, quadratic in their number.

use crate::figures::KeyspaceFigures;
use crate::range::Key;
use crate::version::{LevelIndex, Version};
use esker_base::{KeyspaceId, SeqNo};
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

/// One keyspace of a [`crate::DatabaseState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceState {
    /// Its id.
    pub id: KeyspaceId,
    /// Its name.
    pub name: Arc<str>,
    /// Its options as the engine encodes them.
    pub options: Arc<[u8]>,
    /// Its tree.
    pub version: Arc<Version>,
    /// All its entries up to this are in parts: replay of the log skips them.
    pub flushed_seqno: SeqNo,
    /// Where compaction stopped, by level.
    pub cursors: BTreeMap<LevelIndex, Key>,
    /// Its figures, as they were recorded last; `None` if they never were.
    pub figures: Option<Arc<KeyspaceFigures>>,
}

/// Keyspaces in the order of their ids, with an index of their names. Names are unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyspaces {
    by_id: BTreeMap<KeyspaceId, KeyspaceState>,
    ids: BTreeMap<Arc<str>, KeyspaceId>,
}

impl Keyspaces {
    /// The keyspace with this id.
    pub fn get(&self, id: &KeyspaceId) -> Option<&KeyspaceState> {
        self.by_id.get(id)
    }

    /// The keyspace with this id, to change anything but its name.
    pub(crate) fn get_mut(&mut self, id: KeyspaceId) -> Option<&mut KeyspaceState> {
        self.by_id.get_mut(&id)
    }

    /// The keyspace with this name.
    pub fn named(&self, name: &str) -> Option<&KeyspaceState> {
        self.by_id.get(self.ids.get(name)?)
    }

    /// Whether there is a keyspace with this id.
    pub fn contains_key(&self, id: &KeyspaceId) -> bool {
        self.by_id.contains_key(id)
    }

    /// All keyspaces, by id.
    pub fn values(&self) -> impl Iterator<Item = &KeyspaceState> {
        self.by_id.values()
    }

    /// All keyspaces with their ids, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyspaceId, &KeyspaceState)> {
        self.by_id.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds a keyspace, whose name is free, or replaces the one with its id and name.
    pub(crate) fn insert(&mut self, keyspace: KeyspaceState) {
        self.ids.insert(Arc::clone(&keyspace.name), keyspace.id);
        self.by_id.insert(keyspace.id, keyspace);
        debug_assert_eq!(self.ids.len(), self.by_id.len(), "a name of two keyspaces");
    }

    /// Removes a keyspace.
    pub(crate) fn remove(&mut self, id: KeyspaceId) -> Option<KeyspaceState> {
        let removed = self.by_id.remove(&id)?;
        self.ids.remove(&removed.name);
        Some(removed)
    }
}

impl Index<&KeyspaceId> for Keyspaces {
    type Output = KeyspaceState;

    /// # Panics
    /// If there is no such keyspace.
    fn index(&self, id: &KeyspaceId) -> &KeyspaceState {
        &self.by_id[id]
    }
}
