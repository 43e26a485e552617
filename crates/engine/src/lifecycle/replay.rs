//! Log replay: entries of the log that are not in tables are inserted into memtables, and those written to
//! tables.
//!
//! A writable open never depends on the old log again (protocol 2.6): what recovery has read may exist only
//! in the page cache, so everything replayed is flushed to tables, which the open's one commit point, the
//! rename of CURRENT, makes part of the database. Until then nothing the previous state needs is changed
//! (RC1). A read-only open keeps the replayed memtables in private memory instead.

use crate::background::flush::{add_flushed, add_ingested};
use crate::write::ingested_part::part_of_logged;
use crate::write::switch_memtable::stub_memtable;
use esker_base::planted;
use esker_base::{Error, KeyspaceId, Result, SeqNo, Tag, ValueKind};
use esker_build::pending_outputs::UnclaimedFiles;
use esker_build::table_factory::TableFactory;
use esker_iter::RangeTombstone;
use esker_memtable::{ArenaPool, Inserter, Memtable};
use esker_options::{KeyspaceOptions, MemoryPlan};
use esker_version::{DatabaseState, EditOp, LevelIndex, VersionEdit};
use esker_view::MemtableView;
use esker_view::tree::{TableFiles, TreePart, TreeRun};
use esker_wal::{Entry, RecordKind, RecordView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Replays records into memtables; see the head of this file.
pub struct Replay<'a> {
    /// `None` for a read-only open: nothing is flushed.
    pub factory: Option<&'a TableFactory>,
    /// The limits of memtables.
    pub memory: &'a MemoryPlan,
    /// Where memtables take their memory from.
    pub arenas: &'a ArenaPool,
    /// Ingested tables are opened to read their metadata.
    pub files: &'a Arc<TableFiles>,
    /// The state of the manifest, with the tables of this replay added.
    pub state: DatabaseState,
    keyspaces: BTreeMap<KeyspaceId, Replayed>,
    /// Last sequence number applied or skipped.
    last_seqno: SeqNo,
    pub(crate) entries_applied: u64,
    /// The tables of this replay. A failed open deletes them; otherwise every attempt would fill the disk
    /// further.
    written: Option<UnclaimedFiles<'a>>,
}

/// The replayed data of one keyspace.
struct Replayed {
    options: KeyspaceOptions,
    flushed_seqno: SeqNo,
    filling: Option<(Arc<MemtableView>, Inserter)>,
    /// Full memtables of a read-only open, newest first.
    sealed: Vec<Arc<MemtableView>>,
}

