//! Output files: a file that the user named gets its content whole or not at all, by one program at a time.
//!
//! The content is written beside the file, under a name that is locked, and renamed once it is complete and
//! durable. What is no regular file, such as a pipe or a terminal, is written to directly.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a user's output file is not part of a database"
)]

use crate::failure::Failure;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;
/// Suffix of the name under which a file is written. A leftover of a killed program is overwritten.
const INCOMPLETE_SUFFIX: &str = ".esker-incomplete";

/// A file that is being written; removed unless it is completed.
#[derive(Debug)]
pub(crate) struct Output {
    writer: BufWriter<File>,
    /// The name it is written under, and its own.
    names: Option<(PathBuf, PathBuf)>,
}

impl Output {
    pub(crate) fn create(path: &Path) -> Result<Output, Failure> {
        let failed = |error| cannot_write(path, &error);
        let (file, names) = match fs::metadata(path) {
            Ok(found) if !found.is_file() => (File::create(path).map_err(failed)?, None),
            // Through a symbolic link, so that the link stays.
            Ok(_) => stage(path, fs::canonicalize(path).map_err(failed)?)?,
            Err(_) => stage(path, path.to_path_buf())?,
        };
        Ok(Output { writer: BufWriter::with_capacity(BUFFER_BYTES, file), names })
    }

    /// Gives the file its name, durable.
    pub(crate) fn complete(mut self) -> Result<(), Failure> {
        self.writer.flush()?;
        let Some((temporary, target)) = &self.names else { return Ok(()) };
        let done = self.writer.get_ref().sync_all().and_then(|()| fs::rename(temporary, target));
        done.map_err(|error| cannot_write(target, &error))?;
        self.names = None;
        Ok(())
    }
}

/// Creates the file under its temporary name, and locks it.
fn stage(named: &Path, target: PathBuf) -> Result<(File, Option<(PathBuf, PathBuf)>), Failure> {
    let failed = |error| cannot_write(named, &error);
    let mut temporary = target.clone().into_os_string();
    temporary.push(INCOMPLETE_SUFFIX);
    let temporary = PathBuf::from(temporary);
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&temporary);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let kind = io::ErrorKind::ResourceBusy;
                return Err(cannot_write(named, &io::Error::new(kind, "another process is writing it")));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Its writer may have renamed or removed it just before this lock.
        if is_at(&file, &temporary).map_err(failed)? {
            file.set_len(0).map_err(failed)?;
            if let Ok(replaced) = fs::metadata(&target) {
                // The rights of the file that is replaced; without them the new one has the usual ones.
                let _kept = file.set_permissions(replaced.permissions());
            }
            return Ok((file, Some((temporary, target))));
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::system(format_args!("cannot write {}", path.display()), error)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((temporary, _)) = self.names.take() {
            // While it is locked, so that it is this program's.
            let _removed = fs::remove_file(temporary);
        }
    }
}
