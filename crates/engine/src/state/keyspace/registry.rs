//! The registry of living keyspaces, ordered by id and indexed by name.
//!
//! Background work iterates over all keyspaces several times for each flush, so taking the list must not cost
//! a reference count for each of a thousand: the list is one shared slice, replaced when a keyspace is added
//! or removed, which is rare.

use super::KeyspaceState;
use std::collections::HashMap;
use std::sync::Arc;

/// The living keyspaces.
#[derive(Debug, Default)]
pub struct Registry {
    by_id: Arc<[Arc<KeyspaceState>]>,
    by_name: HashMap<Arc<str>, Arc<KeyspaceState>, foldhash::fast::RandomState>,
}

impl Registry {
    /// A registry of these keyspaces, given in the order of their ids.
    pub fn new(keyspaces: Vec<Arc<KeyspaceState>>) -> Registry {
        let by_name = keyspaces.iter().map(|keyspace| (keyspace.name(), Arc::clone(keyspace))).collect();
        Registry { by_id: keyspaces.into(), by_name }
    }

    /// All keyspaces, by id.
    pub fn all(&self) -> Arc<[Arc<KeyspaceState>]> {
        Arc::clone(&self.by_id)
    }

    /// The keyspace of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<KeyspaceState>> {
        self.by_name.get(name)
    }

    /// Adds a keyspace whose id is above all others.
    pub fn add(&mut self, keyspace: &Arc<KeyspaceState>) {
        self.by_id = self.by_id.iter().chain([keyspace]).cloned().collect();
        self.by_name.insert(keyspace.name(), Arc::clone(keyspace));
    }

    /// Removes a keyspace.
    pub fn remove(&mut self, keyspace: &KeyspaceState) {
        self.by_id = self.by_id.iter().filter(|other| other.id != keyspace.id).cloned().collect();
        self.by_name.remove(&*keyspace.name());
    }

    /// Renames a keyspace here and in its state at once, so that no two have the same name.
    pub fn rename(&mut self, keyspace: &KeyspaceState, to: &Arc<str>) {
        if let Some(state) = self.by_name.remove(&*keyspace.name()) {
            state.definition.rename(to);
            self.by_name.insert(Arc::clone(to), state);
        }
    }
}
