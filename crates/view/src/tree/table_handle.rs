//! A table file, and the ways in which it is open.
//!
//! # Owners of an open table
//! An open table costs a descriptor, its index and its filter, so only a bounded number is open at a time.
//! Three owners hold it open:
//!
//! 1. The *cell* of the [`TableHandle`] by which trees refer to it. It is the fast path: a lookup has pinned
//!    a view, and borrows the table from there without a lock and without a reference count. So a cell cannot
//!    be emptied while a view refers to it.
//! 2. The file's *identity*, which *keeps* it from when it is opened until it is closed.
//! 3. A current reader that borrowed it.
//!
//! Closing a table removes it from the identity and, if the cell has it too, publishes a tree that refers to
//! the same file by a fresh `TableHandle`, whose cell is empty ([`FileIdentity::close`],
//! [`super::Tree::renewed`]). Readers of older views keep their table until they are dropped; later readers
//! open it again. Which table is closed, and when, is decided in [`super::table_cache`].
//!
//! Range tombstones are borrowed for longer than a lookup, by cursors that seek over deleted ranges. They
//! have a cell of their own, which is filled whatever is open: they are few bytes, and are dropped with the
//! `TableHandle`.
//!
//! # Invariants
//! * OT1. A file has one identity as long as anything refers to it, and an identity has one open table at a
//!   time: opening checks under the identity's lock whether the last one still exists. So closing and opening
//!   again costs no second descriptor while old views exist, and the table finds its blocks in the cache (HM2
//!   in `esker-sst`).
//! * OT2. A file is scheduled for deletion by the drop of its identity, hence once, and after all
//!   `TableHandle`s of it, the present one and those of old views (IN3).
//! * OT3. A cell is filled under the identity's lock, only while its `TableHandle` is the one of the current
//!   tree, the identity keeps the table, and no more tables are open than the limit says. So what the current
//!   tree holds open can be closed, and old views together never hold more open than the limit, whatever
//!   their number and age.
//! * OT4. Tables open beyond the limit are kept by identities alone and can be closed at once; tables open
//!   beyond the headroom above the limit are kept only by their readers.
//! * OT5. The trees of a keyspace are built and published one at a time
//!   (`KeyspaceState::publication`), so that a tree built before a table was closed is not
//!   published after it, with the old cell in it.
//!
//! # Rejected
//! * Emptying cells in place, with hazard pointers or epochs: views pin already; one more protocol on every
//!   lookup.
//! * Lookups that clone the table's `Arc`: two writes to a shared line for each table searched.

use super::table_cache::RingPosition;
use super::table_files::TableFiles;
use super::unreadable::Refusal;
use esker_base::{Error, FileNumber, KeyspaceId, QuarantinedRange, ResidentOnly, Result};
use esker_env::TimedFile;
use esker_iter::RangeTombstones;
use esker_sst::{ExpectedTable, Table, TableIdentity};
use esker_version::PartMeta;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A table file as trees refer to it: its identity, and the cell of the fast path.
#[derive(Debug)]
pub struct TableHandle {
    table: OnceLock<Arc<Table>>,
    /// The table's range tombstones, if it has any and they were requested.
    range_deletes: OnceLock<Arc<RangeTombstones>>,
    /// Whether a lookup or seek used it since the hand last passed.
    used: AtomicBool,
    /// Whether another one has replaced it in the current tree.
    superseded: AtomicBool,
    identity: Arc<FileIdentity>,
}

/// The identity of a file across closing and opening.
#[derive(Debug)]
pub struct FileIdentity {
    files: Arc<TableFiles>,
    number: FileNumber,
    path: PathBuf,
    file_bytes: u64,
    expected: ExpectedTable,
    /// To be deleted once nothing refers to it.
    obsolete: AtomicBool,
    /// As [`TableHandle::used`], by readers that did not find the cell filled.
    used: AtomicBool,
    /// Sampled reads since the open: see the engine's `read_heat`. They order nothing, so relaxed
    /// ordering suffices.
    reads: AtomicU64,
    open: Mutex<OpenState>,
    place: RingPosition,
    /// The one that new trees refer to. Locked after `open`.
    current: Mutex<Weak<TableHandle>>,
    /// Why the file is not opened, if it is quarantined (QU1).
    refusal: Refusal,
}

#[derive(Debug, Default)]
struct OpenState {
    /// Created at the first opening, or by the merge that wrote the table.
    identity: Option<Arc<TableIdentity>>,
    /// The one table (OT1).
    table: Weak<Table>,
    kept: Option<Arc<Table>>,
}

/// How a table that is not in its cell will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A lookup or seek, likely to be repeated.
    Use,
    /// A passing scan, which does not predict further use.
    Pass,
    /// Read once from end to end: a compaction's input, a table that is verified.
    Once,
}

/// The remains of a closed table, to be dropped outside of all locks.
#[derive(Debug)]
pub struct Closed {
    _kept: Arc<Table>,
    /// Keeps the file for the next tree until that is built. `None` if the tree can stay as it is.
    pub fresh: Option<Arc<TableHandle>>,
}