impl<'a> Replay<'a> {
    /// A replay into these keyspaces.
    pub fn new(
        factory: Option<&'a TableFactory>,
        memory: &'a MemoryPlan,
        arenas: &'a ArenaPool,
        files: &'a Arc<TableFiles>,
        state: DatabaseState,
        options: BTreeMap<KeyspaceId, KeyspaceOptions>,
    ) -> Replay<'a> {
        let mut keyspaces = BTreeMap::new();
        for (id, options) in options {
            let Some(keyspace) = state.keyspace(id) else { continue };
            let flushed_seqno = keyspace.flushed_seqno;
            keyspaces.insert(id, Replayed { options, flushed_seqno, filling: None, sealed: Vec::new() });
        }
        let last_seqno = state.last_seqno;
        Replay {
            factory,
            memory,
            arenas,
            files,
            state,
            keyspaces,
            last_seqno,
            entries_applied: 0,
            written: None,
        }
    }

    /// Applies one record, wholly or not at all (WL3).
    pub fn apply(&mut self, record: &RecordView<'_>) -> Result<()> {
        match record.header.kind {
            RecordKind::Batch => {}
            RecordKind::Mark | RecordKind::SegmentEnd => return Ok(()),
            RecordKind::Ingest => return self.apply_ingest(record),
            kind @ RecordKind::Carry => {
                let place = record.position.offset;
                let text = format!("a {kind:?} record in {} at byte {place}", record.file.display());
                return Err(Error::Unsupported(text.into()));
            }
        }
        // Checked as a whole first: an unknown keyspace in the last entry must not leave the first ones
        // applied.
        let is_whole = |entry: &Result<_>| entry.is_ok() || !planted!(AppliesTornBatch);
        for entry in record.entries().take_while(is_whole) {
            self.check_keyspace(record, entry?.1.keyspace)?;
        }
        for entry in record.entries().take_while(is_whole) {
            let (seqno, entry) = entry?;
            self.apply_entry(seqno, &entry)?;
            self.last_seqno = self.last_seqno.max(seqno);
        }
        Ok(())
    }

    /// Ingested tables stand between older and newer writes (4.6).
    fn apply_ingest(&mut self, record: &RecordView<'_>) -> Result<()> {
        let ingest = record.ingest()?;
        let (id, seqno) = (ingest.keyspace, record.header.first_seqno);
        self.check_keyspace(record, id)?;
        let is_new = self.keyspaces.get(&id).is_some_and(|keyspace| seqno > keyspace.flushed_seqno);
        if is_new {
            self.seal(id)?;
        }
        self.last_seqno = self.last_seqno.max(seqno);
        let Some(keyspace) = self.keyspaces.get_mut(&id).filter(|_| is_new) else { return Ok(()) };
        let mut parts = Vec::with_capacity(ingest.files.len());
        for file in &ingest.files {
            // Only a writable open numbers parts.
            let part = self.factory.map_or(self.state.next_part, TableFactory::take_part_id);
            parts.push(Arc::new(part_of_logged(self.files, id, file, part, seqno)?));
        }
        self.entries_applied += parts.iter().map(|part| part.entries).sum::<u64>();
        let Some(factory) = self.factory else {
            let with_file = |meta: Arc<_>| TreePart { file: self.files.file_of(id, &meta), meta };
            let run = TreeRun::new(LevelIndex::FLUSH, parts.into_iter().map(with_file).collect());
            let (stub, _) = stub_memtable(keyspace.options.memtable, self.arenas)?;
            let stub = Arc::clone(&stub.memtable);
            keyspace.sealed.insert(0, Arc::new(MemtableView::of_ingested(stub, Arc::new(run), 0, seqno)));
            return Ok(());
        };
        let options = keyspace.options.clone();
        let mut edit = VersionEdit::new();
        edit.push(EditOp::LastSeqno(self.state.last_seqno.max(seqno)));
        self.state.apply(&edit)?;
        add_ingested(factory, &mut self.state, id, &options, parts)
    }

    /// A keyspace that was dropped is skipped; one that never existed is corruption.
    fn check_keyspace(&self, record: &RecordView<'_>, id: KeyspaceId) -> Result<()> {
        if id < self.state.next_keyspace {
            return Ok(());
        }
        let detail = format!("the record names keyspace number {id}, which was never created");
        Err(Error::corruption(record.file, record.position.offset, detail))
    }

    fn apply_entry(&mut self, seqno: SeqNo, entry: &Entry<'_>) -> Result<()> {
        let Some(keyspace) = self.keyspaces.get(&entry.keyspace) else { return Ok(()) };
        if seqno <= keyspace.flushed_seqno {
            return Ok(());
        }
        self.make_room(entry)?;
        let keyspace = self.keyspaces.get_mut(&entry.keyspace).ok_or(Error::Closed)?;
        if let Some((view, inserter)) = &mut keyspace.filling {
            // Replayed entries need no log segment: they are in tables before the old log is deleted.
            view.note_write(0, seqno.get());
            if entry.kind() == Some(ValueKind::RangeDelete) {
                inserter.insert_range_delete(RangeTombstone::stored(entry.key, entry.value, seqno));
            } else {
                inserter.insert(entry.key, Tag::from_parts(seqno, entry.kind_byte), entry.value);
            }
            self.entries_applied += 1;
        }
        Ok(())
    }

    /// Makes room for the entry in the keyspace's filling memtable.
    fn make_room(&mut self, entry: &Entry<'_>) -> Result<()> {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        let keyspace = self.keyspaces.get_mut(&entry.keyspace).ok_or(Error::Closed)?;
        let limit = keyspace.options.write_buffer_bytes.unwrap_or(self.memory.write_buffer_bytes);
        if let Some((view, _)) = &keyspace.filling {
            let memtable = &view.memtable;
            let fits = memtable.payload_bytes() == 0 || memtable.payload_bytes() + bytes <= limit;
            let fits_ranges = entry.kind() != Some(ValueKind::RangeDelete) || memtable.has_range_room(1);
            if fits && fits_ranges && memtable.has_room(bytes, 1) {
                return Ok(());
            }
            self.seal(entry.keyspace)?;
        }
        let keyspace = self.keyspaces.get_mut(&entry.keyspace).ok_or(Error::Closed)?;
        let kind = keyspace.options.memtable;
        let reserve = kind.reserve_bytes(limit).max(kind.needed_bytes(bytes, 1));
        let (memtable, inserter) = Memtable::create(kind, self.arenas, reserve)?;
        // The log does not store write times: an entry is not older than the last edit of the manifest that
        // it survived.
        let since_ms = self.state.time_floor_ms;
        keyspace.filling = Some((Arc::new(MemtableView::new(memtable, since_ms)), inserter));
        Ok(())
    }

    /// Keeps a full memtable, or writes it to tables.
    fn seal(&mut self, id: KeyspaceId) -> Result<()> {
        let last = self.last_seqno;
        let Some(keyspace) = self.keyspaces.get_mut(&id) else { return Ok(()) };
        let Some((view, _)) = keyspace.filling.take() else { return Ok(()) };
        view.seal(last);
        match self.factory {
            None => keyspace.sealed.insert(0, view),
            Some(factory) => {
                let options = keyspace.options.clone();
                // The tables hold entries that are newer than anything in the manifest.
                let mut edit = VersionEdit::new();
                edit.push(EditOp::LastSeqno(self.state.last_seqno.max(last)));
                self.state.apply(&edit)?;
                let files = add_flushed(
                    factory,
                    &mut self.state,
                    id,
                    &options,
                    self.memory.write_buffer_bytes,
                    &[view],
                )?;
                self.written.get_or_insert_with(|| UnclaimedFiles::new(factory)).append(files);
            }
        }
        Ok(())
    }

    /// Ends a writable replay: everything is in tables, and the state refers to them. Their files await a
    /// manifest that does.
    pub fn finish(mut self, greatest_seqno: SeqNo) -> Result<(DatabaseState, Option<UnclaimedFiles<'a>>)> {
        let greatest_seqno = if planted!(ReusesSequenceNumbers) { SeqNo::ZERO } else { greatest_seqno };
        let last = self.last_seqno.max(greatest_seqno);
        let ids: Vec<KeyspaceId> = self.keyspaces.keys().copied().collect();
        let mut edit = VersionEdit::new();
        for id in ids {
            self.seal(id)?;
            edit.push(EditOp::FlushedSeqno { keyspace: id, seqno: last });
        }
        edit.push(EditOp::LastSeqno(last));
        self.state.apply(&edit)?;
        Ok((self.state, self.written))
    }

    /// Ends a replay without records.
    pub(crate) fn into_unchanged(self) -> DatabaseState {
        debug_assert!(self.entries_applied == 0 && self.written.is_none());
        self.state
    }

    /// Ends a read-only replay: the memtables, newest first, by keyspace.
    pub(crate) fn into_memtables(
        mut self,
    ) -> (DatabaseState, SeqNo, BTreeMap<KeyspaceId, Vec<Arc<MemtableView>>>) {
        let mut memtables = BTreeMap::new();
        for (id, mut keyspace) in std::mem::take(&mut self.keyspaces) {
            if let Some((view, _)) = keyspace.filling.take() {
                view.seal(self.last_seqno);
                keyspace.sealed.insert(0, view);
            }
            memtables.insert(id, keyspace.sealed);
        }
        (self.state, self.last_seqno, memtables)
    }
}
