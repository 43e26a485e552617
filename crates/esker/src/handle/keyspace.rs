//! Keyspace handle: options, migrations and maintenance; reads and writes are in files of their own.

use super::Handle;
use super::option_update::OptionUpdate;
use esker_base::{KeyspaceId, Result};
use esker_engine::background::compact::manual;
use esker_engine::background::flush_group;
use esker_engine::background::kept_tables::KeptTables;
use esker_engine::background::migration;
use esker_engine::background::migration::MigrationInfo;
use esker_engine::lifecycle::keyspace::change;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_options::KeyspaceOptions;
use esker_view::read::KeyRange;
use std::sync::Arc;

mod reading;
mod writing;

/// A named, ordered map from keys to values inside a database.
#[doc(alias = "column family")]
#[derive(Clone, Debug)]
#[doc(alias = "ColumnFamily")]
#[doc(alias = "ColumnFamilyHandle")]
#[doc(alias = "Partition")]
#[doc(alias = "PartitionHandle")]
#[doc(alias = "Table")]
#[doc(alias = "Tree")]
#[doc(alias = "bucket")]
pub struct Keyspace {
    handle: Arc<Handle>,
    state: Arc<KeyspaceState>,
}

impl Keyspace {
    pub(crate) fn new(handle: Arc<Handle>, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { handle, state }
    }

    /// Its parts, for calls in other modules.
    pub(crate) fn parts(&self) -> (&Arc<Handle>, &Arc<KeyspaceState>) {
        (&self.handle, &self.state)
    }

    /// Its present name; [`Database::rename_keyspace`](crate::Database::rename_keyspace) changes it.
    pub fn name(&self) -> Arc<str> {
        self.state.name()
    }

    /// Its id, which is never reused.
    pub fn id(&self) -> KeyspaceId {
        self.state.id
    }

    /// Its present options.
    #[doc(alias = "GetOptions")]
    #[doc(alias = "GetDescriptor")]
    pub fn options(&self) -> KeyspaceOptions {
        self.state.options().without_switch()
    }

    /// Changes its options: `change` gets the present ones and returns the new ones. Durable when it returns.
    /// Every option may be changed. The sizes at which a memtable is sealed and the limit of level 0 apply
    /// from the next write on; the kind of memtable to the next memtable; everything else to tables, and
    /// plans of compactions, that are made from now on. Existing tables stay as they are until a compaction
    /// rewrites them: the answer says which of the changed options they keep, and how many tables of how many
    /// bytes that are, and so does the log. An `index_type` that is made in memory holds as soon as a table
    /// is opened; `b-tree-pages` and `hash-locator` must have been written with the table.
    ///
    /// O(tables).
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let events = db.keyspace("events")?;
    /// let kept = events.update_options(|options| options.block_size(16 << 10).level0_stop_runs(40))?;
    /// if !kept.is_empty() {
    ///     println!("{kept}"); // 12 tables of 402653184 bytes keep their block_size until they are merged
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// `change` may be called again if another thread changes options at the same time. It must not change
    /// the options of the same keyspace itself.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option, for one out of range; nothing is changed then. `InvalidArgument`
    /// for a call inside of `change`. `NotFound` if the keyspace was dropped, `ReadOnly`, `Closed`.
    #[doc(alias = "SetOptions")]
    #[doc(alias = "DisableAutoCompactions")]
    pub fn update_options(&self, change: impl Fn(KeyspaceOptions) -> KeyspaceOptions) -> Result<KeptTables> {
        let _update = OptionUpdate::begin(&self.state)?;
        loop {
            let before = self.state.options();
            let after = change(before.without_switch());
            if let Some(kept) = change::replace_options(&self.handle.store, &self.state, &before, after)? {
                return Ok(kept);
            }
        }
    }

    /// The progress of a change of strategy: `None` when it is finished, or if nothing had to be rewritten.
    ///
    /// The strategy and its size ratio may be changed at any time, by [`Keyspace::update_options`]. Reads and
    /// writes continue; existing data is rewritten step by step, in jobs of limited size, at lower priority
    /// than the work that writes need. The change is durable and continues after a reopen. To revert it, set
    /// the previous strategy; data that was rewritten stays legal.
    ///
    /// O(tables).
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let events = db.keyspace("events")?;
    /// events.update_options(|options| options.set("strategy", "leveled:10").expect("a strategy"))?;
    /// if let Some(migration) = events.migration() {
    ///     println!("from {} to {}: {} %", migration.from, migration.to, migration.percent_done());
    /// }
    /// events.pause_migration()?;
    /// # Ok(()) }
    /// ```
    pub fn migration(&self) -> Option<MigrationInfo> {
        migration::migration(&self.handle.store, &self.state)
    }

    /// Pauses the migration of the tree, except for work that writes need. Durable; nothing happens if there
    /// is no migration.
    ///
    /// # Errors
    /// `NotFound` if the keyspace was dropped, `ReadOnly`, `Closed`, and those of writing the manifest.
    pub fn pause_migration(&self) -> Result<()> {
        migration::pause_migration(&self.handle.store, &self.state, true)
    }

    /// Resumes a paused migration.
    ///
    /// # Errors
    /// As [`Keyspace::pause_migration`].
    pub fn resume_migration(&self) -> Result<()> {
        migration::pause_migration(&self.handle.store, &self.state, false)
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    pub(crate) fn state(&self) -> &Arc<KeyspaceState> {
        &self.state
    }

    /// Writes the memtables to tables.
    #[doc(alias = "FlushMemTable")]
    #[doc(alias = "rotate_memtable")]
    pub fn flush(&self) -> Result<()> {
        flush_group::flush_keyspaces(&self.handle.store, &[Arc::clone(&self.state)])?;
        self.state.check_living()
    }

    /// Merges everything in a range of keys into the last level, and waits until it is done. Overwritten
    /// versions and deletes that no snapshot needs are dropped.
    #[doc(alias = "CompactRange")]
    #[doc(alias = "major_compaction")]
    pub fn compact(&self, range: impl KeyRange) -> Result<()> {
        manual::compact_range(&self.handle.store, &self.state, &range.into_bounds())
    }
}
