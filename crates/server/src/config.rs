//! Configuration of the server.

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
    /// Most connected clients; one more gets an error and is disconnected. Default: 1,024.
    pub max_clients: usize,
    /// Most bytes of a command line, without its end. Default: 1 MiB.
    pub max_line_bytes: usize,
    /// Time that commands in flight may take after the server was told to stop. Default: 5 s.
    pub grace: Duration,
    /// Time after which a client that takes no output is disconnected. Default: 60 s.
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
