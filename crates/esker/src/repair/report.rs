//! What a repair reports: what was kept, what is lost, and what is doubtful.

use super::finding::{Finding, KeySpan};
use esker_base::SeqNo;
use std::fmt;
use std::path::PathBuf;

/// What told the repair which files count, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairBasis {
    /// A whole manifest: exactly the tables that counted, in their places.
    Manifest {
        /// The file.
        file: PathBuf,
    },
    /// A manifest that lost its last edits. Tables of before and after them were merged by sequence number.
    EarlierManifest {
        /// The file.
        file: PathBuf,
        /// The number of the last readable edit.
        last_edit: u64,
    },
    /// No manifest. All tables were merged by sequence number, and keyspaces were named by their numbers.
    #[default]
    Files,
}

/// A keyspace of the repaired database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedKeyspace {
    /// Its name.
    pub name: String,
    /// Whether the name was made up, because the real one is lost.
    pub is_name_lost: bool,
    /// Whether the options are the defaults, because the real ones are lost.
    pub are_options_lost: bool,
    /// Tables of the repaired database.
    pub tables: u64,
    /// Entries in them: versions and tombstones count.
    pub entries: u64,
    /// Blob files of the repaired database.
    pub blob_files: u64,
}

/// Entries that are not in the repaired database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRange {
    /// Where they were: file, keyspace, keys, an upper bound of their number, what happened, what it means.
    pub finding: Finding,
    /// Their sequence numbers, where these are known instead of the keys: the first and the last.
    pub seqnos: Option<(SeqNo, Option<SeqNo>)>,
}

impl LostRange {
    /// Whether a write of this keyspace, key and sequence number may be among the lost ones.
    pub fn may_hold(&self, keyspace: &str, key: &[u8], seqno: SeqNo) -> bool {
        let finding = &self.finding;
        finding.keyspace.as_deref().is_none_or(|own| own == keyspace)
            && finding.keys.as_ref().is_none_or(|keys| keys.contains(key))
            && self.seqnos.is_none_or(|(first, last)| first <= seqno && last.is_none_or(|last| seqno <= last))
    }
}

/// Keys whose values are in the repaired database and may not be the last ones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doubt {
    /// The keyspace.
    pub keyspace: String,
    /// The keys.
    pub keys: KeySpan,
    /// Why, as a sentence.
    pub why: String,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keyspace {:?}, {}: {}", self.keyspace, self.keys, self.why)
    }
}

/// The result of [`super::repair_directory`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// What the repair relied on.
    pub basis: RepairBasis,
    /// The keyspaces of the repaired database.
    pub keyspaces: Vec<RepairedKeyspace>,
    /// Table and blob files that were whole and are part of the repaired database unchanged.
    pub kept_files: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Tables that were written anew from what could be read.
    pub written_tables: u64,
    /// Records of the log that were replayed.
    pub log_records: u64,
    /// Files that were taken from the copy.
    pub refilled: Vec<PathBuf>,
    /// Damaged or missing files that the copy does not have.
    pub not_in_copy: Vec<PathBuf>,
    /// Everything up to this sequence number is in the repaired database, but for what is lost.
    pub seqno: SeqNo,
    /// What is lost.
    pub lost: Vec<LostRange>,
    /// What is doubtful.
    pub doubtful: Vec<Doubt>,
    /// What else is to be known, as sentences.
    pub notes: Vec<String>,
}

impl RepairReport {
    /// Whether every write is in the repaired database, and nothing is doubtful.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.doubtful.is_empty()
    }

    /// An upper bound of the lost entries; `None` if one of the losses has none.
    pub fn lost_entries_at_most(&self) -> Option<u64> {
        self.lost.iter().map(|lost| lost.finding.entries_at_most).sum()
    }
}
