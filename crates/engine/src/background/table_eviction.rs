//! Table cache eviction: the step of the log worker that closes unused tables and keeps the number of open
//! tables near its limit.
//!
//! [`esker_view::tree`] chooses what is closed; this file publishes trees without references to closed
//! tables.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use crate::write::memory_arbiter;
use esker_view::SuperVersion;
use esker_view::tree::{Closed, FileIdentity};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Closes cold tables if too many are open, or too large ones for the memory that they may have now.
pub(crate) fn close_cold_tables(store: &Store) {
    memory_arbiter::limit_open_tables(store);
    let mut cold = store.files.choose_cold();
    if cold.is_empty() {
        return;
    }
    cold.sort_by_key(|file| file.keyspace());
    for of_one in cold.chunk_by(|left, right| left.keyspace() == right.keyspace()) {
        match store.keyspace_with_id(of_one[0].keyspace()) {
            Some(keyspace) => close_tables(store, &keyspace, of_one),
            // Dropped: no tree is published again, and an old one keeps its tables open.
            None => count_closed(store, &close_all(of_one)),
        }
    }
    memory_arbiter::rebalance_memory(store);
}

fn close_tables(store: &Store, keyspace: &KeyspaceState, cold: &[Arc<FileIdentity>]) {
    // OT5: an install that has built its tree from the old files publishes it before, or builds it after.
    let publishing = keyspace.publication.lock();
    let closed = close_all(cold);
    if closed.iter().any(|closed| closed.fresh.is_some()) {
        let tree = Arc::new(keyspace.view.load().tree.renewed());
        keyspace.view.update(|view| SuperVersion { tree, ..view.clone() });
    }
    drop(publishing);
    count_closed(store, &closed);
}

fn count_closed(store: &Store, closed: &[Closed]) {
    store.counters.tables_closed.fetch_add(closed.len() as u64, Ordering::Relaxed);
}

fn close_all(cold: &[Arc<FileIdentity>]) -> Vec<Closed> {
    cold.iter().filter_map(|file| file.close()).collect()
}
