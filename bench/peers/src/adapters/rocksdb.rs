//! RocksDB through the rocksdb crate; and Speedb, a fork of it, through the speedb crate, whose interface is
//! the same.
//!
//! Both libraries export the same names, so a binary has one of them, and this module is that one's.
//!
//! LZ4 from the third level on and on the last, full Bloom filters, the HyperClock cache; the rest at its
//! defaults. A multi-get is its batched one, whose reads of a file overlap by `io_uring`, which the crate
//! switches on.

use crate::engine::{
    Abilities, BACKGROUND_THREADS, BLOCK_BYTES, Batch, Engine, EngineSettings, FILTER_BITS_PER_KEY, Result,
    SeeEntry, SeeValue, SeeValues, Session,
};
#[cfg(not(feature = "speedb"))]
use ::rocksdb as library;
#[cfg(feature = "speedb")]
use ::speedb as library;
use library::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRawIterator,
    DataBlockIndexType, Options, ReadOptions, WriteBatch, WriteOptions,
};
use std::path::Path;

const FAMILY: &str = "default";
/// Estimated bytes of a cache entry; 0 lets the cache adapt.
#[cfg(not(feature = "speedb"))]
const ENTRY_BYTES: usize = 0;
/// Speedb is older and needs the estimate: with 0 it has almost no capacity.
#[cfg(feature = "speedb")]
const ENTRY_BYTES: usize = BLOCK_BYTES;
/// Its default number of levels.
const LEVELS: usize = 7;
#[cfg(not(feature = "speedb"))]
const VERSION: &str = "RocksDB 11.8 (crate 0.25)";
#[cfg(feature = "speedb")]
const VERSION: &str = "Speedb 2.7 (crate 0.0.5)";

struct RocksDb {
    database: DB,
    is_power: bool,
}

pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |_, _| {})
}

/// With a hash index of three buckets for four entries in data blocks.
pub(super) fn open_hash_index(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |_, table| {
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
    })
}

/// With unordered writes: readers may see them in another order, and batches in parts.
pub(super) fn open_unordered(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, |options, _| options.set_unordered_write(true))
}

fn open_with(
    directory: &Path,
    settings: &EngineSettings,
    more: impl Fn(&mut Options, &mut BlockBasedOptions),
) -> Result<Box<dyn Engine>> {
    let (mut options, mut table) = (Options::default(), BlockBasedOptions::default());
    table.set_block_cache(&Cache::new_hyper_clock_cache(usize::try_from(settings.cache_bytes)?, ENTRY_BYTES));
    // By default they are held beside the cache, and no limit counts them.
    table.set_cache_index_and_filter_blocks(settings.is_memory_limited);
    table.set_block_size(BLOCK_BYTES);
    table.set_bloom_filter(f64::from(FILTER_BITS_PER_KEY), false);
    options.create_if_missing(true);
    options.set_write_buffer_size(usize::try_from(settings.memtable_bytes)?);
    options.set_max_background_jobs(BACKGROUND_THREADS as i32);
    // As its tuning guide advises: data that are soon compacted again are not compressed, the last level
    // always is.
    let levels: Vec<DBCompressionType> = (0..LEVELS)
        .map(|level| if level < 2 { DBCompressionType::None } else { DBCompressionType::Lz4 })
        .collect();
    options.set_compression_per_level(&levels);
    options.set_bottommost_compression_type(DBCompressionType::Lz4);
    more(&mut options, &mut table);
    options.set_block_based_table_factory(&table);
    let family = ColumnFamilyDescriptor::new(FAMILY, options.clone());
    let database = DB::open_cf_descriptors(&options, directory, [family])?;
    Ok(Box::new(RocksDb { database, is_power: settings.is_power() }))
}

impl Engine for RocksDb {
    fn abilities(&self) -> Abilities {
        Abilities { multi_get: "", ..Abilities::STORE }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let mut options = WriteOptions::default();
        options.set_sync(self.is_power);
        Ok(Box::new(RocksDbSession { database: &self.database, options, reading: ReadOptions::default() }))
    }

    fn flush(&mut self) -> Result<()> {
        self.database.flush_wal(true)?;
        Ok(self.database.flush()?)
    }

    fn compact(&mut self) -> Result<bool> {
        self.database.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(true)
    }

    fn version(&self) -> String {
        VERSION.to_owned()
    }
}

struct RocksDbSession<'a> {
    database: &'a DB,
    options: WriteOptions,
    /// Created once: a get without them allocates and frees some.
    reading: ReadOptions,
}

impl Session for RocksDbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.database.put_opt(key, value, &self.options)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.database.delete_opt(key, &self.options)?)
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut writes = WriteBatch::default();
        for (key, value) in batch.iter() {
            writes.put(key, value);
        }
        Ok(self.database.write_opt(writes, &self.options)?)
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        Ok(self.database.get_pinned_opt(key, &self.reading)?.map(|value| see(&value)).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        let family = self.database.cf_handle(FAMILY).ok_or("the default column family is gone")?;
        let values = self.database.batched_multi_get_cf(family, keys.iter().copied(), false);
        for (place, value) in values.into_iter().enumerate() {
            if let Some(value) = value? {
                see(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let mut entries = self.database.raw_iterator();
        entries.seek(from);
        walk(entries, limit, see, |entries| entries.next())
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let mut entries = self.database.raw_iterator();
        entries.seek_to_last();
        walk(entries, usize::MAX, see, |entries| entries.prev())
    }
}

fn walk<'a>(
    mut entries: DBRawIterator<'a>,
    limit: usize,
    see: &mut SeeEntry<'_>,
    step: impl Fn(&mut DBRawIterator<'a>),
) -> Result<usize> {
    let mut count = 0;
    while let Some((key, value)) = entries.item() {
        see(key, value);
        count += 1;
        if count == limit {
            return Ok(count);
        }
        step(&mut entries);
    }
    entries.status()?;
    Ok(count)
}
