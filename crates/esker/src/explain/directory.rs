//! Files of a database's directory, and what each of them is for.
//!
//! * XD1. *Every file of the directory is listed once, for one purpose*, whatever the state says: a file that
//!   no tree, log or reader accounts for is listed as such. So the parts add up to the whole.

use crate::Result;
use crate::report::readers::list_open_readers;
use esker_base::{FileNumber, KeyspaceId};
use esker_engine::state::store::Store;
use esker_env::FileSystem;
use esker_version::FileKind;
use esker_view::SuperVersion;
use esker_view::paths;
use esker_view::tree::Tree;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories are walked down to this depth, which no database reaches.
const MOST_DEPTH: usize = 16;

/// What a file is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FilePurpose {
    /// The present tree of a keyspace points to the table.
    Table(KeyspaceId),
    /// The present tree of a keyspace points to the blob file.
    Blob(KeyspaceId),
    /// An ingested table that is not in the tree yet.
    Ingested(KeyspaceId),
    /// An open reader holds a table or blob file that was replaced: its place in [`Purposes::readers`].
    HeldBy(usize),
    /// A table or blob file that is being written, or about to be deleted.
    InTransit,
    /// A segment of the log.
    Log,
    /// A manifest, or its name.
    Manifest,
    /// A directory.
    Directory,
    /// Anything else, such as the lock.
    Other,
}

/// The files of one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileSum {
    /// Their number.
    pub(super) files: u64,
    /// Their length.
    pub(super) bytes: u64,
    /// What they take on the disk.
    pub(super) disk_bytes: u64,
}

impl FileSum {
    fn add(&mut self, bytes: u64, disk_bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.disk_bytes += disk_bytes;
    }
}

/// The directory at one moment.
#[derive(Debug, Default)]
pub(super) struct Directory {
    sums: HashMap<FilePurpose, FileSum, foldhash::fast::FixedState>,
    /// The readers of [`FilePurpose::HeldBy`].
    pub(super) readers: Vec<String>,
}

impl Directory {
    /// Lists the directory of a database. Files are listed before the state is read, so that what was
    /// installed meanwhile is not taken for unknown.
    pub(super) fn of(store: &Store) -> Result<Directory> {
        let mut found = Vec::new();
        list(&*store.env.fs, &store.dir, &mut found, 0)?;
        let purposes = Purposes::of(store);
        let mut directory = Directory { readers: purposes.readers.clone(), ..Directory::default() };
        for file in &found {
            let purpose = purposes.of_file(&store.dir, file);
            directory.sums.entry(purpose).or_default().add(file.bytes, file.disk_bytes);
        }
        Ok(directory)
    }

    /// The files of one purpose.
    pub(super) fn sum(&self, purpose: &FilePurpose) -> FileSum {
        self.sums.get(purpose).copied().unwrap_or_default()
    }

    /// All files.
    pub(super) fn total(&self) -> FileSum {
        let mut total = FileSum::default();
        for sum in self.sums.values() {
            total.files += sum.files;
            total.bytes += sum.bytes;
            total.disk_bytes += sum.disk_bytes;
        }
        total
    }
}

/// A file or directory.
#[derive(Debug)]
struct Found {
    folder: PathBuf,
    name: String,
    is_dir: bool,
    bytes: u64,
    disk_bytes: u64,
}

fn list(fs: &dyn FileSystem, folder: &Path, found: &mut Vec<Found>, depth: usize) -> Result<()> {
    found.push(Found {
        folder: folder.to_path_buf(),
        name: String::new(),
        is_dir: true,
        bytes: 0,
        disk_bytes: fs.disk_bytes(folder)?.unwrap_or(0),
    });
    let entries = match fs.list(folder) {
        Ok(entries) => entries,
        // It was removed since its parent was listed.
        Err(error) if error.is_not_found() && depth > 0 => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        if entry.is_dir {
            if depth < MOST_DEPTH {
                list(fs, &path, found, depth + 1)?;
            }
            continue;
        }
        // `None` for a file that was removed since.
        if let Some(disk_bytes) = fs.disk_bytes(&path)? {
            let (folder, name) = (folder.to_path_buf(), entry.name);
            found.push(Found { folder, name, is_dir: false, bytes: entry.len, disk_bytes });
        }
    }
    Ok(())
}

