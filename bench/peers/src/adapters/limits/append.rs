//! Session of a limit that only appends: records are written, one or many at a time, and never read.

use crate::engine::{Batch, Error, Result, SeeEntry, SeeValue, Session};

/// One thread's append-only writer.
pub(super) trait Append {
    /// Adds these records, in this order.
    fn append<'a>(&mut self, records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<()>;
}

pub(super) fn session<'a>(end: impl Append + 'a) -> Box<dyn Session + 'a> {
    Box::new(AppendSession(end))
}

/// Encodes records as a log does, and passes them on in one buffer: length of the key, length of the value,
/// key and value; no checksum.
pub(super) struct Framed<F> {
    write: F,
    /// Reused.
    bytes: Vec<u8>,
}

impl<F: Fn(&[u8]) -> Result<()>> Framed<F> {
    /// Passes the bytes to `write`.
    pub(super) fn new(write: F) -> Framed<F> {
        Framed { write, bytes: Vec::new() }
    }
}

impl<F: Fn(&[u8]) -> Result<()>> Append for Framed<F> {
    fn append<'a>(&mut self, records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        self.bytes.clear();
        for (key, value) in records {
            self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(value);
        }
        (self.write)(&self.bytes)
    }
}

struct AppendSession<A>(A);

impl<A: Append> Session for AppendSession<A> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.append(std::iter::once((key, value)))
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.0.append(batch.iter())
    }

    fn delete(&mut self, _: &[u8]) -> Result<()> {
        Err(refused())
    }

    fn get(&mut self, _: &[u8], _: &mut SeeValue<'_>) -> Result<bool> {
        Err(refused())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut SeeEntry<'_>) -> Result<usize> {
        Err(refused())
    }

    fn scan_backward(&mut self, _: &mut SeeEntry<'_>) -> Result<usize> {
        Err(refused())
    }
}

/// The error of every operation but writing. No workload calls them.
fn refused() -> Error {
    "this limit appends, and neither reads nor deletes".into()
}
