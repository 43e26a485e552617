//! Opens files for the command `l`, inside one directory only.
//!
//! The operator names the directory. The path is canonicalised, which resolves every `..` and every link, and
//! must then lie inside the canonical directory. Between check and open, another process with access to the
//! directory could still replace a component by a link, so on Linux the file is opened relative to the
//! directory by a call that refuses links and escapes; elsewhere the race remains, but only for processes
//! that may write there anyway.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Where files for `l` may come from.
#[derive(Clone, Debug)]
pub enum LoadFiles {
    /// `l` is an error.
    None,
    /// Inside one directory; relative paths start there.
    Within(LoadDirectory),
    /// Anywhere: for commands that a user types on their own machine, never for a server.
    Anywhere,
}

/// A directory whose files may be loaded.
#[derive(Clone, Debug)]
pub struct LoadDirectory {
    canonical: PathBuf,
}

#[derive(Debug)]
pub(crate) struct LoadFile {
    pub(crate) file: File,
    pub(crate) len: u64,
}

impl LoadDirectory {
    /// The directory at `path`.
    ///
    /// # Errors
    /// If there is no directory at `path`.
    pub fn new(path: impl AsRef<Path>) -> io::Result<LoadDirectory> {
        let canonical = path.as_ref().canonicalize()?;
        if !canonical.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"));
        }
        Ok(LoadDirectory { canonical })
    }

    fn open(&self, path: &str) -> Result<File, String> {
        // One answer for missing files and files outside: clients must not learn which files exist there.
        let nothing = |_| format!("there is no file '{}' in the load directory", path.escape_debug());
        let canonical = self.canonical.join(path).canonicalize().map_err(nothing)?;
        let relative = canonical.strip_prefix(&self.canonical).map_err(|_| nothing(io::Error::other("")))?;
        open_beneath(&self.canonical, relative).map_err(|error| cannot_open(path, &error))
    }
}

impl LoadFiles {
    /// Opens the file of a command, or explains in one sentence why not.
    pub(crate) fn open(&self, path: &str) -> Result<LoadFile, String> {
        let file = match self {
            LoadFiles::None => {
                return Err(
                    "this server loads no files; its operator can name a directory with --load-dir".into()
                );
            }
            LoadFiles::Within(directory) => directory.open(path)?,
            LoadFiles::Anywhere => open_plain(Path::new(path)).map_err(|error| cannot_open(path, &error))?,
        };
        let metadata = file.metadata().map_err(|error| cannot_open(path, &error))?;
        if !metadata.is_file() {
            return Err(format!("'{}' is not a regular file", path.escape_debug()));
        }
        Ok(LoadFile { file, len: metadata.len() })
    }
}

fn cannot_open(path: &str, error: &io::Error) -> String {
    format!("cannot open '{}': {error}", path.escape_debug())
}

/// Opens `relative`, which contains no link, inside `directory`.
#[cfg(target_os = "linux")]
fn open_beneath(directory: &Path, relative: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    use rustix::io::Errno;
    let directory_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, directory_flags, Mode::empty())?;
    // Without O_NONBLOCK, opening a named pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(&root, relative, flags, Mode::empty(), resolve) {
        Ok(file) => Ok(File::from(file)),
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_plain(&directory.join(relative)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(directory: &Path, relative: &Path) -> io::Result<File> {
    open_plain(&directory.join(relative))
}

#[expect(clippy::disallowed_methods, reason = "a user's input file is not part of a database")]
fn open_plain(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}
