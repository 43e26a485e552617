//! The phases of the memory bound: what fills memory, one after another on one database.

use super::DATA_FACTOR;
use super::sampler::Watch;
use crate::data::{Rng, mix};
use crate::error::BenchError;
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::backup::Backups;
use esker::{Cursor, Keyspace};
use std::path::Path;

/// Bytes of a small record's value.
const VALUE_BYTES: usize = 400;
const KEY_BYTES: usize = 16;
const PAIR_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
/// The most bytes of a large value; an eighth of the budget if that is less.
const LARGEST_BYTES: usize = 30 << 20;
/// The least bytes of a large value.
const LEAST_LARGE_BYTES: usize = 100 << 10;
const KEYSPACES: usize = 200;
const CURSORS: usize = 500;
/// Cursors that stay open while each pins another memtable, and what is written between two.
const OLD_CURSORS: usize = 1000;
const BETWEEN_OLD_CURSORS_BYTES: u64 = 800_000;
const MULTI_GET_KEYS: usize = 20_000;
const MULTI_GETS: usize = 10;
/// What the caller of a multi-get has of each record: its key, its value with a handle, and what the C
/// library adds.
const HELD_BYTES: usize = KEY_BYTES + VALUE_BYTES + 48;
/// Steps of each open cursor between two rounds of writes.
const STEPS: usize = 20;

/// A phase.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) run: fn(&mut Mix, &Store, &Path, &Watch) -> Result<(), BenchError>,
}

/// All of them, in order.
pub(super) const ALL: &[Phase] = &[
    Phase { name: "fill", run: |mix, store, _, _| mix.fill(store) },
    Phase { name: "multi-gets", run: |mix, store, _, watch| mix.multi_gets(store, watch) },
    Phase { name: "mixed", run: |mix, store, _, _| mix.mixed(store) },
    Phase { name: "keyspaces", run: |mix, store, _, _| mix.keyspaces(store) },
    Phase { name: "bulk-load", run: |mix, store, _, _| mix.bulk_load(store) },
    Phase { name: "cursors", run: |mix, store, _, _| mix.cursors(store) },
    Phase { name: "old-cursors", run: |mix, store, _, _| mix.old_cursors(store) },
    Phase { name: "large", run: |mix, store, _, watch| mix.large(store, watch) },
    Phase { name: "blobs", run: |mix, store, _, watch| mix.blobs(store, watch) },
    Phase { name: "backup", run: |mix, store, directory, _| mix.backup(store, directory) },
    Phase { name: "compact", run: |_, store, _, _| Ok(store.database.compact_all()?) },
];

/// What the phases share.
pub(super) struct Mix {
    rng: Rng,
    /// Values are slices of it.
    pool: Vec<u8>,
    /// Bytes that the phases write.
    data_bytes: u64,
    /// The share of what they should.
    share: f64,
    budget_bytes: u64,
    /// Records of the fill.
    filled: u64,
    /// Open until the end of the run.
    cursors: Vec<Cursor>,
}

impl Mix {
    pub(super) fn new(settings: &Settings) -> Mix {
        let budget_bytes = settings.memory_budget_bytes.unwrap_or(64 << 20);
        let mut rng = Rng::new(settings.seed, 38);
        let mut pool = Vec::with_capacity(LARGEST_BYTES + VALUE_BYTES);
        while pool.len() < LARGEST_BYTES {
            // Half random: values compress to about a half.
            let number = rng.next().to_le_bytes();
            pool.extend_from_slice(&number);
            pool.extend_from_slice(&[b'v'; 8]);
        }
        let data_bytes = (budget_bytes as f64 * DATA_FACTOR * settings.data_share) as u64;
        let largest =
            LARGEST_BYTES.min(usize::try_from(budget_bytes / 8).unwrap_or(LARGEST_BYTES)).max(10 << 20);
        pool.truncate(largest);
        pool.shrink_to_fit();
        Mix {
            rng,
            pool,
            data_bytes,
            share: settings.data_share,
            budget_bytes,
            filled: 0,
            cursors: Vec::new(),
        }
    }

