//! The keyspaces that were dropped last, so that their handles get the right error.

use super::{KeyspaceState, dropped_error};
use esker_base::{Error, KeyspaceId};
use std::sync::Arc;

/// The number of dropped keyspaces the commit lock remembers by name, so that a batch built before the drop
/// is refused by name; older ones are refused by number.
const REMEMBERED_DROPS: usize = 256;

/// Names of recently dropped keyspaces, newest last.
#[derive(Debug, Default)]
pub struct RecentDrops(std::collections::VecDeque<(KeyspaceId, Arc<str>)>);

impl RecentDrops {
    pub(crate) fn note(&mut self, keyspace: &KeyspaceState) {
        if self.0.len() == REMEMBERED_DROPS {
            self.0.pop_front();
        }
        self.0.push_back((keyspace.id, keyspace.name()));
    }

    pub(crate) fn forget(&mut self, id: KeyspaceId) {
        self.0.retain(|(other, _)| *other != id);
    }

    /// The error for a missing writable side.
    pub(crate) fn why_missing(&self, id: KeyspaceId) -> Error {
        match self.0.iter().rfind(|(other, _)| *other == id) {
            Some((_, name)) => dropped_error(name),
            None => Error::NotFound(format!("keyspace number {id} was dropped").into()),
        }
    }
}
