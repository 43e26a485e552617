//! Table cache eviction: the step of the log worker that closes unused tables and keeps the number of open
//! tables near its limit.
//!
//! [`esker_view::tree`] chooses what is closed; this file publishes trees without references to closed tables.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_view::SuperVersion;
use esker_view::tree::{Closed, FileIdentity};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Store {
    /// Closes cold tables if too many are open.
    pub fn close_cold_tables(&self) {
        let mut cold = self.files.choose_cold();
        if cold.is_empty() {
            return;
        }
        cold.sort_by_key(|file| file.keyspace());
        let keyspaces = self.all_keyspaces();
        for of_one in cold.chunk_by(|left, right| left.keyspace() == right.keyspace()) {
            match keyspaces.iter().find(|keyspace| keyspace.id == of_one[0].keyspace()) {
                Some(keyspace) => self.close_tables(keyspace, of_one),
                // Dropped: no tree is published again, and an old one keeps its tables open.
                None => self.count_closed(&close_all(of_one)),
            }
        }
        self.rebalance_memory();
    }

    fn close_tables(&self, keyspace: &KeyspaceState, cold: &[Arc<FileIdentity>]) {
        // OT5: an install that has built its tree from the old files publishes it before, or builds it after.
        let publishing = keyspace.publishing.lock();
        let closed = close_all(cold);
        if closed.iter().any(|closed| closed.fresh.is_some()) {
            let tree = Arc::new(keyspace.view.load().tree.renewed());
            keyspace.view.update(|view| SuperVersion { tree, ..view.clone() });
        }
        drop(publishing);
        self.count_closed(&closed);
    }

    fn count_closed(&self, closed: &[Closed]) {
        self.counters.tables_closed.fetch_add(closed.len() as u64, Ordering::Relaxed);
    }
}

fn close_all(cold: &[Arc<FileIdentity>]) -> Vec<Closed> {
    cold.iter().filter_map(|file| file.close()).collect()
}
