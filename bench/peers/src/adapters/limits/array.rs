//! Entries in an array, indexed by the number in the key: no search, so a get is one memory access at an
//! address that the processor knows early. What this loses when the data set grows, any store loses at least.
//!
//! Keys must be dense, as they are by default.

use crate::engine::{Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, Session};
use std::ops::Range;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of the number at the head of a key; its last bit marks absent keys.
const NUMBER_BYTES: usize = 8;
/// Bytes of an empty slot. No key has them all: numbers end before.
const EMPTY: u8 = 0xff;
/// The array may be this many times as large as the data set, for entries that workloads add; beyond it keys
/// have gaps.
const MOST_FACTOR: u64 = 4;
/// Least bytes of the array.
const LEAST_BYTES: u64 = 1 << 20;

struct Array(RwLock<Places>);

#[derive(Default)]
struct Places {
    bytes: Vec<u8>,
    key_bytes: usize,
    place_bytes: usize,
    most_bytes: usize,
}

/// Empty, with capacity for the data set in huge pages, so that few address translations are needed.
pub(in crate::adapters) fn open(_: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let bytes: Vec<u8> = Vec::with_capacity(usize::try_from(settings.expected_bytes)?);
    advise_large_pages(&bytes);
    let most_bytes = usize::try_from(settings.expected_bytes.saturating_mul(MOST_FACTOR).max(LEAST_BYTES))?;
    Ok(Box::new(Array(RwLock::new(Places { bytes, most_bytes, ..Places::default() }))))
}

/// Requests huge pages for the capacity of a vector. If there are none, its pages are small.
fn advise_large_pages(bytes: &Vec<u8>) {
    const PAGE_BYTES: usize = 4096;
    let start = bytes.as_ptr();
    let skipped = start.align_offset(PAGE_BYTES);
    let Some(len) = bytes.capacity().checked_sub(skipped) else { return };
    // SAFETY: advice on whole pages of memory owned by this vector; their content does not change.
    unsafe { libc::madvise(start.wrapping_add(skipped).cast_mut().cast(), len, libc::MADV_HUGEPAGE) };
}

/// Slot of a key, or of the first key after an absent one; the empty key is absent.
fn place_of(key: &[u8]) -> usize {
    let number = match key.first_chunk::<NUMBER_BYTES>() {
        Some(number) => u64::from_be_bytes(*number),
        None => 0,
    };
    usize::try_from(number.div_ceil(2)).unwrap_or(usize::MAX)
}

impl Places {
    /// The slot into which an entry is put.
    fn range_for(&mut self, key: &[u8], value: &[u8]) -> Option<Range<usize>> {
        if self.place_bytes == 0 {
            (self.key_bytes, self.place_bytes) = (key.len(), key.len() + value.len());
        }
        let range = self.range(place_of(key))?;
        (key.len() == self.key_bytes
            && key.len() + value.len() == range.len()
            && range.end <= self.most_bytes)
            .then_some(range)
    }

    fn range(&self, place: usize) -> Option<Range<usize>> {
        let start = place.checked_mul(self.place_bytes)?;
        Some(start..start.checked_add(self.place_bytes)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Some(range) = self.range_for(key, value) else {
            return Err("an array takes entries of one length, whose keys have no gaps".into());
        };
        if self.bytes.len() < range.end {
            self.bytes.resize(range.end, EMPTY);
        }
        let (stored_key, stored_value) = self.bytes[range].split_at_mut(self.key_bytes);
        stored_key.copy_from_slice(key);
        stored_value.copy_from_slice(value);
        Ok(())
    }

    /// The entry of a slot, if it has one.
    fn entry(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let start = place.checked_mul(self.place_bytes)?;
        let (key, value) =
            self.bytes.get(start..start + self.place_bytes)?.split_at_checked(self.key_bytes)?;
        (key[0] != EMPTY).then_some((key, value))
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (found, value) = self.entry(place_of(key))?;
        (found == key).then_some(value)
    }

    /// Number of slots.
    fn count(&self) -> usize {
        self.bytes.len().checked_div(self.place_bytes).unwrap_or(0)
    }
}

impl Array {
    fn read(&self) -> RwLockReadGuard<'_, Places> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Places> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Array {
    fn abilities(&self) -> Abilities {
        Abilities { multi_get: "as many gets under one lock", ..Abilities::MEMORY }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ArraySession(self)))
    }

    fn version(&self) -> String {
        "an array in an RwLock".to_owned()
    }
}

struct ArraySession<'a>(&'a Array);

impl Session for ArraySession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.write().put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut places = self.0.write();
        if places.get(key).is_some()
            && let Some(range) = places.range(place_of(key))
        {
            places.bytes[range].fill(EMPTY);
        }
        Ok(())
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut places = self.0.write();
        batch.iter().try_for_each(|(key, value)| places.put(key, value))
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        Ok(self.0.read().get(key).map(see).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut crate::engine::SeeValues<'_>) -> Result<()> {
        let places = self.0.read();
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = places.get(key) {
                see(at, value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let places = self.0.read();
        let mut count = 0;
        for (key, value) in
            (place_of(from)..places.count()).filter_map(|place| places.entry(place)).take(limit)
        {
            see(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let places = self.0.read();
        let mut count = 0;
        for (key, value) in (0..places.count()).rev().filter_map(|place| places.entry(place)) {
            see(key, value);
            count += 1;
        }
        Ok(count)
    }
}
