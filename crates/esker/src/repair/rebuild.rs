//! Repair: a new database from what can be read of a directory.
//!
//! * **RB1** The original is opened for reading only, under its shared lock. Whole files get a second name in
//!   the new directory, or are copied; no byte of the original changes.
//! * **RB2** An entry is never hidden by an older one that was kept: either the tree of a whole manifest
//!   gives the order of tables, or all entries are merged by sequence number.
//! * **RB3** Each wrong or missing answer of the new database lies in a range that the report calls lost or
//!   doubtful.
//! * **RB4** The new directory gets its name last. An interrupted repair leaves a directory whose name says
//!   that it is unfinished, and which the next repair to the same target deletes.

use super::file_pool::FilePool;
use super::finding::{Finding, KeySpan};
use super::report::{LostRange, RepairBasis, RepairReport, RepairedKeyspace};
use super::survey::{Basis, DataFile, Survey};
use super::table_file::{Expectation, TableState, check_table};
use super::verify::scan_blob;
use crate::copy::staging::Staging;
use esker_base::{Error, FileNumber, KeyspaceId, PartId, Result, TableUid};
use esker_blob::ExpectedBlob;
use esker_build::table_factory::TableFactory;
use esker_engine::file_transfer::{Progress, StoredData, Transfer};
use esker_env::Env;
use esker_options::KeyspaceOptions;
use esker_version::{DatabaseState, FileKind, Manifest, manifest_name};
use esker_view::paths;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How [`repair_directory`] works.
#[derive(Clone, Debug)]
#[must_use]
pub struct RepairOptions {
    pub(crate) env: Env,
    pub(crate) refill: Option<PathBuf>,
    pub(crate) is_copied: bool,
}

impl Default for RepairOptions {
    fn default() -> RepairOptions {
        RepairOptions { env: Env::real(), refill: None, is_copied: false }
    }
}

impl RepairOptions {
    /// From the directory alone, with links to whole files where possible.
    pub fn new() -> RepairOptions {
        RepairOptions::default()
    }

    /// Takes damaged and missing tables and blob files from this directory of backups, checkpoint or other
    /// copy, where it has a whole file of the same identity. Names and options of keyspaces, if they are
    /// lost, are taken from it as well.
    pub fn refill(mut self, dir: impl Into<PathBuf>) -> RepairOptions {
        self.refill = Some(dir.into());
        self
    }

    /// Copies whole files instead of linking them, so that the new database shares no disk block with the
    /// damaged one. Default: `false`.
    pub fn copy_files(mut self, is_copied: bool) -> RepairOptions {
        self.is_copied = is_copied;
        self
    }

    /// The environment. Default: the real one.
    pub fn env(mut self, env: Env) -> RepairOptions {
        self.env = env;
        self
    }
}

