//! crossbeam's SkipMap without a log: the limit of a memtable of that kind.
//!
//! Setting a key again is a removal and an insertion, so concurrent readers can miss the key in between: it
//! takes no part in workloads in which some threads read what others set.

use crate::engine::{Abilities, Engine, EngineSettings, Result, SeeEntry, SeeValue, Session};
use crossbeam_skiplist::SkipMap;
use std::ops::Bound::{Included, Unbounded};
use std::path::Path;

type Map = SkipMap<Vec<u8>, Vec<u8>>;

struct SkipList(Map);

pub(in crate::adapters) fn open(_: &Path, _: &EngineSettings) -> Result<Box<dyn Engine>> {
    Ok(Box::new(SkipList(Map::new())))
}

impl Engine for SkipList {
    fn abilities(&self) -> Abilities {
        Abilities { replaces_whole: false, ..Abilities::MEMORY }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SkipListSession(&self.0)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Freeing millions of nodes one by one belongs to no measurement.
        std::mem::forget(self);
        Ok(())
    }

    fn version(&self) -> String {
        "crossbeam-skiplist 0.1".to_owned()
    }
}

struct SkipListSession<'a>(&'a Map);

impl Session for SkipListSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.remove(key);
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: &mut SeeValue<'_>) -> Result<bool> {
        Ok(self.0.get(key).map(|entry| see(entry.value())).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: &mut SeeEntry<'_>) -> Result<usize> {
        let mut count = 0;
        for entry in self.0.range::<[u8], _>((Included(from), Unbounded)).take(limit) {
            see(entry.key(), entry.value());
            count += 1;
        }
        Ok(count)
    }

    fn scan_backward(&mut self, see: &mut SeeEntry<'_>) -> Result<usize> {
        let mut count = 0;
        for entry in self.0.iter().rev() {
            see(entry.key(), entry.value());
            count += 1;
        }
        Ok(count)
    }
}
