//! An open file of the machine.

use super::{mapping, platform, write_back};
use crate::fs::{DIRECT_ALIGNMENT_BYTES, Descriptor, File, Mapping, ReadPattern, check_direct_alignment};
use esker_base::{Error, Result};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct StdFile {
    file: std::fs::File,
    path: PathBuf,
    /// Whether reads go past the page cache and must be aligned.
    direct: bool,
    /// The whole file as memory, if it was opened so.
    map: Option<mapping::ReadMap>,
}

impl StdFile {
    pub(super) fn new(file: std::fs::File, path: &Path, direct: bool) -> StdFile {
        StdFile { file, path: path.to_path_buf(), direct, map: None }
    }

    /// A file that can be read as memory; if it cannot be mapped, calls read it.
    pub(super) fn mapped(file: std::fs::File, path: &Path) -> StdFile {
        let map = file.metadata().ok().and_then(|metadata| mapping::map_readable(&file, metadata.len()));
        StdFile { map, ..StdFile::new(file, path, false) }
    }

    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::io(operation, &self.path, source)
    }
}

/// Fills the buffer by as many reads as it takes; fewer bytes only at the end of the file. `read` is told
/// what has been read so far.
#[inline(always)]
fn read_fully(
    buffer: &mut [u8],
    is_direct: bool,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read(&mut buffer[done..], done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        // A direct read that stops within a block met the end of the file, and cannot be continued.
        if is_direct && !done.is_multiple_of(DIRECT_ALIGNMENT_BYTES) {
            break;
        }
    }
    Ok(done)
}

/// Writes all bytes by as many writes as it takes; `write` is told what has been written so far.
fn write_fully(bytes: &[u8], mut write: impl FnMut(&[u8], u64) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match write(&bytes[done..], done as u64) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(more) => done += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl File for StdFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if let Some(bytes) = self.mapped() {
            let rest =
                usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            return Ok(len);
        }
        if self.direct {
            check_direct_alignment(&self.path, buffer, offset)?;
        }
        read_fully(buffer, self.direct, |rest, done| platform::read_at(&self.file, rest, offset + done))
            .map_err(self.failed("read"))
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        !self.direct && platform::read_cached_at(&self.file, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_fully(bytes, |rest, done| platform::write_at(&self.file, rest, offset + done))
            .map_err(self.failed("write"))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(self.failed("inspect"))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(self.failed("set the length of"))
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        loop {
            match platform::allocate(&self.file, offset, len, keep_len) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => return outcome.map_err(self.failed("allocate space for")),
            }
        }
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn sync_all(&self) -> Result<()> {
        self.file.sync_all().map_err(self.failed("sync"))
    }

    fn map_writable(&self, len: usize) -> Result<Mapping> {
        let present = self.len()?;
        if len == 0 || len as u64 > present {
            let path = self.path.display();
            return Err(Error::invalid(format!("a map of {len} bytes of {path}, which has {present}")));
        }
        mapping::map_writable(&self.file, &self.path, len)
    }

    fn descriptor(&self) -> Option<Descriptor> {
        platform::descriptor(&self.file).map(|fd| Descriptor { fd, is_direct: self.direct })
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.map.as_ref().map(mapping::ReadMap::bytes)
    }

    fn will_need(&self, offset: u64, len: u64) {
        platform::will_need(&self.file, offset, len);
    }

    fn expect_reads(&self, pattern: ReadPattern) {
        platform::expect_reads(&self.file, pattern);
    }

    fn begin_write_back(&self, offset: u64, len: u64) {
        write_back::begin(&self.file, offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each second call is interrupted, and the others transfer this many bytes at most.
    fn piecewise(most: usize) -> impl FnMut(usize) -> io::Result<usize> {
        let mut calls = 0;
        move |wanted| {
            calls += 1;
            if calls % 2 == 0 { Err(ErrorKind::Interrupted.into()) } else { Ok(wanted.min(most)) }
        }
    }

    #[test]
    fn short_and_interrupted_transfers_are_continued() {
        let stored: Vec<u8> = (0..250).collect();
        for most in [1, 7, 100, 1000] {
            let mut step = piecewise(most);
            let mut buffer = vec![0; 300];
            let read = read_fully(&mut buffer, false, |rest, done| {
                let left = &stored[done as usize..];
                let count = step(rest.len().min(left.len()))?;
                rest[..count].copy_from_slice(&left[..count]);
                Ok(count)
            });
            assert_eq!(read.unwrap(), stored.len(), "fewer than asked for only at the end");
            assert_eq!(&buffer[..stored.len()], stored);

            let (mut step, mut written) = (piecewise(most), Vec::new());
            write_fully(&stored, |rest, done| {
                assert_eq!(done as usize, written.len());
                let count = step(rest.len())?;
                written.extend_from_slice(&rest[..count]);
                Ok(count)
            })
            .unwrap();
            assert_eq!(written, stored);
        }
        let nothing = write_fully(&stored, |_, _| Ok(0)).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WriteZero);
        let failed = read_fully(&mut [0; 9], false, |_, _| Err(ErrorKind::PermissionDenied.into()));
        assert!(failed.is_err());
    }
}
