//! Repair without a whole manifest: every entry of every table and of the log is merged by key and sequence
//! number, into one run for each keyspace.
//!
//! The order of tables is not needed: of two versions the one with the greater sequence number is newer.
//! Three things are not known, and the report says so:
//!
//! * Which tables were obsolete. One that a compaction had replaced holds versions whose tombstones may be
//!   gone since, so deleted keys may come back.
//! * The real order of entries whose sequence number a compaction has set to 0: they count as older than all
//!   others.
//! * Names and options of keyspaces, unless a manifest that lost its last edits, or a copy, has them.

use super::blob_shelf::BlobShelf;
use super::by_manifest::lose_gaps;
use super::entry_source::{Losses, Settled, SourceTable, TableChain};
use super::finding::KeySpan;
use super::gather::{Gathered, Sources, gather_tables, note_record, source_of};
use super::log;
use super::log_tables::LogTables;
use super::output::{TableOutput, write_run};
use super::rebuild::Rebuild;
use super::report::Doubt;
use super::survey::blob_header;
use super::table_file::TableHead;
use esker_base::{Error, FileNumber, KeyspaceId, LogId, Result, SeqNo};
use esker_blob::{BlobReader, ExpectedBlob};
use esker_env::OpenMode;
use esker_iter::{Boundaries, InputRangeDels, MergingCursor, RangeTombstones};
use esker_options::{DEFAULT_KEYSPACE, KeyspaceOptions};
use esker_strategy::{Busy, Position};
use esker_version::{
    BlobFileMeta, DatabaseState, EditOp, FileKind, KeyRange, LevelIndex, PartMeta, Version, VersionEdit,
};
use esker_view::paths;
use esker_wal::RecordView;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Why everything is doubtful.
const OBSOLETE: &str = "without a whole manifest it is not known which tables a compaction had already replaced: if \
                        one was still there, deleted keys may be back, and a key may have an older value";

/// The state of the new database. All its files are in the new directory.
pub(crate) fn rebuild(work: &mut Rebuild<'_>) -> Result<DatabaseState> {
    let verdict = log::judge(work.survey)?;
    work.report.notes.extend(verdict.notes.iter().cloned());
    let mut sources = Sources::default();
    read_log(work, |record| {
        note_record(&mut sources, record);
        Ok(())
    })?;
    let known = known_state(work);
    gather_tables(work, known.as_ref(), &mut sources)?;
    let (shelf, blobs) = shelve_blobs(work, known.as_ref())?;
    let mut state = DatabaseState::new(work.survey.uuid);
    let options = create_keyspaces(work, known.as_ref(), &sources, &mut state)?;

    let own = work.survey.state();
    let flushed = own.iter().flat_map(|state| state.keyspaces.values());
    let flushed = flushed.map(|keyspace| (keyspace.id, keyspace.flushed_seqno)).collect();
    let mut logged = LogTables::new(work.factory, flushed);
    let mut records = 0;
    let end = read_log(work, |record| {
        records += 1;
        logged.add(record)
    })?;
    logged.write()?;
    work.report.log_records = records;
    lose_gaps(work, &verdict, &end);

    let log_files = logged.parts.values().flatten().map(|part| part.file).min();
    for (id, parts) in &logged.parts {
        add_logged(work, sources.keyspaces.entry(*id).or_default(), parts)?;
    }
    for (id, gathered) in &sources.keyspaces {
        let Some(options) = options.get(id) else { continue };
        merge_keyspace(work, &mut state, *id, options, gathered, &shelf, &blobs, log_files)?;
    }
    let newest = sources.keyspaces.values().map(|gathered| gathered.newest);
    let newest = newest.fold(end.greatest_seqno.max(state.last_seqno), SeqNo::max);
    set_last_seqno(&mut state, own, newest)?;
    state.min_log_id = state.min_log_id.max(end.next_log_id).max(own.map_or(LogId(1), |own| own.min_log_id));
    state.time_floor_ms = end.latest_wall_ms.max(own.map_or(0, |own| own.time_floor_ms));
    Ok(state)
}

/// Everything up to `newest` is in tables, once they are merged.
fn set_last_seqno(state: &mut DatabaseState, own: Option<&DatabaseState>, newest: SeqNo) -> Result<()> {
    let newest = newest.max(own.map_or(SeqNo::ZERO, |own| own.last_seqno));
    let mut edit = VersionEdit::new();
    edit.push(EditOp::LastSeqno(newest));
    for keyspace in state.keyspaces.values() {
        edit.push(EditOp::FlushedSeqno { keyspace: keyspace.id, seqno: newest });
    }
    state.apply(&edit)?;
    Ok(())
}

/// The state of a manifest that lost its last edits; else that of the copy, if it is one of this database.
fn known_state(work: &Rebuild<'_>) -> Option<DatabaseState> {
    let copied = || {
        let state = work.pool.as_ref()?.state.as_ref()?;
        (state.uuid == work.survey.uuid).then(|| state.clone())
    };
    work.survey.state().cloned().or_else(copied)
}

