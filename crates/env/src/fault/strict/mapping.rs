//! Mappings of strict files: heap memory, and an observer that applies each store to the file's live content.

use super::StrictFs;
use super::disk::InodeId;
use super::event::{Change, DataChange};
use crate::fs::{Mapping, MappingOwner, StoreObserver};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// The memory of a mapping, freed on drop.
#[derive(Debug)]
struct HeapMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: holds an address and a length, used once when it is dropped, on any thread.
unsafe impl Send for HeapMemory {}
// SAFETY: `&HeapMemory` offers no operation.
unsafe impl Sync for HeapMemory {}

impl MappingOwner for HeapMemory {}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len);
        // SAFETY: this is the box that `map` took apart, put together again once.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// Applies stores to the file. Counts as an open file.
#[derive(Debug)]
struct Observer {
    fs: StrictFs,
    inode: InodeId,
    path: PathBuf,
}

impl StoreObserver for Observer {
    fn stored(&self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.fs.shared.lock();
        let present = state.disk.files.get(&self.inode).map_or(0, |file| file.live.len());
        let end = offset as u64 + bytes.len() as u64;
        assert!(
            end <= present,
            "a store up to byte {end} of the mapped file {}, which was cut to {present}, kills the process",
            self.path.display()
        );
        let change = DataChange::Write { offset: offset as u64, bytes: bytes.into(), mapped: true };
        state.apply(&self.path, Change::Data { inode: self.inode, change });
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.fs.shared.lock().closed(self.inode);
    }
}

/// Maps the first `len` bytes. The caller has counted the mapping as an open file.
pub(super) fn map(fs: &StrictFs, inode: InodeId, path: &Path, len: usize) -> Mapping {
    // Zeros, not the file's bytes: a mapping takes stores and returns nothing.
    let memory = vec![0; len].into_boxed_slice();
    let base = NonNull::from(Box::leak(memory)).cast::<u8>();
    let owner = HeapMemory { base, len };
    let observer = Observer { fs: fs.clone(), inode, path: path.to_path_buf() };
    // SAFETY: the memory was just taken from its box, nothing else refers to it, and dropping `owner` frees
    // it.
    unsafe { Mapping::new(base, len, Box::new(owner), Some(Arc::new(observer))) }
}
