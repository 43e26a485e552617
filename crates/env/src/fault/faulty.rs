//! Fault injection: a file system whose calls fail by rule.

use super::rules::{Fault, Operation, Rule, When};
use super::strict::{StrictFile, StrictFs};
use crate::fs::{DirEntry, File, FileLock, FileSystem, LockKind, Mapping, OpenMode, ReadPattern, SharedSync};
use crate::random::SeededRandom;
use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system that forwards every call to another one, counts it, and makes it fail where a [`Rule`]
/// matches. Clones are the same file system.
///
/// A sweep over every call of a workload runs it once without rules, reads [`FaultFs::total_calls`], and then
/// once for each number `n` with a rule [`When::Nth`]`(n)`.
///
/// A test of a race *during* a call needs no second thread and no luck: [`FaultFs::interrupt`] runs an action
/// in the middle of the call.
///
/// Stores into mappings do not pass through here: they cannot fail.
#[derive(Clone, Debug)]
pub struct FaultFs {
    inner: Arc<dyn FileSystem>,
    /// The same as `inner`, if that is a strict one.
    strict: Option<StrictFs>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug)]
struct Armed {
    rule: Rule,
    seen: u64,
    random: SeededRandom,
}

struct Interruption {
    operation: Operation,
    path_contains: String,
    action: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Interruption");
        text.field("operation", &self.operation).field("path_contains", &self.path_contains);
        text.finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Faults {
    rules: Vec<Armed>,
    interruptions: Vec<Interruption>,
    calls: BTreeMap<Operation, u64>,
    injected: u64,
}

impl Faults {
    /// Counts a call; returns the fault of the first rule that hits it. Every matching rule counts it.
    fn meet(&mut self, operation: Operation, path: &Path) -> Option<Fault> {
        *self.calls.entry(operation).or_default() += 1;
        let mut hit = None;
        for armed in self.rules.iter_mut().filter(|armed| armed.rule.is_about(operation, path)) {
            armed.seen += 1;
            let hits = match armed.rule.when {
                When::Nth(number) => armed.seen == number,
                When::From(number) => armed.seen >= number,
                When::Chance { probability, .. } => {
                    // 53 bits fill the mantissa of a number in 0..1.
                    let drawn = armed.random.below(1 << 53) as f64 / (1u64 << 53) as f64;
                    drawn < probability
                }
            };
            if hits {
                hit = hit.or(Some(armed.rule.fault));
            }
        }
        self.injected += u64::from(hit.is_some());
        hit
    }

    /// The oldest interruption for such a call.
    fn take_interruption(&mut self, operation: Operation, path: &Path) -> Option<Interruption> {
        let path = path.to_string_lossy();
        let meant =
            |waiting: &Interruption| waiting.operation == operation && path.contains(&waiting.path_contains);
        let at = self.interruptions.iter().position(meant)?;
        Some(self.interruptions.remove(at))
    }
}

/// The code of an I/O error on every Unix, for the error text.
const EIO: i32 = 5;

impl FaultFs {
    /// Wraps a file system.
    pub fn new(inner: Arc<dyn FileSystem>) -> FaultFs {
        FaultFs { inner, strict: None, faults: Arc::default() }
    }

    /// Wraps a strict file system, whose pages a [`Fault::LostSync`] can mark clean.
    pub fn over_strict(inner: StrictFs) -> FaultFs {
        FaultFs { inner: Arc::new(inner.clone()), strict: Some(inner), faults: Arc::default() }
    }

    /// Adds a rule, which counts from the next call. Of several rules for a call the first applies.
    pub fn add(&self, rule: Rule) {
        let seed = match rule.when {
            When::Chance { seed, .. } => seed,
            When::Nth(_) | When::From(_) => 0,
        };
        self.faults.lock().rules.push(Armed { rule, seen: 0, random: SeededRandom::new(seed) });
    }

