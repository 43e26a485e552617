//! Migration of a keyspace to another strategy, from begin to end.
//!
//! Changing the strategy, or its size ratio, is a change of options like any other: one edit of the manifest.
//! If the tree is not in the new strategy's form, the same edit records where old files end
//! ([`MigrationRecord`]); from then on the planner migrates them in the background
//! ([`esker_strategy::migration`]), and writers are not throttled by runs that were there before. When
//! nothing old is out of form, another edit removes the record. So a migration continues after a crash or a
//! reopen, can be paused, which is stored likewise, and reverted by changing the strategy again, at any
//! moment.

use crate::background::install_options;
use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::store::{Store, Writing};
use esker_base::Result;
use esker_options::{KeyspaceOptions, MigrationRecord};
use esker_strategy::{Shape, Strategy};
use esker_view::tree::Tree;
use std::sync::Arc;

/// The progress of a keyspace's migration; see `Keyspace::migration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationInfo {
    /// The strategy before.
    pub from: Strategy,
    /// The present strategy.
    pub to: Strategy,
    /// Bytes of tables that were not in the new strategy's form at the change.
    pub bytes_at_switch: u64,
    /// How many of these are left.
    pub bytes_left: u64,
    /// Whether it is paused.
    pub is_paused: bool,
}

impl MigrationInfo {
    /// The progress from 0 to 100.
    pub fn percent_done(&self) -> u64 {
        let done = self.bytes_at_switch.saturating_sub(self.bytes_left);
        (u128::from(done) * 100 / u128::from(self.bytes_at_switch.max(1))) as u64
    }
}

/// The options to store for a requested change from `before` to `after`: a change of strategy is
/// recorded, and users cannot set the record. The caller holds the manifest's lock.
pub(crate) fn with_switch(
    store: &Store,
    writing: &Writing,
    keyspace: &KeyspaceState,
    before: &KeyspaceOptions,
    after: KeyspaceOptions,
) -> KeyspaceOptions {
    if before.strategy == after.strategy {
        return KeyspaceOptions { switch: before.switch.clone(), ..after };
    }
    let (first_new, _) = writing.tables.counters();
    let switch = MigrationRecord { from: before.strategy, first_new, bytes: 0, is_paused: false };
    let after = KeyspaceOptions { switch: Some(switch), ..after };
    let bytes = misplaced_bytes(store, &keyspace.view.load().tree, &after);
    let switch = after.switch.clone().filter(|_| bytes > 0).map(|switch| MigrationRecord { bytes, ..switch });
    KeyspaceOptions { switch, ..after }
}

/// Bytes that would be out of form after a change of options.
pub fn bytes_to_migrate(
    store: &Store,
    keyspace: &KeyspaceState,
    before: &KeyspaceOptions,
    after: KeyspaceOptions,
) -> u64 {
    let Ok(writing) = store.writing() else { return 0 };
    let (first_new, _) = writing.tables.counters();
    let switch = MigrationRecord { from: before.strategy, first_new, bytes: 0, is_paused: false };
    let after = KeyspaceOptions { switch: Some(switch), ..after };
    if before.strategy == after.strategy {
        return 0;
    }
    misplaced_bytes(store, &keyspace.view.load().tree, &after)
}

/// Bytes of old files that are not in the form of the strategy.
fn misplaced_bytes(store: &Store, tree: &Tree, options: &KeyspaceOptions) -> u64 {
    let shape = Shape { migration: options.migration(), ..shape::shape(store, tree, &[]) };
    options.strategy.misplaced_bytes(&shape, &shape::strategy_options(store, options))
}

/// The migration of a keyspace, if there is one.
pub fn migration(store: &Store, keyspace: &KeyspaceState) -> Option<MigrationInfo> {
    let options = keyspace.options();
    let switch = options.switch.as_ref()?;
    let bytes_left = misplaced_bytes(store, &keyspace.view.load().tree, &options);
    // With none left it has ended, which the next check records.
    (bytes_left > 0).then(|| MigrationInfo {
        from: switch.from,
        to: options.strategy,
        // Runs of level 0 may become out of form through later ones.
        bytes_at_switch: switch.bytes.max(bytes_left),
        bytes_left,
        is_paused: switch.is_paused,
    })
}

/// Pauses or resumes the migration of a keyspace; nothing if there is none.
pub fn pause_migration(store: &Store, keyspace: &KeyspaceState, is_paused: bool) -> Result<()> {
    loop {
        let before = keyspace.options();
        let Some(switch) = before.switch.clone().filter(|switch| switch.is_paused != is_paused) else {
            return Ok(());
        };
        let switch = Some(MigrationRecord { is_paused, ..switch });
        if install_options::change_options(store, keyspace, &before, |_| KeyspaceOptions {
            switch,
            ..KeyspaceOptions::clone(&before)
        })?
        .is_some()
        {
            return Ok(());
        }
    }
}

/// Records the end of finished migrations. Called by the compaction worker, which has done the last step.
pub(crate) fn end_migrations(store: &Store, keyspaces: &[Arc<KeyspaceState>]) -> Result<()> {
    for keyspace in keyspaces {
        let before = keyspace.options();
        if before.switch.is_none() || misplaced_bytes(store, &keyspace.view.load().tree, &before) > 0 {
            continue;
        }
        // If the options are changed concurrently, the next check does it.
        if install_options::change_options(store, keyspace, &before, |_| before.without_switch())?.is_some() {
            let (name, strategy) = (keyspace.name(), before.strategy);
            tracing::info!(keyspace = %name, %strategy, "the tree has the form of its new strategy");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_records_read_back() {
        for text in ["leveled:10 120 4096 running", "fifo:1GiB,7d 1 18446744073709551615 paused"] {
            assert_eq!(text.parse::<MigrationRecord>().unwrap().to_string(), text);
        }
        for text in ["", "none", "leveled:10 120 4096", "leveled:10 120 4096 done", "leveled 1 2 3 running"] {
            assert!(text.parse::<MigrationRecord>().is_err(), "{text}");
        }
    }

    #[test]
    fn progress_is_a_share_of_what_there_was() {
        let strategy = Strategy::default();
        let info = |bytes_at_switch, bytes_left| MigrationInfo {
            from: strategy,
            to: strategy,
            bytes_at_switch,
            bytes_left,
            is_paused: false,
        };
        assert_eq!([info(200, 50), info(200, 200), info(0, 0)].map(|info| info.percent_done()), [75, 0, 0]);
        assert_eq!(info(u64::MAX, 0).percent_done(), 100);
    }
}
