//! sled 0.34, its stable line.
//!
//! `Process` leaves writes in the process until its flusher runs, every 500 ms: the end of the process loses
//! up to that much, more than in the other stores. `Power` is a `flush` after each write. It has no LZ4, and
//! its default is no compression.

use crate::engine::{Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, Session};
use ::sled::{Config, Db, IVec, Mode};
use std::path::Path;

/// Interval of the flusher: its default.
const FLUSH_EVERY_MS: u64 = 500;

struct Sled {
    database: Db,
    is_power: bool,
}

/// In the mode that favours throughput.
pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let is_power = settings.is_power();
    let database = Config::new()
        .path(directory)
        .cache_capacity(settings.cache_bytes)
        .mode(Mode::HighThroughput)
        .flush_every_ms((!is_power).then_some(FLUSH_EVERY_MS))
        .open()?;
    Ok(Box::new(Sled { database, is_power }))
}

impl Engine for Sled {
    fn abilities(&self) -> Abilities {
        Abilities { survives_exit: false, survives_power_cut: false, ..Abilities::STORE }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SledSession(self)))
    }

    fn flush(&mut self) -> Result<()> {
        self.database.flush()?;
        Ok(())
    }

    fn version(&self) -> String {
        "sled 0.34".to_owned()
    }
}

struct SledSession<'a>(&'a Sled);

impl SledSession<'_> {
    fn acknowledge(&self) -> Result<()> {
        if self.0.is_power {
            self.0.database.flush()?;
        }
        Ok(())
    }
}

impl Session for SledSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.database.insert(key, value)?;
        self.acknowledge()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.database.remove(key)?;
        self.acknowledge()
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut writes = ::sled::Batch::default();
        for (key, value) in batch.iter() {
            writes.insert(key, value);
        }
        self.0.database.apply_batch(writes)?;
        self.acknowledge()
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        let value = self.0.database.get(key)?;
        Ok(value.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        walk(self.0.database.range(from..).take(limit), see)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        walk(self.0.database.iter().rev(), see)
    }
}

fn walk(
    entries: impl Iterator<Item = ::sled::Result<(IVec, IVec)>>,
    see: &mut SeeEntry<'_>,
) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry?;
        see(&key, &value);
        count += 1;
    }
    Ok(count)
}
