//! Configuration of the server.

use crate::limits::Limits;
use crate::load_file::LoadFiles;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The port when none is named.
pub const DEFAULT_PORT: u16 = 8080;

/// Configuration of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on. Default: port 8080 of the loopback interface. Clients are not authenticated, so
    /// a network address exposes the database to that network.
    pub address: SocketAddr,
    /// What `l` may read. Default: nothing.
    pub load_files: LoadFiles,
    /// Bounds on clients and on what waits for them, which may change while the server runs.
    pub limits: Limits,
    /// Most bytes of a command line, without its end. Default: 1 MiB.
    pub max_line_bytes: usize,
    /// Time that commands in flight may take after the server was told to stop. Default: 5 s.
    pub grace: Duration,
    /// Time after which a client that takes no output is disconnected. Default: 60 s.
    pub write_timeout: Duration,
    /// Time after which a client that sends nothing is disconnected. Default: 10 minutes.
    pub idle_timeout: Duration,
    /// Time within which a line must end after its first byte; then the client is disconnected. Default: 60
    /// s.
    pub line_timeout: Duration,
    /// Memory that unfinished lines of more than 16 KiB take together, over all clients; a client whose line
    /// does not fit waits. Default: 64 MiB. One line of the greatest length always fits.
    pub long_lines_bytes: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            load_files: LoadFiles::None,
            limits: Limits::default(),
            max_line_bytes: 1 << 20,
            grace: Duration::from_secs(5),
            write_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(600),
            line_timeout: Duration::from_secs(60),
            long_lines_bytes: 64 << 20,
        }
    }
}
