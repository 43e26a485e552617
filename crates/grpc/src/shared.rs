//! What all calls of the server share.

use crate::access::Access;
use crate::config::Config;
use crate::held_bytes::{HeldBytes, Hold};
use crate::pools::Pools;
use crate::snapshots::Snapshots;
use crate::stop::Stop;
use esker::Database;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::{Response, Status};

/// Bytes of an answer from which on it is counted: so many are within what a connection buffers anyway.
const COUNTED_BYTES: usize = 64 << 10;

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) config: Config,
    pub(crate) access: Arc<dyn Access>,
    pub(crate) pools: Pools,
    pub(crate) held: Arc<HeldBytes>,
    pub(crate) snapshots: Snapshots,
    /// Permits of open scans.
    pub(crate) scans: Arc<Semaphore>,
    /// Permits of open streams of changes.
    pub(crate) change_streams: Arc<Semaphore>,
    /// Set when the server ends.
    pub(crate) stop: Stop,
}

impl Shared {
    pub(crate) fn new(
        database: Database,
        config: Config,
        access: Arc<dyn Access>,
        stop: Stop,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            pools: Pools::default(),
            held: HeldBytes::new(config.max_held_bytes),
            snapshots: Snapshots::new(&database),
            scans: Arc::new(Semaphore::new(config.max_scans)),
            change_streams: Arc::new(Semaphore::new(config.max_change_streams)),
            stop,
            database,
            config,
            access,
        })
    }

    /// An answer whose values have so many bytes. A large one is counted until it has been sent.
    pub(crate) fn answer<T>(&self, message: T, bytes: usize) -> Result<Response<T>, Status> {
        let mut response = Response::new(message);
        if bytes > COUNTED_BYTES {
            let hold: Arc<Hold> = Arc::new(self.held.hold(bytes)?);
            response.extensions_mut().insert(hold);
        }
        Ok(response)
    }

    /// Fails if a message of so many bytes is too large to be sent.
    pub(crate) fn check_message(&self, what: &str, bytes: usize) -> Result<(), Status> {
        let limit = self.config.max_message_bytes;
        if bytes <= limit {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!("{what} {bytes} bytes, a message has at most {limit} bytes")))
    }
}
