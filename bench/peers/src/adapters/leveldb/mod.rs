//! LevelDB through its C interface, as the system packages it.
//!
//! It has no LZ4: Snappy. Its `get` returns an allocated copy; the C interface has no other. It compacts with
//! one thread, and writers wait for each other.

mod raw;

use crate::engine::{
    Abilities, BLOCK_BYTES, Batch, Engine, EngineSettings, FILTER_BITS_PER_KEY, Result, SeeEntry, SeeValue,
    Session,
};
use raw::Pointer;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// More than there are tables.
const OPEN_FILES: c_int = 10_000;
/// The number of Snappy in its interface.
const SNAPPY: c_int = 1;

struct LevelDb {
    database: Pointer,
    options: Pointer,
    cache: Pointer,
    filter: Pointer,
    is_power: bool,
}

// SAFETY: LevelDB's database may be used by many threads at a time; the other pointers are used at opening
// and closing only.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

/// Turns a message of LevelDB into an error, and frees it.
fn checked(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a message is a string that ends with a zero, and owned by the caller.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        raw::leveldb_free(message.cast());
        text
    };
    Err(text.into())
}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let name = CString::new(directory.as_os_str().as_bytes())?;
    let cache_bytes = usize::try_from(settings.cache_bytes)?;
    let memtable_bytes = usize::try_from(settings.memtable_bytes)?;
    let mut message = ptr::null_mut();
    // SAFETY: every pointer is one that LevelDB just made; they are freed in `drop`, after the database was
    // closed.
    let store = unsafe {
        let options = raw::leveldb_options_create();
        let cache = raw::leveldb_cache_create_lru(cache_bytes);
        let filter = raw::leveldb_filterpolicy_create_bloom(FILTER_BITS_PER_KEY as c_int);
        raw::leveldb_options_set_create_if_missing(options, 1);
        raw::leveldb_options_set_write_buffer_size(options, memtable_bytes);
        raw::leveldb_options_set_block_size(options, BLOCK_BYTES);
        raw::leveldb_options_set_max_open_files(options, OPEN_FILES);
        raw::leveldb_options_set_compression(options, SNAPPY);
        raw::leveldb_options_set_cache(options, cache);
        raw::leveldb_options_set_filter_policy(options, filter);
        let database = raw::leveldb_open(options, name.as_ptr(), &raw mut message);
        LevelDb { database, options, cache, filter, is_power: settings.is_power() }
    };
    checked(message)?;
    Ok(Box::new(store))
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: made in `open`; no session outlives its store.
        unsafe {
            if !self.database.is_null() {
                raw::leveldb_close(self.database);
            }
            raw::leveldb_options_destroy(self.options);
            raw::leveldb_cache_destroy(self.cache);
            raw::leveldb_filterpolicy_destroy(self.filter);
        }
    }
}

impl Engine for LevelDb {
    fn abilities(&self) -> Abilities {
        Abilities::STORE
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LevelDbSession::new(self, self.is_power)))
    }

    fn flush(&mut self) -> Result<()> {
        // An empty synced batch syncs the log before it.
        LevelDbSession::new(self, true).write()
    }

    fn compact(&mut self) -> Result<bool> {
        // SAFETY: the database is open; no bounds mean everything.
        unsafe { raw::leveldb_compact_range(self.database, ptr::null(), 0, ptr::null(), 0) };
        Ok(true)
    }

    fn version(&self) -> String {
        // SAFETY: constants.
        let (major, minor) = unsafe { (raw::leveldb_major_version(), raw::leveldb_minor_version()) };
        format!("LevelDB {major}.{minor} (system)")
    }
}

struct LevelDbSession<'a> {
    store: &'a LevelDb,
    write_options: Pointer,
    read_options: Pointer,
    batch: Pointer,
}