    /// Runs an action in the middle of the next call of this kind on a path that contains this text, once,
    /// before the call is done or fails: as another thread might. The action may use the file system; of
    /// several for one call the oldest runs, the next at the call after.
    pub fn interrupt(
        &self,
        operation: Operation,
        path_contains: &str,
        action: impl FnOnce() + Send + 'static,
    ) {
        let path_contains = path_contains.to_owned();
        let interruption = Interruption { operation, path_contains, action: Box::new(action) };
        self.faults.lock().interruptions.push(interruption);
    }

    /// Removes all rules: from now on nothing fails. Interruptions stay.
    pub fn heal(&self) {
        self.faults.lock().rules.clear();
    }

    /// Calls of one kind so far, failed ones included.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.faults.lock().calls.get(&operation).copied().unwrap_or(0)
    }

    /// Calls of all kinds so far.
    pub fn total_calls(&self) -> u64 {
        self.faults.lock().calls.values().sum()
    }

    /// How many calls a rule has hit so far.
    pub fn injected(&self) -> u64 {
        self.faults.lock().injected
    }

    /// Counts a call, and fails it if a rule says so and the fault is not one of data.
    fn pass(&self, operation: Operation, verb: &'static str, path: &Path) -> Result<()> {
        match self.fault(operation, path) {
            Some(fault) => fault.error(verb, path).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Counts a call, runs a waiting interruption, and returns the fault, if any.
    fn fault(&self, operation: Operation, path: &Path) -> Option<Fault> {
        let interruption = self.faults.lock().take_interruption(operation, path);
        if let Some(interruption) = interruption {
            // Without the lock, because the action may call this file system.
            (interruption.action)();
        }
        self.faults.lock().meet(operation, path)
    }
}

impl Fault {
    /// The error of a call that it fails; `None` if it damages reads only.
    fn error(self, verb: &'static str, path: &Path) -> Option<Error> {
        let source = match self {
            Fault::Io | Fault::ShortWrite { .. } | Fault::LostSync => io::Error::from_raw_os_error(EIO),
            Fault::Full | Fault::ShortFull { .. } => ErrorKind::StorageFull.into(),
            Fault::FlippedBit { .. } | Fault::ZeroedSector { .. } | Fault::ShortRead { .. } => return None,
        };
        Some(Error::io(verb, path, source))
    }

    fn damage(self, read: &mut [u8]) {
        const SECTOR_BYTES: usize = 512;
        if read.is_empty() {
            return;
        }
        match self {
            Fault::FlippedBit { bit } => {
                let bit = bit % (read.len() as u64 * 8);
                read[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
            Fault::ZeroedSector { sector } => {
                let sectors = read.len().div_ceil(SECTOR_BYTES) as u64;
                let start = (sector % sectors) as usize * SECTOR_BYTES;
                let end = (start + SECTOR_BYTES).min(read.len());
                read[start..end].fill(0);
            }
            _ => {}
        }
    }
}

impl FileSystem for FaultFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let (operation, verb) = match mode {
            OpenMode::CreateNew | OpenMode::CreateOrTruncate => (Operation::Create, "create"),
            OpenMode::Read | OpenMode::ReadDirect | OpenMode::ReadMapped | OpenMode::ReadWrite => {
                (Operation::Open, "open")
            }
        };
        self.pass(operation, verb, path)?;
        let (inner, strict): (Arc<dyn File>, _) = match &self.strict {
            Some(fs) => {
                let file = fs.open_strict(path, mode)?;
                (file.clone(), Some(file))
            }
            None => (self.inner.open(path, mode)?, None),
        };
        Ok(Arc::new(FaultFile { inner, strict, fs: self.clone() }))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.pass(Operation::CreateDir, "create the directory", path)?;
        self.inner.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.pass(Operation::List, "list", dir)?;
        self.inner.list(dir)
    }

    fn file_len(&self, path: &Path) -> Result<Option<u64>> {
        self.pass(Operation::Len, "inspect", path)?;
        self.inner.file_len(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Operation::Rename, "rename", from)?;
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.pass(Operation::Remove, "remove", path)?;
        self.inner.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.pass(Operation::RemoveDir, "remove the directory", path)?;
        self.inner.remove_dir_all(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Operation::Link, "link", from)?;
        self.inner.hard_link(from, to)
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Result<bool> {
        self.inner.is_same_file(one, other)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.pass(Operation::SyncDir, "sync the directory", dir)?;
        self.inner.sync_dir(dir)
    }

    fn begin_shared_sync(&self, dir: &Path) -> Result<Option<Box<dyn SharedSync>>> {
        let inner = self.inner.begin_shared_sync(dir)?;
        let dir = dir.to_path_buf();
        Ok(inner
            .map(|inner| Box::new(FaultSharedSync { inner, fs: self.clone(), dir }) as Box<dyn SharedSync>))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        self.pass(Operation::Lock, "lock", path)?;
        self.inner.lock(path, kind)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.pass(Operation::FreeBytes, "inspect the file system of", dir)?;
        self.inner.free_bytes(dir)
    }

    fn can_map_writable(&self, dir: &Path) -> bool {
        self.inner.can_map_writable(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }
}

#[derive(Debug)]
struct FaultSharedSync {
    inner: Box<dyn SharedSync>,
    fs: FaultFs,
    dir: PathBuf,
}

impl SharedSync for FaultSharedSync {
    fn sync(&self, files: &[PathBuf]) -> Result<()> {
        let fault = self.fs.fault(Operation::SyncShared, &self.dir);
        if let (Some(Fault::LostSync), Some(strict)) = (fault, &self.fs.strict) {
            for file in files {
                strict.open_strict(file, OpenMode::Read)?.lose_unsynced();
            }
        }
        match fault.and_then(|fault| fault.error("sync the new files of", &self.dir)) {
            Some(error) => Err(error),
            None => self.inner.sync(files),
        }
    }
}

#[derive(Debug)]
struct FaultFile {
    inner: Arc<dyn File>,
    /// The same as `inner`, if that is a strict one.
    strict: Option<Arc<StrictFile>>,
    fs: FaultFs,
}

impl FaultFile {
    fn sync(&self, operation: Operation) -> Result<()> {
        let fault = self.fs.fault(operation, self.path());
        if let (Some(Fault::LostSync), Some(file)) = (fault, &self.strict) {
            file.lose_unsynced();
        }
        match fault.and_then(|fault| fault.error("sync", self.path())) {
            Some(error) => Err(error),
            None if operation == Operation::SyncAll => self.inner.sync_all(),
            None => self.inner.sync_data(),
        }
    }
}

impl File for FaultFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let fault = self.fs.fault(Operation::Read, self.path());
        if let Some(error) = fault.and_then(|fault| fault.error("read", self.path())) {
            return Err(error);
        }
        let mut read = self.inner.read_at(buffer, offset)?;
        if let Some(Fault::ShortRead { keep_bytes }) = fault {
            read = read.min(keep_bytes);
        }
        if let Some(fault) = fault {
            fault.damage(&mut buffer[..read]);
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let fault = self.fs.fault(Operation::Write, self.path());
        let Some(error) = fault.and_then(|fault| fault.error("write", self.path())) else {
            return self.inner.write_at(bytes, offset);
        };
        if let Some(Fault::ShortWrite { keep_bytes } | Fault::ShortFull { keep_bytes }) = fault {
            self.inner.write_at(&bytes[..keep_bytes.min(bytes.len())], offset)?;
        }
        Err(error)
    }

    fn len(&self) -> Result<u64> {
        self.fs.pass(Operation::Len, "inspect", self.path())?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.fs.pass(Operation::SetLen, "set the length of", self.path())?;
        self.inner.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        self.fs.pass(Operation::Allocate, "allocate space for", self.path())?;
        self.inner.allocate(offset, len, keep_len)
    }

    fn sync_data(&self) -> Result<()> {
        self.sync(Operation::SyncData)
    }

    fn sync_all(&self) -> Result<()> {
        self.sync(Operation::SyncAll)
    }

    fn map_writable(&self, len: usize) -> Result<Mapping> {
        self.fs.pass(Operation::Map, "map", self.path())?;
        self.inner.map_writable(len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }

    fn expect_reads(&self, pattern: ReadPattern) {
        self.inner.expect_reads(pattern);
    }

    fn begin_write_back(&self, offset: u64, len: u64) {
        self.inner.begin_write_back(offset, len);
    }
}
