//! Numbers and places of new tables: file numbers, part and run ids, the directory.

use esker_base::{FileNumber, PartId, Result, RunId};
use esker_env::{Env, File, FileSystem, OpenMode};
use esker_sst::ScratchFiles;
use esker_view::paths;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates table files: their directory and numbers. Exists before the database is open, because recovery
/// flushes what it replays.
#[derive(Debug)]
pub struct TableFactory {
    /// Where files are created.
    pub env: Env,
    /// The directory of the database.
    pub dir: PathBuf,
    /// The database that tables name as theirs.
    pub db_uuid: [u8; 16],
    numbers: Arc<Numbers>,
}

/// The next numbers, shared by the factories of one database.
#[derive(Debug)]
struct Numbers {
    next_file: AtomicU64,
    next_part: AtomicU64,
}

impl TableFactory {
    /// The factory of a database whose next numbers are these.
    pub fn new(
        env: Env,
        dir: PathBuf,
        db_uuid: [u8; 16],
        next_file: FileNumber,
        next_part: PartId,
    ) -> TableFactory {
        let (next_file, next_part) = (AtomicU64::new(next_file.get()), AtomicU64::new(next_part.get()));
        TableFactory { env, dir, db_uuid, numbers: Arc::new(Numbers { next_file, next_part }) }
    }

    /// A factory that takes numbers from the same counters and creates its files in `fs`.
    #[must_use]
    pub fn writing_to(&self, fs: Arc<dyn FileSystem>) -> TableFactory {
        TableFactory {
            env: Env { fs, ..self.env.clone() },
            dir: self.dir.clone(),
            db_uuid: self.db_uuid,
            numbers: Arc::clone(&self.numbers),
        }
    }

    /// A number for a new file. Taken from memory; every edit raises the stored counter past the numbers it
    /// refers to, and recovery raises it past every name it finds (RC3).
    pub fn take_file_number(&self) -> FileNumber {
        FileNumber(self.numbers.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// A new file without a name: a crash before its name is removed leaves a file that no manifest names,
    /// which the next open deletes.
    ///
    /// # Errors
    /// Those of creating a file and removing its name.
    pub fn create_nameless(&self) -> Result<Arc<dyn File>> {
        let path = paths::table(&self.dir, self.take_file_number());
        let file = self.env.fs.open(&path, OpenMode::CreateNew)?;
        self.env.fs.remove_file(&path)?;
        Ok(file)
    }

    /// An id for a new part.
    pub fn take_part_id(&self) -> PartId {
        PartId(self.numbers.next_part.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a new run; runs share the counter of the parts.
    pub fn take_run_id(&self) -> RunId {
        RunId(self.numbers.next_part.fetch_add(1, Ordering::Relaxed))
    }

    /// The counters as an edit stores them.
    pub fn counters(&self) -> (FileNumber, PartId) {
        (
            FileNumber(self.numbers.next_file.load(Ordering::Relaxed)),
            PartId(self.numbers.next_part.load(Ordering::Relaxed)),
        )
    }
}

impl ScratchFiles for TableFactory {
    fn scratch_file(&self) -> Result<Option<Arc<dyn File>>> {
        let file = self.create_nameless()?;
        Ok(file.descriptor().is_some().then_some(file))
    }
}
