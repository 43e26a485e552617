//! The control socket of a program that embeds the library.

use crate::control::listen;
use crate::shared;
use esker::{Database, Error, Result};

/// Lets the command `esker` work on a database that this process has open.
///
/// A process holds the lock of its database, so the command cannot open it beside it. With this socket it
/// can: `esker stats --data DIR`, `levels`, `get`, `scan`, `load`, `compact`, `verify`, `backup create` and
/// all other commands on an open database find the socket `control.sock` in the directory, and this process
/// executes them, on threads of its own, at most 32 at once. It does so for the user of this process and for
/// root alone, and for a command of the same version.
///
/// The socket ends when this value is dropped, and so do the commands that run over it. A socket keeps the
/// database open: drop it before the last handle, or call [`Database::close`].
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// let database = esker::Database::open("data")?;
/// let control = esker_cli::ControlSocket::open(&database)?;
/// // `esker levels --data data` draws the tree while this program works.
/// drop(control);
/// database.close()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ControlSocket(#[expect(dead_code, reason = "held for its drop")] listen::ControlListener);

impl ControlSocket {
    /// Listens in the directory of a database.
    ///
    /// # Errors
    /// `InvalidArgument` for a database that is open for reading only: other processes may have it open as
    /// well, and each would take the socket of the others. `Io` if the socket cannot be made.
    pub fn open(database: &Database) -> Result<ControlSocket> {
        if database.metrics().read_only_cause.is_some() {
            return Err(Error::invalid(
                "a database that is open for reading only has no control socket: the command can open it as well",
            ));
        }
        let path = database.path();
        let opened = listen::ControlListener::open(database, path, shared::run);
        opened.map(ControlSocket).map_err(|error| Error::io("listen on the control socket of", path, error))
    }
}