/// Makes a database in `into`, which must be missing or empty, of what can be read in `dir`, whatever state
/// that is in: without `CURRENT` or manifest, with tables, blob files or parts of the log damaged, missing or
/// exchanged. `dir` is not changed. The report says what was kept, what is lost and what is doubtful.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// use esker::repair::{RepairOptions, repair_directory};
/// let report = repair_directory("data", "data-repaired", &RepairOptions::new().refill("backups"))?;
/// for lost in &report.lost {
///     println!("lost: {}", lost.finding);
/// }
/// let db = esker::Database::open("data-repaired")?;
/// # db.close()?;
/// # Ok(()) }
/// ```
///
/// With a whole manifest only damaged tables are written anew; without one every entry is. Reads every byte
/// at least once. Memory: one block and 1 MiB for each table that overlaps others, 16 MiB for the log, and
/// the index and filter of one table.
///
/// # Errors
/// `NotFound` if there is nothing of a database in `dir`, `Locked` if a process has it open,
/// `InvalidArgument` if `into` is not empty or lies in `dir`, `Unsupported` if a newer version wrote part of
/// it, `Full` and `Io` for the new directory, of which nothing is left then. Damage is no error.
#[doc(alias = "RepairDB")]
pub fn repair_directory(
    dir: impl AsRef<Path>,
    into: impl AsRef<Path>,
    options: &RepairOptions,
) -> Result<RepairReport> {
    let target = options.env.fs.absolute(into.as_ref())?;
    let survey = Survey::of(&options.env, dir.as_ref())?;
    if target.starts_with(&survey.dir) {
        let (target, dir) = (target.display(), survey.dir.display());
        return Err(Error::invalid(format!("{target} lies in {dir}, which must not be changed")));
    }
    let pool = match &options.refill {
        Some(dir) => Some(FilePool::of(&options.env, dir)?),
        None => None,
    };
    let staging = Staging::begin(&options.env, &target)?;
    let (env, new) = (staging.env().clone(), staging.path());
    let fs = &*staging.env().fs;
    fs.create_dir_all(&paths::tables(new))?;
    let above = survey.state().map_or(FileNumber(1), |state| state.next_file).max(survey.next_file);
    let next_part = survey.state().map_or(PartId(1), |state| state.next_part);
    // Both directories are held by their descriptors, so each has its file system.
    let factory = TableFactory::new(env, new.to_path_buf(), survey.uuid, above, next_part);
    let mut rebuild = Rebuild {
        survey: &survey,
        factory: &factory,
        pool,
        is_copied: options.is_copied,
        report: RepairReport { notes: survey.notes.clone(), ..RepairReport::default() },
        lost_options: BTreeMap::new(),
    };
    rebuild.note_basis();
    let mut state = match &survey.basis {
        Basis::Manifest(manifest) => super::by_manifest::rebuild(&mut rebuild, manifest)?,
        Basis::Prefix(_) | Basis::Files => super::by_seqno::rebuild(&mut rebuild)?,
    };
    let manifest = factory.take_file_number();
    (state.next_file, state.next_part) = factory.counters();
    fs.sync_dir(&paths::tables(new))?;
    Manifest::create(&factory.env, new, manifest, &state, 0)?;
    let report = rebuild.finish(&state);
    staging.complete()?;
    Ok(report)
}

/// A repair under way.
pub(crate) struct Rebuild<'a> {
    pub(crate) survey: &'a Survey,
    pub(crate) factory: &'a TableFactory,
    pub(crate) pool: Option<FilePool>,
    pub(crate) is_copied: bool,
    pub(crate) report: RepairReport,
    /// Keyspaces whose options are lost, and whether the name is, too.
    pub(crate) lost_options: BTreeMap<KeyspaceId, bool>,
}

impl<'a> Rebuild<'a> {
    fn note_basis(&mut self) {
        let path = |number| self.survey.dir.join(manifest_name(number));
        self.report.basis = match &self.survey.basis {
            Basis::Manifest(manifest) => RepairBasis::Manifest { file: path(manifest.number) },
            Basis::Prefix(manifest) => {
                RepairBasis::EarlierManifest { file: path(manifest.number), last_edit: manifest.last_edit }
            }
            Basis::Files => RepairBasis::Files,
        };
        self.report.notes.extend(self.survey.findings.iter().map(|finding| {
            let text = finding.to_string();
            text.replace("\n  ", "; ")
        }));
    }

    /// Puts a whole file of the original into the new directory.
    pub(crate) fn keep(
        &mut self,
        kind: FileKind,
        number: FileNumber,
        uid: TableUid,
        bytes: u64,
    ) -> Result<()> {
        let from = paths::data(&self.survey.dir, kind, number);
        let to = paths::data(&self.factory.dir, kind, number);
        let mut told = |_| {};
        let mut progress = Progress::new(bytes, &mut told);
        let data = StoredData { kind, uid, bytes };
        let transfer = Transfer { from: &*self.survey.env.fs, to: &*self.factory.env.fs };
        if self.is_copied {
            transfer.copy_verified(&from, &to, data, &mut progress)?;
        } else {
            transfer.link_or_copy(&from, &to, data, &mut progress)?;
        }
        self.report.kept_files += 1;
        self.report.kept_bytes += bytes;
        Ok(())
    }

