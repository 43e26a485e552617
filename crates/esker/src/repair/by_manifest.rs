//! Repair with a whole manifest: whole tables stay where they are in the tree, and each damaged one is
//! replaced by tables of its readable entries at the same place. Then the log is replayed as by an open.

use super::blob_shelf::BlobShelf;
use super::entry_source::{Losses, Settled, SourceTable, TableChain};
use super::finding::{Finding, KeySpan};
use super::log;
use super::output::{TableOutput, write_run};
use super::rebuild::Rebuild;
use super::report::{Doubt, LostRange};
use super::table_file::{Expectation, TableHead, TableState, check_table};
use super::verify::scan_blob;
use crate::damage::contradiction;
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo};
use esker_blob::ExpectedBlob;
use esker_engine::lifecycle::replay::Replay;
use esker_env::{OpenMode, ReadMode};
use esker_iter::{Boundaries, InputRangeDels, MergingCursor, RangeTombstones};
use esker_memtable::ArenaPool;
use esker_options::{KeyspaceOptions, MemoryPlan, Options};
use esker_sst::{OpenTables, TableCache};
use esker_version::{
    DatabaseState, EditOp, FileKind, KeyspaceState, PartMeta, Place, SalvagedManifest, VersionEdit,
};
use esker_view::paths;
use esker_view::tree::{OpenAmount, RequestCleanup, TableFiles};
use esker_wal::{RecordKind, RecordView};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Tables that a replay keeps open: it opens ingested ones only, each once.
const OPEN_TABLES: usize = 16;
const CACHE_BYTES: usize = 1 << 20;
/// The memory budget from which the replay's memtables follow.
const MEMORY_BYTES: u64 = 64 << 20;

/// The state of the new database. All its files are in the new directory.
pub(crate) fn rebuild(work: &mut Rebuild<'_>, manifest: &SalvagedManifest) -> Result<DatabaseState> {
    let mut state = manifest.state.clone();
    for keyspace in manifest.state.keyspaces.values() {
        let options = work.options_of(keyspace.id, &keyspace.options);
        if work.lost_options.contains_key(&keyspace.id) {
            let mut edit = VersionEdit::new();
            let encoded = options.encode().into();
            edit.push(EditOp::SetKeyspaceOptions { id: keyspace.id, options: encoded });
            state.apply(&edit)?;
        }
        let shelf = keep_blobs(work, keyspace)?;
        let mut files: BTreeMap<FileNumber, Vec<(Place, Arc<PartMeta>)>> = BTreeMap::new();
        for (level, run, part) in keyspace.version.parts() {
            let place = Place { level, run: run.id, order: run.order };
            files.entry(part.file).or_default().push((place, Arc::clone(part)));
        }
        for parts in files.values() {
            keep_table(work, &mut state, keyspace, &options, parts, &shelf)?;
        }
    }
    let mut state = replay_log(work, state)?;
    state.durable_position = None;
    if !state.consumers.is_empty() {
        let names: Vec<String> = state.consumers.keys().map(|name| format!("{name:?}")).collect();
        work.report.notes.push(format!(
            "the new database has no history: consumers of changes ({}) start anew",
            names.join(", ")
        ));
    }
    state.consumers.clear();
    state.log_lives.clear();
    Ok(state)
}

/// Keeps whole blob files; the others go on the shelf for their readable values.
fn keep_blobs(work: &mut Rebuild<'_>, keyspace: &KeyspaceState) -> Result<BlobShelf> {
    let mut shelf = BlobShelf::default();
    for blob in keyspace.version.blob_files().iter() {
        let (number, file_bytes) = (blob.meta.number, blob.meta.file_bytes);
        let own = paths::blob(&work.survey.dir, number);
        let expected = ExpectedBlob { file_bytes, uid: blob.meta.uid, keyspace: keyspace.id };
        let is_there = work.data_file(FileKind::Blob, number).is_some();
        let scanned = if is_there {
            scan_blob(&work.survey.env, &own, Some(expected), &mut 0)
        } else {
            Err(Error::corruption(&own, None, "the blob file is missing"))
        };
        match scanned {
            Err(error @ Error::Unsupported(_)) => return Err(error),
            Ok(records) if records == blob.meta.records => {
                work.keep(FileKind::Blob, number, expected.uid, file_bytes)?;
            }
            _ if work.refill_blob(number, expected)? => {}
            _ if is_there => {
                shelf.add(&work.survey.env, number, &own, None)?;
                continue;
            }
            _ => continue,
        }
        let kept = paths::blob(&work.factory.dir, number);
        shelf.add(&work.factory.env, number, &kept, Some(keyspace.id))?;
    }
    Ok(shelf)
}

