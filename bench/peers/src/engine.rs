//! What a store has to offer to be measured.
//!
//! The same small contract for all, so that what differs is the store. Each operation sees every write that
//! was completed before it; values and keys are handed to a visitor, so that a store that can lend its bytes
//! need not copy them; a session is one thread's, so that a store with handles for each thread can have them.

use std::path::Path;

/// Whatever a store says that went wrong, in its own words.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of whatever may go wrong.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Bits for each key in filters, of every store that has filters and in which that can be chosen.
#[cfg(any(feature = "rocksdb", feature = "speedb", feature = "leveldb"))]
pub(crate) const FILTER_BITS_PER_KEY: u32 = 10;
/// Bytes of a block of a table, of every store in which that can be chosen.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Threads for work in the background, of every store in which that can be chosen: as many as the machine
/// aimed at has cores.
pub(crate) const BACKGROUND_THREADS: usize = 2;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The end of the process: the operating system has it.
    Process,
    /// A power cut: the device has it.
    Power,
}

/// What all stores are told. An adapter maps it to its store's nearest settings, and leaves the rest at that
/// store's defaults.
#[derive(Clone, Debug)]
pub(crate) struct EngineSettings {
    /// Bytes for what was read.
    pub(crate) cache_bytes: u64,
    /// Bytes for what was written, before it becomes a table.
    pub(crate) memtable_bytes: u64,
    /// What every write survives.
    pub(crate) durability: Durability,
    /// Bytes of all keys and values, for stores that reserve their room beforehand.
    pub(crate) expected_bytes: u64,
}

impl EngineSettings {
    /// Whether every write is to survive a power cut.
    pub(crate) fn is_power(&self) -> bool {
        self.durability == Durability::Power
    }
}

/// What a store can do. Workloads that need more are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Gets, deletes and scans; without them it is a limit of writing alone.
    pub(crate) reads: bool,
    /// Entries are still there when it is opened again.
    pub(crate) persists: bool,
    /// Writes acknowledged under [`Durability::Process`] are there after the process has ended without
    /// closing.
    pub(crate) survives_exit: bool,
    /// Writes acknowledged under [`Durability::Power`] are on the device, not in its cache.
    pub(crate) survives_power_cut: bool,
    /// A key that one thread sets again is never missing for others meanwhile.
    pub(crate) replaces_whole: bool,
    /// How it answers a multi-get; empty if it has one of its own.
    pub(crate) multi_get: &'static str,
}

impl Abilities {
    /// Those of a store that does all that is asked for, but has no multi-get.
    pub(crate) const STORE: Abilities = Abilities {
        reads: true,
        persists: true,
        survives_exit: true,
        survives_power_cut: true,
        replaces_whole: true,
        multi_get: "as many gets",
    };
    /// Those of a structure in memory.
    pub(crate) const MEMORY: Abilities =
        Abilities { persists: false, survives_exit: false, survives_power_cut: false, ..Abilities::STORE };
    /// Those of something that only appends.
    pub(crate) const APPEND: Abilities = Abilities { reads: false, persists: false, ..Abilities::STORE };
}

/// Records that are written together.
#[derive(Default)]
pub(crate) struct Batch {
    key_bytes: usize,
    value_bytes: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Batch {
    /// Empties it, for records of these lengths.
    pub(crate) fn clear(&mut self, key_bytes: usize, value_bytes: usize) {
        (self.key_bytes, self.value_bytes) = (key_bytes, value_bytes);
        self.keys.clear();
        self.values.clear();
    }

    /// Adds a key; the room for its value is returned.
    pub(crate) fn push(&mut self, key: &[u8]) -> &mut [u8] {
        self.keys.extend_from_slice(key);
        let start = self.values.len();
        self.values.resize(start + self.value_bytes, 0);
        &mut self.values[start..]
    }

    /// Records in it.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() / self.key_bytes.max(1)
    }

    /// Its records, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let values = self.values.chunks_exact(self.value_bytes.max(1));
        self.keys.chunks_exact(self.key_bytes.max(1)).zip(values)
    }
}

/// An open store.
pub(crate) trait Engine: Send + Sync {
    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// A handle for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Makes everything that was written durable, out of buffers in memory; nothing where nothing ever
    /// becomes durable.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Compacts everything; false if there is no such thing.
    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Closes it in an orderly way; where there is no better one, after a flush.
    fn close(mut self: Box<Self>) -> Result<()> {
        self.flush()
    }

    /// Its version, and whatever else tells this build from others.
    fn version(&self) -> String;

    /// Copies all records in one go and says how many; `None` for all but the limit of copying.
    fn copy_all(&self) -> Option<u64> {
        None
    }
}

/// What sees a value that was found.
pub(crate) type SeeValue<'a> = dyn FnMut(&[u8]) + 'a;
/// What sees the values that a multi-get found, with their places among the keys.
pub(crate) type SeeValues<'a> = dyn FnMut(usize, &[u8]) + 'a;
/// What sees the entries that a scan passes.
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

    /// Lets `see` have the value, and says whether there is one.
    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool>;

    /// Lets `see` have the values of those keys that have one, in one snapshot where the store has a call for
    /// that.
    fn multi_get(&mut self, keys: &[&[u8]], see: &mut SeeValues<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| see(place, value))?;
        }
        Ok(())
    }

    /// Lets `see` have up to `limit` entries in the order of keys, the first of them at or after `from`; says
    /// how many there were.
    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize>;

    /// Lets `see` have all entries from the last to the first, and says how many there were.
    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize>;
}

/// Opens a store in a directory that exists.
pub(crate) type Open = fn(&Path, &EngineSettings) -> Result<Box<dyn Engine>>;
