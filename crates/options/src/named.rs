//! Options of keyspaces by name, given before the keyspaces exist.

use super::{KeyspaceOptions, Options, Preset};
use crate::DEFAULT_KEYSPACE;
use esker_base::Result;
use std::collections::BTreeMap;

/// Settings of keyspaces by name: for each, options and values in the order in which they were given.
///
/// They are kept as text and not as [`KeyspaceOptions`], because options that were not given must not change
/// in an existing keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedKeyspaces(BTreeMap<String, Settings>);

type Settings = Vec<(String, String)>;

impl NamedKeyspaces {
    /// Names and settings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[(String, String)])> {
        self.0.iter().map(|(name, settings)| (name.as_str(), settings.as_slice()))
    }

    /// The settings of a keyspace, which may be empty.
    pub(super) fn mention(&mut self, keyspace: &str) -> &mut Settings {
        self.0.entry(keyspace.to_owned()).or_default()
    }

    /// `options` with the settings of the keyspace.
    pub fn applied(&self, keyspace: &str, options: KeyspaceOptions) -> Result<KeyspaceOptions> {
        let settings = self.0.get(keyspace).map_or(&[][..], Vec::as_slice);
        let set = |options: KeyspaceOptions, (name, value): &(String, String)| options.set(name, value);
        settings.iter().try_fold(options, set)
    }
}

impl Options {
    /// Sets an option of one keyspace from text, as [`KeyspaceOptions::set`] does.
    ///
    /// It applies when `Database::keyspace` creates the keyspace, on top of
    /// [`Options::keyspace_options`]. An existing keyspace is changed when the database is opened, and
    /// options that are not given stay as they are stored; a read-only database is not changed.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// let options = esker_options::Options::default().set_keyspace("events", "default_ttl", "30d")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`KeyspaceOptions::set`]. Opening fails if the keyspace cannot be changed so.
    pub fn set_keyspace(mut self, keyspace: &str, name: &str, value: &str) -> Result<Options> {
        let _is_refused_now = self.named.applied(keyspace, KeyspaceOptions::default())?.set(name, value)?;
        let settings = self.named.mention(keyspace);
        settings.retain(|(earlier, _)| earlier != name);
        settings.push((name.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// Applies a preset's keyspace settings to one keyspace.
    pub(super) fn preset_keyspace(mut self, keyspace: &str, preset: &Preset) -> Result<Options> {
        for (name, value) in preset.keyspace_settings() {
            self = self.set_keyspace(keyspace, &name, &value)?;
        }
        Ok(self)
    }

    /// The options with which the default keyspace is created.
    pub fn default_keyspace(&self) -> Result<KeyspaceOptions> {
        self.named.applied(DEFAULT_KEYSPACE, self.keyspace.clone())
    }
}
