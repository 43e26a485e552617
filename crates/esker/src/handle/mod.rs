//! The handles: [`Database`], [`Keyspace`], [`Snapshot`] and its views.
//!
//! Handles are cheap to clone and may be used from any thread. The database closes when the last of them is
//! dropped, or earlier by [`Database::close`].

mod batch;
mod database;
mod durable;
mod expiring;
mod key_update;
mod keyspace;
mod merging;
mod option_update;
mod pinned;
mod sizes;
mod snapshot;
mod unwind;

pub use batch::{BatchEntry, WriteBatch};
pub use database::{Database, StepBackground};
pub use expiring::Ttl;
pub(crate) use key_update::KeyUpdate;
pub use keyspace::Keyspace;
pub(crate) use merging::no_expiry_to_keep;
pub use pinned::PinnedKeyspace;
pub use snapshot::{Snapshot, View};

use esker_engine::lifecycle::close;
use esker_engine::state::store::Store;
use std::sync::Arc;

/// Closes the database when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) store: Arc<Store>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.store.process.is_inherited() {
            // Files, maps and the lock are the parent's: nothing of them is released here.
            std::mem::forget(Arc::clone(&self.store));
            return;
        }
        if let Err(error) = close::close(&self.store) {
            tracing::error!(%error, "closing the database failed; what was acknowledged is in the log");
        }
    }
}
