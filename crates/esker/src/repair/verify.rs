//! Verification of a directory: all damage of a database that need not open.
//!
//! Everything is read by itself: `CURRENT`, manifests, every table and blob file, every pointer between them,
//! and the log. Damage of one file keeps none of the others from being checked. Memory is bounded by the
//! largest table's index and filter.

use super::blob_shelf::BlobShelf;
use super::compare::{Comparison, compare};
use super::finding::{Finding, KeySpan, detail_of};
use super::survey::{Basis, Survey};
use super::table_file::{DamagedTable, Expectation, TableHead, TableState, WholeTable, check_table};
use crate::damage::contradiction;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, FileNumber, Result, Tag};
use esker_blob::{BlobReader, ExpectedBlob};
use esker_env::{Env, OpenMode};
use esker_options::KeyspaceOptions;
use esker_version::{DatabaseState, FileKind, KeyspaceState, LiveBlob, PartMeta, manifest_name};
use esker_view::paths;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Spans of lost large values of one table that are listed one by one.
const LISTED_SPANS: usize = 1000;
/// Unreferenced files that are named one by one.
const NAMED_LEFTOVERS: usize = 20;

/// How [`verify_directory`] works.
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

/// What [`verify_directory`] found.
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

/// Reads a database directory without opening it, whatever state it is in, and lists all damage: each place
/// with file, offset, keyspace and key range where they are known, and with what it means. Changes nothing.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// use esker::repair::{VerifyOptions, verify_directory};
/// let report = verify_directory("data", &VerifyOptions::new().against("backups"))?;
/// for damage in &report.damage {
///     println!("{damage}");
/// }
/// # Ok(()) }
/// ```
///
/// Reads every byte once, values in blob files twice. [`crate::Database::verify`] does the same for tables
/// and blob files of an open database.
///
/// # Errors
/// `NotFound` if there is nothing of a database, `Locked` if a process has it open for writing, `Unsupported`
/// if a newer version wrote part of it, `Io` if a directory cannot be listed. Damage is no error.
#[doc(alias = "VerifyChecksum")]
pub fn verify_directory(dir: impl AsRef<Path>, options: &VerifyOptions) -> Result<DirectoryReport> {
    verify_directory_with(dir, options, |_| {})
}

/// As [`verify_directory`]; `told` gets the report so far after each table and each blob file.
///
/// # Errors
/// Those of [`verify_directory`].
pub fn verify_directory_with(
    dir: impl AsRef<Path>,
    options: &VerifyOptions,
    mut told: impl FnMut(&DirectoryReport),
) -> Result<DirectoryReport> {
    let survey = Survey::of(&options.env, dir.as_ref())?;
    let mut verification = Verification {
        survey: &survey,
        told: &mut told,
        report: DirectoryReport {
            damage: survey.findings.clone(),
            notes: survey.notes.clone(),
            ..DirectoryReport::default()
        },
    };
    match survey.state() {
        Some(state) => verification.check_state(state)?,
        None => verification.check_files()?,
    }
    verification.check_log()?;
    verification.note_leftovers();
    let mut report = verification.report;
    if let Some(against) = &options.against {
        report.comparison = Some(compare(&survey, &options.env, against)?);
    }
    Ok(report)
}

struct Verification<'a> {
    survey: &'a Survey,
    told: &'a mut dyn FnMut(&DirectoryReport),
    report: DirectoryReport,
}

