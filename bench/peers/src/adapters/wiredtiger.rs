//! WiredTiger through its C interface: B-tree pages with a log.
//!
//! `Process` is `transaction_sync=(enabled=true,method=none)`: the log record is with the operating system
//! when the call returns; `Power` is the method `fsync`, which concurrent writers share. LZ4, which must have
//! been built in. A checkpoint every 30 seconds or 256 MB of log bounds the log.

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "written by bindgen"
)]
mod raw {
    include!(concat!(env!("OUT_DIR"), "/wiredtiger.rs"));
}

use crate::engine::{
    Abilities, BACKGROUND_THREADS, Batch, Engine, EngineSettings, Error, Result, SeeEntry, SeeValue, Session,
};
use raw::{WT_CONNECTION, WT_CURSOR, WT_ITEM, WT_SESSION};
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

const TABLE: &CStr = c"table:bench";
/// The least cache with which it works well.
const LEAST_CACHE_BYTES: u64 = 16 << 20;

fn checked(code: i32) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: WiredTiger owns the string, which stays valid.
    let text = unsafe { CStr::from_ptr(raw::wiredtiger_strerror(code)) };
    Err(text.to_string_lossy().into_owned().into())
}

/// A method of one of WiredTiger's handles; all that are used here exist.
fn method<F>(method: Option<F>) -> Result<F> {
    method.ok_or_else(|| Error::from("WiredTiger lacks a method of its interface"))
}

struct WiredTiger {
    connection: *mut WT_CONNECTION,
}

// SAFETY: many threads may use a connection at a time; each opens sessions of its own.
unsafe impl Send for WiredTiger {}
// SAFETY: as above.
unsafe impl Sync for WiredTiger {}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let configuration = CString::new(format!(
        "create,cache_size={},log=(enabled=true,file_max=100MB),transaction_sync=(enabled=true,method={}),\
         eviction=(threads_min=1,threads_max={BACKGROUND_THREADS}),checkpoint=(wait=30,log_size=256MB)",
        settings.cache_bytes.max(LEAST_CACHE_BYTES),
        if settings.is_power() { "fsync" } else { "none" },
    ))?;
    let home = CString::new(directory.as_os_str().as_bytes())?;
    let mut connection = ptr::null_mut();
    // SAFETY: both strings live as long as the call takes.
    checked(unsafe {
        raw::wiredtiger_open(home.as_ptr(), ptr::null_mut(), configuration.as_ptr(), &raw mut connection)
    })?;
    let store = WiredTiger { connection };
    let table = c"key_format=u,value_format=u,block_compressor=lz4";
    store.with_session(|session| {
        // SAFETY: the session is open, the strings are constants.
        checked(unsafe { method((*session).create)?(session, TABLE.as_ptr(), table.as_ptr()) })
    })?;
    Ok(Box::new(store))
}

impl WiredTiger {
    fn open_session(&self) -> Result<*mut WT_SESSION> {
        let mut session = ptr::null_mut();
        // SAFETY: the connection is open.
        checked(unsafe {
            let open = method((*self.connection).open_session)?;
            open(self.connection, ptr::null_mut(), ptr::null(), &raw mut session)
        })?;
        Ok(session)
    }

    fn with_session(&self, work: impl FnOnce(*mut WT_SESSION) -> Result<()>) -> Result<()> {
        let session = self.open_session()?;
        let done = work(session);
        // SAFETY: opened above, not used afterwards.
        checked(unsafe { method((*session).close)?(session, ptr::null()) })?;
        done
    }
}

impl Drop for WiredTiger {
    fn drop(&mut self) {
        // SAFETY: the connection is open, and no session outlives its store.
        unsafe {
            if let Some(close) = (*self.connection).close {
                close(self.connection, ptr::null());
            }
        }
    }
}

impl Engine for WiredTiger {
    fn abilities(&self) -> Abilities {
        Abilities::STORE
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let session = self.open_session()?;
        let mut cursor = ptr::null_mut();
        // SAFETY: the session is open.
        checked(unsafe {
            let open = method((*session).open_cursor)?;
            open(session, TABLE.as_ptr(), ptr::null_mut(), ptr::null(), &raw mut cursor)
        })?;
        Ok(Box::new(WiredTigerSession { session, cursor }))
    }