impl TableHandle {
    /// The table if the cell has it.
    #[inline]
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.table.get()
    }

    /// The table if the cell has it, for a lookup or a seek.
    #[inline]
    pub fn opened_for_use(&self) -> Option<&Arc<Table>> {
        let table = self.table.get()?;
        // Stored only if it changes, so that a hot file's cache line is not written to.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(table)
    }

    /// Counts sampled reads.
    #[cold]
    pub fn note_reads(&self, reads: u64) {
        self.identity.reads.fetch_add(reads, Ordering::Relaxed);
    }

    /// Sampled reads since the open.
    pub fn reads(&self) -> u64 {
        self.identity.reads.load(Ordering::Relaxed)
    }

    /// The table from whatever owner, with a reference count.
    pub fn table(&self, access: Access) -> Result<Arc<Table>> {
        let in_cell = if access == Access::Use { self.opened_for_use() } else { self.opened() };
        in_cell.map_or_else(|| self.open(access), |table| Ok(Arc::clone(table)))
    }

    /// The table's range tombstones, to borrow from as long as a view refers to the file.
    #[inline]
    pub fn range_deletes(&self) -> Result<&Arc<RangeTombstones>> {
        match self.range_deletes.get() {
            Some(deletes) => Ok(deletes),
            None => self.take_range_deletes(),
        }
    }

    #[cold]
    fn take_range_deletes(&self) -> Result<&Arc<RangeTombstones>> {
        let table = self.table(Access::Use)?;
        Ok(self.range_deletes.get_or_init(|| Arc::clone(table.range_tombstones())))
    }

    /// Whether views hold parts of the table by this file.
    fn is_filled(&self) -> bool {
        self.table.get().is_some() || self.range_deletes.get().is_some()
    }

    /// The table, opened if necessary, when the cell does not have it.
    #[cold]
    pub fn open(&self, access: Access) -> Result<Arc<Table>> {
        let identity = &self.identity;
        let files = &identity.files;
        let mut open = identity.open.lock();
        let (table, is_new) = match open.table.upgrade() {
            Some(table) => (table, false),
            None => (identity.open_file(&mut open)?, true),
        };
        if access != Access::Once {
            let room = files.room();
            if open.kept.is_none() {
                // Not marked as used: once is not again. A table opened for one lookup is evicted first,
                // otherwise it would displace tables in use.
                if room.may_keep {
                    open.kept = Some(Arc::clone(&table));
                    files.eviction.enter(identity);
                }
            } else if access == Access::Use {
                identity.used.store(true, Ordering::Relaxed);
            }
            if room.may_fill && self.is_current() {
                // A concurrent thread put the same table there (OT1).
                let _ = self.table.set(Arc::clone(&table));
            }
        }
        drop(open);
        if is_new {
            files.note_opening();
        }
        Ok(table)
    }

    fn is_current(&self) -> bool {
        !self.is_superseded() && !self.identity.obsolete.load(Ordering::Relaxed)
    }

    /// Whether new trees refer to the file by another one.
    pub fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    /// What is shared by all cells of this file.
    pub fn identity(&self) -> &Arc<FileIdentity> {
        &self.identity
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.identity.path
    }

    /// The keys that cannot be read, if the file is quarantined and not opened.
    pub fn refusal(&self) -> Option<Arc<QuarantinedRange>> {
        self.identity.refusal.get()
    }

    /// The file's number.
    pub fn number(&self) -> FileNumber {
        self.identity.number
    }

    /// An error unless the file exists with its recorded length: the check at open, without reading it.
    pub fn check_presence(&self) -> Result<()> {
        let identity = &*self.identity;
        match identity.files.env.fs.file_len(&identity.path)? {
            Some(len) if len == identity.file_bytes => Ok(()),
            Some(len) => {
                let detail = format!("the manifest says {} bytes, the file has {len}", identity.file_bytes);
                Err(Error::corruption(&identity.path, None, detail))
            }
            None => {
                let detail = "the manifest names this table, but the file is missing";
                Err(Error::corruption(&identity.path, None, detail))
            }
        }
    }
}

impl FileIdentity {
    /// The file of a part, not yet opened.
    pub fn new(
        files: &Arc<TableFiles>,
        keyspace: KeyspaceId,
        part: &PartMeta,
        path: PathBuf,
    ) -> Arc<FileIdentity> {
        Arc::new(FileIdentity {
            files: Arc::clone(files),
            number: part.file,
            path,
            file_bytes: part.file_bytes,
            expected: ExpectedTable { uid: part.table_uid, keyspace, global_seqno: part.global_seqno },
            obsolete: AtomicBool::new(false),
            used: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            open: Mutex::default(),
            place: RingPosition::default(),
            current: Mutex::default(),
            refusal: Refusal::default(),
        })
    }

