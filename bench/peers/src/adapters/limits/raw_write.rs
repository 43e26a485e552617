//! Limit of logs that are written by calls: one `write(2)` for each record at the end of a file. For durable
//! writes, the file was filled with zeros and synced, and each write is followed by an `fdatasync(2)`: the
//! device receives data alone, no new length and no new blocks. That is the limit of durable writes that
//! share nothing.

use super::append::{self, Framed};
use crate::engine::{Abilities, Engine, EngineSettings, Result, Session};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Zeros that durable writes overwrite: more than any workload writes; beyond them the file grows.
const PREPARED_BYTES: usize = 64 << 20;

struct RawWrite {
    file: File,
    /// Position of the next durable record.
    end: AtomicU64,
    is_power: bool,
}

pub(in crate::adapters) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let is_power = settings.is_power();
    let mut options = OpenOptions::new();
    options.create(true);
    let options = if is_power { options.write(true).truncate(false) } else { options.append(true) };
    let file = options.open(directory.join("log"))?;
    if is_power {
        file.write_all_at(&vec![0; PREPARED_BYTES], 0)?;
        file.sync_all()?;
    }
    Ok(Box::new(RawWrite { file, end: AtomicU64::new(0), is_power }))
}

impl RawWrite {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        if !self.is_power {
            return Ok((&self.file).write_all(bytes)?);
        }
        let at = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, at)?;
        Ok(self.file.sync_data()?)
    }
}

impl Engine for RawWrite {
    fn abilities(&self) -> Abilities {
        Abilities::APPEND
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(append::session(Framed::new(|bytes| self.append(bytes))))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn version(&self) -> String {
        "write(2) for each record".to_owned()
    }
}
