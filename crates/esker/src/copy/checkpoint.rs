//! Checkpoints: a copy on the same disk that costs little more than its directory entries.

use super::image::Image;
use crate::Database;
use esker_base::{Error, Result, SeqNo};
use esker_engine::file_transfer::{CopyProgress, Progress, link_or_copy};
use esker_engine::lifecycle::open::make_directory;
use esker_engine::state::store::Store;
use esker_env::FileSystem;
use esker_env::fs::parent_dir;
use esker_options::CopyKind;
use esker_view::paths;
use std::path::{Path, PathBuf};

impl Database {
    /// Makes a copy of the database in another directory, which must be missing or empty, while reads and
    /// writes go on. The copy is a database of its own that shows one moment: every write that was
    /// acknowledged before the call, and atomic batches whole.
    ///
    /// Tables get a second name where the file system allows it, so it takes milliseconds and hardly any
    /// room; what is in memory is written. On another device everything is copied.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// let db = esker::Database::open("data")?;
    /// let report = db.checkpoint("data-before-the-migration")?;
    /// println!("{} tables linked, {} written", report.linked_tables, report.written_tables);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the directory is not empty, `Full`, `Io`, `ReadOnly`, `Closed`; nothing is left
    /// there then.
    #[doc(alias = "CreateCheckpoint")]
    #[doc(alias = "Checkpoint")]
    #[doc(alias = "hard link")]
    #[doc(alias = "snapshot_to")]
    pub fn checkpoint(&self, to: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(to, |_| {})
    }

    /// As [`Database::checkpoint`], telling how far it is.
    pub fn checkpoint_with(
        &self,
        to: impl AsRef<Path>,
        mut told: impl FnMut(CopyProgress),
    ) -> Result<CheckpointReport> {
        let (store, to) = (&self.handle().store, to.as_ref());
        let began_ns = store.monotonic_ns();
        let copied = checkpoint(store, to, &mut told);
        super::report_end(store, CopyKind::Checkpoint, to, began_ns, copied, |report| report.seqno)
    }
}

/// Suffix of the name of a directory in which a copy is being made. No other directory has such a name, so
/// leftovers of an interrupted copy are recognised and deleted.
pub(crate) const INCOMPLETE_SUFFIX: &str = ".esker-incomplete";

/// The contents of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Its moment: it contains every write up to this sequence number, and none after.
    pub seqno: SeqNo,
    /// Tables that were hard-linked; blob files count as tables in all copies.
    pub linked_tables: u64,
    /// Their bytes, which take no space as long as the database keeps the tables, too.
    pub linked_bytes: u64,
    /// Tables that were written: from memtables, and all where links are not possible.
    pub written_tables: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

/// See [`crate::Database::checkpoint`].
pub(crate) fn checkpoint(
    store: &Store,
    to: &Path,
    told: &mut dyn FnMut(CopyProgress),
) -> Result<CheckpointReport> {
    let _activity = store.activity.read_recursive();
    // Before anything is created at the target.
    store.check_open()?;
    store.writing()?;
    let fs = &*store.env.fs;
    check_vacant(fs, to)?;
    let unfinished = Unfinished::create(fs, to)?;
    let capture = crate::copy::capture::capture(store)?;
    let dir = unfinished.path();
    let buffer = store.memory.write_buffer_bytes;
    let image = Image::begin(&store.env, &store.dir, dir, &capture, buffer)?;
    let total = image.tables.iter().map(|table| table.bytes).sum();
    let mut progress = Progress::new(total, told);
    let mut report = CheckpointReport { seqno: image.seqno(), ..CheckpointReport::default() };
    for table in &image.tables {
        let linked = if table.is_own {
            progress.advance(table.bytes);
            false
        } else {
            let target = paths::data(dir, table.kind, table.number);
            link_or_copy(&store.env, &table.path, &target, table.bytes, &mut progress)?
        };
        let (tables, bytes) = if linked {
            (&mut report.linked_tables, &mut report.linked_bytes)
        } else {
            (&mut report.written_tables, &mut report.written_bytes)
        };
        *tables += 1;
        *bytes += table.bytes;
    }
    fs.sync_dir(&paths::tables(dir))?;
    image.finish(&store.env, dir)?;
    unfinished.complete(to)?;
    Ok(report)
}

/// An error unless `path` does not exist or is an empty directory.
pub(crate) fn check_vacant(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let occupied = match fs.list(path) {
        Ok(entries) => !entries.is_empty(),
        Err(error) if error.is_not_found() => false,
        // Not a directory, or not readable: creating one there would fail as well.
        Err(error) => return Err(error),
    };
    if occupied {
        let path = path.display();
        return Err(Error::invalid(format!("{path} is not empty; a copy needs a directory of its own")));
    }
    Ok(())
}

/// A directory in which a copy is made, deleted unless it is completed.
pub(crate) struct Unfinished<'a> {
    fs: &'a dyn FileSystem,
    path: PathBuf,
    is_complete: bool,
}

impl<'a> Unfinished<'a> {
    /// Creates the directory beside `target`. Leftovers of an interrupted copy are deleted.
    pub(crate) fn create(fs: &'a dyn FileSystem, target: &Path) -> Result<Unfinished<'a>> {
        let mut name = target.file_name().map(std::ffi::OsString::from).ok_or_else(|| {
            Error::invalid(format!("{} does not name a directory to be made", target.display()))
        })?;
        name.push(INCOMPLETE_SUFFIX);
        let path = target.with_file_name(name);
        match fs.list(&path) {
            Ok(_) => fs.remove_dir_all(&path)?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        make_directory(fs, &path)?;
        Ok(Unfinished { fs, path, is_complete: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory its final name, durable; everything in it is durable already.
    pub(crate) fn complete(mut self, target: &Path) -> Result<()> {
        self.fs.sync_dir(&self.path)?;
        self.fs.rename(&self.path, target)?;
        self.is_complete = true;
        self.fs.sync_dir(&parent_dir(target))
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            // Leftovers are recognised by their name and deleted by the next attempt.
            let _ = self.fs.remove_dir_all(&self.path);
        }
    }
}
