//! A file system wrapper that counts written and held bytes of some of its files.
//!
//! It measures amplification below all code that could omit a count. All calls are forwarded. Stores through
//! maps are not seen, so files that are written like that, such as segments of the log, should be excluded.

use crate::fs::{Descriptor, File, FileSystem, OpenMode};
use esker_base::Result;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Forwards all calls, and counts. Clones share the counts.
///
/// # Examples
/// ```
/// use esker_env::{CountingFs, FileSystem, OpenMode, StdFileSystem};
/// use std::sync::Arc;
///
/// let fs = CountingFs::new(Arc::new(StdFileSystem), |path| path.extension().is_some_and(|e| e == "sst"));
/// let path = std::env::temp_dir().join(format!("counted-{}.sst", std::process::id()));
/// fs.open(&path, OpenMode::CreateNew)?.write_at(b"four", 0)?;
/// assert_eq!((fs.written_bytes(), fs.held_bytes()), (4, 4));
/// fs.remove_file(&path)?;
/// assert_eq!((fs.written_bytes(), fs.held_bytes(), fs.most_held_bytes()), (4, 0, 4));
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CountingFs {
    inner: Arc<dyn FileSystem>,
    is_counted: fn(&Path) -> bool,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    written_bytes: AtomicU64,
    held_bytes: AtomicU64,
    most_held_bytes: AtomicU64,
    /// Length of each counted file that has a name.
    lens: Mutex<BTreeMap<PathBuf, u64>>,
}

impl CountingFs {
    /// Counts the files for whose paths `is_counted` returns true.
    pub fn new(inner: Arc<dyn FileSystem>, is_counted: fn(&Path) -> bool) -> CountingFs {
        CountingFs { inner, is_counted, counts: Arc::default() }
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.counts.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of named files, those being written included. Existing files count once they are opened.
    pub fn held_bytes(&self) -> u64 {
        self.counts.held_bytes.load(Ordering::Relaxed)
    }

    /// The maximum of [`CountingFs::held_bytes`].
    pub fn most_held_bytes(&self) -> u64 {
        self.counts.most_held_bytes.load(Ordering::Relaxed)
    }

    /// Resets the maximum to the present [`CountingFs::held_bytes`].
    pub fn forget_most_held(&self) {
        self.counts.most_held_bytes.store(self.held_bytes(), Ordering::Relaxed);
    }
}

impl Counts {
    /// Updates the length of a file. A file that lost its name meanwhile is not counted.
    fn note_len(&self, path: &Path, len: impl FnOnce(u64) -> u64) {
        let mut lens = self.lens.lock();
        if let Some(known) = lens.get_mut(path) {
            let new = len(*known);
            self.replace(std::mem::replace(known, new), new);
        }
    }

    fn begin(&self, path: &Path, len: u64) {
        let before = self.lens.lock().insert(path.to_path_buf(), len);
        self.replace(before.unwrap_or(0), len);
    }

    fn end(&self, path: &Path) -> Option<u64> {
        let len = self.lens.lock().remove(path)?;
        self.replace(len, 0);
        Some(len)
    }

    /// Relaxed suffices: the numbers carry no other data.
    fn replace(&self, before: u64, now: u64) {
        if now >= before {
            let held = self.held_bytes.fetch_add(now - before, Ordering::Relaxed) + (now - before);
            self.most_held_bytes.fetch_max(held, Ordering::Relaxed);
        } else {
            self.held_bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}

impl crate::fs_wrapper::FileSystemWrapper for CountingFs {
    fn below(&self) -> &dyn FileSystem {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.inner.open(path, mode)?;
        if !(self.is_counted)(path) {
            return Ok(file);
        }
        self.counts.begin(path, file.len()?);
        Ok(Arc::new(CountingFile { file, counts: Arc::clone(&self.counts) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)?;
        self.counts.end(to);
        if let Some(len) = self.counts.end(from).filter(|_| (self.is_counted)(to)) {
            self.counts.begin(to, len);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.inner.remove_file(path)?;
        self.counts.end(path);
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.remove_dir_all(path)?;
        let inside: Vec<PathBuf> =
            self.counts.lens.lock().keys().filter(|file| file.starts_with(path)).cloned().collect();
        inside.iter().for_each(|file| {
            self.counts.end(file);
        });
        Ok(())
    }
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn File>,
    counts: Arc<Counts>,
}

impl crate::fs_wrapper::FileWrapper for CountingFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        self.file.read_cached_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset)?;
        self.counts.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.counts.note_len(self.path(), |len| len.max(offset + bytes.len() as u64));
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)?;
        self.counts.note_len(self.path(), |_| len);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        let is_allocated = self.file.allocate(offset, len, keep_len)?;
        if is_allocated && !keep_len {
            self.counts.note_len(self.path(), |before| before.max(offset + len));
        }
        Ok(is_allocated)
    }

    fn descriptor(&self) -> Option<Descriptor> {
        self.file.descriptor()
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.file.mapped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::StrictFs;

    fn fs() -> CountingFs {
        let fs = CountingFs::new(Arc::new(StrictFs::new()), |path| path.starts_with("/counted"));
        fs.create_dir_all(Path::new("/counted")).unwrap();
        fs.create_dir_all(Path::new("/other")).unwrap();
        fs
    }

    #[test]
    fn held_bytes_are_those_of_named_files() {
        let fs = fs();
        let path = |name: &str| Path::new("/counted").join(name);
        let one = fs.open(&path("one"), OpenMode::CreateNew).unwrap();
        one.write_at(&[1; 100], 0).unwrap();
        one.write_at(&[2; 10], 0).unwrap();
        assert_eq!((fs.written_bytes(), fs.held_bytes()), (110, 100));
        one.write_at(&[3; 50], 80).unwrap();
        assert_eq!((fs.written_bytes(), fs.held_bytes()), (160, 130));
        let two = fs.open(&path("two"), OpenMode::CreateNew).unwrap();
        two.write_at(&[4; 70], 0).unwrap();
        fs.rename(&path("two"), &path("one")).unwrap();
        assert_eq!((fs.held_bytes(), fs.most_held_bytes()), (70, 200));
        fs.forget_most_held();
        assert_eq!(fs.most_held_bytes(), 70);
        fs.open(&path("one"), OpenMode::Read).unwrap();
        assert_eq!(fs.held_bytes(), 70, "opened again, the file is still one");
        fs.remove_dir_all(Path::new("/counted")).unwrap();
        assert_eq!((fs.written_bytes(), fs.held_bytes()), (230, 0));
        two.write_at(&[5; 70], 70).unwrap();
        assert_eq!((fs.written_bytes(), fs.held_bytes()), (300, 0), "a file without a name takes no room");
    }

    #[test]
    fn unmatched_files_are_not_counted() {
        let fs = fs();
        fs.open(Path::new("/other/one"), OpenMode::CreateNew).unwrap().write_at(&[1; 100], 0).unwrap();
        fs.rename(Path::new("/other/one"), Path::new("/counted/one")).unwrap();
        assert_eq!((fs.written_bytes(), fs.held_bytes()), (0, 0));
    }
}
