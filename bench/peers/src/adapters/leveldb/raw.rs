//! The part of LevelDB's C interface that is used (leveldb/c.h, its stable ABI).

use std::ffi::{c_char, c_int, c_void};

/// An opaque pointer.
pub(super) type Pointer = *mut c_void;
/// Receives an error message, allocated by LevelDB.
pub(super) type Message = *mut *mut c_char;

#[link(name = "leveldb")]
unsafe extern "C" {
    pub(super) fn leveldb_open(options: Pointer, name: *const c_char, error: Message) -> Pointer;
    pub(super) fn leveldb_close(database: Pointer);
    pub(super) fn leveldb_put(
        database: Pointer,
        options: Pointer,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
        error: Message,
    );
    pub(super) fn leveldb_delete(
        database: Pointer,
        options: Pointer,
        key: *const u8,
        key_bytes: usize,
        error: Message,
    );
    pub(super) fn leveldb_write(database: Pointer, options: Pointer, batch: Pointer, error: Message);
    pub(super) fn leveldb_get(
        database: Pointer,
        options: Pointer,
        key: *const u8,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: Message,
    ) -> *mut u8;
    pub(super) fn leveldb_compact_range(
        database: Pointer,
        from: *const u8,
        from_bytes: usize,
        to: *const u8,
        to_bytes: usize,
    );

    pub(super) fn leveldb_create_iterator(database: Pointer, options: Pointer) -> Pointer;
    pub(super) fn leveldb_iter_destroy(iterator: Pointer);
    pub(super) fn leveldb_iter_valid(iterator: Pointer) -> u8;
    pub(super) fn leveldb_iter_seek(iterator: Pointer, key: *const u8, key_bytes: usize);
    pub(super) fn leveldb_iter_seek_to_last(iterator: Pointer);
    pub(super) fn leveldb_iter_next(iterator: Pointer);
    pub(super) fn leveldb_iter_prev(iterator: Pointer);
    pub(super) fn leveldb_iter_key(iterator: Pointer, bytes: *mut usize) -> *const u8;
    pub(super) fn leveldb_iter_value(iterator: Pointer, bytes: *mut usize) -> *const u8;
    pub(super) fn leveldb_iter_get_error(iterator: Pointer, error: Message);

    pub(super) fn leveldb_writebatch_create() -> Pointer;
    pub(super) fn leveldb_writebatch_destroy(batch: Pointer);
    pub(super) fn leveldb_writebatch_clear(batch: Pointer);
    pub(super) fn leveldb_writebatch_put(
        batch: Pointer,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    );

    pub(super) fn leveldb_options_create() -> Pointer;
    pub(super) fn leveldb_options_destroy(options: Pointer);
    pub(super) fn leveldb_options_set_create_if_missing(options: Pointer, create: u8);
    pub(super) fn leveldb_options_set_write_buffer_size(options: Pointer, bytes: usize);
    pub(super) fn leveldb_options_set_block_size(options: Pointer, bytes: usize);
    pub(super) fn leveldb_options_set_max_open_files(options: Pointer, files: c_int);
    pub(super) fn leveldb_options_set_compression(options: Pointer, kind: c_int);
    pub(super) fn leveldb_options_set_cache(options: Pointer, cache: Pointer);
    pub(super) fn leveldb_options_set_filter_policy(options: Pointer, policy: Pointer);
    pub(super) fn leveldb_cache_create_lru(bytes: usize) -> Pointer;
    pub(super) fn leveldb_cache_destroy(cache: Pointer);
    pub(super) fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Pointer;
    pub(super) fn leveldb_filterpolicy_destroy(policy: Pointer);
    pub(super) fn leveldb_readoptions_create() -> Pointer;
    pub(super) fn leveldb_readoptions_destroy(options: Pointer);
    pub(super) fn leveldb_writeoptions_create() -> Pointer;
    pub(super) fn leveldb_writeoptions_destroy(options: Pointer);
    pub(super) fn leveldb_writeoptions_set_sync(options: Pointer, sync: u8);
    pub(super) fn leveldb_free(memory: Pointer);
    pub(super) fn leveldb_major_version() -> c_int;
    pub(super) fn leveldb_minor_version() -> c_int;
}
