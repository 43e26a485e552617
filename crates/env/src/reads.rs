//! Asynchronous reads: many reads in flight at once; the caller continues until it needs the bytes.
//!
//! A read of a device takes a hundred microseconds and more, most of it waiting. A thread that reads thirty
//! blocks one by one waits thirty times; if it submits all of them first, it waits about once. A
//! [`ReadQueue`] takes such requests, by `io_uring` ([`uring`]) where the kernel has and allows it, otherwise
//! by a few threads that do plain reads ([`threads`]).
//!
//! # Invariants
//! * RQ1. A request owns its buffer and its file until it is finished, even if the caller abandons it: the
//!   kernel never writes to memory that has been reused.
//! * RQ2. Each request is finished once, with all requested bytes or the error of a plain read: any failure
//!   of the fast path, even a short read, is retried by [`File::read_exact_at`].
//! * RQ3. No waiter waits for another's request only because no thread collects completions.

mod mode;
mod threads;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod uring;

pub use mode::ReadMode;

use crate::env::Env;
use crate::fs::File;
use esker_base::Result;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Backend of asynchronous reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AsyncReads {
    /// `io_uring` where available, otherwise threads: by measurement, `docs/experiments/reading.md`. From the
    /// device both are several times as fast as plain reads, and `io_uring` takes a third of the processor
    /// time; from the page cache it is nearly as fast.
    #[default]
    Auto,
    /// `io_uring`; an error where it is not available.
    IoUring,
    /// A few threads.
    Threads,
    /// No asynchronous reads.
    Off,
}

impl AsyncReads {
    /// All backends.
    pub const ALL: [AsyncReads; 4] =
        [AsyncReads::Auto, AsyncReads::IoUring, AsyncReads::Threads, AsyncReads::Off];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            AsyncReads::Auto => "auto",
            AsyncReads::IoUring => "io_uring",
            AsyncReads::Threads => "threads",
            AsyncReads::Off => "off",
        }
    }
}

impl fmt::Display for AsyncReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AsyncReads {
    type Err = String;

    fn from_str(text: &str) -> Result<AsyncReads, String> {
        let found = AsyncReads::ALL.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| format!("reads overlap by auto, io_uring, threads or off, not {text:?}"))
    }
}

/// A read to submit.
#[derive(Debug)]
pub struct ReadRequest {
    /// The file.
    pub file: Arc<dyn File>,
    /// The offset in it.
    pub offset: u64,
    /// Filled completely by the read.
    pub buffer: Vec<u8>,
}

impl ReadRequest {
    fn run(mut self) -> Result<Vec<u8>> {
        self.file.read_exact_at(&mut self.buffer, self.offset)?;
        Ok(self.buffer)
    }
}

/// Submits reads and keeps many of them in flight.
#[derive(Debug)]
pub struct ReadQueue {
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    #[cfg(all(target_os = "linux", feature = "io-uring"))]
    Uring(Arc<uring::Uring>),
    Threads(threads::Pool),
}

impl ReadQueue {
    /// A queue with this backend; `None` for [`AsyncReads::Off`].
    ///
    /// # Errors
    /// [`esker_base::Error::Unsupported`] if `io_uring` is chosen and not available.
    pub fn new(way: AsyncReads, env: &Env) -> Result<Option<Arc<ReadQueue>>> {
        let backend = match way {
            AsyncReads::Off => return Ok(None),
            AsyncReads::Threads => Backend::Threads(threads::Pool::new(env)),
            AsyncReads::IoUring => Backend::by_uring()?,
            AsyncReads::Auto => {
                Backend::by_uring().unwrap_or_else(|_| Backend::Threads(threads::Pool::new(env)))
            }
        };
        Ok(Some(Arc::new(ReadQueue { backend })))
    }

    /// The backend: `io_uring` or `threads`.
    pub fn way(&self) -> AsyncReads {
        match &self.backend {
            #[cfg(all(target_os = "linux", feature = "io-uring"))]
            Backend::Uring(_) => AsyncReads::IoUring,
            Backend::Threads(_) => AsyncReads::Threads,
        }
    }

    /// Submits reads. The results are in the order of the requests.
    pub fn submit(&self, requests: Vec<ReadRequest>) -> Vec<PendingRead> {
        match &self.backend {
            #[cfg(all(target_os = "linux", feature = "io-uring"))]
            Backend::Uring(ring) => ring
                .submit(requests)
                .into_iter()
                .map(|read| PendingRead { read: Read::Uring(read) })
                .collect(),
            Backend::Threads(pool) => {
                let begin = |request| PendingRead { read: Read::Thread(pool.submit(request)) };
                requests.into_iter().map(begin).collect()
            }
        }
    }
}

impl Backend {
    #[cfg(all(target_os = "linux", feature = "io-uring"))]
    fn by_uring() -> Result<Backend> {
        Ok(Backend::Uring(uring::Uring::new()?))
    }

    #[cfg(not(all(target_os = "linux", feature = "io-uring")))]
    fn by_uring() -> Result<Backend> {
        let why = if cfg!(target_os = "linux") {
            "io_uring needs the Cargo feature \"io-uring\", which this build is without"
        } else {
            "io_uring on a system that is not Linux"
        };
        Err(esker_base::Error::Unsupported(why.into()))
    }
}

/// A submitted read. If it is dropped, the read is finished all the same, and its bytes discarded.
#[derive(Debug)]
pub struct PendingRead {
    read: Read,
}

#[derive(Debug)]
enum Read {
    #[cfg(all(target_os = "linux", feature = "io-uring"))]
    Uring(uring::RingRead),
    Thread(threads::ThreadRead),
}

impl PendingRead {
    /// Waits and returns the request's buffer, filled.
    ///
    /// # Errors
    /// As [`File::read_exact_at`].
    pub fn wait(self) -> Result<Vec<u8>> {
        match self.read {
            #[cfg(all(target_os = "linux", feature = "io-uring"))]
            Read::Uring(read) => read.wait(),
            Read::Thread(read) => read.wait(),
        }
    }
}

#[cfg(test)]
mod tests;
