//! The uncommitted changes of a transaction: the last change of each key, and the undo log for savepoints.

use crate::Keyspace;
use crate::WriteBatch;
use esker_base::KeyspaceId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The overhead of one recorded key or range in bytes: its share of a tree's node (two fat pointers, nodes
/// two thirds full) and of the allocator's headers.
pub(super) const ENTRY_OVERHEAD_BYTES: u64 = 80;

/// The pending change of a key.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    /// Set to this value, until this time in milliseconds since 1970 if there is one.
    Put(Box<[u8]>, Option<u64>),
    /// Deleted.
    Delete,
    /// Operands, oldest first, to merge into the stored value.
    Merge(Vec<Arc<[u8]>>),
}

impl Pending {
    fn bytes(&self) -> u64 {
        match self {
            Pending::Put(value, _) => value.len() as u64 + 16,
            Pending::Delete => 0,
            // Each behind a pointer, with reference counts.
            Pending::Merge(operands) => operands.iter().map(|operand| operand.len() as u64 + 32).sum(),
        }
    }
}

/// The changes of one keyspace, by key.
pub(super) type Changes = BTreeMap<Box<[u8]>, Pending>;

/// The uncommitted changes of a transaction.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// Few, in the order of their first use.
    keyspaces: Vec<KeyspaceWrites>,
    /// Since the first savepoint: how to revert each change.
    undo: Vec<Undo>,
    /// Open savepoints, oldest first: number, and the length of `undo` when it was set.
    savepoints: Vec<(u64, usize)>,
    next_savepoint: u64,
    bytes: u64,
}

#[derive(Debug)]
struct KeyspaceWrites {
    keyspace: Keyspace,
    changes: Changes,
}

/// A revertible change: what the key had before, `None` if the transaction had not changed it.
#[derive(Debug)]
struct Undo {
    keyspace: KeyspaceId,
    key: Box<[u8]>,
    before: Option<Pending>,
}

fn change_bytes(key: &[u8], value: &Pending) -> u64 {
    ENTRY_OVERHEAD_BYTES + key.len() as u64 + value.bytes()
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.keyspaces.iter().all(|of| of.changes.is_empty())
    }

    /// Bytes of memory, estimated.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Upper bound of the bytes of one more change.
    pub(super) fn cost(&self, key: &[u8], value: &Pending) -> u64 {
        let once = ENTRY_OVERHEAD_BYTES + key.len() as u64;
        let undo = if self.savepoints.is_empty() { 0 } else { once };
        once + undo + value.bytes()
    }

    /// Changes a key.
    pub(super) fn set(&mut self, keyspace: &Keyspace, key: &[u8], value: Pending) {
        let id = keyspace.id();
        let at = self.keyspaces.iter().position(|of| of.keyspace.id() == id).unwrap_or_else(|| {
            self.keyspaces.push(KeyspaceWrites { keyspace: keyspace.clone(), changes: Changes::new() });
            self.keyspaces.len() - 1
        });
        let of = &mut self.keyspaces[at];
        self.bytes += change_bytes(key, &value);
        let before = match of.changes.entry(key.into()) {
            Entry::Occupied(mut entry) => Some(entry.insert(value)),
            Entry::Vacant(entry) => {
                entry.insert(value);
                None
            }
        };
        if self.savepoints.is_empty() {
            self.bytes -= before.map_or(0, |before| change_bytes(key, &before));
        } else {
            // The previous change is kept, and its bytes stay counted.
            self.bytes += ENTRY_OVERHEAD_BYTES + key.len() as u64;
            self.undo.push(Undo { keyspace: id, key: key.into(), before });
        }
    }

    /// The transaction's own change of a key; `None` if it did not change it.
    pub(super) fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<&Pending> {
        self.of(keyspace)?.get(key)
    }

    /// The changes of a keyspace.
    pub(super) fn of(&self, keyspace: KeyspaceId) -> Option<&Changes> {
        self.keyspaces.iter().find(|of| of.keyspace.id() == keyspace).map(|of| &of.changes)
    }

    /// Changed keyspaces with their changes.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = (&Keyspace, &Changes)> {
        self.keyspaces.iter().filter(|of| !of.changes.is_empty()).map(|of| (&of.keyspace, &of.changes))
    }

    pub(super) fn add_to(&self, batch: &mut WriteBatch) {
        for (keyspace, changes) in self.keyspaces() {
            for (key, value) in changes {
                match value {
                    Pending::Put(value, expiry_ms) => batch.put_until(keyspace, key, value, *expiry_ms),
                    Pending::Delete => batch.delete(keyspace, key),
                    Pending::Merge(operands) => {
                        operands.iter().for_each(|operand| batch.merge(keyspace, key, operand));
                    }
                }
            }
        }
    }

    /// Sets a savepoint; its number is greater than those before.
    pub(super) fn savepoint(&mut self) -> u64 {
        self.next_savepoint += 1;
        self.savepoints.push((self.next_savepoint, self.undo.len()));
        self.next_savepoint
    }

    /// Reverts the changes since savepoint `number`, and removes later savepoints; `false` if there is no
    /// such savepoint any more.
    pub(super) fn rollback_to(&mut self, number: u64) -> bool {
        let Ok(at) = self.savepoints.binary_search_by_key(&number, |(number, _)| *number) else {
            return false;
        };
        let (_, len) = self.savepoints[at];
        self.savepoints.truncate(at + 1);
        for Undo { keyspace, key, before } in self.undo.drain(len..).rev() {
            let of = self.keyspaces.iter_mut().find(|of| of.keyspace.id() == keyspace);
            let Some(of) = of else { continue };
            self.bytes -= ENTRY_OVERHEAD_BYTES + key.len() as u64;
            let after = match before {
                // Its bytes were never subtracted.
                Some(before) => of.changes.insert(key.clone(), before),
                None => of.changes.remove(&key),
            };
            self.bytes -= after.map_or(0, |after| change_bytes(&key, &after));
        }
        true
    }
}
