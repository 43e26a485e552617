//! Database directory: created with durable names, held by its descriptor, and locked; and the names of its
//! files at an open.

use super::Opening;
use crate::background::quarantine::REPLACEMENT_SUFFIX;
use esker_base::{Error, FileNumber, Result, planted};
use esker_env::fs::parent_dir;
use esker_env::{FileLock, FileSystem, LockKind, OpenMode};
use esker_version::{CURRENT_NAME, CURRENT_TEMPORARY_NAME, DatabaseState, parse_manifest_name};
use esker_view::paths;
use std::path::Path;
use std::sync::Arc;

/// Creates a directory and its ancestors, and makes their names durable: the contents of a directory survive
/// a power cut only if the directory does.
///
/// Existing directories may have been created by a process that was killed before this point, so their names
/// are synced, too, where permitted: other users' directories may be inaccessible to this process.
pub fn make_directory(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let ancestors = || dir.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty());
    // Not every file system can open a directory like a file, but for an existing one none reports that it
    // was not found.
    let is_missing = |dir: &Path| fs.open(dir, OpenMode::Read).is_err_and(|error| error.is_not_found());
    let made = ancestors().take_while(|ancestor| is_missing(ancestor)).count();
    fs.create_dir_all(dir)?;
    for (at, ancestor) in ancestors().enumerate() {
        match fs.sync_dir(&parent_dir(ancestor)) {
            Err(error) if at >= made => {
                tracing::debug!(%error, "a parent directory could not be synced");
            }
            synced => synced?,
        }
    }
    Ok(())
}

impl Opening {
    /// Creates the directory if it is missing, and holds it: from here on the paths of the database mean what
    /// is in this directory.
    pub(super) fn find_directory(&mut self) -> Result<()> {
        let fs = Arc::clone(&self.env.fs);
        if fs.file_len(&self.dir.join(CURRENT_NAME))?.is_none() {
            if self.options.read_only || !self.options.create_if_missing {
                return Err(Error::NotFound(
                    format!("there is no database in {}", self.dir.display()).into(),
                ));
            }
            make_directory(&*fs, &self.dir)?;
        }
        if let Some(held) = fs.hold_dir(&self.dir)?
            && !planted!(FollowsPathAfterRename)
        {
            self.env.fs = held;
        }
        Ok(())
    }

    /// The lock of the directory; none for a read-only open of a directory without a lock file, such as a
    /// copy on a read-only medium.
    pub(super) fn lock(&self) -> Result<Option<Box<dyn FileLock>>> {
        let fs = &self.env.fs;
        if self.options.read_only {
            return match fs.file_len(&paths::lock(&self.dir))? {
                Some(_) => fs.lock(&paths::lock(&self.dir), LockKind::Shared).map(Some),
                None => Ok(None),
            };
        }
        fs.lock(&paths::lock(&self.dir), LockKind::Exclusive).map(Some)
    }

    /// A file number above every name in the directory, so that no number is reused, not even after an open
    /// that failed (RC3).
    pub(super) fn above_all_names(&self, tables_dir: &Path) -> Result<FileNumber> {
        let (tables, others) = (self.env.fs.list(tables_dir)?, self.env.fs.list(&self.dir)?);
        let tables =
            tables.iter().filter_map(|entry| paths::parse_data(&entry.name).map(|(_, number)| number));
        let manifests = others.iter().filter_map(|entry| parse_manifest_name(&entry.name));
        Ok(tables.chain(manifests).max().map_or(FileNumber(1), FileNumber::next))
    }

    /// After the commit point: deletes files unknown to the new state (RC4: everything before succeeded).
    pub(super) fn delete_orphans(
        &self,
        state: &DatabaseState,
        manifest: FileNumber,
        tables_dir: &Path,
    ) -> Result<()> {
        let live = state.live_files();
        for entry in self.env.fs.list(tables_dir)? {
            let is_live = |(kind, number)| live.get(&number).is_some_and(|file| file.kind == kind);
            let orphan = paths::parse_data(&entry.name).is_some_and(|file| !is_live(file));
            let left_over = entry.name.ends_with(REPLACEMENT_SUFFIX);
            if (orphan || left_over) && !entry.is_dir {
                self.env.fs.remove_file(&tables_dir.join(&entry.name))?;
            }
        }
        for entry in self.env.fs.list(&self.dir)? {
            let other_manifest = parse_manifest_name(&entry.name).is_some_and(|number| number != manifest);
            if other_manifest || entry.name == CURRENT_TEMPORARY_NAME {
                self.env.fs.remove_file(&self.dir.join(&entry.name))?;
            }
        }
        Ok(())
    }
}
