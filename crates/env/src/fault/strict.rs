//! Strict in-memory file system: keeps exactly the synced data and names.
//!
//! **Three states.** Every file has a *live* content, which reads return; a *durable* one, as of the last
//! sync; and the changes in between. Every directory has the same three for its names. Length, data,
//! allocation and names are separate: a file may be durable while its name is not, and the other way round.
//!
//! **One trace.** Every change, and every store into a mapping, is an [`Event`] in one order for the whole
//! file system. Tests put marks between them ([`StrictFs::mark`]) to record what had been guaranteed when. A
//! crash test runs a workload once and then goes through the trace with a [`Replayer`]; after any number of
//! events it takes an image of what is left, by [`Crash`], and opens the database there. Images from the
//! trace instead of from the running workload have two advantages: the workload runs once and not once for
//! each cut, and cuts can fall where no test code runs, between two stores of one log record.
//!
//! **Images are whole file systems**, with their own trace, so that recovery can be crashed as well. After a
//! process crash alone the image still knows what was never synced; a second crash, by power, can lose it.
//!
//! **Maps.** A mapping's memory is plain heap memory; each store is also applied to the live content at once,
//! as the page cache would. That stores of one thread reach the page cache in order, and that they are
//! visible once another thread has seen a later release store, is a guarantee of the hardware (CP3) and holds
//! here by the lock. What the real system answers with a signal, a store to a page without a block or past
//! the end, is refused here: mapping a hole is an error, and storing past the end of a truncated file panics.

mod content;
mod crash;
mod disk;
mod event;
mod file;
mod mapping;
mod names;
mod replayer;

pub use crash::Crash;
pub use event::Event;
pub use replayer::Replayer;

use crate::fs::{DirEntry, File, FileLock, FileSystem, LockKind, OpenMode, SharedSync};
use content::PAGE_BYTES;
use disk::{Disk, InodeId};
use esker_base::{Error, Result};
use event::{Change, DataChange};
pub(super) use file::StrictFile;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Features and capacity of a [`StrictFs`].
#[derive(Clone, Debug)]
pub struct StrictOptions {
    /// Result of [`FileSystem::can_map_writable`]; when `false`, mapping is an error.
    pub can_map_writable: bool,
    /// Whether [`File::allocate`] works; when `false`, it returns `Ok(false)`.
    pub can_allocate: bool,
    /// Capacity, counted in pages of 4096; beyond, writing is [`Error::Full`]. `None` for no limit.
    pub capacity_bytes: Option<u64>,
    /// Whether events are recorded. Off for long runs; a crash at the present moment works without.
    pub record_trace: bool,
}

impl Default for StrictOptions {
    fn default() -> StrictOptions {
        StrictOptions { can_map_writable: true, can_allocate: true, capacity_bytes: None, record_trace: true }
    }
}

/// Reported as free when there is no limit.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// The longest file: ext4's limit.
const MAX_FILE_BYTES: u64 = 1 << 44;

/// A strict in-memory file system. Clones are the same file system.
#[derive(Clone)]
pub struct StrictFs {
    shared: Arc<Mutex<StrictState>>,
}

struct StrictState {
    disk: Disk,
    options: StrictOptions,
    /// Counts power losses; makes the boot id.
    boots: u64,
    /// The state before the first recorded event.
    base: Disk,
    /// Recorded only if the options say so.
    events: Vec<Event>,
    /// The content of the last written file before the last event; see [`Crash::ProcessTorn`].
    before_last: Option<(InodeId, Arc<content::Content>)>,
    /// Open files and maps by inode: they keep an unlinked file alive.
    open: BTreeMap<InodeId, usize>,
    /// Held locks by inode; the number counts shared holders.
    locks: BTreeMap<InodeId, (LockKind, usize)>,
    /// Number of inodes after the last collection.
    collected: usize,
}

impl StrictState {
    fn new(disk: Disk, options: StrictOptions, boots: u64) -> StrictState {
        StrictState {
            base: disk.clone(),
            disk,
            options,
            boots,
            events: Vec::new(),
            before_last: None,
            open: BTreeMap::new(),
            locks: BTreeMap::new(),
            collected: 0,
        }
    }

    fn apply(&mut self, path: &Path, change: Change) {
        self.before_last = before(&self.disk, &change);
        self.disk.apply(&change);
        if self.options.record_trace {
            self.events.push(Event { change, path: path.to_path_buf() });
        }
        let inodes = self.disk.files.len() + self.disk.dirs.len();
        if inodes > 2 * self.collected + 64 {
            self.disk.collect(self.open.keys().copied());
            self.collected = self.disk.files.len() + self.disk.dirs.len();
        }
    }

    /// Bytes in use: by files that have a name or are open.
    fn used_bytes(&self) -> u64 {
        let in_use =
            self.disk.files.iter().filter(|(inode, file)| file.links > 0 || self.open.contains_key(inode));
        in_use.map(|(_, file)| file.live.allocated_pages() * PAGE_BYTES as u64).sum()
    }

