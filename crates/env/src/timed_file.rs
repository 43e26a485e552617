//! Table files that measure small reads, for rate limits that follow foreground latency
//! ([`crate::rate_limiter`]), and that are not read where the caller accepts only what is in memory.

use crate::{Clock, Descriptor, File, FileWrapper, RateLimiter};
use esker_base::{ResidentOnly, Result};
use std::sync::Arc;

/// Longer reads are those of compactions and read-ahead, which no caller waits for block by block.
const LONGEST_FOREGROUND_BYTES: usize = 64 << 10;

/// A table file. Costs one load for each read while nothing is measured.
#[derive(Debug)]
pub struct TimedFile {
    file: Arc<dyn File>,
    rates: Arc<RateLimiter>,
    clock: Arc<dyn Clock>,
}

impl TimedFile {
    /// Reads of `file` that are reported to `rates` while it tunes itself.
    pub fn new(file: Arc<dyn File>, rates: &Arc<RateLimiter>, clock: &Arc<dyn Clock>) -> TimedFile {
        TimedFile { file, rates: Arc::clone(rates), clock: Arc::clone(clock) }
    }

    fn is_timed(&self, len: usize) -> bool {
        len <= LONGEST_FOREGROUND_BYTES && self.rates.is_tuned()
    }

    fn note_since(&self, start_ns: u64) {
        self.rates.note_read(self.clock.monotonic_ns().saturating_sub(start_ns));
    }

    fn timed<R>(&self, len: usize, read: impl FnOnce() -> Result<R>) -> Result<R> {
        if !self.is_timed(len) {
            return read();
        }
        let start_ns = self.clock.monotonic_ns();
        let result = read();
        self.note_since(start_ns);
        result
    }
}

impl FileWrapper for TimedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        ResidentOnly::check(self.file.path())?;
        self.timed(buffer.len(), || self.file.read_at(buffer, offset))
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        if ResidentOnly::is_on() {
            return false;
        }
        // A refusal is no read; the one that follows it is timed.
        let start_ns = self.is_timed(buffer.len()).then(|| self.clock.monotonic_ns());
        let is_read = self.file.read_cached_at(buffer, offset);
        if let Some(start_ns) = start_ns.filter(|_| is_read) {
            self.note_since(start_ns);
        }
        is_read
    }

    fn descriptor(&self) -> Option<Descriptor> {
        self.file.descriptor()
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.file.mapped()
    }
}
