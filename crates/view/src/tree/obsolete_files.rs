//! Obsolete files: tables and blob files that no version refers to, deleted once no reader holds them.
//!
//! IN3. An install marks the files that no part of the new version refers to, after its edit is durable
//! ([`TableFiles::retire`], [`TableFiles::retire_large`](super::blob_files)); the drop of the last reference
//! then hands the path to the deletion worker, which removes its blocks from the cache, sooner or later
//! (BS5), and unlinks it. No directory is synced: a name that reappears after a crash is an orphan, removed
//! at the next open.

use super::table_files::TableFiles;
use super::table_handle::FileIdentity;
use crate::paths;
use esker_base::planted;
use esker_base::{FileNumber, KeyspaceId};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// Files that the current versions do not refer to.
#[derive(Debug)]
pub(super) struct ObsoleteFiles {
    /// Replaced tables, which readers of older versions may hold.
    replaced: Mutex<Vec<Weak<FileIdentity>>>,
    /// Files that nothing refers to: the deletion worker deletes them.
    unreferenced: Mutex<Vec<PathBuf>>,
    /// Held while files are deleted, so that a caller that waits for the lock finds them gone.
    deleting: Mutex<()>,
    request_cleanup: RequestCleanup,
}

/// Schedules [`TableFiles::delete_obsolete`] and the closing of cold tables in the background.
pub struct RequestCleanup(Box<dyn Fn() + Send + Sync>);

impl RequestCleanup {
    /// Cleanup that is requested by this call.
    pub fn new(request: impl Fn() + Send + Sync + 'static) -> RequestCleanup {
        RequestCleanup(Box::new(request))
    }
}

impl std::fmt::Debug for RequestCleanup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestCleanup").finish_non_exhaustive()
    }
}

impl ObsoleteFiles {
    pub(super) fn new(request_cleanup: RequestCleanup) -> ObsoleteFiles {
        ObsoleteFiles {
            replaced: Mutex::default(),
            unreferenced: Mutex::default(),
            deleting: Mutex::default(),
            request_cleanup,
        }
    }

    fn note_replaced(&self, identity: &Arc<FileIdentity>) {
        let mut replaced = self.replaced.lock();
        replaced.retain(|file| file.strong_count() > 0);
        replaced.push(Arc::downgrade(identity));
    }
}

impl TableFiles {
    /// Marks a table for deletion once the last reader releases it. Only after the edit that removed it is
    /// durable.
    pub fn retire(&self, number: FileNumber) {
        match self.forget(number) {
            Some(identity) => {
                identity.retire();
                if planted!(DeletesHeldTable) {
                    self.note_unreferenced(paths::table(&self.dir, number));
                }
                self.obsolete.note_replaced(&identity);
            }
            None => self.note_unreferenced(paths::table(&self.dir, number)),
        }
    }

    /// Bytes of a keyspace's tables that were replaced and that readers still hold.
    pub fn held_bytes(&self, keyspace: KeyspaceId) -> u64 {
        let replaced = self.obsolete.replaced.lock();
        let held = replaced.iter().filter_map(Weak::upgrade);
        held.filter(|file| file.keyspace() == keyspace).map(|file| file.file_bytes()).sum()
    }

    /// Marks a file that nothing refers to for the next [`TableFiles::delete_obsolete`].
    pub(super) fn note_unreferenced(&self, path: PathBuf) {
        self.obsolete.unreferenced.lock().push(path);
    }

    /// Whether files are to be deleted, or enough blocks of deleted files to be removed from the cache.
    pub fn has_obsolete(&self) -> bool {
        !self.obsolete.unreferenced.lock().is_empty() || self.cache().should_remove_dropped()
    }

    /// Deletes the files that nothing refers to: when it returns they are gone, those that another thread has
    /// begun to delete included. One unlink for each.
    pub fn delete_obsolete(&self) {
        let _deleting = self.obsolete.deleting.lock();
        let unreferenced = std::mem::take(&mut *self.obsolete.unreferenced.lock());
        if self.cache().should_remove_dropped() {
            self.cache().remove_dropped_tables();
        }
        for path in unreferenced {
            if let Err(error) = self.env.fs.remove_file(&path)
                && !error.is_not_found()
            {
                // Only space is lost: the next open removes it as an orphan.
                tracing::warn!(path = %path.display(), %error, "an obsolete file could not be removed");
            }
        }
    }

    /// Schedules the deletion of obsolete files and the closing of cold tables.
    pub fn request_cleanup(&self) {
        (self.obsolete.request_cleanup.0)();
    }
}