fn read_log(
    work: &Rebuild<'_>,
    mut on_record: impl FnMut(&RecordView<'_>) -> Result<()>,
) -> Result<log::LogEnd> {
    log::replay(work.survey, true, &mut on_record)
}

/// Adds the tables that were made of the log, which count as the newest files.
fn add_logged(work: &Rebuild<'_>, gathered: &mut Gathered, parts: &[PartMeta]) -> Result<()> {
    for part in parts {
        let path = paths::table(&work.factory.dir, part.file);
        let file = work.factory.env.fs.open(&path, OpenMode::Read)?;
        let head = TableHead::expected(std::sync::Arc::clone(&file), file.len()?, part.table_uid);
        gathered.tombstones.extend(head.end.range_tombstones);
        gathered.tables.push(source_of(part.file, &path, part));
    }
    Ok(())
}

/// Shelves all blob files: their values, and what a manifest says of the whole ones.
fn shelve_blobs(
    work: &mut Rebuild<'_>,
    known: Option<&DatabaseState>,
) -> Result<(BlobShelf, BTreeMap<FileNumber, BlobFileMeta>)> {
    let (mut shelf, mut metas) = (BlobShelf::default(), BTreeMap::new());
    let survey = work.survey;
    let own = known.iter().flat_map(|state| state.keyspaces.values());
    let mut wanted: BTreeMap<FileNumber, (KeyspaceId, BlobFileMeta)> = own
        .flat_map(|keyspace| keyspace.version.blob_files().iter().map(|blob| (keyspace.id, blob.meta)))
        .map(|(keyspace, meta)| (meta.number, (keyspace, meta)))
        .collect();
    for (number, file) in survey.data.iter().filter(|(_, file)| file.kind == FileKind::Blob) {
        let told = wanted.remove(number);
        match scan_any(work, &file.path, *number) {
            Ok((meta, keyspace)) => {
                shelf.add(&survey.env, *number, &file.path, Some(keyspace))?;
                metas.insert(*number, meta);
                continue;
            }
            Err(error @ Error::Unsupported(_)) => return Err(error),
            Err(_) => {}
        }
        let expected = told.map(|(keyspace, meta)| ExpectedBlob {
            file_bytes: meta.file_bytes,
            uid: meta.uid,
            keyspace,
        });
        let stated = blob_header(&survey.env, &file.path).map(|header| ExpectedBlob {
            file_bytes: file.bytes,
            uid: header.uid,
            keyspace: header.keyspace,
        });
        if !fetch_blob(work, *number, expected.or(stated), &mut shelf, &mut metas)? {
            shelf.add(&survey.env, *number, &file.path, None)?;
        }
    }
    for (number, (keyspace, meta)) in wanted {
        let expected = ExpectedBlob { file_bytes: meta.file_bytes, uid: meta.uid, keyspace };
        fetch_blob(work, number, Some(expected), &mut shelf, &mut metas)?;
    }
    Ok((shelf, metas))
}

fn fetch_blob(
    work: &mut Rebuild<'_>,
    number: FileNumber,
    expected: Option<ExpectedBlob>,
    shelf: &mut BlobShelf,
    metas: &mut BTreeMap<FileNumber, BlobFileMeta>,
) -> Result<bool> {
    let Some(expected) = expected else { return Ok(false) };
    if !work.refill_blob(number, expected)? {
        return Ok(false);
    }
    let new = paths::blob(&work.factory.dir, number);
    let (meta, keyspace) = scan_any(work, &new, number)?;
    shelf.add(&work.factory.env, number, &new, Some(keyspace))?;
    metas.insert(number, meta);
    Ok(true)
}

/// The figures of a whole blob file, and its keyspace.
fn scan_any(work: &Rebuild<'_>, path: &Path, number: FileNumber) -> Result<(BlobFileMeta, KeyspaceId)> {
    let file = work.factory.env.fs.open(path, OpenMode::Read)?;
    let file_bytes = file.len()?;
    let reader = BlobReader::open_any(file, file_bytes)?;
    let scan = reader.scan(|_, _, _| Ok(()))?;
    let meta = BlobFileMeta {
        number,
        file_bytes,
        uid: reader.header().uid,
        records: scan.records,
        record_bytes: scan.record_bytes,
        value_bytes: scan.value_bytes,
        created_ms: reader.header().created_ms,
    };
    Ok((meta, reader.header().keyspace))
}

/// Creates the keyspaces under their names, or under names made of their numbers.
fn create_keyspaces(
    work: &mut Rebuild<'_>,
    known: Option<&DatabaseState>,
    sources: &Sources,
    state: &mut DatabaseState,
) -> Result<BTreeMap<KeyspaceId, KeyspaceOptions>> {
    let mut ids: BTreeSet<KeyspaceId> = sources.keyspaces.keys().copied().collect();
    ids.extend(known.iter().flat_map(|state| state.keyspaces.values().map(|keyspace| keyspace.id)));
    let mut options_of = BTreeMap::new();
    for id in ids {
        let stored = known.and_then(|state| state.keyspace(id));
        // An id below the next one that is not there was dropped, with all its entries.
        let own = work.survey.state();
        if own.is_some_and(|own| id < own.next_keyspace && own.keyspace(id).is_none()) {
            continue;
        }
        let (name, options) = match stored {
            Some(stored) => (stored.name.to_string(), work.options_of(id, &stored.options)),
            None => {
                let made_up = sources.made_up.get(&id).cloned();
                let is_default = id == KeyspaceId(0)
                    && known.is_none_or(|state| state.keyspace_named(DEFAULT_KEYSPACE).is_none());
                let name = made_up.unwrap_or_else(|| match is_default {
                    true => DEFAULT_KEYSPACE.to_owned(),
                    false => format!("keyspace-{id}"),
                });
                work.lost_options.insert(id, !is_default);
                (name, KeyspaceOptions::default())
            }
        };
        let mut edit = VersionEdit::new();
        let encoded = options.encode().into();
        edit.push(EditOp::CreateKeyspace { id, name: name.as_str().into(), options: encoded });
        state.apply(&edit)?;
        options_of.insert(id, options);
    }
    Ok(options_of)
}

/// Merges all sources of a keyspace into one run.
#[expect(clippy::too_many_arguments, reason = "the keyspace, its sources, and what they point to")]
fn merge_keyspace(
    work: &mut Rebuild<'_>,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    gathered: &Gathered,
    shelf: &BlobShelf,
    blobs: &BTreeMap<FileNumber, BlobFileMeta>,
    log_files: Option<FileNumber>,
) -> Result<()> {
    let name = state.keyspace(id).map_or_else(String::new, |keyspace| keyspace.name.to_string());
    if gathered.tables.is_empty() {
        return Ok(());
    }
    let losses = Losses::default();
    let input_bytes = gathered.tables.len() as u64 * (16 << 20);
    let chains = chains_of(gathered.tables.clone());
    let chains =
        chains.into_iter().map(|tables| TableChain::new(&work.factory.env, tables, &losses)).collect();
    let settled = Settled::new(chains, shelf, id, &losses).with_log(log_files, gathered.newest);
    let deletes = gathered.tombstones.iter().flat_map(RangeTombstones::deletes);
    let deletes = InputRangeDels::new(deletes, &Boundaries::new([], SeqNo::MAX), |_, _, _| false);
    let empty = Version::new();
    let to: Position = options.strategy.flush_placement(&empty, &KeyRange::everything(), &Busy::default());
    let output = TableOutput {
        has_older: false,
        ..TableOutput::unchanged(id, options, LevelIndex::FLUSH, input_bytes)
    };
    let outputs = write_run(work.factory, &output, MergingCursor::new(vec![settled]), deletes)?;
    work.report.written_tables += outputs.parts.len() as u64;
    let mut edit = VersionEdit::new();
    let newest = outputs.parts.iter().map(|part| part.max_seqno).fold(state.last_seqno, SeqNo::max);
    edit.push(EditOp::LastSeqno(newest));
    let pointed: BTreeSet<FileNumber> =
        outputs.parts.iter().flat_map(|part| part.blobs.iter()).map(|blob| blob.file).collect();
    for meta in pointed.iter().filter_map(|number| blobs.get(number)) {
        let target = paths::blob(&work.factory.dir, meta.number);
        if work.factory.env.fs.file_len(&target)?.is_none() {
            work.keep(FileKind::Blob, meta.number, meta.uid, meta.file_bytes)?;
        }
        edit.add_blob_file(id, *meta);
    }
    let place = to.place(&empty, work.factory.take_run_id());
    let files = outputs.add_to(&mut edit, id, place);
    state.apply(&edit)?;
    files.claim();
    report_losses(work, &name, &losses);
    let keys = KeySpan::everything();
    work.report.doubtful.push(Doubt { keyspace: name, keys, why: OBSOLETE.to_owned() });
    Ok(())
}

fn report_losses(work: &mut Rebuild<'_>, name: &str, losses: &Losses) {
    let losses = losses.take();
    for finding in losses.lost {
        work.lose(finding.of(name));
    }
    let mut doubt = |keys, why: &str| {
        work.report.doubtful.push(Doubt { keyspace: name.to_owned(), keys, why: why.to_owned() });
    };
    for key in losses.doubtful_keys {
        doubt(KeySpan::only(&key), "an operand of a merge may count twice, or not at all");
    }
    if losses.are_more_doubtful {
        doubt(KeySpan::everything(), "operands of merges of more keys may count twice, or not at all");
    }
}

/// Divides tables into chains of tables that share no key, as few as possible.
fn chains_of(mut tables: Vec<SourceTable>) -> Vec<Vec<SourceTable>> {
    tables.sort_by(|a, b| a.range.start.cmp(&b.range.start).then(a.number.cmp(&b.number)));
    let mut chains: Vec<Vec<SourceTable>> = Vec::new();
    for table in tables {
        let free = chains
            .iter_mut()
            .find(|chain| chain.last().is_some_and(|last| last.range.is_before(&table.range)));
        match free {
            Some(chain) => chain.push(table),
            None => chains.push(vec![table]),
        }
    }
    chains
}
