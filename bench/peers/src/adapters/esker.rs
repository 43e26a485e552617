//! Esker, through its facade.
//!
//! One configuration for all workloads: the defaults, with a `memory_budget` of the others' memtable and
//! cache together, and the requested durability. Gets and scans use the calls that borrow values.

use crate::engine::{
    Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, SeeValues, Session,
};
use ::esker::options::{Codec, PerLevel, ReadMode};
use ::esker::{Cursor, Database, Durability, Keyspace, KeyspaceOptions, Options, WriteBatch};
use std::path::Path;

struct Esker {
    database: Database,
    keyspace: Keyspace,
    durability: Durability,
}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |options| options)
}

/// With tables in mapped memory, uncompressed, because only such blocks are searched in place.
pub(super) fn open_mapped(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let keyspaces = KeyspaceOptions::default().compression(PerLevel::all(Codec::None));
    open_with(directory, settings, |options| {
        options.table_reads(ReadMode::Mapped).keyspace_options(keyspaces.clone())
    })
}

/// With tables read past the page cache, which then takes no memory.
pub(super) fn open_direct(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |options| options.table_reads(ReadMode::Direct))
}

fn open_with(
    directory: &Path,
    settings: &EngineSettings,
    more: impl Fn(Options) -> Options,
) -> Result<Box<dyn Engine>> {
    let durability = if settings.is_power() { Durability::Power } else { Durability::Process };
    let options = Options::default()
        .memory_budget(settings.cache_bytes + settings.memtable_bytes)
        .durability(durability);
    let database = Database::open_with(directory, more(options))?;
    let keyspace = database.keyspace("default")?;
    Ok(Box::new(Esker { database, keyspace, durability }))
}

impl Engine for Esker {
    fn abilities(&self) -> Abilities {
        Abilities { multi_get: "", ..Abilities::STORE }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(EskerSession { store: self, batch: self.database.batch() }))
    }

    fn flush(&mut self) -> Result<()> {
        self.database.flush()?;
        Ok(self.database.sync()?)
    }

    fn compact(&mut self) -> Result<bool> {
        self.database.compact_all()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.close()?)
    }

    fn version(&self) -> String {
        format!("Esker of this repository ({})", env!("PEERS_COMMIT"))
    }
}

struct EskerSession<'a> {
    store: &'a Esker,
    /// Reused for every batch.
    batch: WriteBatch,
}

impl Session for EskerSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.store.keyspace.put(key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.store.keyspace.delete(key)?)
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.batch.clear();
        for (key, value) in batch.iter() {
            self.batch.put(&self.store.keyspace, key, value);
        }
        self.store.database.write_with(&self.batch, self.store.durability)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        Ok(self.store.keyspace.get_with(key, |value| value.map(see).is_some())?)
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        let values = self.store.keyspace.multi_get(keys)?;
        for (place, value) in values.iter().enumerate() {
            if let Some(value) = value {
                see(place, value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let mut cursor = self.store.keyspace.cursor()?;
        cursor.seek(from)?;
        walk(&mut cursor, limit, see, Cursor::advance)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let mut cursor = self.store.keyspace.cursor()?;
        cursor.seek_to_last()?;
        walk(&mut cursor, usize::MAX, see, Cursor::retreat)
    }
}

#[inline]
fn walk(
    cursor: &mut Cursor,
    limit: usize,
    see: &mut SeeEntry<'_>,
    step: impl Fn(&mut Cursor) -> ::esker::Result<()>,
) -> Result<usize> {
    let mut count = 0;
    while let Some((key, value)) = cursor.entry() {
        see(key, value);
        count += 1;
        if count == limit {
            break;
        }
        step(cursor)?;
    }
    Ok(count)
}
