//! Table files that nothing refers to yet, held by whoever brings them in.

use crate::paths;
use crate::store::Store;
use esker_base::FileNumber;
use std::path::PathBuf;
use std::sync::Arc;

/// Files in the directory of tables. Dropped, they are removed, unless something may refer to them by then
/// (BL4).
#[derive(Debug)]
pub(crate) struct NewFiles {
    store: Arc<Store>,
    numbers: Vec<FileNumber>,
}

impl NewFiles {
    pub(crate) fn new(store: &Arc<Store>) -> NewFiles {
        NewFiles { store: Arc::clone(store), numbers: Vec::new() }
    }

    /// Answers for a file that is about to be made, and gives its path.
    pub(crate) fn add(&mut self, number: FileNumber) -> PathBuf {
        self.numbers.push(number);
        self.path(number)
    }

    pub(crate) fn path(&self, number: FileNumber) -> PathBuf {
        paths::table(&self.store.dir, number)
    }

    /// Removes a file before the others.
    pub(crate) fn remove(&mut self, number: FileNumber) {
        self.numbers.retain(|other| *other != number);
        self.unlink(&[number]);
    }

    /// Something refers to the files from now on, or may.
    pub(crate) fn claim(&mut self) {
        self.numbers.clear();
    }

    fn unlink(&self, numbers: &[FileNumber]) {
        // A database that was closed may have another owner by now, whose open removes what is left as
        // orphans.
        let _activity = self.store.activity.read_recursive();
        if self.store.check_open().is_err() {
            return;
        }
        for number in numbers {
            // What stays behind is removed at the next open.
            let _ = self.store.env.fs.remove_file(&self.path(*number));
        }
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        let numbers = std::mem::take(&mut self.numbers);
        if !numbers.is_empty() && !std::thread::panicking() {
            self.unlink(&numbers);
        }
    }
}
