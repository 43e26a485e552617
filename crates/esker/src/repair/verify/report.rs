//! Options and report of the verification of a directory.

use crate::repair::compare::Comparison;
use crate::repair::finding::Finding;
use esker_env::Env;
use std::path::PathBuf;

/// How [`verify_directory`](super::verify_directory) works.
#[derive(Clone, Debug)]
#[must_use]
pub struct VerifyOptions {
    pub(crate) env: Env,
    pub(crate) against: Option<PathBuf>,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { env: Env::real(), against: None }
    }
}

impl VerifyOptions {
    /// Nothing but the directory itself.
    pub fn new() -> VerifyOptions {
        VerifyOptions::default()
    }

    /// Also compares every table and blob file with the file of the same identity in this directory of
    /// backups, checkpoint or other copy.
    pub fn against(mut self, dir: impl Into<PathBuf>) -> VerifyOptions {
        self.against = Some(dir.into());
        self
    }

    /// The environment. Default: the real one.
    pub fn env(mut self, env: Env) -> VerifyOptions {
        self.env = env;
        self
    }
}

/// What [`verify_directory`](super::verify_directory) found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DirectoryReport {
    /// Tables that were read, damaged ones included.
    pub tables: u64,
    /// Blocks of whole tables.
    pub blocks: u64,
    /// Entries that can be read.
    pub entries: u64,
    /// Range tombstones of whole tables.
    pub range_deletes: u64,
    /// Blob files that were read.
    pub blob_files: u64,
    /// Large values that can be read, garbage included.
    pub blob_values: u64,
    /// Pointers that were followed to a value.
    pub pointers: u64,
    /// Records of the log that are not in tables yet.
    pub log_records: u64,
    /// Bytes of tables and blob files.
    pub bytes: u64,
    /// All damage.
    pub damage: Vec<Finding>,
    /// What is unusual and no damage, as sentences.
    pub notes: Vec<String>,
    /// How the files compare with those of the other directory, if one was given.
    pub comparison: Option<Comparison>,
}

impl DirectoryReport {
    /// Whether no damage was found, here or in the comparison.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.comparison.as_ref().is_none_or(|other| other.differing.is_empty())
    }
}
