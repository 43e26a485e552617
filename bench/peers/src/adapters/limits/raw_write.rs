//! One `write(2)` for each record at the end of a file, with an `fdatasync(2)` behind it where it is to survive a power cut: the
//! limit of logs that are written by calls, and of durable writes that share nothing.

use super::{boxed, frame, no_reads};
use crate::engine::{Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, Session};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

struct RawWrite {
    file: File,
    is_power: bool,
}

/// An empty file.
pub(in crate::adapters) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let file = OpenOptions::new().create(true).append(true).open(directory.join("log"))?;
    Ok(Box::new(RawWrite { file, is_power: settings.is_power() }))
}

impl Engine for RawWrite {
    fn abilities(&self) -> Abilities {
        Abilities::APPEND
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(boxed(RawWriteSession { store: self, bytes: Vec::new() }))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn version(&self) -> String {
        "write(2) for each record, O_APPEND".to_owned()
    }
}

struct RawWriteSession<'a> {
    store: &'a RawWrite,
    bytes: Vec<u8>,
}

impl RawWriteSession<'_> {
    fn append(&mut self) -> Result<()> {
        (&self.store.file).write_all(&self.bytes)?;
        if self.store.is_power {
            self.store.file.sync_data()?;
        }
        Ok(())
    }
}

impl Session for RawWriteSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.bytes.clear();
        frame(&mut self.bytes, key, value);
        self.append()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.put(key, &[])
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.bytes.clear();
        for (key, value) in batch.iter() {
            frame(&mut self.bytes, key, value);
        }
        self.append()
    }

    fn get(&mut self, _: &[u8], _: &mut SeeValue<'_>) -> Result<bool> {
        Err(no_reads())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut SeeEntry<'_>) -> Result<usize> {
        Err(no_reads())
    }

    fn scan_backward(&mut self, _: &mut SeeEntry<'_>) -> Result<usize> {
        Err(no_reads())
    }
}