/// Keeps a table file with these parts, or replaces the parts by what can be read of them.
fn keep_table(
    work: &mut Rebuild<'_>,
    state: &mut DatabaseState,
    keyspace: &KeyspaceState,
    options: &KeyspaceOptions,
    parts: &[(Place, Arc<PartMeta>)],
    shelf: &BlobShelf,
) -> Result<()> {
    let Some((_, part)) = parts.first() else { return Ok(()) };
    let path = paths::table(&work.survey.dir, part.file);
    let expected = Expectation::of(keyspace.id, part);
    let found = check_table(&work.survey.env, &path, &expected)?;
    let is_whole = match &found {
        TableState::Whole(whole) => {
            contradiction(part, whole.entries, &whole.properties, whole.deleted.as_ref()).is_none()
        }
        _ => false,
    };
    let has_value = |part: &PartMeta| part.blobs.iter().all(|blob| shelf.is_whole(blob.file, keyspace.id));
    let has_values = parts.iter().all(|(_, part)| has_value(part));
    if is_whole && has_values {
        return work.keep(FileKind::Table, part.file, part.table_uid, part.file_bytes);
    }
    let is_refilled = !is_whole && work.refill_table(part.file, &expected)?;
    if is_refilled && has_values {
        return Ok(());
    }
    let refilled = paths::table(&work.factory.dir, part.file);
    let source = match found {
        _ if is_refilled => Some(refilled.clone()),
        TableState::Missing => None,
        TableState::Foreign(_) => None,
        TableState::Whole(_) | TableState::Damaged(_) => Some(path.clone()),
    };
    for (place, part) in parts {
        match &source {
            Some(source) => replace_part(work, state, keyspace, options, *place, part, source, shelf)?,
            None => {
                let mut edit = VersionEdit::new();
                edit.remove_part(keyspace.id, place.level, place.run, part);
                state.apply(&edit)?;
                let meaning = "these keys have no value or an older one, and deleted keys may be back";
                let finding = Finding::new(&path, None, "the table is missing or another one", meaning);
                let finding = finding.over(KeySpan::of(&part.range), Some(part.entries));
                work.lose(finding.of(&keyspace.name));
            }
        }
    }
    if is_refilled {
        work.factory.env.fs.remove_file(&refilled)?;
    }
    Ok(())
}

/// Writes the readable entries of a part to tables at its place.
#[expect(clippy::too_many_arguments, reason = "the part, its place, its owner and where its bytes are")]
fn replace_part(
    work: &mut Rebuild<'_>,
    state: &mut DatabaseState,
    keyspace: &KeyspaceState,
    options: &KeyspaceOptions,
    place: Place,
    part: &Arc<PartMeta>,
    source: &Path,
    shelf: &BlobShelf,
) -> Result<()> {
    let env = if source.starts_with(&work.factory.dir) { &work.factory.env } else { &work.survey.env };
    let file = env.fs.open(source, OpenMode::Read)?;
    let bytes = file.len()?;
    let head = TableHead::expected(file, bytes, part.table_uid);
    let none = RangeTombstones::default();
    let tombstones = head.end.range_tombstones.as_ref().unwrap_or(&none);
    if head.end.range_tombstones.is_none() && part.range_tombstones > 0 {
        let why = format!(
            "the range deletes in {} cannot be read, so keys that they deleted may be back",
            source.display()
        );
        let keys = KeySpan::of(&part.range);
        work.report.doubtful.push(Doubt { keyspace: keyspace.name.to_string(), keys, why });
    }
    let table = SourceTable {
        number: part.file,
        path: source.to_path_buf(),
        uid: part.table_uid,
        global_seqno: part.global_seqno,
        entries: (!part.sliced).then_some(part.entries),
        range: part.range.clone(),
    };
    let losses = Losses::default();
    let chain = TableChain::new(env, [table], &losses);
    let merge = MergingCursor::new(vec![Settled::new(vec![chain], shelf, keyspace.id, &losses)]);
    let end = part.range.end.exclusive_bound();
    let deletes = tombstones.deletes();
    let deletes = deletes.filter_map(|delete| delete.clipped(Some(&part.range.start), end.as_deref()));
    let deletes = InputRangeDels::new(deletes, &Boundaries::new([], SeqNo::MAX), |_, _, _| true);
    let output = TableOutput {
        replaced: Some(part),
        ..TableOutput::unchanged(keyspace.id, options, place.level, part.bytes)
    };
    let outputs = write_run(work.factory, &output, merge, deletes)?;
    work.report.written_tables += outputs.parts.len() as u64;
    let mut edit = VersionEdit::new();
    edit.remove_part(keyspace.id, place.level, place.run, part);
    let files = outputs.add_to(&mut edit, keyspace.id, place);
    state.apply(&edit)?;
    files.claim();
    for mut finding in losses.take().lost {
        if finding.file.as_os_str().is_empty() {
            finding.file = source.to_path_buf();
        }
        work.lose(finding.of(&keyspace.name));
    }
    Ok(())
}

