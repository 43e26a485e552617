//! The targets, a raw skiplist and databases, behind one statically dispatched trait.

use crate::error::{ExperimentError, Result};
use crate::keys::{Keys, Shape, shuffle};
use crossbeam_skiplist::SkipMap;
use esker::options::MemtableKind;
use esker::parts::env::{FileSystem, Random, SeededRandom, StdFileSystem};
use esker::{Database, Durability, Keyspace, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};

pub(super) const VALUE_BYTES: usize = 100;
const MEMORY_BUDGET_BYTES: u64 = 1 << 30;
pub(super) const BATCH: usize = 1000;

/// Keys, values and orders, all made before anything is timed.
pub(super) struct FillData {
    /// Sixteen digits, ascending.
    pub(super) keys: Keys,
    /// The numbers of all keys, shuffled.
    pub(super) shuffled: Vec<u32>,
    pub(super) ascending: Vec<u32>,
    /// The value of entry `n` begins at byte `n`: values are distinct, and cost a byte each to keep.
    values: Vec<u8>,
}

impl FillData {
    pub(super) fn new(entries: usize, random: &SeededRandom) -> FillData {
        let ascending: Vec<u32> = (0..entries as u32).collect();
        let mut shuffled = ascending.clone();
        shuffle(&mut shuffled, random);
        let values = (0..entries + VALUE_BYTES).map(|_| random.next_u64() as u8).collect();
        FillData { keys: Keys::new(Shape::Sequential, entries, random), shuffled, ascending, values }
    }

    pub(super) fn count(&self) -> usize {
        self.ascending.len()
    }

    #[inline]
    pub(super) fn key(&self, number: u32) -> &[u8] {
        self.keys.at(number as usize)
    }

    #[inline]
    pub(super) fn value(&self, number: u32) -> &[u8] {
        &self.values[number as usize..number as usize + VALUE_BYTES]
    }

    /// Whether a value looks like that of an entry; its first bytes tell entries apart.
    #[inline]
    fn is_value(&self, number: u32, found: &[u8]) -> bool {
        found.len() == VALUE_BYTES && found[..8] == self.value(number)[..8]
    }
}

/// An ordered map under test. All of it can be called by many threads at once.
pub(super) trait Target<'a>: Sync {
    /// Input of an insertion, made before it is timed.
    type Entry: Send;
    /// Whether background work continues after the last acknowledged write.
    const HAS_BACKGROUND: bool;
    const HAS_BATCHES: bool;

    fn prepare(&self, number: u32) -> Self::Entry;
    fn insert(&self, entry: Self::Entry) -> Result<()>;
    /// Inserts the entries in batches, or one by one if the target has none.
    fn insert_many(&self, entries: Vec<Self::Entry>) -> Result<()>;
    /// Whether an entry is there with its value.
    fn get(&self, number: u32) -> Result<bool>;
    fn contains(&self, number: u32) -> Result<bool>;
    fn remove(&self, number: u32) -> Result<()>;
    /// Iterates over everything and returns the number of entries.
    fn walk(&self) -> Result<usize>;
    /// Waits until background work has caught up.
    fn drain(&self) -> Result<()>;
}

/// The baseline. It owns its entries, so they are made before and moved in.
pub(super) struct Raw<'a> {
    data: &'a FillData,
    map: SkipMap<Vec<u8>, Vec<u8>>,
}

impl<'a> Raw<'a> {
    pub(super) fn new(data: &'a FillData) -> Raw<'a> {
        Raw { data, map: SkipMap::new() }
    }
}

impl<'a> Target<'a> for Raw<'a> {
    type Entry = (Vec<u8>, Vec<u8>);
    const HAS_BACKGROUND: bool = false;
    const HAS_BATCHES: bool = false;

    fn prepare(&self, number: u32) -> (Vec<u8>, Vec<u8>) {
        (self.data.key(number).to_vec(), self.data.value(number).to_vec())
    }

