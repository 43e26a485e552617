//! Table files whose small reads are measured, for limits that follow what the foreground meets ([`super::rate`]).

use super::Rates;
use esker_base::Result;
use esker_env::{Clock, Descriptor, File, Mapping};
use std::path::Path;
use std::sync::Arc;

/// Longer reads are those of compactions and of scans that read ahead, which nobody waits for block by block.
const LONGEST_FOREGROUND_BYTES: usize = 64 << 10;

/// A table file. Costs one load for each read where nothing is measured.
#[derive(Debug)]
pub(crate) struct TimedFile {
    file: Arc<dyn File>,
    rates: Arc<Rates>,
    clock: Arc<dyn Clock>,
}

impl TimedFile {
    pub(crate) fn new(file: Arc<dyn File>, rates: &Arc<Rates>, clock: &Arc<dyn Clock>) -> TimedFile {
        TimedFile { file, rates: Arc::clone(rates), clock: Arc::clone(clock) }
    }

    fn timed<R>(&self, len: usize, read: impl FnOnce() -> Result<R>) -> Result<R> {
        if len > LONGEST_FOREGROUND_BYTES || !self.rates.is_tuned() {
            return read();
        }
        let start_ns = self.clock.monotonic_ns();
        let result = read();
        self.rates.note_read(self.clock.monotonic_ns().saturating_sub(start_ns));
        result
    }
}

impl File for TimedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.timed(buffer.len(), || self.file.read_at(buffer, offset))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.timed(buffer.len(), || self.file.read_exact_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        self.file.allocate(offset, len, keep_len)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<()> {
        self.file.sync_all()
    }

    fn map_writable(&self, len: usize) -> Result<Mapping> {
        self.file.map_writable(len)
    }

    fn descriptor(&self) -> Option<Descriptor> {
        self.file.descriptor()
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.file.mapped()
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.file.will_need(offset, len);
    }
}
