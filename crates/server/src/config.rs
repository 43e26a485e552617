//! What can be chosen about the server.

use crate::load_file::LoadFiles;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The port when none is named.
pub const DEFAULT_PORT: u16 = 8080;

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Default: port 8080 of the loopback interface; nothing authenticates clients, so think
    /// before you open it to a network.
    pub address: SocketAddr,
    /// What `l` may read. Default: nothing.
    pub load_files: LoadFiles,
    /// Clients connected at the same time; one more is told so and closed. Default: 1,024.
    pub max_clients: usize,
    /// Longest line of a command, without its end. Default: 1 MiB.
    pub max_line_bytes: usize,
    /// How long commands in flight may take to finish after the server was told to stop. Default: 5 s.
    pub grace: Duration,
    /// How long a client may refuse to take output before it is disconnected. Default: 60 s.
    pub write_timeout: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            load_files: LoadFiles::None,
            max_clients: 1024,
            max_line_bytes: 1 << 20,
            grace: Duration::from_secs(5),
            write_timeout: Duration::from_secs(60),
        }
    }
}