    fn free_bytes(&self) -> u64 {
        match self.options.capacity_bytes {
            Some(capacity) => capacity.saturating_sub(self.used_bytes()),
            None => UNLIMITED_BYTES,
        }
    }

    /// Takes a lock; `false` if another holder excludes it.
    fn claim(&mut self, inode: InodeId, kind: LockKind) -> bool {
        match self.locks.get_mut(&inode) {
            None => {
                self.locks.insert(inode, (kind, 1));
            }
            Some((LockKind::Shared, holders)) if kind == LockKind::Shared => *holders += 1,
            Some(_) => return false,
        }
        true
    }

    fn release(&mut self, inode: InodeId) {
        if let Some((_, holders)) = self.locks.get_mut(&inode) {
            *holders -= 1;
            if *holders == 0 {
                self.locks.remove(&inode);
            }
        }
    }

    fn opened(&mut self, inode: InodeId) {
        *self.open.entry(inode).or_default() += 1;
    }

    fn closed(&mut self, inode: InodeId) {
        if let Some(count) = self.open.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&inode);
            }
        }
    }
}

/// The content that the file of a write had before it.
fn before(disk: &Disk, change: &Change) -> Option<(InodeId, Arc<content::Content>)> {
    match change {
        Change::Data { inode, change: DataChange::Write { .. } } => {
            disk.files.get(inode).map(|file| (*inode, file.live.clone()))
        }
        _ => None,
    }
}

impl StrictFs {
    /// An empty file system with default options.
    pub fn new() -> StrictFs {
        StrictFs::with_options(StrictOptions::default())
    }

    /// An empty file system.
    pub fn with_options(options: StrictOptions) -> StrictFs {
        StrictFs::of(Disk::empty(), options, 1)
    }

    fn of(disk: Disk, options: StrictOptions, boots: u64) -> StrictFs {
        StrictFs { shared: Arc::new(Mutex::new(StrictState::new(disk, options, boots))) }
    }

    /// Events recorded so far.
    pub fn trace_len(&self) -> usize {
        self.shared.lock().events.len()
    }

    /// The recorded events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.shared.lock().events.clone()
    }

    /// Records an event of the test's own, for instance that a write was acknowledged.
    pub fn mark(&self, number: u64) {
        self.shared.lock().apply(Path::new(""), Change::Mark(number));
    }

    /// Forgets the events recorded so far: the trace starts anew at the present state.
    pub fn forget_trace(&self) {
        let mut state = self.shared.lock();
        state.base = state.disk.clone();
        state.events.clear();
    }

    /// A replayer of the events recorded so far.
    pub fn replayer(&self) -> Replayer {
        let state = self.shared.lock();
        Replayer::new(state.base.clone(), state.events.clone().into(), state.options.clone(), state.boots)
    }

    /// What is left if the machine or the process crashes right after the first `cut` recorded events.
    /// Replays the trace up to there; to go through many cuts, use [`StrictFs::replayer`].
    ///
    /// # Panics
    /// If fewer events were recorded.
    pub fn image(&self, cut: usize, crash: Crash) -> StrictFs {
        let mut replayer = self.replayer();
        replayer.advance_to(cut);
        replayer.image(crash)
    }

    /// What is left if the machine or the process crashes now. Needs no trace.
    pub fn crash(&self, crash: Crash) -> StrictFs {
        let state = self.shared.lock();
        let disk = crash::survive(&state.disk, state.before_last.as_ref(), crash);
        StrictFs::of(disk, state.options.clone(), state.boots + u64::from(crash.is_power_loss()))
    }

    /// Changes [`StrictOptions::capacity_bytes`], as if another program filled or freed the disk.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.shared.lock().options.capacity_bytes = capacity_bytes;
    }

    /// Bytes in use, counted in pages of 4096.
    pub fn used_bytes(&self) -> u64 {
        self.shared.lock().used_bytes()
    }

    /// Opens a file, like [`FileSystem::open`], but keeps its type for [`super::FaultFs`].
    pub(super) fn open_strict(&self, path: &Path, mode: OpenMode) -> Result<Arc<StrictFile>> {
        let operation = match mode {
            OpenMode::CreateNew | OpenMode::CreateOrTruncate => "create",
            _ => "open",
        };
        let failed = |kind: ErrorKind| Error::io(operation, path, kind.into());
        let mut state = self.shared.lock();
        let (dir, name) = state.disk.parent_of(path).map_err(failed)?;
        let inode = match state.disk.child(dir, &name) {
            Some(inode) if state.disk.dirs.contains_key(&inode) => {
                return Err(failed(ErrorKind::IsADirectory));
            }
            Some(_) if mode == OpenMode::CreateNew => return Err(failed(ErrorKind::AlreadyExists)),
            Some(inode) => {
                let empty = state.disk.files.get(&inode).is_none_or(|file| file.live.len() == 0);
                if mode == OpenMode::CreateOrTruncate && !empty {
                    let change = DataChange::SetLen { len: 0 };
                    state.apply(path, Change::Data { inode, change });
                }
                inode
            }
            None if matches!(mode, OpenMode::CreateNew | OpenMode::CreateOrTruncate) => {
                let inode = state.disk.next_inode;
                state.apply(path, Change::Create { dir, name, inode, is_dir: false });
                inode
            }
            None => return Err(failed(ErrorKind::NotFound)),
        };
        state.opened(inode);
        Ok(Arc::new(StrictFile::new(self.clone(), inode, path, mode)))
    }
}

