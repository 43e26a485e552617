//! Garbage collection: deletes the entries of objects that nothing refers to any more (KR4).

use crate::layout::{Space, object_range, objects_range, system};
use crate::store::{Store, garbage_key};
use esker::Result;
use std::sync::atomic::Ordering;

/// Objects of one round. It bounds the batch: 64 range deletes for each keyspace at most.
const OBJECTS_OF_A_ROUND: usize = 64;

/// Entries up to which they are deleted one by one. Every live range delete costs each read below it a
/// little, a point delete costs only itself.
const SMALL_OBJECT_ENTRIES: usize = 64;

impl Store {
    /// Deletes what some objects of the garbage list left behind. `false` if the list was empty.
    ///
    /// No stripe is needed: nothing reads these entries but snapshots, which still see them.
    ///
    /// # Errors
    /// Those of the engine; the list is as it was then.
    pub fn collect_garbage(&self) -> Result<bool> {
        let counted = self.garbage_objects.load(Ordering::Relaxed);
        let objects =
            self.garbage.take(OBJECTS_OF_A_ROUND, |from, count| self.listed_garbage(from, count))?;
        if objects.is_empty() {
            // Databases are flushed with their part of the list. One that was counted meanwhile stays so.
            let _other =
                self.garbage_objects.compare_exchange(counted, 0, Ordering::Relaxed, Ordering::Relaxed);
            return Ok(false);
        }
        self.delete_garbage(&objects).inspect_err(|_| self.garbage.add(&objects))?;
        let count = objects.len() as u64;
        let _before = self
            .garbage_objects
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(before.saturating_sub(count)));
        Ok(true)
    }

    /// Up to `count` objects of the list in order, from a number on.
    fn listed_garbage(&self, from: u64, count: usize) -> Result<Vec<u64>> {
        let mut objects = Vec::new();
        let range = garbage_key(from)..vec![system::GARBAGE + 1];
        for key in self.space(Space::System).keys(range).take(count) {
            let key = key?;
            if let Some(number) = key.get(1..).and_then(|bytes| bytes.try_into().ok()) {
                objects.push(u64::from_be_bytes(number));
            }
        }
        Ok(objects)
    }

    /// Deletes all entries of objects, given in order, and takes these off the list.
    fn delete_garbage(&self, objects: &[u64]) -> Result<()> {
        let mut batch = self.database().batch();
        for space in [Space::Elements, Space::Orders] {
            let mut large: Option<(u64, u64)> = None;
            for &object in objects {
                let (first, end) = object_range(object);
                let mut keys = self.space(space).keys(first..end);
                let few: Vec<_> = keys.by_ref().take(SMALL_OBJECT_ENTRIES).collect::<Result<_>>()?;
                if keys.next().is_none() {
                    few.iter().for_each(|key| batch.delete(self.space(space), key));
                    continue;
                }
                // Neighbours become one range: most objects die in the order in which they were made.
                large = Some(match large {
                    Some((from, to)) if to + 1 == object => (from, object),
                    before => {
                        self.delete_objects(&mut batch, space, before);
                        (object, object)
                    }
                });
            }
            self.delete_objects(&mut batch, space, large);
        }
        let own = self.space(Space::System);
        objects.iter().for_each(|object| batch.delete(own, garbage_key(*object)));
        let seqno = self.database().write(&batch)?;
        self.note_written(seqno);
        Ok(())
    }

    fn delete_objects(&self, batch: &mut esker::WriteBatch, space: Space, objects: Option<(u64, u64)>) {
        if let Some((first, last)) = objects {
            let (start, end) = objects_range(first, last);
            batch.delete_range(self.space(space), start..end);
        }
    }
}
