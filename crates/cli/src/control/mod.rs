//! Control socket: the `esker` command works on a database that another process has open.
//!
//! A process that opens a database holds its lock. `esker serve` and `esker shell` also listen on the socket
//! `control.sock` in its directory. A command that finds the lock taken connects to it and sends its command
//! line. The process with the database executes the command, reads the caller's input and writes to the
//! caller's output and terminal. So every command on an open database works alike in both cases.
//!
//! | file | holds |
//! |---|---|
//! | [`frame`] | the frames on the socket |
//! | [`request`] | a command line and its terminal |
//! | [`listen`] | the process with the database |
//! | [`held`] | what the process with the database lends to commands |
//! | [`forward`] | the caller |
//! | [`ask`] | the caller that reads the output itself |
//!
//! What holds:
//! * DC1. Only the owner of the process and root are served: the socket has mode 0600 from the moment that it
//!   has its name, and each peer's user is checked.
//! * DC2. A command whose caller is gone ends at its next piece of input or output.

pub(crate) mod ask;
pub(crate) mod forward;
mod frame;
pub(crate) mod held;
pub(crate) mod listen;
mod request;
mod socket_path;

/// The socket's name in the directory of the database.
const SOCKET_NAME: &str = "control.sock";
