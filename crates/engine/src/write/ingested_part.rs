//! Part metadata of an external table, from its properties.

use esker_base::{KeyspaceId, PartId, Result, SeqNo};
use esker_build::table_sink::note_expiring;
use esker_sst::TableProperties;
use esker_version::{KeyRange, PartFlags, PartMeta};
use esker_view::tree::{Access, TableFiles};
use esker_wal::IngestedFile;
use std::sync::Arc;

/// The part of a file that an Ingest record names, read from the file: the record contains only what
/// identifies it.
pub(crate) fn part_of_logged(
    files: &Arc<TableFiles>,
    keyspace: KeyspaceId,
    logged: &IngestedFile,
    id: PartId,
    seqno: SeqNo,
) -> Result<PartMeta> {
    let range = KeyRange::inclusive(&[][..], &[][..]);
    let part = PartMeta::new(id, logged.number, logged.size_bytes, logged.uid, range).ingested_at(seqno);
    let file = files.file_of(keyspace, &part);
    file.check_presence()?;
    let table = file.table(Access::Once)?;
    Ok(described(part, table.properties()))
}

/// The part with the figures of the table's properties.
pub fn described(mut part: PartMeta, properties: &TableProperties) -> PartMeta {
    part.range = KeyRange::inclusive(&properties.min_key[..], &properties.max_key[..]);
    part.raw_bytes = properties.raw_key_bytes + properties.raw_value_bytes;
    part.entries = properties.entries;
    part.tombstones = properties.tombstones;
    note_expiring(&mut part, properties.expiring);
    part.created_ms = properties.created_ms;
    if part.has_tombstones() {
        part.oldest_delete_ms = Some(part.created_ms);
    }
    if properties.single_version {
        part.flags = part.flags.with(PartFlags::SINGLE_VERSION);
    }
    part
}
