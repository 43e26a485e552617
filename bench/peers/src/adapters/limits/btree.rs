//! The standard library's BTreeMap behind a reader-writer lock, without a log.

use crate::engine::{Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, Session};
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct BTree(RwLock<Map>);

pub(in crate::adapters) fn open(_: &Path, _: &EngineSettings) -> Result<Box<dyn Engine>> {
    Ok(Box::new(BTree(RwLock::new(Map::new()))))
}

impl BTree {
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for BTree {
    fn abilities(&self) -> Abilities {
        Abilities { multi_get: "as many gets under one lock", ..Abilities::MEMORY }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(BTreeSession(self)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Freeing millions of entries one by one belongs to no measurement.
        std::mem::forget(self);
        Ok(())
    }

    fn version(&self) -> String {
        "BTreeMap in an RwLock".to_owned()
    }
}

struct BTreeSession<'a>(&'a BTree);

impl Session for BTreeSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.0.write().insert(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.write().remove(key);
        Ok(())
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut map = self.0.write();
        for (key, value) in batch.iter() {
            map.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        Ok(self.0.read().get(key).map(|value| see(value)).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], see: &mut crate::engine::SeeValues<'_>) -> Result<()> {
        let map = self.0.read();
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = map.get(*key) {
                see(place, value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let map = self.0.read();
        let mut count = 0;
        for (key, value) in map.range::<[u8], _>((Included(from), Unbounded)).take(limit) {
            see(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let map = self.0.read();
        for (key, value) in map.iter().rev() {
            see(key, value);
        }
        Ok(map.len())
    }
}
