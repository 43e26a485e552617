//! Checkpoints: a copy on the same disk that costs little more than its directory entries.

use super::image::Image;
use super::staging::Staging;
use crate::Database;
use esker_base::{Result, SeqNo};
use esker_engine::file_transfer::{CopyProgress, Progress, Transfer};
use esker_engine::state::store::Store;
use esker_options::CopyKind;
use esker_view::paths;
use std::path::Path;

impl Database {
    /// Makes a copy of the database in another directory, which must be missing or empty, while reads and
    /// writes go on. The copy is a database of its own that shows one moment: every write that was
    /// acknowledged before the call, and atomic batches whole.
    ///
    /// Tables get a second name where the file system allows it, so it takes milliseconds and hardly any
    /// room; what is in memory is written. On another device everything is copied, and every copy is verified
    /// by its checksums. A table with two names is one file: nothing is read, so damage that it has is in the
    /// checkpoint, too. [`Database::verify`] of either finds it, and a [backup](Database::backup) reads every
    /// byte that it takes.
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
    /// `InvalidArgument` if the directory is not empty, `Locked` if another copy is being made there, naming
    /// its process, `Corruption` if a table is damaged, `Full`, `Io`, `ReadOnly`, `Closed`. Nothing is left
    /// there then, and nothing is deleted that another call made.
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
    let staging = Staging::begin(&store.env, to)?;
    let capture = crate::copy::capture::capture(store)?;
    let (env, dir) = (staging.env(), staging.path());
    let image = Image::begin(env, &store.dir, dir, &capture, store.memory.write_buffer_bytes)?;
    let total = image.tables.iter().map(|table| table.bytes).sum();
    let mut progress = Progress::new(total, told);
    let mut report = CheckpointReport { seqno: image.seqno(), ..CheckpointReport::default() };
    let transfer = Transfer { from: &*env.fs, to: &*env.fs };
    for table in &image.tables {
        let linked = if table.is_own {
            progress.advance(table.bytes);
            false
        } else {
            let target = paths::data(dir, table.kind, table.number);
            transfer.link_or_copy(&table.path, &target, table.data(), &mut progress)?
        };
        let (tables, bytes) = if linked {
            (&mut report.linked_tables, &mut report.linked_bytes)
        } else {
            (&mut report.written_tables, &mut report.written_bytes)
        };
        *tables += 1;
        *bytes += table.bytes;
    }
    env.fs.sync_dir(&paths::tables(dir))?;
    image.finish(env, dir)?;
    staging.complete()?;
    Ok(report)
}