impl Verification<'_> {
    fn check_state(&mut self, state: &DatabaseState) -> Result<()> {
        for keyspace in state.keyspaces.values() {
            self.check_metadata(keyspace);
            let mut shelf = BlobShelf::default();
            for blob in keyspace.version.blob_files().iter() {
                self.check_blob_file(keyspace, blob, &mut shelf)?;
                (self.told)(&self.report);
            }
            let mut files: BTreeMap<FileNumber, Vec<&Arc<PartMeta>>> = BTreeMap::new();
            for (_, _, part) in keyspace.version.parts() {
                files.entry(part.file).or_default().push(part);
            }
            for parts in files.values() {
                self.check_table(keyspace, parts, &shelf)?;
                (self.told)(&self.report);
            }
        }
        Ok(())
    }

    /// Options, and the structure of the tree.
    fn check_metadata(&mut self, keyspace: &KeyspaceState) {
        let number = match &self.survey.basis {
            Basis::Manifest(manifest) | Basis::Prefix(manifest) => manifest.number,
            Basis::Files => return,
        };
        let path = self.survey.dir.join(manifest_name(number));
        if let Err(error) = KeyspaceOptions::decode(&keyspace.options) {
            let what = format!("the options of the keyspace cannot be read: {error}");
            let meaning = "the database does not open";
            self.report.damage.push(Finding::new(&path, None, what, meaning).of(&keyspace.name));
        }
        for problem in keyspace.version.problems() {
            let meaning = "reads may return older values than they should";
            self.report.damage.push(Finding::new(&path, None, problem, meaning).of(&keyspace.name));
        }
    }

    fn check_blob_file(
        &mut self,
        keyspace: &KeyspaceState,
        blob: &LiveBlob,
        shelf: &mut BlobShelf,
    ) -> Result<()> {
        let number = blob.meta.number;
        let path = paths::blob(&self.survey.dir, number);
        let pointers = Some(blob.referenced_count);
        let Some(file) = self.survey.file(FileKind::Blob, number) else {
            let what = "the blob file is missing";
            let meaning = "the database does not open; the large values in it are lost, and the keys are listed \
                           with the tables that point to it";
            let finding = Finding::new(&path, None, what, meaning).of(&keyspace.name);
            self.report.damage.push(finding.over(KeySpan::everything(), pointers));
            return Ok(());
        };
        self.report.blob_files += 1;
        self.report.bytes += file.bytes;
        let expected =
            ExpectedBlob { file_bytes: blob.meta.file_bytes, uid: blob.meta.uid, keyspace: keyspace.id };
        let scanned = scan_blob(&self.survey.env, &path, Some(expected), &mut self.report.blob_values);
        let scanned = scanned.and_then(|records| match records == blob.meta.records {
            true => Ok(()),
            false => {
                let told = blob.meta.records;
                let detail = format!("the manifest says {told} values, the blob file has {records}");
                Err(Error::corruption(&path, None, detail))
            }
        });
        shelf.add(&self.survey.env, number, &path, scanned.is_ok().then_some(keyspace.id))?;
        if let Err(error) = scanned {
            if let Error::Unsupported(_) = error {
                return Err(error);
            }
            let (offset, what) = detail_of(&error);
            let meaning = "reads of the large values there fail; the keys are listed with the tables that point \
                           to it";
            let finding = Finding::new(&path, offset, what, meaning).of(&keyspace.name);
            self.report.damage.push(finding.over(KeySpan::everything(), pointers));
        }
        Ok(())
    }

    /// One table file, of which these are the parts.
    fn check_table(
        &mut self,
        keyspace: &KeyspaceState,
        parts: &[&Arc<PartMeta>],
        shelf: &BlobShelf,
    ) -> Result<()> {
        let Some(part) = parts.first() else { return Ok(()) };
        let path = paths::table(&self.survey.dir, part.file);
        let expected = Expectation::of(keyspace.id, part);
        let state = check_table(&self.survey.env, &path, &expected)?;
        let hull = parts.iter().map(|part| part.range.clone()).reduce(|hull, next| hull.hull(&next));
        let hull = hull.as_ref().map_or_else(KeySpan::everything, KeySpan::of);
        let entries: u64 = parts.iter().map(|part| part.entries).sum();
        if !matches!(state, TableState::Missing) {
            self.report.tables += 1;
            self.report.bytes += part.file_bytes;
        }
        match state {
            TableState::Missing => {
                let meaning = "the database does not open; without the file these keys have no value or an \
                               older one, and deleted keys may come back";
                let finding = Finding::new(&path, None, "the table is missing", meaning).of(&keyspace.name);
                self.report.damage.push(finding.over(hull, Some(entries)));
            }
            TableState::Foreign(what) => {
                let meaning = "reads of these keys fail; nothing of the table that belongs here is left";
                let finding = Finding::new(&path, 0, what, meaning).of(&keyspace.name);
                self.report.damage.push(finding.over(hull, Some(entries)));
            }
            TableState::Whole(whole) => {
                self.count_whole(&whole);
                let detail = contradiction(part, whole.entries, &whole.properties, whole.deleted.as_ref());
                if let Some(what) = detail {
                    let meaning = "reads may return older values than they should";
                    let finding = Finding::new(&path, None, what, meaning).of(&keyspace.name);
                    self.report.damage.push(finding.over(hull, Some(entries)));
                }
            }
            TableState::Damaged(damaged) => {
                self.report.entries += damaged.seen;
                let has_deletes = parts.iter().any(|part| part.range_tombstones > 0);
                let found = findings_of(&path, &damaged, &hull, has_deletes);
                self.report.damage.extend(found.into_iter().map(|finding| finding.of(&keyspace.name)));
            }
        }
        if parts.iter().any(|part| !part.blobs.is_empty()) {
            self.follow_pointers(keyspace, &path, &expected, shelf)?;
        }
        Ok(())
    }

    fn count_whole(&mut self, whole: &WholeTable) {
        self.report.blocks += whole.blocks;
        self.report.entries += whole.entries;
        self.report.range_deletes += whole.properties.range_tombstones;
    }

    /// Reads the value behind every pointer of a table. Neighbouring keys with lost values are one finding.
    fn follow_pointers(
        &mut self,
        keyspace: &KeyspaceState,
        path: &Path,
        expected: &Expectation,
        shelf: &BlobShelf,
    ) -> Result<()> {
        let Ok(file) = self.survey.env.fs.open(path, OpenMode::Read) else { return Ok(()) };
        let bytes = file.len()?;
        let head = TableHead::expected(file, bytes, expected.uid);
        let mut stream = head.stream(expected.global_seqno, expected.entries)?;
        let mut lost: Option<Finding> = None;
        let mut spans = 0;
        let mut value = Vec::new();
        while let Some((key, tag, stored)) = stream.entry() {
            if let Some(pointer) = pointer_in(tag, stored) {
                match shelf.read(key, pointer, &mut value) {
                    Ok(()) => {
                        self.report.pointers += 1;
                        // Beyond a number of spans the last one grows, so that the list stays short.
                        if lost.is_some() && spans < LISTED_SPANS {
                            spans += 1;
                            self.report.damage.extend(lost.take());
                        }
                    }
                    Err(error) => note_lost_value(&mut lost, path, key, &error),
                }
            }
            stream.advance()?;
        }
        self.report.damage.extend(lost);
        for finding in self.report.damage.iter_mut().filter(|finding| finding.keyspace.is_none()) {
            if finding.file == path {
                finding.keyspace = Some(keyspace.name.to_string());
            }
        }
        Ok(())
    }

    /// Without a manifest every file is checked by what it says of itself.
    fn check_files(&mut self) -> Result<()> {
        for file in self.survey.data.values() {
            (self.told)(&self.report);
            self.report.bytes += file.bytes;
            if file.kind == FileKind::Blob {
                self.report.blob_files += 1;
                let scanned = scan_blob(&self.survey.env, &file.path, None, &mut self.report.blob_values);
                if let Err(error) = scanned {
                    let (offset, what) = detail_of(&error);
                    let meaning = "the large values there are lost";
                    self.report.damage.push(Finding::new(&file.path, offset, what, meaning));
                }
                continue;
            }
            self.report.tables += 1;
            let head = TableHead::read(&self.survey.env, &file.path);
            let properties = head.as_ref().and_then(|head| head.end.properties.as_ref());
            let expected = Expectation {
                bytes: file.bytes,
                uid: head.as_ref().map(|head| head.uid).unwrap_or_default(),
                keyspace: properties.map(|properties| properties.keyspace).unwrap_or_default(),
                global_seqno: None,
                entries: None,
            };
            match check_table(&self.survey.env, &file.path, &expected)? {
                TableState::Whole(whole) => self.count_whole(&whole),
                TableState::Damaged(damaged) => {
                    self.report.entries += damaged.seen;
                    let found = findings_of(&file.path, &damaged, &KeySpan::everything(), true);
                    self.report.damage.extend(found);
                }
                TableState::Foreign(what) => {
                    let finding = Finding::new(&file.path, 0, what, "whatever it held is lost");
                    self.report.damage.push(finding);
                }
                TableState::Missing => {}
            }
        }
        Ok(())
    }

    fn check_log(&mut self) -> Result<()> {
        let verdict = super::log::judge(self.survey)?;
        self.report.log_records = verdict.records;
        self.report.damage.extend(verdict.findings);
        self.report.notes.extend(verdict.notes);
        Ok(())
    }

    /// Files that nothing refers to: an interrupted job leaves them, and the next open deletes them.
    fn note_leftovers(&mut self) {
        if self.survey.state().is_none() {
            return;
        }
        let others = self.survey.unreferenced();
        let is_certain = matches!(self.survey.basis, Basis::Manifest(_));
        for (_, file) in others.iter().take(NAMED_LEFTOVERS) {
            let why = if is_certain {
                "an interrupted job left it, and the next open deletes it"
            } else {
                "it may be needed, since the manifest lost its last edits"
            };
            self.report.notes.push(format!("nothing refers to {}: {why}", file.path.display()));
        }
        if let Some(more) = others.len().checked_sub(NAMED_LEFTOVERS + 1) {
            self.report.notes.push(format!("nothing refers to {} more files", more + 1));
        }
    }
}