/// Replays what the log has beyond the tables into tables of level 0.
fn replay_log(work: &mut Rebuild<'_>, state: DatabaseState) -> Result<DatabaseState> {
    let verdict = log::judge(work.survey)?;
    work.report.notes.extend(verdict.notes.iter().cloned());
    let options = Options::default().memory_budget(MEMORY_BYTES);
    let memory = MemoryPlan::new(&options, MEMORY_BYTES);
    let arenas = ArenaPool::new(memory.memtables_bytes);
    let files = table_files(work)?;
    let of_keyspaces: BTreeMap<KeyspaceId, KeyspaceOptions> = state
        .keyspaces
        .iter()
        .map(|(id, keyspace)| (*id, KeyspaceOptions::decode(&keyspace.options).unwrap_or_default()))
        .collect();
    let flushed: BTreeMap<KeyspaceId, SeqNo> =
        state.keyspaces.iter().map(|(id, keyspace)| (*id, keyspace.flushed_seqno)).collect();
    let mut replay = Replay::new(Some(work.factory), &memory, &arenas, &files, state, of_keyspaces);
    let mut records = 0;
    let mut refused = Vec::new();
    let end = log::replay(work.survey, verdict.is_refused(), &mut |record| {
        records += 1;
        let applied = match fetch_ingested(work, &flushed, record)? {
            true => replay.apply(record),
            false => Err(Error::corruption(record.file, None, "a table that it added is damaged or missing")),
        };
        match applied {
            Err(error @ Error::Corruption(_)) => {
                let (first, last) = (record.header.first_seqno, record.header.last_seqno());
                refused.push((record.file.to_path_buf(), record.position.offset, first, last, error));
                Ok(())
            }
            applied => applied,
        }
    })?;
    work.report.log_records = records;
    for (file, offset, first, last, error) in refused {
        let meaning = "keys that these writes changed have older values, or deleted ones are back";
        let finding = Finding::new(&file, offset, error.to_string(), meaning);
        let finding = finding.over(KeySpan::everything(), None);
        work.report.lost.push(LostRange { finding, seqnos: Some((first, Some(last))) });
    }
    lose_gaps(work, &verdict, &end);
    let (mut state, written) = replay.finish(end.greatest_seqno)?;
    if let Some(written) = written {
        written.claim();
    }
    state.time_floor_ms = state.time_floor_ms.max(end.latest_wall_ms);
    state.min_log_id = state.min_log_id.max(end.next_log_id);
    Ok(state)
}

/// Reports what is missing from the log.
pub(crate) fn lose_gaps(work: &mut Rebuild<'_>, verdict: &log::LogVerdict, end: &log::LogEnd) {
    for gap in &end.gaps {
        let finding = log::finding_of_gap(gap);
        work.report.lost.push(LostRange { finding, seqnos: Some((gap.first, gap.last)) });
    }
    if let Some(gap) = &verdict.maybe {
        let finding = log::finding_of_gap(gap);
        work.report.lost.push(LostRange { finding, seqnos: Some((gap.first, gap.last)) });
    }
    // Segments without a header, and a log that recovery refuses for another reason than a gap: whatever is
    // newer than all that was read may be lost.
    let is_named = !end.gaps.is_empty();
    for finding in verdict.findings.iter().filter(|finding| !is_named || finding.keys.is_none()) {
        if end.gaps.iter().any(|gap| gap.file == finding.file && Some(gap.offset) == finding.offset) {
            continue;
        }
        let from = work.survey.state().map_or(SeqNo::ZERO, |state| {
            state.keyspaces.values().map(|keyspace| keyspace.flushed_seqno).min().unwrap_or_default().plus(1)
        });
        work.report.lost.push(LostRange { finding: finding.clone(), seqnos: Some((from, None)) });
    }
}

/// Brings the tables that an Ingest record names into the new directory; `false` if one cannot be had.
fn fetch_ingested(
    work: &mut Rebuild<'_>,
    flushed: &BTreeMap<KeyspaceId, SeqNo>,
    record: &RecordView<'_>,
) -> Result<bool> {
    if record.header.kind != RecordKind::Ingest {
        return Ok(true);
    }
    let Ok(ingest) = record.ingest() else { return Ok(false) };
    let seqno = record.header.first_seqno;
    if flushed.get(&ingest.keyspace).is_none_or(|flushed| seqno <= *flushed) {
        return Ok(true);
    }
    for file in &ingest.files {
        let expected = Expectation {
            bytes: file.size_bytes,
            uid: file.uid,
            keyspace: ingest.keyspace,
            global_seqno: Some(seqno),
            entries: None,
        };
        let path = paths::table(&work.survey.dir, file.number);
        match check_table(&work.survey.env, &path, &expected)? {
            TableState::Whole(_) => work.keep(FileKind::Table, file.number, file.uid, file.size_bytes)?,
            _ if work.refill_table(file.number, &expected)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn table_files(work: &Rebuild<'_>) -> Result<Arc<TableFiles>> {
    let tables = OpenTables::new(Arc::new(TableCache::new(CACHE_BYTES)));
    let limit = OpenAmount { tables: OPEN_TABLES, bytes: MEMORY_BYTES };
    let (env, dir) = (work.factory.env.clone(), work.factory.dir.clone());
    let cleanup = RequestCleanup::new(|| {});
    Ok(TableFiles::new(env, dir, tables, ReadMode::Positioned, cleanup, limit))
}
