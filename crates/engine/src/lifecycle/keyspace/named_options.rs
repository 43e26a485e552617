//! Applying the options that a database was opened with to the keyspaces that exist.

use crate::lifecycle::keyspace::change;
use crate::state::store::Store;
use esker_base::{Error, Result};
use esker_options::KeyspaceOptions;

/// Applies the settings to existing keyspaces.
pub fn apply_named_options(store: &Store) -> Result<()> {
    store.named.iter().try_for_each(|(name, _)| {
        let applied = apply_named_options_to(store, name);
        applied.map_err(|error| match error {
            Error::InvalidArgument(text) => {
                Error::invalid(format!("options of keyspace {name:?} cannot be applied: {text}"))
            }
            other => other,
        })
    })
}

fn apply_named_options_to(store: &Store, name: &str) -> Result<()> {
    let Some(keyspace) = store.find_keyspace(name) else { return Ok(()) };
    loop {
        let before = keyspace.options();
        let mut after = store.named.applied(name, KeyspaceOptions::clone(&before))?;
        if after.merge_operator == before.merge_operator {
            // Operators are equal by name; this one may have its function.
            after.merge_operator.clone_from(&before.merge_operator);
        }
        if after == *before {
            return Ok(());
        }
        if store.writing.is_none() {
            tracing::warn!(
                keyspace = name,
                "options differ from those given and are not changed: the database is read-only"
            );
            return Ok(());
        }
        if change::replace_options(store, &keyspace, &before, after)?.is_some() {
            tracing::info!(keyspace = name, "options changed to those given");
            return Ok(());
        }
    }
}
