//! The registry of living keyspaces, ordered by id and indexed by name.
//!
//! Background work iterates over all keyspaces, so taking the list must not cost a reference count for each
//! of a thousand: the list is shared. Adding a keyspace appends to it in place where no caller holds it, so
//! that creating thousands is linear in their number; otherwise, and for a removal, it is copied.

use super::KeyspaceState;
use esker_base::KeyspaceId;
use std::collections::HashMap;
use std::sync::Arc;

/// The living keyspaces.
#[derive(Debug, Default)]
pub struct Registry {
    by_id: Arc<Vec<Arc<KeyspaceState>>>,
    by_name: HashMap<Arc<str>, Arc<KeyspaceState>, foldhash::fast::RandomState>,
}

impl Registry {
    /// A registry of these keyspaces, given in the order of their ids.
    pub fn new(keyspaces: Vec<Arc<KeyspaceState>>) -> Registry {
        let by_name = keyspaces.iter().map(|keyspace| (keyspace.name(), Arc::clone(keyspace))).collect();
        Registry { by_id: Arc::new(keyspaces), by_name }
    }

    /// All keyspaces, by id.
    pub fn all(&self) -> Arc<Vec<Arc<KeyspaceState>>> {
        Arc::clone(&self.by_id)
    }

    /// The keyspace with this id. O(log keyspaces).
    pub fn with_id(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceState>> {
        let at = self.by_id.binary_search_by_key(&id, |keyspace| keyspace.id).ok()?;
        self.by_id.get(at)
    }

    /// The keyspace of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<KeyspaceState>> {
        self.by_name.get(name)
    }

    /// Adds a keyspace whose id is above all others.
    pub fn add(&mut self, keyspace: &Arc<KeyspaceState>) {
        Arc::make_mut(&mut self.by_id).push(Arc::clone(keyspace));
        self.by_name.insert(keyspace.name(), Arc::clone(keyspace));
    }

    /// Removes a keyspace.
    pub fn remove(&mut self, keyspace: &KeyspaceState) {
        Arc::make_mut(&mut self.by_id).retain(|other| other.id != keyspace.id);
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