/// The stored pointer in a value, if it is one.
pub(crate) fn pointer_in(tag: Tag, stored: &[u8]) -> Option<&[u8]> {
    let kind = tag.kind_byte();
    if kind & FLAG_BLOB == 0 {
        return None;
    }
    if kind & FLAG_EXPIRY == 0 { Some(stored) } else { stored.get(esker_base::expiry::EXPIRY_LEN..) }
}

/// Adds a key whose large value cannot be read to the finding of its neighbours.
fn note_lost_value(lost: &mut Option<Finding>, table: &Path, key: &[u8], error: &Error) {
    let what = format!("a pointer to a large value leads nowhere: {error}");
    let one = KeySpan::only(key);
    match lost {
        Some(finding) => {
            if let Some(keys) = &mut finding.keys {
                keys.end = one.end;
            }
            finding.entries_at_most = finding.entries_at_most.map(|entries| entries + 1);
        }
        None => {
            let meaning = "reads of these keys fail where the value is a large one";
            *lost = Some(Finding::new(table, None, what, meaning).over(one, Some(1)));
        }
    }
}

/// Reads all of a blob file; returns the number of its records. Adds those that can be read to `values`.
pub(crate) fn scan_blob(
    env: &Env,
    path: &Path,
    expected: Option<ExpectedBlob>,
    values: &mut u64,
) -> Result<u64> {
    let file = env.fs.open(path, OpenMode::Read)?;
    let bytes = file.len()?;
    if let Some(expected) = expected
        && bytes != expected.file_bytes
    {
        let detail = format!("the file has {bytes} bytes, the manifest says {}", expected.file_bytes);
        return Err(Error::corruption(path, None, detail));
    }
    let reader = match expected {
        Some(expected) => BlobReader::open(file, expected)?,
        None => BlobReader::open_any(file, bytes)?,
    };
    let scanned = reader.scan(|_, _, _| {
        *values += 1;
        Ok(())
    })?;
    Ok(scanned.records)
}