    pub(super) fn let_go(&mut self) {
        self.cursors.clear();
    }

    fn value(&mut self, bytes: usize) -> &[u8] {
        let at = self.rng.below((self.pool.len() - bytes + 1) as u64) as usize;
        &self.pool[at..at + bytes]
    }

    fn put(&mut self, keyspace: &Keyspace, record: u64) -> esker::Result<()> {
        keyspace.put(key(record), self.value(VALUE_BYTES))
    }

    /// Half of the data, in random order.
    fn fill(&mut self, store: &Store) -> Result<(), BenchError> {
        let records = self.data_bytes / 2 / PAIR_BYTES;
        for record in 0..records {
            self.put(&store.keyspace, record)?;
        }
        self.filled = records;
        Ok(())
    }

    fn multi_gets(&mut self, store: &Store, watch: &Watch) -> Result<(), BenchError> {
        for _ in 0..MULTI_GETS {
            let keys: Vec<_> = (0..MULTI_GET_KEYS).map(|_| key(self.rng.below(self.filled.max(1)))).collect();
            watch.hold(MULTI_GET_KEYS * HELD_BYTES);
            let found = store.keyspace.multi_get(&keys)?;
            if self.filled > 0 && found.iter().any(Option::is_none) {
                return Err(wrong("a multi-get missed a record"));
            }
            drop(found);
            watch.hold(0);
        }
        Ok(())
    }

    /// Gets, puts and short scans, twice the budget of them.
    fn mixed(&mut self, store: &Store) -> Result<(), BenchError> {
        for number in 0..self.data_bytes / 10 / PAIR_BYTES {
            let record = self.rng.below(self.filled.max(1));
            self.put(&store.keyspace, record)?;
            let other = self.rng.below(self.filled.max(1));
            let is_there = store.keyspace.get_with(key(other), |value| value.is_some())?;
            if !is_there && self.filled > 0 {
                return Err(wrong("a get missed a record"));
            }
            if number % 50 == 0 {
                let mut cursor = store.keyspace.cursor()?;
                cursor.seek(key(other))?;
                for _ in 0..STEPS {
                    cursor.advance()?;
                }
            }
        }
        Ok(())
    }

    fn keyspaces(&mut self, store: &Store) -> Result<(), BenchError> {
        let names = (0..KEYSPACES).map(|number| store.database.keyspace(&format!("many-{number}")));
        let all: Vec<Keyspace> = names.collect::<Result<_, _>>()?;
        for record in 0..self.data_bytes / 10 / PAIR_BYTES {
            let chosen = self.rng.below(KEYSPACES as u64) as usize;
            self.put(&all[chosen], record)?;
        }
        Ok(())
    }

    /// A fifth of the data.
    fn bulk_load(&mut self, store: &Store) -> Result<(), BenchError> {
        let mut loader = store.database.keyspace("loaded")?.bulk_load()?;
        for record in 0..self.data_bytes / 5 / PAIR_BYTES {
            loader.add(key(record), self.value(VALUE_BYTES))?;
        }
        loader.finish()?;
        Ok(())
    }

    /// Cursors that are opened while writes go on, stay open, and are stepped all.
    fn cursors(&mut self, store: &Store) -> Result<(), BenchError> {
        let between = self.data_bytes / 20 / PAIR_BYTES / CURSORS as u64;
        for _ in 0..CURSORS {
            let start = key(self.rng.below(self.filled.max(1)));
            let mut cursor = store.keyspace.cursor()?;
            cursor.seek(start)?;
            self.cursors.push(cursor);
            for _ in 0..between {
                let record = self.rng.below(self.filled.max(1));
                self.put(&store.keyspace, record)?;
            }
        }
        self.step_all()?;
        self.cursors.truncate(CURSORS / 2);
        self.step_all()?;
        self.cursors.clear();
        Ok(())
    }

