//! What is observed: the database, its directory, and the server of the Redis protocol if there is one.

use crate::texts::Texts;
use esker::Database;
use esker::parts::env::{Clock, FileSystem, StdFileSystem, SystemClock};
use esker_redis_server::server::Server;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a server tells of.
#[derive(Clone, Debug)]
pub struct Sources {
    database: Database,
    directory: PathBuf,
    redis: Option<Arc<Server>>,
    texts: Option<Arc<dyn Texts>>,
    clock: Arc<SystemClock>,
    started_ns: u64,
}

impl Sources {
    /// A database in this directory.
    pub fn new(database: Database, directory: impl Into<PathBuf>) -> Self {
        let clock = Arc::new(SystemClock::new());
        let started_ns = clock.monotonic_ns();
        Self { database, directory: directory.into(), redis: None, texts: None, clock, started_ns }
    }

    /// The same, with a server of the Redis protocol.
    #[must_use]
    pub fn with_redis(self, server: Arc<Server>) -> Self {
        Self { redis: Some(server), ..self }
    }

    /// The same, with texts of reports.
    #[must_use]
    pub fn with_texts(self, texts: Arc<dyn Texts>) -> Self {
        Self { texts: Some(texts), ..self }
    }

    pub(crate) fn texts(&self) -> Option<&dyn Texts> {
        self.texts.as_deref()
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn redis(&self) -> Option<&Server> {
        self.redis.as_deref()
    }

    /// How long the sources have been there.
    pub(crate) fn uptime(&self) -> Duration {
        Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(self.started_ns))
    }

    /// The time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// Bytes that are free on the file system of the directory; `None` where it does not tell them.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        StdFileSystem.free_bytes(&self.directory).ok()
    }
}