impl Default for StrictFs {
    fn default() -> StrictFs {
        StrictFs::new()
    }
}

impl fmt::Debug for StrictFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        let mut text = f.debug_struct("StrictFs");
        text.field("files", &state.disk.files.len()).field("events", &state.events.len());
        text.field("boots", &state.boots).finish_non_exhaustive()
    }
}

impl FileSystem for StrictFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(self.open_strict(path, mode)?)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let mut state = self.shared.lock();
        names::create_dir_all(&mut state, path)
            .map_err(|kind| Error::io("create the directory", path, kind.into()))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let state = self.shared.lock();
        let failed = |kind: ErrorKind| Error::io("list", dir, kind.into());
        let inode = state.disk.dir_at(dir).map_err(failed)?;
        Ok(names::entries(&state.disk, inode))
    }

    fn file_len(&self, path: &Path) -> Result<Option<u64>> {
        let state = self.shared.lock();
        match state.disk.at(path) {
            Ok(inode) => Ok(state.disk.files.get(&inode).map(|file| file.live.len())),
            Err(ErrorKind::NotFound) => Ok(None),
            Err(kind) => Err(Error::io("inspect", path, kind.into())),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.shared.lock();
        names::rename(&mut state, from, to).map_err(|kind| Error::io("rename", from, kind.into()))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let mut state = self.shared.lock();
        names::remove_file(&mut state, path).map_err(|kind| Error::io("remove", path, kind.into()))
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        let mut state = self.shared.lock();
        names::remove_dir_all(&mut state, path)
            .map_err(|kind| Error::io("remove the directory", path, kind.into()))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.shared.lock();
        names::hard_link(&mut state, from, to).map_err(|kind| Error::io("link", from, kind.into()))
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool> {
        let state = self.shared.lock();
        names::is_same_file(&state, one, other).map_err(|kind| Error::io("look at", one, kind.into()))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.shared.lock();
        let failed = |kind: ErrorKind| Error::io("sync the directory", dir, kind.into());
        let inode = state.disk.dir_at(dir).map_err(failed)?;
        state.apply(dir, Change::SyncDir { dir: inode });
        Ok(())
    }

    fn begin_shared_sync(&self, _dir: &Path) -> Result<Option<Box<dyn SharedSync>>> {
        Ok(Some(Box::new(StrictSharedSync { fs: self.clone() })))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        let mode =
            if self.file_len(path)?.is_some() { OpenMode::ReadWrite } else { OpenMode::CreateOrTruncate };
        let file = self.open_strict(path, mode)?;
        let process = std::process::id();
        if !self.shared.lock().claim(file.inode(), kind) {
            let owner = format!("this process ({process})").into();
            return Err(Error::Locked { path: path.to_path_buf(), owner });
        }
        let lock = StrictLock { file, kind };
        if kind == LockKind::Exclusive {
            // Informational for the next holder, as in the real one.
            let _ = lock.file.write_at(format!("{process}\n").as_bytes(), 0);
        }
        Ok(Box::new(lock))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let state = self.shared.lock();
        let failed = |kind: ErrorKind| Error::io("inspect the file system of", dir, kind.into());
        state.disk.dir_at(dir).map_err(failed)?;
        Ok(state.free_bytes())
    }

    fn can_map_writable(&self, dir: &Path) -> bool {
        let state = self.shared.lock();
        state.options.can_map_writable && state.disk.dir_at(dir).is_ok()
    }

    fn boot_id(&self) -> [u8; 16] {
        let mut id = *b"StrictFs\0\0\0\0\0\0\0\0";
        id[8..].copy_from_slice(&self.shared.lock().boots.to_le_bytes());
        id
    }
}

/// Syncs one file after the other, so that a cut may fall between any two.
#[derive(Debug)]
struct StrictSharedSync {
    fs: StrictFs,
}

impl SharedSync for StrictSharedSync {
    fn sync(&self, files: &[PathBuf]) -> Result<()> {
        files.iter().try_for_each(|file| self.fs.open_strict(file, OpenMode::ReadWrite)?.sync_all())
    }
}

#[derive(Debug)]
struct StrictLock {
    file: Arc<StrictFile>,
    kind: LockKind,
}

impl FileLock for StrictLock {}

impl Drop for StrictLock {
    fn drop(&mut self) {
        if self.kind == LockKind::Exclusive {
            let _ = self.file.set_len(0);
        }
        self.file.fs().shared.lock().release(self.file.inode());
    }
}

fn file_error(operation: &'static str, path: &Path, kind: ErrorKind, text: &str) -> Error {
    Error::io(operation, path, io::Error::new(kind, text))
}
