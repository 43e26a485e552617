//! redb 4.
//!
//! It has no log and no compression. `Process` is the durability `None`, which is lost at the end of the
//! process unless a later commit is durable; one in [`DURABLE_EVERY_RECORDS`] records is, which bounds the
//! loss and lets it reuse pages. One transaction for each operation.

use crate::engine::{
    Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, SeeValues, Session,
};
use ::redb::{
    AccessGuard, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, WriteTransaction,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");
/// Records after which a commit is durable.
const DURABLE_EVERY_RECORDS: u64 = 50_000;

struct Redb {
    database: Database,
    is_power: bool,
    records: AtomicU64,
}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let database = Database::builder()
        .set_cache_size(usize::try_from(settings.cache_bytes)?)
        .create(directory.join("redb"))?;
    let transaction = database.begin_write()?;
    transaction.open_table(TABLE)?;
    transaction.commit()?;
    Ok(Box::new(Redb { database, is_power: settings.is_power(), records: AtomicU64::new(0) }))
}

impl Redb {
    fn begin_write(&self, records: u64) -> Result<WriteTransaction> {
        let before = self.records.fetch_add(records, Ordering::Relaxed);
        let is_due = (before + records) / DURABLE_EVERY_RECORDS != before / DURABLE_EVERY_RECORDS;
        let mut transaction = self.database.begin_write()?;
        if !self.is_power && !is_due {
            transaction.set_durability(Durability::None)?;
        }
        Ok(transaction)
    }

    fn table(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.database.begin_read()?.open_table(TABLE)?)
    }
}

impl Engine for Redb {
    fn abilities(&self) -> Abilities {
        Abilities {
            survives_exit: false,
            multi_get: "as many gets in one read transaction",
            ..Abilities::STORE
        }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession(self)))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.database.begin_write()?.commit()?)
    }

    fn compact(&mut self) -> Result<bool> {
        self.database.compact()?;
        Ok(true)
    }

    fn version(&self) -> String {
        "redb 4".to_owned()
    }
}

struct RedbSession<'a>(&'a Redb);

impl Session for RedbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.0.begin_write(1)?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let transaction = self.0.begin_write(1)?;
        transaction.open_table(TABLE)?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let transaction = self.0.begin_write(batch.len() as u64)?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in batch.iter() {
                table.insert(key, value)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        let value = self.0.table()?.get(key)?;
        Ok(value.map(|value| see(value.value())).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        let table = self.0.table()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = table.get(*key)? {
                see(place, value.value());
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        walk(self.0.table()?.range::<&[u8]>(from..)?.take(limit), see)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        walk(self.0.table()?.iter()?.rev(), see)
    }
}

type Entry<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

fn walk<'a>(
    entries: impl Iterator<Item = std::result::Result<Entry<'a>, StorageError>>,
    see: &mut SeeEntry<'_>,
) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry?;
        see(key.value(), value.value());
        count += 1;
    }
    Ok(count)
}
