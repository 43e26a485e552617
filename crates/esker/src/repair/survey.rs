//! Survey: what is in a database directory, read without opening the database.
//!
//! The manifest says which files count and in which order. The one that `CURRENT` names is taken if it can be
//! read; otherwise the newest that can. [`Basis`] says how far it is to be trusted.

use super::finding::{Finding, detail_of};
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo, TableUid};
use esker_env::{DirEntry, Env, FileLock, LockKind, OpenMode};
use esker_version::{
    CURRENT_NAME, Current, DatabaseState, DatabaseUuid, FileKind, SalvagedManifest, manifest_name,
    parse_manifest_name, salvage_manifest,
};
use esker_view::paths;
use esker_wal::{LogFile, LogPosition, SalvageInput, salvage, segment_files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How far the metadata is known.
#[derive(Debug)]
pub(crate) enum Basis {
    /// A manifest, and nothing speaks against its being whole.
    Manifest(Box<SalvagedManifest>),
    /// A manifest whose last edits are lost: an earlier state.
    Prefix(Box<SalvagedManifest>),
    /// No manifest: the files speak for themselves.
    Files,
}

/// A table or blob file in the directory.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    pub(crate) kind: FileKind,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// A database directory that is not open.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) log_dir: PathBuf,
    pub(crate) basis: Basis,
    pub(crate) uuid: DatabaseUuid,
    pub(crate) data: BTreeMap<FileNumber, DataFile>,
    pub(crate) segments: Vec<LogFile>,
    /// Above the number in every name, whether it counts or not.
    pub(crate) next_file: FileNumber,
    /// Whether the directory of the log exists; a copy that was never opened has none.
    pub(crate) has_log_dir: bool,
    /// Damage of `CURRENT` and the manifests.
    pub(crate) findings: Vec<Finding>,
    /// What is unusual and no damage.
    pub(crate) notes: Vec<String>,
    _lock: Option<Box<dyn FileLock>>,
}

impl Survey {
    /// Reads the directory, which stays locked against writers.
    ///
    /// # Errors
    /// `NotFound` if there is nothing of a database, `Locked` if one is open, `Unsupported` if a newer
    /// version wrote it.
    pub(crate) fn of(env: &Env, dir: &Path) -> Result<Survey> {
        let mut env = env.clone();
        let dir = env.fs.absolute(dir)?;
        let nothing = || Error::NotFound(format!("there is no database in {}", dir.display()).into());
        let listed = env.fs.list(&dir).map_err(|error| if error.is_not_found() { nothing() } else { error });
        let entries = listed?;
        if let Some(held) = env.fs.hold_dir(&dir)? {
            env.fs = held;
        }
        let lock = match env.fs.file_len(&paths::lock(&dir))? {
            Some(_) => Some(env.fs.lock(&paths::lock(&dir), LockKind::Shared)?),
            None => None,
        };
        let segments = segment_files(&*env.fs, &paths::wal(&dir))?;
        let mut survey = Survey {
            env,
            dir: dir.clone(),
            log_dir: paths::wal(&dir),
            basis: Basis::Files,
            uuid: DatabaseUuid::default(),
            data: BTreeMap::new(),
            segments,
            next_file: FileNumber(1),
            has_log_dir: entries.iter().any(|entry| entry.is_dir && entry.name == "wal"),
            findings: Vec::new(),
            notes: Vec::new(),
            _lock: lock,
        };
        survey.find_data()?;
        let is_there = survey.find_manifest(&entries)?;
        if !is_there && survey.data.is_empty() && survey.segments.is_empty() {
            return Err(nothing());
        }
        survey.doubt_manifest();
        Ok(survey)
    }

    /// The state of the manifest, if there is one.
    pub(crate) fn state(&self) -> Option<&DatabaseState> {
        match &self.basis {
            Basis::Manifest(manifest) | Basis::Prefix(manifest) => Some(&manifest.state),
            Basis::Files => None,
        }
    }

    /// The data file of this kind and number.
    pub(crate) fn file(&self, kind: FileKind, number: FileNumber) -> Option<&DataFile> {
        self.data.get(&number).filter(|file| file.kind == kind)
    }

    /// Table and blob files that no live part refers to.
    pub(crate) fn unreferenced(&self) -> Vec<(FileNumber, &DataFile)> {
        let live = self.state().map(DatabaseState::live_files).unwrap_or_default();
        let is_live = |(number, file): &(&FileNumber, &DataFile)| {
            live.get(number).is_some_and(|live| live.kind == file.kind)
        };
        let others = self.data.iter().filter(|file| !is_live(file));
        others.map(|(number, file)| (*number, file)).collect()
    }