    /// Takes the table from the copy; `false` if that has no whole one.
    pub(crate) fn refill_table(&mut self, number: FileNumber, expected: &Expectation) -> Result<bool> {
        let is_whole = |env: &Env, path: &Path| {
            check_table(env, path, expected).map(|state| matches!(state, TableState::Whole(_)))
        };
        self.refill(FileKind::Table, number, expected.uid, expected.bytes, is_whole)
    }

    /// Takes the blob file from the copy; `false` if that has no whole one.
    pub(crate) fn refill_blob(&mut self, number: FileNumber, expected: ExpectedBlob) -> Result<bool> {
        let is_whole = |env: &Env, path: &Path| match scan_blob(env, path, Some(expected), &mut 0) {
            Err(error @ Error::Unsupported(_)) => Err(error),
            scanned => Ok(scanned.is_ok()),
        };
        self.refill(FileKind::Blob, number, expected.uid, expected.file_bytes, is_whole)
    }

    fn refill(
        &mut self,
        kind: FileKind,
        number: FileNumber,
        uid: TableUid,
        bytes: u64,
        is_whole: impl Fn(&Env, &Path) -> Result<bool>,
    ) -> Result<bool> {
        let Some(pool) = &self.pool else { return Ok(false) };
        let own = paths::data(&self.survey.dir, kind, number);
        let found = pool.find(kind, uid).map(Path::to_path_buf);
        let env = pool.env.clone();
        let Some(from) = found.filter(|from| is_whole(&env, from).unwrap_or(false)) else {
            self.report.not_in_copy.push(own);
            return Ok(false);
        };
        let to = paths::data(&self.factory.dir, kind, number);
        let mut told = |_| {};
        let transfer = Transfer { from: &*env.fs, to: &*self.factory.env.fs };
        let data = StoredData { kind, uid, bytes };
        transfer.copy_verified(&from, &to, data, &mut Progress::new(bytes, &mut told))?;
        self.report.refilled.push(own);
        Ok(true)
    }

    /// The options of a keyspace; the defaults if they cannot be read.
    pub(crate) fn options_of(&mut self, id: KeyspaceId, stored: &[u8]) -> KeyspaceOptions {
        KeyspaceOptions::decode(stored).unwrap_or_else(|_| {
            self.lost_options.entry(id).or_insert(false);
            KeyspaceOptions::default()
        })
    }

    /// Reports a loss.
    pub(crate) fn lose(&mut self, finding: Finding) {
        self.report.lost.push(LostRange { finding, seqnos: None });
    }

    /// The data file, if it is there.
    pub(crate) fn data_file(&self, kind: FileKind, number: FileNumber) -> Option<&'a DataFile> {
        self.survey.file(kind, number)
    }

    fn finish(mut self, state: &DatabaseState) -> RepairReport {
        self.report.seqno = state.last_seqno;
        for keyspace in state.keyspaces.values() {
            let parts = || keyspace.version.parts().map(|(_, _, part)| part);
            let lost = self.lost_options.get(&keyspace.id).copied();
            self.report.keyspaces.push(RepairedKeyspace {
                name: keyspace.name.to_string(),
                is_name_lost: lost == Some(true),
                are_options_lost: lost.is_some(),
                tables: parts().count() as u64,
                entries: parts().map(|part| part.entries).sum(),
                blob_files: keyspace.version.blob_files().len() as u64,
            });
        }
        self.report
    }
}

/// A loss of which no key is known.
pub(crate) fn whole_file_lost(path: &Path, what: String, meaning: &str) -> Finding {
    Finding::new(path, None, what, meaning).over(KeySpan::everything(), None)
}
