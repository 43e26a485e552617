//! SurrealKV 1.2.
//!
//! Its commits are asynchronous, driven by one small tokio runtime. One transaction for each operation;
//! commits are optimistic, so a conflict with another thread is retried. It has no LZ4: Snappy below level 0.

use crate::engine::{
    Abilities, BACKGROUND_THREADS, BLOCK_BYTES, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue,
    SeeValues, Session,
};
use ::surrealkv::{
    CompactRangeOptions, CompressionType, Durability, Error, LSMIterator, Mode, Options, ReadOptions,
    Transaction, Tree, TreeBuilder,
};
use std::path::Path;

/// Its own default.
const LARGE_BLOCK_BYTES: usize = 64 << 10;

struct SurrealKv {
    tree: Tree,
    runtime: tokio::runtime::Runtime,
    is_power: bool,
}

/// With blocks of the common size.
pub(super) fn open(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, BLOCK_BYTES)
}

/// With blocks of its own default size.
pub(super) fn open_large_blocks(directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    open_with(directory, settings, LARGE_BLOCK_BYTES)
}

fn open_with(directory: &Path, settings: &EngineSettings, block_bytes: usize) -> Result<Box<dyn Engine>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(BACKGROUND_THREADS)
        .enable_all()
        .build()?;
    let options = Options::new()
        .with_path(directory.to_path_buf())
        .with_block_cache_capacity(settings.cache_bytes)
        .with_max_memtable_size(usize::try_from(settings.memtable_bytes)?)
        .with_block_size(block_bytes)
        .with_compression_per_level(vec![CompressionType::None, CompressionType::SnappyCompression]);
    let tree = {
        let _entered = runtime.enter();
        TreeBuilder::with_options(options).build()?
    };
    Ok(Box::new(SurrealKv { tree, runtime, is_power: settings.is_power() }))
}

impl SurrealKv {
    fn write(&self, change: impl Fn(&mut Transaction) -> ::surrealkv::Result<()>) -> Result<()> {
        loop {
            let mut transaction = self.tree.begin_with_mode(Mode::WriteOnly)?;
            if self.is_power {
                transaction.set_durability(Durability::Immediate);
            }
            change(&mut transaction)?;
            match self.runtime.block_on(transaction.commit()) {
                Err(Error::TransactionWriteConflict) => {}
                committed => return Ok(committed?),
            }
        }
    }

    fn read(&self) -> Result<Transaction> {
        Ok(self.tree.begin_with_mode(Mode::ReadOnly)?)
    }
}

impl Engine for SurrealKv {
    fn abilities(&self) -> Abilities {
        Abilities { multi_get: "as many gets in one read transaction", ..Abilities::STORE }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SurrealKvSession(self)))
    }

    fn flush(&mut self) -> Result<()> {
        let _entered = self.runtime.enter();
        Ok(self.tree.flush_wal(true)?)
    }

    fn compact(&mut self) -> Result<bool> {
        let _entered = self.runtime.enter();
        self.tree.compact_range(None, None, &CompactRangeOptions::default())?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.runtime.block_on(self.tree.close())?)
    }

    fn version(&self) -> String {
        "surrealkv 1.2".to_owned()
    }
}

struct SurrealKvSession<'a>(&'a SurrealKv);

impl Session for SurrealKvSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.write(|transaction| transaction.set(key, value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.write(|transaction| transaction.delete(key))
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.0.write(|transaction| batch.iter().try_for_each(|(key, value)| transaction.set(key, value)))
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        let value = self.0.read()?.get(key)?;
        Ok(value.map(|value| see(&value)).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        let transaction = self.0.read()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = transaction.get(*key)? {
                see(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let transaction = self.0.read()?;
        let mut options = ReadOptions::new();
        if !from.is_empty() {
            options.set_iterate_lower_bound(Some(from.to_vec()));
        }
        let mut entries = transaction.range_with_options(&options)?;
        let mut is_valid = entries.seek_first()?;
        let mut count = 0;
        while is_valid {
            see(entries.key().user_key(), &entries.value_ref()?);
            count += 1;
            if count == limit {
                break;
            }
            is_valid = entries.next()?;
        }
        Ok(count)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let transaction = self.0.read()?;
        let mut entries = transaction.range_with_options(&ReadOptions::new())?;
        let mut is_valid = entries.seek_last()?;
        let mut count = 0;
        while is_valid {
            see(entries.key().user_key(), &entries.value_ref()?);
            count += 1;
            is_valid = entries.prev()?;
        }
        Ok(count)
    }
}