    /// The `TableHandle` for a tree that is being built.
    pub fn current(self: &Arc<Self>) -> Arc<TableHandle> {
        let mut current = self.current.lock();
        current.upgrade().unwrap_or_else(|| {
            let file = TableHandle::new(self);
            *current = Arc::downgrade(&file);
            file
        })
    }

    /// Takes over the identity that the table was given while it was written, unless it has been opened
    /// before.
    pub fn inherit(&self, identity: &Arc<TableIdentity>) {
        self.open.lock().identity.get_or_insert_with(|| Arc::clone(identity));
    }

    fn open_file(&self, open: &mut OpenState) -> Result<Arc<Table>> {
        self.refusal.check()?;
        ResidentOnly::check(&self.path)?;
        let identity = match &open.identity {
            Some(identity) => identity,
            None => {
                let watch = self.files.watch_of(self.expected.keyspace);
                open.identity.insert(TableIdentity::with_filter_watch(&self.files.tables, Some(watch))?)
            }
        };
        let files = &self.files;
        let file = files.reads.open(&*files.env.fs, &self.path)?;
        let file = Arc::new(TimedFile::new(file, &files.rates, &files.env.clock));
        let reading = self.files.reading(self.expected.keyspace);
        let table =
            Table::open_for(file, self.file_bytes, Some(self.expected), Arc::clone(identity), reading)?;
        let table = Arc::new(table);
        open.table = Arc::downgrade(&table);
        Ok(table)
    }

    /// Closes the table for later readers. `None` if it is not kept open. The caller holds the lock of
    /// the keyspace's `publication` and, if there is a fresh file, publishes a tree with it before releasing
    /// that (OT5).
    pub fn close(self: &Arc<Self>) -> Option<Closed> {
        let mut open = self.open.lock();
        let kept = open.kept.take()?;
        self.files.eviction.leave(self);
        let mut current = self.current.lock();
        let is_filled = current.upgrade().filter(|file| file.is_filled());
        // A table that only old views refer to is closed with them.
        let in_tree = is_filled.filter(|_| !self.obsolete.load(Ordering::Relaxed));
        let fresh = in_tree.map(|old| {
            old.superseded.store(true, Ordering::Relaxed);
            let fresh = TableHandle::new(self);
            *current = Arc::downgrade(&fresh);
            fresh
        });
        Some(Closed { _kept: kept, fresh })
    }

    /// Refuses to open the file from now on (QU1). Called before a tree refers to it.
    pub fn refuse(&self, range: Arc<QuarantinedRange>) {
        self.refusal.set(range);
    }

    /// Forgets the file as it was: another one with the same identity is in its place. The caller holds the
    /// lock of the keyspace's `publication` and publishes a [`super::Tree::renewed`] tree before releasing it
    /// (OT5). Readers of older views keep the table that they have open. Drop the result outside of all
    /// locks.
    pub fn begin_anew(self: &Arc<Self>) -> (Option<Arc<Table>>, Arc<TableHandle>) {
        let mut open = self.open.lock();
        if open.kept.is_some() {
            self.files.eviction.leave(self);
        }
        let kept = std::mem::take(&mut *open).kept;
        self.refusal.lift();
        let mut current = self.current.lock();
        if let Some(old) = current.upgrade() {
            old.superseded.store(true, Ordering::Relaxed);
        }
        let fresh = TableHandle::new(self);
        *current = Arc::downgrade(&fresh);
        (kept, fresh)
    }

    /// Bytes of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Whether it was used since the last call.
    pub fn take_use(&self) -> bool {
        let current = self.current.lock().upgrade();
        let by_cell = current.is_some_and(|file| take(&file.used));
        take(&self.used) || by_cell
    }

    /// Bytes of memory that the table takes, if it is kept open.
    pub fn kept_bytes(&self) -> Option<u64> {
        self.open.lock().kept.as_ref().map(|table| table.memory_bytes() as u64)
    }

    /// Deletes it when nothing refers to it any more.
    pub fn retire(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    pub(super) fn place(&self) -> &RingPosition {
        &self.place
    }

    /// The keyspace that the table belongs to.
    pub fn keyspace(&self) -> KeyspaceId {
        self.expected.keyspace
    }
}

/// Clears a flag; writes only if it was set.
fn take(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed)
}

impl TableHandle {
    fn new(identity: &Arc<FileIdentity>) -> Arc<TableHandle> {
        Arc::new(TableHandle {
            table: OnceLock::new(),
            range_deletes: OnceLock::new(),
            used: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            identity: Arc::clone(identity),
        })
    }
}

impl Drop for FileIdentity {
    fn drop(&mut self) {
        self.files.eviction.leave(self);
        // Closed before it is deleted, and its blocks are no longer needed.
        let open = std::mem::take(self.open.get_mut());
        let has_blocks = open.identity.is_some();
        drop(open);
        let delete = self.obsolete.load(Ordering::Acquire);
        if delete {
            self.files.note_unreferenced(std::mem::take(&mut self.path));
        }
        if delete || has_blocks {
            self.files.request_cleanup();
        }
    }
}
