//! Gathered sources: which keyspace each table belongs to, when no whole manifest says so.
//!
//! A manifest that lost its last edits, the log, or the table's own properties tell. Where nothing does, the
//! table gets a keyspace of its own.

use super::entry_source::SourceTable;
use super::finding::{Finding, KeySpan};
use super::rebuild::{Rebuild, whole_file_lost};
use super::survey::Basis;
use super::table_file::{Expectation, TableHead, TableState, check_table};
use esker_base::{FileNumber, KeyspaceId, Result, SeqNo, TableUid};
use esker_env::OpenMode;
use esker_iter::RangeTombstones;
use esker_version::{DatabaseState, FileKind, KeyRange, PartMeta};
use esker_view::paths;
use esker_wal::{RecordKind, RecordView};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The tables and entries of the log that belong to one keyspace.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) tables: Vec<SourceTable>,
    pub(crate) tombstones: Vec<RangeTombstones>,
    /// The greatest sequence number in its tables.
    pub(crate) newest: SeqNo,
}

/// What is known before any entry is merged.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, Gathered>,
    /// Names of keyspaces that were made up.
    pub(crate) made_up: BTreeMap<KeyspaceId, String>,
    /// Keyspace and sequence number of ingested tables that the log names.
    pub(crate) ingested: BTreeMap<TableUid, (KeyspaceId, SeqNo)>,
}

/// Notes which keyspaces a record writes to, and which tables it ingests.
pub(crate) fn note_record(sources: &mut Sources, record: &RecordView<'_>) {
    if record.header.kind == RecordKind::Ingest
        && let Ok(ingest) = record.ingest()
    {
        sources.keyspaces.entry(ingest.keyspace).or_default();
        for file in &ingest.files {
            sources.ingested.insert(file.uid, (ingest.keyspace, record.header.first_seqno));
        }
    }
    for (_, entry) in record.entries().flatten() {
        sources.keyspaces.entry(entry.keyspace).or_default();
    }
}

/// Assigns every table of the directory to its keyspace.
pub(crate) fn gather_tables(
    work: &mut Rebuild<'_>,
    known: Option<&DatabaseState>,
    sources: &mut Sources,
) -> Result<()> {
    let own = work.survey.state();
    let mut parts: BTreeMap<FileNumber, Vec<(KeyspaceId, &PartMeta)>> = BTreeMap::new();
    for keyspace in own.iter().flat_map(|state| state.keyspaces.values()) {
        sources.keyspaces.entry(keyspace.id).or_default();
        for (_, _, part) in keyspace.version.parts() {
            parts.entry(part.file).or_default().push((keyspace.id, part));
        }
    }
    let removed: BTreeSet<FileNumber> = match &work.survey.basis {
        Basis::Prefix(manifest) | Basis::Manifest(manifest) => manifest.removed.clone(),
        Basis::Files => BTreeSet::new(),
    };
    let survey = work.survey;
    let tables = survey.data.iter().filter(|(_, file)| file.kind == FileKind::Table);
    for (number, file) in tables.filter(|(number, _)| !removed.contains(number)) {
        let known_parts = parts.remove(number).unwrap_or_default();
        gather_table(work, known, sources, *number, &file.path, file.bytes, &known_parts)?;
    }
    // What the manifest names and is not there: lost, or replaced by tables that are there.
    for (number, missing) in parts {
        for (keyspace, part) in missing {
            let path = paths::table(&survey.dir, number);
            let expected = Expectation::of(keyspace, part);
            let new = paths::table(&work.factory.dir, number);
            let is_refilled =
                work.factory.env.fs.file_len(&new)?.is_some() || work.refill_table(number, &expected)?;
            if is_refilled {
                let head = TableHead::read(&work.factory.env, &new);
                add_table(sources, keyspace, head.as_ref(), source_of(number, &new, part));
                continue;
            }
            let meaning = "if no later compaction had replaced it, these keys have no value or an older one";
            let finding = Finding::new(&path, None, "the table is missing", meaning);
            let finding = finding.over(KeySpan::of(&part.range), Some(part.entries));
            let name = own.and_then(|state| state.keyspace(keyspace)).map_or("", |keyspace| &keyspace.name);
            work.lose(finding.of(name));
        }
    }
    Ok(())
}

pub(crate) fn source_of(number: FileNumber, path: &Path, part: &PartMeta) -> SourceTable {
    SourceTable {
        number,
        path: path.to_path_buf(),
        uid: part.table_uid,
        global_seqno: part.global_seqno,
        entries: (!part.sliced).then_some(part.entries),
        range: part.range.clone(),
    }
}