    fn find_data(&mut self) -> Result<()> {
        let tables = paths::tables(&self.dir);
        let entries = match self.env.fs.list(&tables) {
            Err(error) if error.is_not_found() => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = tables.join(&entry.name);
            let known = paths::parse_data(&entry.name)
                .filter(|(kind, number)| !entry.is_dir && paths::data(&self.dir, *kind, *number) == path);
            let Some((kind, number)) = known else {
                self.notes.push(format!("{} is no file of a database and was left alone", path.display()));
                continue;
            };
            self.next_file = self.next_file.max(FileNumber(number.get().saturating_add(1)));
            let twin = self.data.insert(number, DataFile { kind, path, bytes: entry.len });
            if let Some(twin) = twin {
                self.notes.push(format!(
                    "{} has the number of another file and was left alone",
                    twin.path.display()
                ));
            }
        }
        Ok(())
    }

    /// Chooses the manifest; `false` if neither it nor `CURRENT` is there.
    fn find_manifest(&mut self, entries: &[DirEntry]) -> Result<bool> {
        let current_path = self.dir.join(CURRENT_NAME);
        let mut numbers: Vec<FileNumber> =
            entries.iter().filter_map(|entry| parse_manifest_name(&entry.name)).collect();
        numbers.sort();
        let newest = numbers.last().map_or(0, |number| number.get().saturating_add(1));
        self.next_file = self.next_file.max(FileNumber(newest));
        let current = match Current::read(&*self.env.fs, &self.dir) {
            Ok(Some(current)) => Some(current),
            missing_or_damaged => {
                let is_missing = missing_or_damaged.is_ok();
                let (offset, what) = match missing_or_damaged {
                    Err(error) => detail_of(&error),
                    Ok(_) => (None, "the file is missing".to_owned()),
                };
                if is_missing && numbers.is_empty() && self.data.is_empty() && self.segments.is_empty() {
                    return Ok(false);
                }
                let meaning = "it names the manifest that counts: the database does not open";
                self.findings.push(Finding::new(&current_path, offset, what, meaning));
                None
            }
        };
        if let Some(current) = current {
            self.uuid = current.uuid;
            if self.take_manifest(current.manifest, Some(current.uuid), true)? {
                return Ok(true);
            }
        }
        for number in
            numbers.iter().rev().filter(|number| current.is_none_or(|current| current.manifest != **number))
        {
            // What CURRENT does not name is an older state, unless CURRENT itself is lost.
            if self.take_manifest(*number, current.map(|current| current.uuid), current.is_none())? {
                return Ok(true);
            }
        }
        if self.uuid == DatabaseUuid::default() {
            self.uuid = self.commonest_uuid();
        }
        Ok(current.is_some() || !numbers.is_empty())
    }

    /// Takes this manifest as the basis if it can be read.
    fn take_manifest(
        &mut self,
        number: FileNumber,
        uuid: Option<DatabaseUuid>,
        counts: bool,
    ) -> Result<bool> {
        let path = self.dir.join(manifest_name(number));
        let manifest = match salvage_manifest(&*self.env.fs, &path) {
            Ok(manifest) => manifest,
            Err(error @ Error::Unsupported(_)) => return Err(error),
            Err(error) => {
                let (offset, what) = if error.is_not_found() {
                    (None, "the manifest is missing".to_owned())
                } else {
                    detail_of(&error)
                };
                let meaning = "which tables count, their order, and the names and options of keyspaces are lost with it";
                self.findings.push(Finding::new(&path, offset, what, meaning));
                return Ok(false);
            }
        };
        if uuid.is_some_and(|uuid| uuid != manifest.state.uuid) {
            let meaning = "it says nothing about this database";
            self.findings.push(Finding::new(&path, 0, "it is the manifest of another database", meaning));
            return Ok(false);
        }
        let mut is_whole = counts && manifest.number == number;
        if manifest.number != number {
            let what = format!("it is {}, under another name", manifest_name(manifest.number));
            let meaning = "it shows an earlier or later state of the database than the one that counts";
            self.findings.push(Finding::new(&path, 0, what, meaning));
        }
        if let Some(damage) = &manifest.damage {
            is_whole = false;
            let (offset, what) = detail_of(damage);
            let meaning = format!(
                "edits after number {} are lost: tables written since then are not known, and tables replaced \
                 since then count as if they still held",
                manifest.last_edit
            );
            self.findings.push(Finding::new(&path, offset, what, meaning));
        }
        self.uuid = manifest.state.uuid;
        let manifest = Box::new(manifest);
        self.basis = if is_whole { Basis::Manifest(manifest) } else { Basis::Prefix(manifest) };
        Ok(true)
    }