impl<'a> LevelDbSession<'a> {
    fn new(store: &'a LevelDb, is_synced: bool) -> LevelDbSession<'a> {
        // SAFETY: made here, freed in `drop`.
        unsafe {
            let write_options = raw::leveldb_writeoptions_create();
            raw::leveldb_writeoptions_set_sync(write_options, u8::from(is_synced));
            let read_options = raw::leveldb_readoptions_create();
            LevelDbSession { store, write_options, read_options, batch: raw::leveldb_writebatch_create() }
        }
    }

    /// Writes the batch.
    fn write(&mut self) -> Result<()> {
        let mut message = ptr::null_mut();
        // SAFETY: all pointers belong to this handle or to its store.
        unsafe { raw::leveldb_write(self.store.database, self.write_options, self.batch, &raw mut message) };
        checked(message)
    }

    fn walk(
        &self,
        place: impl Fn(Pointer),
        limit: usize,
        see: &mut SeeEntry<'_>,
        step: unsafe extern "C" fn(Pointer),
    ) -> Result<usize> {
        let (mut count, mut message) = (0, ptr::null_mut());
        // SAFETY: the iterator is this call's; key and value are valid until it moves.
        unsafe {
            let iterator = raw::leveldb_create_iterator(self.store.database, self.read_options);
            place(iterator);
            while count < limit && raw::leveldb_iter_valid(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = raw::leveldb_iter_key(iterator, &raw mut key_bytes);
                let value = raw::leveldb_iter_value(iterator, &raw mut value_bytes);
                see(
                    std::slice::from_raw_parts(key, key_bytes),
                    std::slice::from_raw_parts(value, value_bytes),
                );
                count += 1;
                if count < limit {
                    step(iterator);
                }
            }
            raw::leveldb_iter_get_error(iterator, &raw mut message);
            raw::leveldb_iter_destroy(iterator);
        }
        checked(message)?;
        Ok(count)
    }
}

impl Drop for LevelDbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`.
        unsafe {
            raw::leveldb_writeoptions_destroy(self.write_options);
            raw::leveldb_readoptions_destroy(self.read_options);
            raw::leveldb_writebatch_destroy(self.batch);
        }
    }
}

impl Session for LevelDbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (database, options) = (self.store.database, self.write_options);
        let mut message = ptr::null_mut();
        // SAFETY: key and value are borrowed for as long as the call takes, which copies them.
        unsafe {
            raw::leveldb_put(
                database,
                options,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &raw mut message,
            );
        }
        checked(message)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let (database, options) = (self.store.database, self.write_options);
        let mut message = ptr::null_mut();
        // SAFETY: the key is borrowed for as long as the call takes.
        unsafe { raw::leveldb_delete(database, options, key.as_ptr(), key.len(), &raw mut message) };
        checked(message)
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        // SAFETY: the batch belongs to this handle, and copies keys and values.
        unsafe {
            raw::leveldb_writebatch_clear(self.batch);
            for (key, value) in batch.iter() {
                let (key_start, value_start) = (key.as_ptr(), value.as_ptr());
                raw::leveldb_writebatch_put(self.batch, key_start, key.len(), value_start, value.len());
            }
        }
        self.write()
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        let (database, options) = (self.store.database, self.read_options);
        let (mut message, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the key is borrowed for as long as the call takes; the value is ours to free.
        unsafe {
            let value = raw::leveldb_get(
                database,
                options,
                key.as_ptr(),
                key.len(),
                &raw mut bytes,
                &raw mut message,
            );
            checked(message)?;
            if value.is_null() {
                return Ok(false);
            }
            see(std::slice::from_raw_parts(value, bytes));
            raw::leveldb_free(value.cast());
        }
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        // SAFETY: `walk` passes an iterator that only this call uses.
        let place = |iterator| unsafe { raw::leveldb_iter_seek(iterator, from.as_ptr(), from.len()) };
        self.walk(place, limit, see, raw::leveldb_iter_next)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        // SAFETY: `walk` passes an iterator that only this call uses.
        let place = |iterator| unsafe { raw::leveldb_iter_seek_to_last(iterator) };
        self.walk(place, usize::MAX, see, raw::leveldb_iter_prev)
    }
}
