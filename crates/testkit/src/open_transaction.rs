//! An open transaction of a script: what it should see, and what it depends on.

use crate::oracle::{Living, Moment, Written, over};
use crate::script::{Action, Edit};
use crate::{Key, Oracle};
use esker::transaction::Savepoint;
use esker::{Database, Durability, Expiry, Keyspace, Transaction, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// Changes by keyspace and key: operands, oldest first, behind a put or a delete if there was one.
pub(crate) type Changes = BTreeMap<(usize, Vec<u8>), Vec<Written>>;

#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) tx: Transaction,
    /// When it began.
    pub(crate) at: Moment,
    pub(crate) serializable: bool,
    pub(crate) changes: Changes,
    pub(crate) points: BTreeSet<(usize, Vec<u8>)>,
    pub(crate) ranges: Vec<(usize, Bounds)>,
    pub(crate) savepoints: Vec<(Savepoint, Changes)>,
}

pub(crate) fn borrow_bounds(bounds: &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice))
}

impl OpenTransaction {
    /// The value of a key that it should see, and when that ends.
    pub(crate) fn living<'a>(&'a self, oracle: &'a Oracle, space: usize, key: &[u8]) -> Living<'a> {
        let stored = oracle.look_up(space, key, self.at);
        let own = self.changes.get(&(space, key.to_vec()));
        own.into_iter().flatten().fold(stored, |below, written| over(below, written, self.at.time_ms))
    }

    pub(crate) fn entries(
        &self,
        oracle: &Oracle,
        space: usize,
        bounds: &Bounds,
    ) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let stored = oracle.range(space, borrow_bounds(bounds), self.at);
        let mut entries: BTreeMap<Vec<u8>, Vec<u8>> =
            stored.map(|(key, value)| (key.to_vec(), value.into_owned())).collect();
        for (of, key) in self.changes.keys() {
            if *of == space && RangeBounds::contains(bounds, key) {
                match self.living(oracle, space, key) {
                    Some((value, _)) => entries.insert(key.clone(), value.into_owned()),
                    None => entries.remove(key),
                };
            }
        }
        entries
    }

    /// Records a change.
    pub(crate) fn change(&mut self, space: usize, key: Vec<u8>, written: Written) {
        let own = self.changes.entry((space, key)).or_default();
        if !matches!(written, Written::Merge(..)) {
            own.clear();
        }
        own.push(written);
    }

    /// Records that a key was read at this level, unless the stored value does not matter.
    pub(crate) fn read(&mut self, space: usize, key: &[u8], depends: bool) {
        let own = self.changes.get(&(space, key.to_vec())).and_then(|own| own.first());
        if depends && own.is_none_or(|first| matches!(first, Written::Merge(..))) {
            self.points.insert((space, key.to_vec()));
        }
    }

    /// Records that a range was read.
    pub(crate) fn read_range(&mut self, space: usize, bounds: Bounds) {
        if self.serializable {
            self.ranges.push((space, bounds));
        }
    }

    pub(crate) fn conflicts(&self, oracle: &Oracle) -> BTreeSet<(usize, Vec<u8>)> {
        if self.changes.is_empty() {
            return BTreeSet::new();
        }
        let points = self.points.iter().chain(self.changes.keys());
        let mut found: BTreeSet<_> =
            points.filter(|(space, key)| oracle.is_changed(*space, key, self.at.commit)).cloned().collect();
        for (space, bounds) in &self.ranges {
            let changed = oracle.changed_in(*space, borrow_bounds(bounds), self.at.commit);
            found.extend(changed.map(|key| (*space, key.to_vec())));
        }
        found
    }
}

impl OpenTransaction {
    /// Whether a deleted range reaches into one it depends on: a conflict without a key is possible.
    pub(crate) fn is_under_deletes(&self, oracle: &Oracle) -> bool {
        self.ranges
            .iter()
            .any(|(space, bounds)| oracle.is_deleted_in(*space, borrow_bounds(bounds), self.at.commit))
    }
}

/// Writes the edits in one transaction, which reads each key before it is put or deleted. `ttl` says how long
/// something lives.
pub(crate) fn write_transaction(
    db: &Database,
    edits: &[Edit],
    keyspaces: &[Keyspace],
    durability: Durability,
    ttl: impl Fn(u32) -> Duration,
) -> esker::Result<()> {
    db.transact_with(TransactionOptions::default().durability(durability), |tx| {
        for (edit, keyspace) in edits.iter().zip(keyspaces) {
            let key = edit.key.bytes();
            let after = |ttl_ms| Expiry::After(ttl(ttl_ms));
            match edit.action {
                Action::Merge(operand) => tx.merge(keyspace, &key, operand.bytes())?,
                Action::MergeFor(operand, ttl_ms) => {
                    tx.merge_with(keyspace, &key, operand.bytes(), after(ttl_ms))?;
                }
                Action::Put(value) => {
                    tx.get(keyspace, &key)?;
                    tx.put(keyspace, &key, value.bytes())?;
                }
                Action::PutFor(value, ttl_ms) => {
                    tx.get(keyspace, &key)?;
                    tx.put_with(keyspace, &key, value.bytes(), after(ttl_ms))?;
                }
                Action::Delete => {
                    tx.get(keyspace, &key)?;
                    tx.delete(keyspace, &key)?;
                }
                Action::DeleteUpTo(end) => {
                    tx.delete_range(keyspace, (Bound::Included(key), end.map(Key::bytes)))?;
                }
            }
        }
        Ok(())
    })
}
