//! The uncommitted changes of a transaction: the last change of each key, and the undo log for savepoints.

use crate::{Keyspace, Value, WriteBatch};
use esker_base::expiry::is_over;
use esker_base::{KeyspaceId, Result};
use esker_iter::OperandMerger;
use esker_view::read::resolve::End;
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
    /// Operands are merged into a value.
    Merge(PendingMerge),
}

/// Operands of a transaction for one key, and what they are merged into.
#[derive(Clone, Debug)]
pub(super) struct PendingMerge {
    /// The value that the transaction put before; `None` for the stored one.
    pub(super) base: Option<MergePart>,
    /// Oldest first.
    operands: Vec<MergePart>,
}

/// A value or an operand with an expiry of its own, in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct MergePart {
    pub(super) bytes: Arc<[u8]>,
    pub(super) expiry_ms: Option<u64>,
}

impl MergePart {
    fn end_at(&self, now_ms: u64) -> End {
        match self.expiry_ms {
            None => End::Never,
            Some(expiry_ms) if is_over(expiry_ms, now_ms) => End::Past,
            Some(expiry_ms) => End::At(expiry_ms),
        }
    }
}

impl Pending {
    fn bytes(&self) -> u64 {
        match self {
            Pending::Put(value, _) => value.len() as u64 + 16,
            Pending::Delete => 0,
            Pending::Merge(PendingMerge { base, operands }) => {
                // Each behind a pointer, with reference counts and an expiry.
                base.iter().chain(operands).map(|part| part.bytes.len() as u64 + 48).sum()
            }
        }
    }

    /// The change `before` followed by one more operand of `key`, for a reader at `now_ms`.
    ///
    /// Parts become one only if they have the same expiry, so that the result is at any time what the engine
    /// makes of the same operations in a batch, where each part expires on its own.
    pub(super) fn merged(
        before: Option<&Pending>,
        operand_merger: &OperandMerger,
        key: &[u8],
        operand: MergePart,
        now_ms: u64,
    ) -> Result<Pending> {
        let put = |base| {
            let value = operand_merger.full_merge(key, base, &[&operand.bytes])?;
            Ok(Pending::Put(value.into(), operand.expiry_ms))
        };
        Ok(Pending::Merge(match before {
            Some(Pending::Delete) if operand.end_at(now_ms) == End::Past => return Ok(Pending::Delete),
            Some(Pending::Delete) => return put(None),
            Some(Pending::Put(value, expiry_ms)) if *expiry_ms == operand.expiry_ms => {
                return put(Some(value));
            }
            Some(Pending::Put(value, expiry_ms)) => {
                let base = MergePart { bytes: (&**value).into(), expiry_ms: *expiry_ms };
                PendingMerge { base: Some(base), operands: vec![operand] }
            }
            Some(Pending::Merge(before)) => before.with(operand_merger, key, operand),
            None => PendingMerge { base: None, operands: vec![operand] },
        }))
    }
}

impl PendingMerge {
    /// These operands and a newer one, which becomes one with the last ones if they expire together and the
    /// operator can combine them.
    fn with(&self, operand_merger: &OperandMerger, key: &[u8], operand: MergePart) -> PendingMerge {
        let expiry_ms = operand.expiry_ms;
        let mut operands = self.operands.clone();
        let together = operands.iter().rev().take_while(|part| part.expiry_ms == expiry_ms).count();
        let first = operands.len() - together;
        operands.push(operand);
        if together > 0 {
            let parts: Vec<&[u8]> = operands[first..].iter().map(|part| &*part.bytes).collect();
            if let Some(one) = operand_merger.partial_merge(key, &parts) {
                operands.truncate(first);
                operands.push(MergePart { bytes: one.into(), expiry_ms });
            }
        }
        PendingMerge { base: self.base.clone(), operands }
    }

    /// The value of `key` for a reader at `now_ms`, where `stored` is the stored value; `None` if there is
    /// none, because everything has expired.
    pub(super) fn value(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        stored: Option<&[u8]>,
        now_ms: u64,
    ) -> Result<Option<Value>> {
        let is_alive = |part: &&MergePart| part.end_at(now_ms) != End::Past;
        let base = match &self.base {
            Some(base) => Some(base).filter(is_alive).map(|base| &*base.bytes),
            None => stored,
        };
        let operands: Vec<&[u8]> =
            self.operands.iter().filter(is_alive).map(|operand| &*operand.bytes).collect();
        if base.is_none() && operands.is_empty() {
            return Ok(None);
        }
        keyspace
            .state()
            .operand_merger()?
            .full_merge(key, base, &operands)
            .map(|value| Some(Value::owned(value)))
    }

    /// When the value ends for a reader at `now_ms`, where `stored` says when the stored value ends: it lives
    /// as long as the last of its parts.
    pub(super) fn end(&self, stored: End, now_ms: u64) -> End {
        let base = self.base.as_ref().map_or(stored, |base| base.end_at(now_ms));
        self.operands.iter().map(|operand| operand.end_at(now_ms)).fold(base, End::max)
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
                    Pending::Merge(PendingMerge { base, operands }) => {
                        if let Some(base) = base {
                            batch.put_until(keyspace, key, &base.bytes, base.expiry_ms);
                        }
                        for operand in operands {
                            batch.merge_until(keyspace, key, &operand.bytes, operand.expiry_ms);
                        }
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
