//! New table files that nothing refers to yet.

use esker_base::{FileNumber, Unwinding};
use esker_engine::state::store::Store;
use esker_view::paths;
use std::path::PathBuf;
use std::sync::Arc;

/// Files in the directory of tables. They are deleted on drop, unless something may refer to them by then
/// (BL4).
#[derive(Debug)]
pub(crate) struct NewFiles {
    store: Arc<Store>,
    numbers: Vec<FileNumber>,
    unwinding: Unwinding,
}

impl NewFiles {
    pub(crate) fn new(store: &Arc<Store>) -> NewFiles {
        NewFiles { store: Arc::clone(store), numbers: Vec::new(), unwinding: Unwinding::watch() }
    }

    /// Registers a file that is about to be created, and returns its path.
    pub(crate) fn add(&mut self, number: FileNumber) -> PathBuf {
        self.numbers.push(number);
        self.path(number)
    }

    pub(crate) fn path(&self, number: FileNumber) -> PathBuf {
        paths::table(&self.store.dir, number)
    }

    /// Deletes a file before the others.
    pub(crate) fn remove(&mut self, number: FileNumber) {
        self.numbers.retain(|other| *other != number);
        self.unlink(&[number]);
    }

    /// Keeps the files, because something refers to them from now on, or may.
    pub(crate) fn claim(&mut self) {
        self.numbers.clear();
    }

    fn unlink(&self, numbers: &[FileNumber]) {
        // A closed database may have another owner by now, whose open removes leftovers as orphans.
        let _activity = self.store.activity.read_recursive();
        if self.store.check_open().is_err() {
            return;
        }
        for number in numbers {
            // Leftovers are removed at the next open.
            let _ = self.store.env.fs.remove_file(&self.path(*number));
        }
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        let numbers = std::mem::take(&mut self.numbers);
        if !numbers.is_empty() && !self.unwinding.began_since() {
            self.unlink(&numbers);
        }
    }
}
