//! One `write(2)` for each record at the end of a file, with an `fdatasync(2)` behind it where it is to survive a power cut: the
//! limit of logs that are written by calls, and of durable writes that share nothing.

use super::append::{self, Framed};
use crate::engine::{Abilities, Engine, EngineSettings, Result, Session};
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

impl RawWrite {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        (&self.file).write_all(bytes)?;
        if self.is_power {
            self.file.sync_data()?;
        }
        Ok(())
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
        "write(2) for each record, O_APPEND".to_owned()
    }
}