/// Assigns one table, by the manifest, the log, or what it says of itself.
fn gather_table(
    work: &mut Rebuild<'_>,
    known: Option<&DatabaseState>,
    sources: &mut Sources,
    number: FileNumber,
    path: &Path,
    bytes: u64,
    parts: &[(KeyspaceId, &PartMeta)],
) -> Result<()> {
    let Some(mut head) = TableHead::read(&work.survey.env, path) else {
        let expected = parts.first().map(|(keyspace, part)| (*keyspace, *part));
        return gather_unreadable(work, sources, number, path, expected);
    };
    let mut path = path.to_path_buf();
    let own_parts: Vec<_> = parts.iter().filter(|(_, part)| part.table_uid == head.uid).collect();
    let properties = head.end.properties.clone();
    let expected = Expectation {
        bytes: own_parts.first().map_or(bytes, |(_, part)| part.file_bytes),
        uid: head.uid,
        keyspace: own_parts
            .first()
            .map(|(keyspace, _)| *keyspace)
            .or(properties.as_ref().map(|properties| properties.keyspace))
            .unwrap_or_default(),
        global_seqno: own_parts.first().and_then(|(_, part)| part.global_seqno),
        entries: None,
    };
    if work.pool.is_some()
        && !matches!(check_table(&work.survey.env, &path, &expected)?, TableState::Whole(_))
        && work.refill_table(number, &expected)?
    {
        path = paths::table(&work.factory.dir, number);
        head = TableHead::read(&work.factory.env, &path).unwrap_or(head);
    }
    if !own_parts.is_empty() {
        for (keyspace, part) in own_parts {
            add_table(sources, *keyspace, Some(&head), source_of(number, &path, part));
        }
        return Ok(());
    }
    let mut source = SourceTable {
        number,
        path: path.clone(),
        uid: head.uid,
        global_seqno: None,
        entries: None,
        range: KeyRange::everything(),
    };
    if let Some((keyspace, seqno)) = sources.ingested.get(&head.uid).copied() {
        source.global_seqno = Some(seqno);
        add_table(sources, keyspace, Some(&head), source);
        return Ok(());
    }
    match &head.end.properties {
        Some(properties) if properties.db_uuid == work.survey.uuid => {
            let keyspace = properties.keyspace;
            add_table(sources, keyspace, Some(&head), source);
        }
        Some(properties) if properties.max_seqno > SeqNo::ZERO => work
            .report
            .notes
            .push(format!("{} is a table of another database and was left out", path.display())),
        // Written to be ingested, or its end is lost: to which keyspace it belongs is not known.
        _ => add_made_up(work, known, sources, Some(&head), source),
    }
    Ok(())
}

/// A file of which neither end can be read: blocks can be verified only if the manifest says which table it
/// is.
fn gather_unreadable(
    work: &mut Rebuild<'_>,
    sources: &mut Sources,
    number: FileNumber,
    path: &Path,
    expected: Option<(KeyspaceId, &PartMeta)>,
) -> Result<()> {
    let Some((keyspace, part)) = expected else {
        let meaning = "whatever it held is lost; its keyspace and keys are not known";
        let what = "neither end of the file says which table it is".to_owned();
        work.lose(whole_file_lost(path, what, meaning));
        return Ok(());
    };
    if work.refill_table(number, &Expectation::of(keyspace, part))? {
        let new = paths::table(&work.factory.dir, number);
        let head = TableHead::read(&work.factory.env, &new);
        add_table(sources, keyspace, head.as_ref(), source_of(number, &new, part));
        return Ok(());
    }
    let file = work.survey.env.fs.open(path, OpenMode::Read)?;
    let bytes = file.len()?;
    let head = TableHead::expected(file, bytes, part.table_uid);
    add_table(sources, keyspace, Some(&head), source_of(number, path, part));
    Ok(())
}

/// Puts a table into a keyspace of its own, because its keyspace is not known.
fn add_made_up(
    work: &mut Rebuild<'_>,
    known: Option<&DatabaseState>,
    sources: &mut Sources,
    head: Option<&TableHead>,
    source: SourceTable,
) {
    let above = known.map_or(0, |state| state.next_keyspace.get());
    let greatest = sources.keyspaces.keys().next_back().map_or(0, |id| id.get().saturating_add(1));
    // Tables that are assigned later may name higher ids: keep away from them.
    let id = KeyspaceId(above.max(greatest).max(MADE_UP_IDS));
    let name = format!("table-{:06}", source.number.get());
    work.report.notes.push(format!(
        "{} does not say to which keyspace it belongs: its entries are in keyspace {name:?}",
        source.path.display()
    ));
    sources.made_up.insert(id, name);
    add_table(sources, id, head, source);
}

/// Ids of keyspaces that were made up start here.
const MADE_UP_IDS: u32 = 1 << 24;

fn add_table(sources: &mut Sources, keyspace: KeyspaceId, head: Option<&TableHead>, mut source: SourceTable) {
    let gathered = sources.keyspaces.entry(keyspace).or_default();
    if let Some(head) = head {
        if let Some(properties) = &head.end.properties {
            gathered.newest = gathered.newest.max(properties.max_seqno);
            // Tables that share no key are read one after the other.
            let own = KeyRange::inclusive(&properties.min_key[..], &properties.max_key[..]);
            source.range = source.range.intersection(&own).unwrap_or(source.range);
        }
        if let Some(tombstones) = &head.end.range_tombstones {
            gathered.tombstones.push(tombstones.clone());
        }
    }
    gathered.newest = gathered.newest.max(source.global_seqno.unwrap_or_default());
    gathered.tables.push(source);
}
