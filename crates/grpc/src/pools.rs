//! Thread pools: where calls of the library run that may wait for a device.
//!
//! What holds:
//! * NG8. No thread of the runtime waits for a device or for room for a write: what may wait runs on a
//!   thread of a pool.
//! * NG9. Reads, writes and administration have permits of their own, so none of them keeps another from
//!   running. A call that waits for a permit holds no thread, and is dropped when its caller gives up.

use std::panic::resume_unwind;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Status;

/// Reads at once, and writes at once: as many as a device has requests in flight.
pub(crate) const PERMITS: usize = 32;

/// Calls of administration at once. They are long and use all of a device or a processor.
pub(crate) const ADMIN_PERMITS: usize = 2;

/// Permits for threads, by kind of work.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) reads: Pool,
    pub(crate) writes: Pool,
    pub(crate) admin: Pool,
}

impl Default for Pools {
    fn default() -> Self {
        let pool = |permits| Pool(Arc::new(Semaphore::new(permits)));
        Pools { reads: pool(PERMITS), writes: pool(PERMITS), admin: pool(ADMIN_PERMITS) }
    }
}

/// Permits for one kind of work.
#[derive(Debug)]
pub(crate) struct Pool(Arc<Semaphore>);

impl Pool {
    /// Runs `work` on a thread that may wait.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Status> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|_| Status::unavailable("the server is stopping"))?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        match done.await {
            Ok(result) => Ok(result),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime is ending.
            Err(_) => Err(Status::unavailable("the server is stopping")),
        }
    }
}
