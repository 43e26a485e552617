//! Stored options of keyspaces: decoded from the manifest, with what cannot be stored supplied by the caller.

use super::Opening;
use esker_base::{Error, KeyspaceId, Result};
use esker_options::{DEFAULT_KEYSPACE, KeyspaceOptions};
use esker_version::DatabaseState;
use std::collections::BTreeMap;

impl Opening {
    /// The options of every keyspace, checked before they are used.
    pub(super) fn all_stored_options(
        &self,
        state: &DatabaseState,
    ) -> Result<BTreeMap<KeyspaceId, KeyspaceOptions>> {
        state.keyspaces.iter().map(|(id, stored)| Ok((*id, self.stored_options(stored)?))).collect()
    }

    /// The stored options of a keyspace, with a user-defined merge operator attached.
    pub(super) fn stored_options(&self, stored: &esker_version::KeyspaceState) -> Result<KeyspaceOptions> {
        let options = KeyspaceOptions::decode(&stored.options).map_err(|error| match error {
            Error::Unsupported(detail) => {
                Error::Unsupported(format!("keyspace {:?}: {detail}", stored.name).into())
            }
            other => other.in_keyspace(&stored.name),
        })?;
        let mut options = self.options.supply(options);
        if !self.options.allow_missing_operators {
            options.check_supplied(&stored.name)?;
        }
        if &*stored.name == DEFAULT_KEYSPACE {
            options.check_operator_is(&self.options.keyspace, &stored.name)?;
            options.compaction_filter.clone_from(&self.options.keyspace.compaction_filter);
        }
        Ok(options)
    }
}
