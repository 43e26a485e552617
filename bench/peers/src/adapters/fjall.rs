//! fjall 3.
//!
//! Default compression (none on its first two levels, LZ4 below) and default filters (10 bits per key, more
//! on level 0). A put passes the record to the operating system; `Power` is a `persist` after each write,
//! which concurrent writers do not share.

use crate::engine::{
    Abilities, BACKGROUND_THREADS, BLOCK_BYTES, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue,
    Session,
};
use ::fjall::config::{BlockSizePolicy, HashRatioPolicy};
use ::fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    is_power: bool,
}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |options| options)
}

/// With a hash index of three buckets for four entries in data blocks.
pub(super) fn open_hash_index(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |options| options.data_block_hash_ratio_policy(HashRatioPolicy::all(0.75)))
}

fn open_with(
    directory: &Path,
    settings: &EngineSettings,
    more: impl Fn(KeyspaceCreateOptions) -> KeyspaceCreateOptions,
) -> Result<Box<dyn Engine>> {
    let database = Database::builder(directory)
        .cache_size(settings.cache_bytes)
        .worker_threads(BACKGROUND_THREADS)
        .open()?;
    let keyspace = database.keyspace("bench", || {
        let options = KeyspaceCreateOptions::default()
            .max_memtable_size(settings.memtable_bytes)
            .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES as u32));
        more(options)
    })?;
    Ok(Box::new(Fjall { database, keyspace, is_power: settings.is_power() }))
}

impl Engine for Fjall {
    fn abilities(&self) -> Abilities {
        Abilities::STORE
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession(self)))
    }

    fn flush(&mut self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn compact(&mut self) -> Result<bool> {
        self.keyspace.rotate_memtable_and_wait()?;
        self.keyspace.major_compact()?;
        Ok(true)
    }

    fn version(&self) -> String {
        "fjall 3".to_owned()
    }
}

struct FjallSession<'a>(&'a Fjall);

impl FjallSession<'_> {
    fn acknowledge(&self) -> Result<()> {
        if self.0.is_power {
            self.0.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Session for FjallSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.keyspace.insert(key, value)?;
        self.acknowledge()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.keyspace.remove(key)?;
        self.acknowledge()
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut writes = self.0.database.batch();
        for (key, value) in batch.iter() {
            writes.insert(&self.0.keyspace, key, value);
        }
        writes.commit()?;
        self.acknowledge()
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        let value = self.0.keyspace.get(key)?;
        Ok(value.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        walk(self.0.keyspace.range(from..).take(limit), see)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        walk(self.0.keyspace.iter().rev(), see)
    }
}

fn walk(entries: impl Iterator<Item = Guard>, see: &mut SeeEntry<'_>) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        see(&key, &value);
        count += 1;
    }
    Ok(count)
}