    #[inline]
    fn insert(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Result<()> {
        self.map.insert(key, value);
        Ok(())
    }

    fn insert_many(&self, entries: Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        entries.into_iter().try_for_each(|entry| self.insert(entry))
    }

    #[inline]
    fn get(&self, number: u32) -> Result<bool> {
        let found = self.map.get(self.data.key(number));
        Ok(found.is_some_and(|entry| self.data.is_value(number, entry.value())))
    }

    #[inline]
    fn contains(&self, number: u32) -> Result<bool> {
        Ok(self.map.contains_key(self.data.key(number)))
    }

    #[inline]
    fn remove(&self, number: u32) -> Result<()> {
        self.map.remove(self.data.key(number));
        Ok(())
    }

    fn walk(&self) -> Result<usize> {
        Ok(self.map.iter().filter(|entry| entry.value().len() == VALUE_BYTES).count())
    }

    fn drain(&self) -> Result<()> {
        Ok(())
    }
}

/// A database, which copies what is put into it.
pub(super) struct Stored<'a> {
    data: &'a FillData,
    directory: PathBuf,
    database: Database,
    keyspace: Keyspace,
}

impl<'a> Stored<'a> {
    pub(super) fn open(data: &'a FillData, directory: &Path, memtable: MemtableKind) -> Result<Stored<'a>> {
        let database = Database::open_with(
            directory,
            Options::default()
                .memory_budget(MEMORY_BUDGET_BYTES)
                .keyspace_options(KeyspaceOptions::default().memtable(memtable)),
        )?;
        let keyspace = database.keyspace(esker::DEFAULT_KEYSPACE)?;
        Ok(Stored { data, directory: directory.to_owned(), database, keyspace })
    }

    pub(super) fn close(self) -> Result<()> {
        let Stored { directory, database, keyspace, .. } = self;
        drop(keyspace);
        database.close()?;
        drop(database);
        Ok(StdFileSystem.remove_dir_all(&directory)?)
    }
}

impl<'a> Target<'a> for Stored<'a> {
    type Entry = (&'a [u8], &'a [u8]);
    const HAS_BACKGROUND: bool = true;
    const HAS_BATCHES: bool = true;

    fn prepare(&self, number: u32) -> (&'a [u8], &'a [u8]) {
        (self.data.key(number), self.data.value(number))
    }

    #[inline]
    fn insert(&self, (key, value): (&[u8], &[u8])) -> Result<()> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn insert_many(&self, entries: Vec<(&'a [u8], &'a [u8])>) -> Result<()> {
        let mut batch = self.database.batch();
        for entries in entries.chunks(BATCH) {
            batch.clear();
            entries.iter().for_each(|(key, value)| batch.put(&self.keyspace, key, value));
            self.database.write_with(&batch, Durability::default())?;
        }
        Ok(())
    }

    #[inline]
    fn get(&self, number: u32) -> Result<bool> {
        let is_right = |found: Option<&[u8]>| found.is_some_and(|value| self.data.is_value(number, value));
        Ok(self.keyspace.get_with(self.data.key(number), is_right)?)
    }

    #[inline]
    fn contains(&self, number: u32) -> Result<bool> {
        Ok(self.keyspace.contains(self.data.key(number))?)
    }

    #[inline]
    fn remove(&self, number: u32) -> Result<()> {
        Ok(self.keyspace.delete(self.data.key(number))?)
    }

    fn walk(&self) -> Result<usize> {
        self.keyspace.iter().try_fold(0, |count, entry| {
            let (_, value) = entry?;
            Ok(count + usize::from(value.len() == VALUE_BYTES))
        })
    }

    fn drain(&self) -> Result<()> {
        Ok(self.database.drain()?)
    }
}

/// An error unless as many were found as should be.
pub(super) fn must_find(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(ExperimentError::WrongAnswer(format!("{what} over {expected} entries found {found}")))
}