    fn step_all(&mut self) -> Result<(), BenchError> {
        for cursor in &mut self.cursors {
            for _ in 0..STEPS {
                cursor.advance()?;
            }
        }
        Ok(())
    }

    /// Cursors each of which is older than the next by more than what memtables hold.
    fn old_cursors(&mut self, store: &Store) -> Result<(), BenchError> {
        let keyspace = store.database.keyspace("old")?;
        let between = (BETWEEN_OLD_CURSORS_BYTES as f64 * self.share) as u64 / PAIR_BYTES;
        let mut record = 0;
        for _ in 0..OLD_CURSORS {
            for _ in 0..between {
                self.put(&keyspace, record)?;
                record += 1;
            }
            let mut cursor = keyspace.cursor()?;
            cursor.seek_to_first()?;
            self.cursors.push(cursor);
        }
        self.step_all()?;
        self.check_old(between)?;
        self.cursors.clear();
        Ok(())
    }

    /// Each cursor sees what was there when it was opened, and nothing else.
    fn check_old(&mut self, between: u64) -> Result<(), BenchError> {
        for at in [0, OLD_CURSORS / 2] {
            let cursor = &mut self.cursors[at];
            let mut seen = 0;
            cursor.seek_to_first()?;
            while cursor.key().is_some() {
                seen += 1;
                cursor.advance()?;
            }
            if seen != (at as u64 + 1) * between {
                return Err(wrong("an old cursor sees another moment"));
            }
        }
        Ok(())
    }

    /// Large values in tables.
    fn large(&mut self, store: &Store, watch: &Watch) -> Result<(), BenchError> {
        let keyspace = store.database.keyspace("large")?;
        self.large_in(&keyspace, watch)
    }

    /// Large values in blob files.
    fn blobs(&mut self, store: &Store, watch: &Watch) -> Result<(), BenchError> {
        let options = esker::KeyspaceOptions::default().blob_threshold(LEAST_LARGE_BYTES as u64);
        let keyspace = store.database.keyspace_with("blobs", options)?;
        self.large_in(&keyspace, watch)
    }

    fn large_in(&mut self, keyspace: &Keyspace, watch: &Watch) -> Result<(), BenchError> {
        let mut left = self.data_bytes / 10;
        let (mut count, mut lens) = (0, Vec::new());
        while left > 0 {
            // Evenly by logarithm, up to the largest.
            let doublings = (self.pool.len() as f64 / LEAST_LARGE_BYTES as f64).log2();
            let exponent = self.rng.below(1000) as f64 / 1000.0 * doublings;
            let bytes = ((LEAST_LARGE_BYTES as f64 * exponent.exp2()) as usize).min(self.pool.len());
            keyspace.put(key(count), self.value(bytes))?;
            lens.push(bytes);
            left = left.saturating_sub(bytes as u64);
            let other = self.rng.below(count + 1);
            watch.hold(lens[other as usize]);
            let found = keyspace.get(key(other))?;
            if found.is_none_or(|value| value.len() != lens[other as usize]) {
                return Err(wrong("a large value is not as it was put"));
            }
            watch.hold(0);
            count += 1;
        }
        Ok(())
    }

    fn backup(&mut self, store: &Store, directory: &Path) -> Result<(), BenchError> {
        let backups = Backups::new(directory.join("backups"));
        for _ in 0..2 {
            for _ in 0..self.budget_bytes / 8 / PAIR_BYTES {
                let record = self.rng.below(self.filled.max(1));
                self.put(&store.keyspace, record)?;
            }
            store.database.backup(&backups)?;
        }
        Ok(())
    }
}

fn key(record: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(record).to_be_bytes());
    key[8..].copy_from_slice(&record.to_be_bytes());
    key
}

fn wrong(detail: &str) -> BenchError {
    BenchError::WrongAnswer { workload: Workload::MemoryBound, detail: detail.into() }
}
