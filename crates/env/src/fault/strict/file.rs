//! Open files of a strict file system.

use super::content::PAGE_BYTES;
use super::disk::{FileNode, InodeId};
use super::event::{Change, DataChange};
use super::{MAX_FILE_BYTES, StrictFs, StrictState, file_error, mapping};
use crate::fs::{File, Mapping, OpenMode, check_direct_alignment};
use esker_base::{Error, Result};
use parking_lot::MutexGuard;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(in crate::fault) struct StrictFile {
    fs: StrictFs,
    inode: InodeId,
    path: PathBuf,
    mode: OpenMode,
}

impl StrictFile {
    /// The caller has counted the file as open.
    pub(super) fn new(fs: StrictFs, inode: InodeId, path: &Path, mode: OpenMode) -> StrictFile {
        StrictFile { fs, inode, path: path.to_path_buf(), mode }
    }

    pub(super) fn fs(&self) -> &StrictFs {
        &self.fs
    }

    pub(super) fn inode(&self) -> InodeId {
        self.inode
    }

    /// A failed sync as on Linux: pages are marked clean and stay readable, and no later sync writes them.
    pub(in crate::fault) fn lose_unsynced(&self) {
        self.fs.shared.lock().apply(&self.path, Change::LoseUnsynced { inode: self.inode });
    }

    fn node<'a>(&self, state: &'a StrictState) -> Result<&'a FileNode> {
        let node = state.disk.files.get(&self.inode);
        node.ok_or_else(|| Error::internal(format!("the open file {} has no inode", self.path.display())))
    }

    /// The state, for a call that changes bytes up to `end`.
    fn for_writing(
        &self,
        operation: &'static str,
        end: Option<u64>,
    ) -> Result<(MutexGuard<'_, StrictState>, u64)> {
        if matches!(self.mode, OpenMode::Read | OpenMode::ReadDirect | OpenMode::ReadMapped) {
            let text = "it was opened for reading only";
            return Err(file_error(operation, &self.path, ErrorKind::PermissionDenied, text));
        }
        let end = end.filter(|&end| end <= MAX_FILE_BYTES);
        let end = end.ok_or_else(|| Error::io(operation, &self.path, ErrorKind::FileTooLarge.into()))?;
        Ok((self.fs.shared.lock(), end))
    }

    fn full(&self, operation: &'static str) -> Error {
        Error::io(operation, &self.path, ErrorKind::StorageFull.into())
    }

    fn apply(&self, state: &mut StrictState, change: DataChange) {
        state.apply(&self.path, Change::Data { inode: self.inode, change });
    }
}

impl Drop for StrictFile {
    fn drop(&mut self) {
        self.fs.shared.lock().closed(self.inode);
    }
}

impl File for StrictFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if self.mode == OpenMode::ReadDirect {
            check_direct_alignment(&self.path, buffer, offset)?;
        }
        let content = self.node(&self.fs.shared.lock())?.live.clone();
        Ok(content.read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(bytes.len() as u64);
        let (mut state, _) = self.for_writing("write", end)?;
        let content = self.node(&state)?.live.clone();
        // Written page by page, as on a real disk: the bytes that fit are there even though the call fails.
        let mut free_bytes = state.free_bytes();
        let mut fitting = 0;
        while fitting < bytes.len() {
            let position = offset + fitting as u64;
            let in_page = (position % PAGE_BYTES as u64) as usize;
            let piece = (PAGE_BYTES - in_page).min(bytes.len() - fitting);
            if content.holes(position, piece as u64) > 0 {
                if free_bytes < PAGE_BYTES as u64 {
                    break;
                }
                free_bytes -= PAGE_BYTES as u64;
            }
            fitting += piece;
        }
        drop(content);
        if fitting > 0 {
            let bytes = bytes[..fitting].into();
            self.apply(&mut state, DataChange::Write { offset, bytes, mapped: false });
        }
        if fitting < bytes.len() { Err(self.full("write")) } else { Ok(()) }
    }

    fn len(&self) -> Result<u64> {
        Ok(self.node(&self.fs.shared.lock())?.live.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let (mut state, len) = self.for_writing("set the length of", Some(len))?;
        self.apply(&mut state, DataChange::SetLen { len });
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        let (mut state, _) = self.for_writing("allocate space for", offset.checked_add(len))?;
        if !state.options.can_allocate {
            return Ok(false);
        }
        let needed = self.node(&state)?.live.holes(offset, len) * PAGE_BYTES as u64;
        if needed > state.free_bytes() {
            return Err(self.full("allocate space for"));
        }
        self.apply(&mut state, DataChange::Allocate { offset, len, keep_len });
        Ok(true)
    }

    fn sync_data(&self) -> Result<()> {
        self.fs.shared.lock().apply(&self.path, Change::SyncFile { inode: self.inode });
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        // Further metadata, times and owners, is not modelled.
        self.sync_data()
    }

    fn map_writable(&self, len: usize) -> Result<Mapping> {
        let (mut state, _) = self.for_writing("map", Some(len as u64))?;
        let path = self.path.display();
        if !state.options.can_map_writable {
            return Err(Error::Unsupported(format!("writable maps of files here ({path})").into()));
        }
        let content = self.node(&state)?.live.clone();
        if len == 0 || len as u64 > content.len() {
            let present = content.len();
            return Err(Error::invalid(format!("a map of {len} bytes of {path}, which has {present}")));
        }
        let holes = content.holes(0, len as u64);
        if holes > 0 {
            return Err(Error::invalid(format!(
                "a map of {len} bytes of {path} with {holes} pages that were not allocated: \
                 a store there could kill the process"
            )));
        }
        state.opened(self.inode);
        drop(state);
        Ok(mapping::map(&self.fs, self.inode, &self.path, len))
    }

    fn will_need(&self, _offset: u64, _len: u64) {}
}
