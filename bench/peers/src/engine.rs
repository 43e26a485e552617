//! The interface of a measured store.
//!
//! The same small interface for all, so that what differs is the store. Each operation sees every write
//! completed before it. Values and keys are passed to a visitor, so that a store that can lend its bytes need
//! not copy them. A session belongs to one thread, so that a store can have per-thread handles.

use std::path::Path;

/// An error of a store, in its own words.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Filter bits per key, in every store that has the setting.
#[cfg(any(feature = "rocksdb", feature = "speedb", feature = "leveldb"))]
pub(crate) const FILTER_BITS_PER_KEY: u32 = 10;
/// Bytes of a block, in every store that has the setting.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Background threads, in every store that has the setting: as many as the target machine has cores.
pub(crate) const BACKGROUND_THREADS: usize = 2;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The end of the process: the operating system has it.
    Process,
    /// A power cut: the device has it.
    Power,
}

/// Settings for all stores. An adapter maps them to its store's nearest settings, and leaves the rest at that
/// store's defaults.
#[derive(Clone, Debug)]
pub(crate) struct EngineSettings {
    /// Bytes of the cache.
    pub(crate) cache_bytes: u64,
    /// Bytes of the memtable.
    pub(crate) memtable_bytes: u64,
    /// Durability of every write.
    pub(crate) durability: Durability,
    /// Bytes of all keys and values, for stores that reserve their space.
    pub(crate) expected_bytes: u64,
    /// The run is killed beyond a limit of memory.
    pub(crate) is_memory_limited: bool,
}

impl EngineSettings {
    pub(crate) fn is_power(&self) -> bool {
        self.durability == Durability::Power
    }
}

/// Abilities of a store. Workloads that need more are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Gets, deletes and scans; without them it is a limit of writing alone.
    pub(crate) reads: bool,
    /// Entries are still there after reopening.
    pub(crate) persists: bool,
    /// Writes acknowledged under [`Durability::Process`] survive the end of the process without closing.
    pub(crate) survives_exit: bool,
    /// Writes acknowledged under [`Durability::Power`] are on the device, not in its cache.
    pub(crate) survives_power_cut: bool,
    /// Overwriting a key never hides it from other threads in between.
    pub(crate) replaces_whole: bool,
    /// How it executes a multi-get; empty if natively.
    pub(crate) multi_get: &'static str,
}

impl Abilities {
    /// A complete store without a multi-get of its own.
    pub(crate) const STORE: Abilities = Abilities {
        reads: true,
        persists: true,
        survives_exit: true,
        survives_power_cut: true,
        replaces_whole: true,
        multi_get: "as many gets",
    };
    /// A structure in memory.
    pub(crate) const MEMORY: Abilities =
        Abilities { persists: false, survives_exit: false, survives_power_cut: false, ..Abilities::STORE };
    /// An append-only limit.
    pub(crate) const APPEND: Abilities = Abilities { reads: false, persists: false, ..Abilities::STORE };
}

/// Records that are written together.
#[derive(Default)]
pub(crate) struct Batch {
    /// Keys and values in turn.
    bytes: Vec<u8>,
    /// Where each key and its value end.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    /// Clears it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a key, and returns the buffer for its value.
    pub(crate) fn push(&mut self, key: &[u8], value_bytes: usize) -> &mut [u8] {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        let value_end = key_end + value_bytes;
        self.bytes.resize(value_end, 0);
        self.ends.push((key_end, value_end));
        &mut self.bytes[key_end..]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The records in the order of their addition.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, value_end)| {
            let record = (&self.bytes[start..key_end], &self.bytes[key_end..value_end]);
            start = value_end;
            record
        })
    }
}

/// An open store.
pub(crate) trait Engine: Send + Sync {
    fn abilities(&self) -> Abilities;

    /// A handle for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Makes everything written durable; no operation where nothing ever becomes durable.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Compacts everything; false if the store has no such call.
    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Closes it in order; by default flushes.
    fn close(mut self: Box<Self>) -> Result<()> {
        self.flush()
    }

    /// Version and build.
    fn version(&self) -> String;

    /// Copies all records in one go and returns their number; `None` for all but the limit of copying.
    fn copy_all(&self) -> Option<u64> {
        None
    }
}

/// Visitor of a found value.
pub(crate) type SeeValue<'a> = dyn FnMut(&[u8]) + 'a;
/// Visitor of the values of a multi-get, with their indexes among the keys.
pub(crate) type SeeValues<'a> = dyn FnMut(usize, &[u8]) + 'a;
/// Visitor of the entries of a scan.
pub(crate) type SeeEntry<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// One thread's handle of a store.
pub(crate) trait Session {
    /// Sets a key to a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Writes records together, atomically where the store can; one after the other where it has no batches.
    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        batch.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Passes the value to `see`, and returns whether there is one.
    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool>;

    /// Passes the found values to `see`, of one snapshot where the store has a call for that.
    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| see(place, value))?;
        }
        Ok(())
    }

    /// Passes up to `limit` entries to `see` in key order, from the first at or after `from`; returns their
    /// number.
    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize>;

    /// Passes all entries to `see` from the last to the first, and returns their number.
    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize>;
}

/// Opens a store in a directory that exists.
pub(crate) type Open = fn(&Path, &EngineSettings) -> Result<Box<dyn Engine>>;
