//! Paths of sockets: an address holds about 100 bytes, a directory may have a longer path.

use super::SOCKET_NAME;
use crate::failure::Failure;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Longest path in the address of a socket: 108 bytes on Linux, 104 elsewhere, with a zero byte.
const MAX_PATH_BYTES: usize = 103;

/// The path of a socket in a directory. It is valid as long as the value lives.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    /// The directory, if the path leads over its descriptor.
    _directory: Option<File>,
}

impl SocketPath {
    /// The control socket of a database.
    pub(super) fn of(directory: &Path) -> io::Result<SocketPath> {
        SocketPath::named(directory, SOCKET_NAME)
    }

    /// The control socket of a database, or the socket itself.
    pub(super) fn find(path: &Path) -> io::Result<SocketPath> {
        let is_socket = path.metadata()?.file_type().is_socket();
        match (is_socket, path.parent(), path.file_name().and_then(|name| name.to_str())) {
            (true, Some(directory), Some(name)) => SocketPath::named(&directory.join("."), name),
            _ => SocketPath::of(path),
        }
    }

    /// A connection to that socket. `None` if no process listens there.
    ///
    /// # Errors
    /// This user may not connect: then a process may well listen.
    pub(super) fn connect(path: &Path) -> Result<Option<UnixStream>, Failure> {
        let connected = SocketPath::find(path).and_then(|found| UnixStream::connect(found.path()));
        match connected {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let what = format!("cannot ask over the control socket of {}", path.display());
                Err(Failure::system(what, &error)
                    .advise("it serves the user of the process that has the database open, and root"))
            }
            Err(_) => Ok(None),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the directory is opened for its descriptor alone")]
    pub(super) fn named(directory: &Path, name: &str) -> io::Result<SocketPath> {
        let path = directory.join(name);
        if path.as_os_str().as_bytes().len() <= MAX_PATH_BYTES {
            return Ok(SocketPath { path, _directory: None });
        }
        let directory = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()));
        Ok(SocketPath { path, _directory: Some(directory) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
