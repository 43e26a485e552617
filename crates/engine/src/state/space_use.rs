//! The space that a keyspace takes, for its space target.

use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::store::Store;
use esker_strategy::{BlobSpace, SpaceBudget, base_bytes};

/// The space used by each component.
#[derive(Clone, Copy, Debug)]
pub struct SpaceUse {
    /// Live data, estimated from below.
    pub live_bytes: u64,
    /// Whether merges into the oldest run have measured the live data; before the first, everything may be
    /// alive.
    pub is_measured: bool,
    /// Tables.
    pub table_bytes: u64,
    /// Blob files.
    pub blob_bytes: u64,
    /// The most that running jobs may write.
    pub running_bytes: u64,
    /// Replaced tables that readers hold.
    pub held_bytes: u64,
}

impl SpaceUse {
    /// All that counts against a space target.
    pub fn used_bytes(&self) -> u64 {
        self.table_bytes + self.blob_bytes + self.running_bytes + self.held_bytes
    }
}

/// The space used by each component; `None` without a target.
pub fn space_use_of(store: &Store, keyspace: &KeyspaceState) -> Option<SpaceUse> {
    let options = keyspace.options();
    options.max_space_amp_permille?;
    let running_bytes = keyspace.jobs.busy.lock().jobs().map(|job| job.est_out_bytes).sum();
    let view = keyspace.view.load();
    let version = &view.tree.version;
    let base_bytes = base_bytes(version);
    let allowance = SpaceBudget::new(&shape::strategy_options(store, &options), base_bytes)?;
    let blobs = BlobSpace::of(version);
    Some(SpaceUse {
        live_bytes: allowance.live_bytes + blobs.live_bytes,
        is_measured: keyspace.jobs.traffic.book().overwritten_share().is_some(),
        table_bytes: version.bytes(),
        blob_bytes: blobs.total_bytes,
        running_bytes,
        held_bytes: store.files.held_bytes(keyspace.id),
    })
}