    /// A manifest that lost its last edits at a record's end looks whole. Other files tell.
    fn doubt_manifest(&mut self) {
        let Basis::Manifest(manifest) = &self.basis else { return };
        let path = self.dir.join(manifest_name(manifest.number));
        let state = &manifest.state;
        let headers = || self.segments.iter().filter_map(|segment| segment.header.as_ref());
        let own = || headers().filter(|header| header.db_uuid == state.uuid);
        let later = own().filter(|header| header.log_id >= state.min_log_id);
        let greatest = later.map(|header| header.manifest_edit).max().unwrap_or(0);
        let is_log_gone = !manifest.is_closed
            && manifest.last_edit > 0
            && own().all(|header| header.log_id != state.min_log_id);
        let missing = state.live_files();
        let missing =
            missing.iter().filter(|(number, live)| self.file(live.kind, **number).is_none()).count();
        let unknown = self.unreferenced();
        let unknown = unknown.iter().filter(|(number, _)| !manifest.removed.contains(number)).count();
        let what = if greatest > manifest.last_edit {
            format!("it ends with edit {}, a log segment was begun after edit {greatest}", manifest.last_edit)
        } else if missing > 0 && unknown > 0 {
            format!(
                "it names {missing} table or blob files that are missing, and {unknown} files are there that it \
                 does not know"
            )
        } else if let Some(id) = self.unknown_keyspace_in_log(state) {
            // The id of a keyspace is durable before its first use (WL5).
            format!("the log has writes to keyspace number {id}, of which it does not know")
        } else if is_log_gone && unknown > 0 {
            let first = state.min_log_id;
            format!(
                "it needs log segment {first}, which is missing, and {unknown} files are there that it does not know"
            )
        } else {
            return;
        };
        let meaning = "its last edits seem to be lost: tables written since then are not known, and tables \
                       replaced since then count as if they still held";
        self.findings.push(Finding::new(&path, None, what, meaning));
        if let Basis::Manifest(manifest) = std::mem::replace(&mut self.basis, Basis::Files) {
            self.basis = Basis::Prefix(manifest);
        }
    }

    /// A keyspace that the log writes to and that was not created yet according to the manifest.
    fn unknown_keyspace_in_log(&self, state: &DatabaseState) -> Option<KeyspaceId> {
        let input = SalvageInput {
            files: &self.segments,
            db_uuid: state.uuid,
            min_log_id: state.min_log_id,
            durable: LogPosition::ZERO,
            flushed: SeqNo::ZERO,
        };
        let mut found = None;
        let walked = salvage(&input, &mut |record| {
            let ids = record.entries().flatten().map(|(_, entry)| entry.keyspace);
            found = found.or_else(|| ids.into_iter().find(|id| *id >= state.next_keyspace));
            Ok(())
        });
        walked.ok().and(found)
    }

    /// The database that most files name as theirs.
    fn commonest_uuid(&self) -> DatabaseUuid {
        let mut counts: BTreeMap<DatabaseUuid, usize> = BTreeMap::new();
        for header in self.segments.iter().filter_map(|segment| segment.header.as_ref()) {
            *counts.entry(header.db_uuid).or_default() += 1;
        }
        for file in self.data.values() {
            let head = match file.kind {
                FileKind::Table => super::table_file::TableHead::read(&self.env, &file.path)
                    .and_then(|head| head.end.properties)
                    .map(|properties| properties.db_uuid),
                FileKind::Blob => blob_header(&self.env, &file.path).map(|header| header.db_uuid),
            };
            if let Some(uuid) = head.filter(|uuid| *uuid != DatabaseUuid::default()) {
                *counts.entry(uuid).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map_or(DatabaseUuid::default(), |(uuid, _)| uuid)
    }
}

/// The header of a blob file, if it can be read.
pub(crate) fn blob_header(env: &Env, path: &Path) -> Option<esker_blob::BlobHeader> {
    let file = env.fs.open(path, OpenMode::Read).ok()?;
    let mut bytes = [0; esker_blob::HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    esker_blob::BlobHeader::decode(&bytes).ok()
}

/// The identity that a data file states.
pub(crate) fn uid_of(env: &Env, kind: FileKind, path: &Path) -> Option<TableUid> {
    match kind {
        FileKind::Blob => blob_header(env, path).map(|header| header.uid),
        FileKind::Table => {
            let file = env.fs.open(path, OpenMode::Read).ok()?;
            esker_sst::uid_of_file(&*file, file.len().ok()?).ok()
        }
    }
}