    fn flush(&mut self) -> Result<()> {
        // SAFETY: the session is open.
        self.with_session(|session| checked(unsafe { method((*session).checkpoint)?(session, ptr::null()) }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Writes a checkpoint. Closed here, where its error is returned, and not again in `drop`.
        let closed = ManuallyDrop::new(self);
        // SAFETY: the connection is open, and no session outlives its store.
        checked(unsafe { method((*closed.connection).close)?(closed.connection, ptr::null()) })
    }

    fn version(&self) -> String {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three integers that the call writes.
        unsafe { raw::wiredtiger_version(&raw mut major, &raw mut minor, &raw mut patch) };
        format!("WiredTiger {major}.{minor}.{patch}")
    }
}

/// One session and one cursor for each thread, kept open as WiredTiger recommends.
struct WiredTigerSession {
    session: *mut WT_SESSION,
    cursor: *mut WT_CURSOR,
}

impl Drop for WiredTigerSession {
    fn drop(&mut self) {
        // SAFETY: the session is open; closing it closes its cursor.
        unsafe {
            if let Some(close) = (*self.session).close {
                close(self.session, ptr::null());
            }
        }
    }
}

fn item(bytes: &[u8]) -> WT_ITEM {
    // SAFETY: an item is integers and pointers, for which zero is valid.
    let mut item: WT_ITEM = unsafe { std::mem::zeroed() };
    item.data = bytes.as_ptr().cast();
    item.size = bytes.len();
    item
}

/// # Safety
/// The item's bytes must live, unchanged, for as long as the caller uses them.
unsafe fn bytes<'a>(item: &WT_ITEM) -> &'a [u8] {
    // SAFETY: the caller guarantees it, see above.
    unsafe { std::slice::from_raw_parts(item.data.cast(), item.size) }
}

impl WiredTigerSession {
    fn set_key(&self, key: &[u8]) -> Result<()> {
        let key = item(key);
        // SAFETY: the cursor is open; the following operation uses the key while it lives.
        unsafe { method((*self.cursor).set_key)?(self.cursor, &raw const key) };
        Ok(())
    }

    /// Returns WiredTiger's code.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<i32> {
        let (key, value) = (item(key), item(value));
        // SAFETY: the cursor is open, key and value live until the insertion is done.
        unsafe {
            method((*self.cursor).set_key)?(self.cursor, &raw const key);
            method((*self.cursor).set_value)?(self.cursor, &raw const value);
            Ok(method((*self.cursor).insert)?(self.cursor))
        }
    }

    /// Releases the page that the cursor is on.
    fn reset(&self) -> Result<()> {
        // SAFETY: the cursor is open.
        checked(unsafe { method((*self.cursor).reset)?(self.cursor) })
    }

    /// Inserts a batch in one transaction; false after a conflict.
    fn try_batch(&self, batch: &Batch) -> Result<bool> {
        // SAFETY: the session is open.
        unsafe {
            checked(method((*self.session).begin_transaction)?(self.session, ptr::null()))?;
            for (key, value) in batch.iter() {
                match self.insert(key, value)? {
                    raw::WT_ROLLBACK => {
                        checked(method((*self.session).rollback_transaction)?(self.session, ptr::null()))?;
                        return Ok(false);
                    }
                    code => checked(code)?,
                }
            }
            checked(method((*self.session).commit_transaction)?(self.session, ptr::null()))?;
        }
        Ok(true)
    }

    /// Walks on from the position that the cursor took with the result `code`.
    fn walk(
        &self,
        mut code: i32,
        limit: usize,
        see: &mut SeeEntry<'_>,
        step: unsafe extern "C" fn(*mut WT_CURSOR) -> i32,
    ) -> Result<usize> {
        let mut count = 0;
        while code == 0 && count < limit {
            let (mut key, mut value) = (item(&[]), item(&[]));
            // SAFETY: the cursor is on an entry, whose bytes live until it moves.
            unsafe {
                let entry = method((*self.cursor).get_raw_key_value)?;
                checked(entry(self.cursor, &raw mut key, &raw mut value))?;
                see(bytes(&key), bytes(&value));
            }
            count += 1;
            if count < limit {
                // SAFETY: the cursor is open.
                code = unsafe { step(self.cursor) };
            }
        }
        if code != raw::WT_NOTFOUND {
            checked(code)?;
        }
        self.reset()?;
        Ok(count)
    }
}

impl Session for WiredTigerSession {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        loop {
            match self.insert(key, value)? {
                raw::WT_ROLLBACK => {}
                code => return checked(code),
            }
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        loop {
            self.set_key(key)?;
            // SAFETY: the cursor is open and has a key.
            match unsafe { method((*self.cursor).remove)?(self.cursor) } {
                raw::WT_ROLLBACK => {}
                raw::WT_NOTFOUND => return Ok(()),
                code => {
                    checked(code)?;
                    return self.reset();
                }
            }
        }
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        while !self.try_batch(batch)? {}
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        self.set_key(key)?;
        // SAFETY: the cursor is open and has a key; the value lives until the reset.
        unsafe {
            match method((*self.cursor).search)?(self.cursor) {
                raw::WT_NOTFOUND => return Ok(false),
                code => checked(code)?,
            }
            let mut value = item(&[]);
            checked(method((*self.cursor).get_value)?(self.cursor, &raw mut value))?;
            see(bytes(&value));
        }
        self.reset()?;
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        // SAFETY: the cursor is open.
        let (next, code) = unsafe {
            let next = method((*self.cursor).next)?;
            if from.is_empty() {
                (next, next(self.cursor))
            } else {
                self.set_key(from)?;
                let mut side = 0;
                match method((*self.cursor).search_near)?(self.cursor, &raw mut side) {
                    0 if side < 0 => (next, next(self.cursor)),
                    code => (next, code),
                }
            }
        };
        self.walk(code, limit, see, next)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let previous = method(
            // SAFETY: the cursor is open.
            unsafe { (*self.cursor).prev },
        )?;
        // SAFETY: an unpositioned cursor goes to the last entry.
        let code = unsafe { previous(self.cursor) };
        self.walk(code, usize::MAX, see, previous)
    }
}
