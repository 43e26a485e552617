//! What a verification reports, and how it compares a table with the manifest.

use esker_base::{Error, SeqNo};
use esker_sst::TableProperties;
use esker_version::{KeyRange, PartMeta};
use std::path::PathBuf;

/// One corrupt file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Damage {
    /// The keyspace that the file belongs to.
    pub keyspace: String,
    /// The corrupt file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub error: Error,
}

/// The first contradiction between a whole table, which covers `deleted` by range tombstones, and what the
/// manifest says of its part.
pub(crate) fn contradiction(
    part: &PartMeta,
    entries: u64,
    properties: &TableProperties,
    deleted: Option<&KeyRange>,
) -> Option<String> {
    if part.sliced {
        return None;
    }
    // The file of an ingested table has sequence number zero.
    let seqnos = match part.global_seqno {
        Some(_) => (SeqNo::ZERO, SeqNo::ZERO),
        None => (part.min_seqno, part.max_seqno),
    };
    let told = (part.entries, part.range_tombstones, seqnos.0, seqnos.1);
    let actual = (entries, properties.range_tombstones, properties.min_seqno, properties.max_seqno);
    // Tombstones are dropped by the manifest's sequence numbers, so those must be correct.
    if told != actual {
        return Some(format!(
            "the manifest says (entries, range deletes, first and last sequence number) {told:?}, the table {actual:?}"
        ));
    }
    let has_keys = entries == 0 || part.contains(&properties.min_key);
    let has_deletes = deleted.is_none_or(|deleted| part.range.covers(deleted));
    (!(has_keys && has_deletes)).then(|| "the manifest says another key range than the table".to_owned())
}
