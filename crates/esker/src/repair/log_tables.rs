//! Log tables: the entries of a log as tables, none folded, dropped or placed, for a merge by sequence
//! number.
//!
//! The replay of an open folds operands and drops tombstones, because it knows that what it writes is newer
//! than every table. Without a whole manifest that is not known.

use super::output::{TableOutput, write_run};
use esker_base::{KeyspaceId, Result, SeqNo, Tag, ValueKind};
use esker_build::pending_outputs::UnclaimedFiles;
use esker_build::table_factory::TableFactory;
use esker_iter::{Boundaries, Entry, InputRangeDels, MergingCursor, RangeTombstone, SliceCursor};
use esker_options::KeyspaceOptions;
use esker_version::{LevelIndex, PartMeta};
use esker_wal::RecordView;
use std::collections::BTreeMap;

/// Bytes of keys and values that are collected before they are written.
const BUFFER_BYTES: usize = 16 << 20;

/// Collects the entries of a log and writes them to tables.
pub(crate) struct LogTables<'a> {
    factory: &'a TableFactory,
    /// Entries up to these sequence numbers are in other tables.
    flushed: BTreeMap<KeyspaceId, SeqNo>,
    filling: BTreeMap<KeyspaceId, Filling>,
    bytes: usize,
    /// The tables of each keyspace.
    pub(crate) parts: BTreeMap<KeyspaceId, Vec<PartMeta>>,
    /// Deletes the tables when it is dropped.
    files: UnclaimedFiles<'a>,
}

#[derive(Default)]
struct Filling {
    entries: Vec<Entry>,
    deletes: Vec<(Vec<u8>, Vec<u8>, SeqNo)>,
}

impl<'a> LogTables<'a> {
    pub(crate) fn new(factory: &'a TableFactory, flushed: BTreeMap<KeyspaceId, SeqNo>) -> LogTables<'a> {
        LogTables {
            factory,
            flushed,
            filling: BTreeMap::new(),
            bytes: 0,
            parts: BTreeMap::new(),
            files: UnclaimedFiles::new(factory),
        }
    }

    /// Adds the entries of a record.
    pub(crate) fn add(&mut self, record: &RecordView<'_>) -> Result<()> {
        for entry in record.entries() {
            let (seqno, entry) = entry?;
            if self.flushed.get(&entry.keyspace).is_some_and(|flushed| seqno <= *flushed) {
                continue;
            }
            let filling = self.filling.entry(entry.keyspace).or_default();
            self.bytes += entry.key.len() + entry.value.len();
            if entry.kind() == Some(ValueKind::RangeDelete) {
                filling.deletes.push((entry.key.to_vec(), entry.value.to_vec(), seqno));
            } else {
                let tag = Tag::from_parts(seqno, entry.kind_byte);
                filling.entries.push(Entry { key: entry.key.to_vec(), tag, value: entry.value.to_vec() });
            }
        }
        if self.bytes >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes what has been collected.
    pub(crate) fn write(&mut self) -> Result<()> {
        let options = KeyspaceOptions::default();
        for (keyspace, mut filling) in std::mem::take(&mut self.filling) {
            Entry::sort(&mut filling.entries);
            filling.entries.dedup_by(|next, kept| next.key == kept.key && next.tag == kept.tag);
            let every = Boundaries::new([], SeqNo::MAX);
            let deletes = filling.deletes.iter();
            let deletes = deletes.map(|(start, end, seqno)| RangeTombstone::stored(start, end, *seqno));
            let deletes = InputRangeDels::new(deletes, &every, |_, _, _| true);
            let output = TableOutput::unchanged(keyspace, &options, LevelIndex::FLUSH, self.bytes as u64);
            let merge = MergingCursor::new(vec![SliceCursor::new(&filling.entries)]);
            let tables = write_run(self.factory, &output, merge, deletes)?;
            self.parts.entry(keyspace).or_default().extend(tables.parts);
            self.files.append(tables.files);
        }
        self.bytes = 0;
        Ok(())
    }
}
