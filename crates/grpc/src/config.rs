//! Configuration of the gRPC server and its limits.

use esker::Durability;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The usual port of gRPC services.
pub const DEFAULT_PORT: u16 = 50051;

/// Configuration of the gRPC server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on. Default: port 50051 of the loopback interface.
    pub address: SocketAddr,
    /// What writes survive that do not say it: the database's option. Default: the end of the process.
    pub durability: Durability,
    /// The directory below which `Checkpoint` and `Backup` make copies. Without it, the default, they are
    /// refused: no client names a path.
    pub copies: Option<PathBuf>,
    /// Most connections; more are closed at once. Default: 1,024.
    pub max_connections: usize,
    /// Most calls of one connection at once. Default: 256.
    pub max_calls: u32,
    /// Most bytes of a message, received or sent. Default: 64 MiB.
    pub max_message_bytes: usize,
    /// Most bytes of all messages together that are being received, processed or wait to be taken. What
    /// would exceed it is refused. Default: 256 MiB.
    pub max_held_bytes: usize,
    /// Most keys of a `MultiGet`, and most operations of a `Batch`. Default: 100,000.
    pub max_operations: usize,
    /// Most open scans, over all clients. Default: 256.
    pub max_scans: usize,
    /// Most open streams of changes, over all clients; each has a thread. Default: 64.
    pub max_change_streams: usize,
    /// Most leased snapshots. Default: 64.
    pub max_snapshots: usize,
    /// The lease of a snapshot that names none. Default: 30 s.
    pub snapshot_lease: Duration,
    /// The longest lease. Default: 10 minutes.
    pub max_snapshot_lease: Duration,
    /// How long a write waits while writes are held back; then it is refused. Default: 10 s.
    pub stall_wait: Duration,
    /// Time in which a request must have arrived, and in which the client of a stream must take the next
    /// piece. Default: 60 s.
    pub client_timeout: Duration,
    /// Time that calls in flight may take after the server was told to stop. Default: 5 s.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            durability: Durability::Process,
            copies: None,
            max_connections: 1024,
            max_calls: 256,
            max_message_bytes: 64 << 20,
            max_held_bytes: 256 << 20,
            max_operations: 100_000,
            max_scans: 256,
            max_change_streams: 64,
            max_snapshots: 64,
            snapshot_lease: Duration::from_secs(30),
            max_snapshot_lease: Duration::from_secs(600),
            stall_wait: Duration::from_secs(10),
            client_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(5),
        }
    }
}