/// What the state of a database says of its files.
#[derive(Debug, Default)]
struct Purposes {
    tables: HashMap<FileNumber, FilePurpose, foldhash::fast::FixedState>,
    blobs: HashMap<FileNumber, FilePurpose, foldhash::fast::FixedState>,
    readers: Vec<String>,
}

impl Purposes {
    /// Later entries do not replace earlier ones: the present trees come first, then their ingested tables,
    /// then readers, oldest first.
    fn of(store: &Store) -> Purposes {
        let mut purposes = Purposes::default();
        let keyspaces = store.all_keyspaces();
        for keyspace in keyspaces.iter() {
            let view = keyspace.view.load();
            purposes.add_tree(&view.tree, &FilePurpose::Table(keyspace.id), &FilePurpose::Blob(keyspace.id));
            let ingested = view.memtables().filter_map(|view| view.ingested.as_ref());
            for part in ingested.flat_map(|run| run.parts.iter()) {
                purposes.add(FileKind::Table, part.meta.file, &FilePurpose::Ingested(keyspace.id));
            }
        }
        let mut seen: HashSet<*const SuperVersion, foldhash::fast::FixedState> = HashSet::default();
        for reader in store.open_readers.list() {
            let Some(view) = reader.view.as_ref().and_then(|(_, view)| view.upgrade()) else { continue };
            // Readers of one view hold the same files: the oldest one is named.
            if seen.insert(Arc::as_ptr(&view)) {
                let at = purposes.readers.len();
                let age = store.open_readers.age_of(&reader).as_secs();
                purposes.readers.push(format!("a {}, {age} s old", reader.kind));
                purposes.add_tree(&view.tree, &FilePurpose::HeldBy(at), &FilePurpose::HeldBy(at));
            }
        }
        purposes
    }

    fn add_tree(&mut self, tree: &Tree, tables: &FilePurpose, blobs: &FilePurpose) {
        for part in tree.parts() {
            self.add(FileKind::Table, part.meta.file, tables);
        }
        for blob in tree.version.blob_files().iter() {
            self.add(FileKind::Blob, blob.meta.number, blobs);
        }
    }

    fn add(&mut self, kind: FileKind, number: FileNumber, purpose: &FilePurpose) {
        let files = match kind {
            FileKind::Table => &mut self.tables,
            FileKind::Blob => &mut self.blobs,
        };
        files.entry(number).or_insert_with(|| purpose.clone());
    }

    fn of_file(&self, dir: &Path, file: &Found) -> FilePurpose {
        if file.is_dir {
            return FilePurpose::Directory;
        }
        if file.folder == paths::wal(dir) {
            return FilePurpose::Log;
        }
        if file.folder == paths::tables(dir) {
            return match paths::parse_data(&file.name) {
                Some((FileKind::Table, number)) => self.tables.get(&number),
                Some((FileKind::Blob, number)) => self.blobs.get(&number),
                None => None,
            }
            .cloned()
            .unwrap_or(FilePurpose::InTransit);
        }
        let is_manifest = file.name.starts_with("MANIFEST") || file.name.starts_with("CURRENT");
        if file.folder == dir && is_manifest { FilePurpose::Manifest } else { FilePurpose::Other }
    }
}

/// Sequence number distance and age of the oldest reader that keeps log.
pub(super) fn log_readers(store: &Store) -> Vec<String> {
    let readers = list_open_readers(store).into_iter().filter(|reader| reader.log_bytes > 0);
    let named = readers.map(|reader| match reader.name {
        Some(name) => format!("{} \"{}\"", reader.kind, name.escape_debug()),
        None => format!("a stream of {}, {} s old", reader.kind, reader.age.as_secs()),
    });
    named.collect()
}