/// The findings of a damaged table: each gap, lost sections, lost range tombstones.
pub(crate) fn findings_of(
    path: &Path,
    damaged: &DamagedTable,
    table: &KeySpan,
    may_have_deletes: bool,
) -> Vec<Finding> {
    let (offset, detail) = detail_of(&damaged.error);
    let mut findings = Vec::new();
    for gap in &damaged.gaps {
        let blocks = match gap.blocks {
            Some(1) => "1 block cannot be read".to_owned(),
            Some(blocks) => format!("{blocks} blocks cannot be read"),
            None => "blocks cannot be read".to_owned(),
        };
        let meaning = "reads of these keys fail; without the blocks they have no value or an older one";
        let finding = Finding::new(path, gap.offset, format!("{blocks} ({detail})"), meaning);
        findings.push(finding.over(gap.keys(table), damaged.missing_at_most));
    }
    if may_have_deletes && !damaged.has_range_tombstones {
        let meaning = "keys that range deletes of this table have removed may come back";
        let what = format!("its range deletes cannot be read ({detail})");
        findings.push(Finding::new(path, offset, what, meaning).over(table.clone(), None));
    }
    if findings.is_empty() {
        let meaning = "every entry can be read by its block, so a repair loses nothing; until then reads of \
                       these keys may fail or be slower";
        findings.push(Finding::new(path, offset, detail, meaning).over(table.clone(), Some(0)));
    }
    findings
}
