//! A Unix socket that has its permissions before it can be reached.
//!
//! The socket is bound in a directory of its own that only the user of the server may enter, gets its
//! permissions there, and is then moved to its place. Changing the permissions of a socket at its place would
//! leave a moment in which every user may connect that the mask of the process lets.

use super::listen_error::ListenError;
use mio::net::UnixListener;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A Unix socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    /// Its path.
    pub path: PathBuf,
    /// Its permissions, such as `0o700`; `None` leaves them to the mask of the process.
    pub mode: Option<u32>,
}

/// A bound Unix socket; its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct BoundUnix {
    pub(super) listener: UnixListener,
    path: PathBuf,
}

impl Drop for BoundUnix {
    #[expect(clippy::disallowed_methods, reason = "a socket is not part of a database")]
    fn drop(&mut self) {
        // It may have been removed already.
        let _result = fs::remove_file(&self.path);
    }
}

/// Binds the socket. A file that a server left behind is replaced; one on which a server listens is not.
pub(super) fn bind(wanted: &UnixAddress) -> Result<BoundUnix, ListenError> {
    let place = || wanted.path.display().to_string();
    let bound = refuse_used(&wanted.path).and_then(|()| bind_aside(wanted));
    let listener = bound.map_err(|source| ListenError { place: place(), source })?;
    Ok(BoundUnix { listener, path: wanted.path.clone() })
}

/// Fails if the path is something else than a socket that nothing listens on.
fn refuse_used(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "the path exists and is no socket; remove it, or name another",
        )),
        Ok(_) => {
            let client = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // A server that is too busy to accept is there as well.
            client.set_nonblocking(true)?;
            match client.connect(&SockAddr::unix(path)?) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
                Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
                _ => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens on it")),
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a socket is not part of a database")]
fn bind_aside(wanted: &UnixAddress) -> io::Result<UnixListener> {
    let folder = aside(&wanted.path);
    // A directory of this name can only be left by a process of this number that was killed here.
    let _result = fs::remove_dir_all(&folder);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let socket = folder.join("s");
    let bound = UnixListener::bind(&socket).and_then(|listener| {
        if let Some(mode) = wanted.mode {
            fs::set_permissions(&socket, Permissions::from_mode(mode))?;
        }
        fs::rename(&socket, &wanted.path)?;
        Ok(listener)
    });
    let _result = fs::remove_dir_all(&folder);
    bound
}

/// The directory beside the socket in which it is bound. Its name is short: paths of sockets are limited to
/// about a hundred bytes.
fn aside(path: &Path) -> PathBuf {
    let name = format!(".{}", std::process::id());
    path.parent().map_or_else(|| PathBuf::from(&name), |parent| parent.join(&name))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test looks at the files")]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_socket_has_its_permissions_and_replaces_only_what_nothing_listens_on() {
        let folder = std::env::temp_dir().join(format!("esker-unix-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a directory");
        let path = folder.join("socket");
        let wanted = UnixAddress { path: path.clone(), mode: Some(0o640) };
        // A socket that was left behind.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("free"));
        let bound = bind(&wanted).expect("nothing listens on what was left");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o640);
        let refused = bind(&wanted).expect_err("a server listens");
        assert!(refused.to_string().contains("another server listens"), "{refused}");
        UnixStream::connect(&path).expect("the first server is still there");
        drop(bound);
        assert!(!path.exists());
        fs::write(&path, b"text").expect("a file");
        let refused = bind(&wanted).expect_err("a file");
        assert!(refused.to_string().contains("is no socket"), "{refused}");
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&folder).expect("removed");
    }

    /// Another thread looks at the socket's place all the time while sockets are bound and removed.
    #[test]
    fn a_socket_is_never_at_its_place_with_other_permissions() {
        let folder = std::env::temp_dir().join(format!("esker-unix-race-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a directory");
        let wanted = UnixAddress { path: folder.join("socket"), mode: Some(0o600) };
        let (has_seen, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let seen = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut seen = BTreeSet::new();
                while !has_ended.load(Ordering::Acquire) {
                    if let Ok(metadata) = fs::symlink_metadata(&wanted.path) {
                        seen.insert(metadata.permissions().mode() & 0o777);
                        has_seen.store(true, Ordering::Release);
                    }
                }
                seen
            });
            for _ in 0..500 {
                drop(bind(&wanted).expect("free"));
            }
            // Seen at least once, however the threads were scheduled.
            let bound = bind(&wanted).expect("free");
            while !has_seen.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            has_ended.store(true, Ordering::Release);
            drop(bound);
            looking.join().expect("it looks")
        });
        assert_eq!(seen, BTreeSet::from([0o600]));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
