//! LMDB 0.9 through heed.
//!
//! `Process` is `MDB_NOSYNC`: each commit writes pages to the file by `pwrite(2)`, which survive the end of
//! the process; a power cut may damage the whole file, so this is weaker than a log. One write transaction
//! for each put, one read transaction for each get, multi-get or scan. It has no compression, and no cache
//! beside the operating system's.

use crate::engine::{
    Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, SeeValues, Session,
};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::ops::Bound::{Included, Unbounded};
use std::path::Path;

type Table = Database<'static, Bytes, Bytes>;

struct Lmdb {
    table: Table,
    environment: Env,
}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, EnvFlags::empty())
}

/// With a writable map.
pub(super) fn open_write_map(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, EnvFlags::WRITE_MAP)
}

/// Without readahead, which its documentation advises where the data do not fit memory.
pub(super) fn open_no_readahead(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, EnvFlags::NO_READ_AHEAD)
}

fn open_with(directory: &Path, settings: &EngineSettings, more: EnvFlags) -> Result<Box<dyn Engine>> {
    // Address space only: for half-full pages, those of transactions in flight, and a minimum.
    let map_bytes = (settings.expected_bytes * 8 + (1 << 30)).next_multiple_of(1 << 20);
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(map_bytes)?);
    let flags = if settings.is_power() { more } else { more | EnvFlags::NO_SYNC };
    // SAFETY: without syncs a power cut may damage the file, after which no run uses it.
    unsafe { options.flags(flags) };
    // SAFETY: the directory belongs to this run: no other process opens or changes the file.
    let environment = unsafe { options.open(directory)? };
    let made =
        environment.create_databases_and_commit(environment.write_txn()?, |creator, transaction| {
            let table = creator.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
        })?;
    let table = made.unwrap_commit();
    // SAFETY: the lifetime only ties the handle, a number, to its environment; `Lmdb` owns both and drops
    // them together.
    let table = unsafe { std::mem::transmute::<Database<'_, Bytes, Bytes>, Table>(table) };
    Ok(Box::new(Lmdb { table, environment }))
}

impl Engine for Lmdb {
    fn abilities(&self) -> Abilities {
        Abilities { multi_get: "as many gets in one read transaction", ..Abilities::STORE }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession(self)))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.environment.force_sync()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.environment.force_sync()?;
        self.environment.prepare_for_closing().wait();
        Ok(())
    }

    fn version(&self) -> String {
        "LMDB 0.9 (heed 0.23)".to_owned()
    }
}

struct LmdbSession<'a>(&'a Lmdb);

impl Session for LmdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.0.environment.write_txn()?;
        self.0.table.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut transaction = self.0.environment.write_txn()?;
        self.0.table.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut transaction = self.0.environment.write_txn()?;
        for (key, value) in batch.iter() {
            self.0.table.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        let transaction = self.0.environment.read_txn()?;
        Ok(self.0.table.get(&transaction, key)?.map(see).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        let transaction = self.0.environment.read_txn()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = self.0.table.get(&transaction, key)? {
                see(place, value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let transaction = self.0.environment.read_txn()?;
        if from.is_empty() {
            return walk(self.0.table.iter(&transaction)?.take(limit), see);
        }
        let bounds = (Included(from), Unbounded);
        walk(self.0.table.range(&transaction, &bounds)?.take(limit), see)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let transaction = self.0.environment.read_txn()?;
        walk(self.0.table.rev_iter(&transaction)?, see)
    }
}

fn walk<'a>(
    entries: impl Iterator<Item = heed::Result<(&'a [u8], &'a [u8])>>,
    see: &mut SeeEntry<'_>,
) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry?;
        see(key, value);
        count += 1;
    }
    Ok(count)
}
