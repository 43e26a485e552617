//! Changes that are not committed: the last one of each key, deleted ranges, and the undo log for savepoints.

use super::deleted_ranges::DeletedRanges;
use crate::handle::no_expiry_to_keep;
use crate::{Expiry, Keyspace, Value, ValueWithExpiry, WriteBatch};
use esker_base::expiry::is_over;
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::{Error, KeyspaceId, Result};
use esker_engine::write::write_options::Ends;
use esker_iter::OperandMerger;
use esker_view::read::HalfOpen;
use esker_view::read::resolve::End;
use esker_view::time;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The overhead of one recorded key or range in bytes: its share of a tree's node (two fat pointers, nodes
/// two thirds full) and of the allocator's headers.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 80;

/// An error for a key or value longer than any may be.
pub(crate) fn check_sizes(key: &[u8], value_len: usize) -> Result<()> {
    if key.len() > MAX_KEY_LEN || value_len > MAX_VALUE_LEN {
        let len = key.len();
        return Err(Error::invalid(format!(
            "a key of {len} bytes with a value of {value_len} bytes; keys have up to {MAX_KEY_LEN} and values up to {MAX_VALUE_LEN} bytes"
        )));
    }
    Ok(())
}

/// The pending change of a key.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// Set to this value, until this time in milliseconds since 1970 if there is one.
    Put(Box<[u8]>, Option<u64>),
    /// Deleted.
    Delete,
    /// Operands are merged into a value.
    Merge(PendingMerge),
}

/// Pending operands of one key, and what they are merged into.
#[derive(Clone, Debug)]
pub(crate) struct PendingMerge {
    /// The value that was put before; `None` for the stored one.
    pub(crate) base: Option<MergePart>,
    /// Oldest first.
    operands: Vec<MergePart>,
}

/// A value or an operand with an expiry of its own, in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct MergePart {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) expiry_ms: Option<u64>,
}

impl MergePart {
    /// An operand for `key` with this expiry, counted from now.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace has no merge operator or rejects the operand, and for
    /// [`Expiry::Keep`].
    pub(crate) fn operand(keyspace: &Keyspace, key: &[u8], operand: &[u8], expiry: Expiry) -> Result<Self> {
        keyspace.state().operand_merger()?.check_operand(key, operand)?;
        let expiry_ms = match expiry.resolve(&keyspace.store().time, keyspace.state().default_ttl()) {
            Ends::Never => None,
            Ends::At(expiry_ms) => Some(expiry_ms),
            Ends::AsBefore => return Err(no_expiry_to_keep()),
        };
        Ok(MergePart { bytes: operand.into(), expiry_ms })
    }

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

    /// What a reader at `now_ms` sees of `key`, where `stored` reads the value below the change.
    pub(crate) fn seen(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        now_ms: u64,
        stored: impl FnOnce() -> Result<Option<ValueWithExpiry>>,
    ) -> Result<Option<ValueWithExpiry>> {
        match self {
            Pending::Put(_, Some(expiry_ms)) if is_over(*expiry_ms, now_ms) => Ok(None),
            Pending::Put(value, expiry_ms) => {
                Ok(Some(ValueWithExpiry::new(Value::copied(value), *expiry_ms)))
            }
            Pending::Delete => Ok(None),
            Pending::Merge(merge) => {
                let below = if merge.base.is_some() { None } else { stored()? };
                let value = merge.value(keyspace, key, below.as_ref().map(|below| &*below.value), now_ms)?;
                let expiry_ms = match merge.end(end_of(below.as_ref()), now_ms) {
                    End::At(expiry_ms) => Some(expiry_ms),
                    End::Never | End::Past => None,
                };
                Ok(value.map(|value| ValueWithExpiry::new(value, expiry_ms)))
            }
        }
    }

    /// The change `before` followed by one more operand of `key`, for a reader at `now_ms`.
    ///
    /// Parts become one only if they have the same expiry, so that the result is at any time what the engine
    /// makes of the same operations in a batch, where each part expires on its own.
    pub(crate) fn merged(
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

/// When a value ends that was just read.
fn end_of(stored: Option<&ValueWithExpiry>) -> End {
    match stored {
        None => End::Past,
        Some(stored) => stored.expiry.map_or(End::Never, |expiry| End::At(time::to_ms(expiry))),
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
    fn value(
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
    pub(crate) fn end(&self, stored: End, now_ms: u64) -> End {
        let base = self.base.as_ref().map_or(stored, |base| base.end_at(now_ms));
        self.operands.iter().map(|operand| operand.end_at(now_ms)).fold(base, End::max)
    }
}

/// The changes of one keyspace, by key.
pub(crate) type Changes = BTreeMap<Box<[u8]>, Pending>;

/// Changes that are not committed.
#[derive(Debug, Default)]
pub(crate) struct Writes {
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
    /// What is deleted below the changes.
    deleted: DeletedRanges,
}

/// A revertible change: what the key had before, `None` if it had not been changed.
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
    pub(crate) fn is_empty(&self) -> bool {
        self.keyspaces.iter().all(|of| of.changes.is_empty() && of.deleted.is_empty())
    }

    /// Bytes of memory, estimated.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Upper bound of the bytes of one more change.
    pub(crate) fn cost(&self, key: &[u8], value: &Pending) -> u64 {
        let once = ENTRY_OVERHEAD_BYTES + key.len() as u64;
        let undo = if self.savepoints.is_empty() { 0 } else { once };
        once + undo + value.bytes()
    }

    /// Changes a key.
    pub(crate) fn set(&mut self, keyspace: &Keyspace, key: &[u8], value: Pending) {
        let (id, at) = (keyspace.id(), self.place_of(keyspace));
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

    /// The place of a keyspace, which gets one.
    fn place_of(&mut self, keyspace: &Keyspace) -> usize {
        let at = self.keyspaces.iter().position(|of| of.keyspace.id() == keyspace.id());
        at.unwrap_or_else(|| {
            let (changes, deleted) = (Changes::new(), DeletedRanges::default());
            self.keyspaces.push(KeyspaceWrites { keyspace: keyspace.clone(), changes, deleted });
            self.keyspaces.len() - 1
        })
    }

    /// Deletes a range: its changes so far, and what is stored. Not reverted by savepoints.
    pub(crate) fn delete_range(&mut self, keyspace: &Keyspace, range: HalfOpen) {
        debug_assert!(self.savepoints.is_empty(), "a range delete is not in the undo log");
        let at = self.place_of(keyspace);
        let KeyspaceWrites { changes, deleted, .. } = &mut self.keyspaces[at];
        let mut within = changes.split_off(range.start.as_slice());
        if !range.end.is_empty() {
            changes.append(&mut within.split_off(range.end.as_slice()));
        }
        self.bytes -= within.iter().map(|(key, value)| change_bytes(key, value)).sum::<u64>();
        self.bytes -= deleted.bytes();
        deleted.add(range);
        self.bytes += deleted.bytes();
    }

    /// Whether a key was deleted by a range, below the changes.
    pub(crate) fn is_deleted(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.deleted(keyspace).is_some_and(|deleted| deleted.contains(key))
    }

    /// The deleted ranges of a keyspace.
    pub(crate) fn deleted(&self, keyspace: KeyspaceId) -> Option<&DeletedRanges> {
        self.keyspaces.iter().find(|of| of.keyspace.id() == keyspace).map(|of| &of.deleted)
    }

    /// Forgets all changes.
    pub(crate) fn clear(&mut self) {
        *self = Writes::default();
    }

    /// The change of a key; `None` if it was not changed.
    pub(crate) fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<&Pending> {
        self.of(keyspace)?.get(key)
    }

    /// The changes of a keyspace.
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> Option<&Changes> {
        self.keyspaces.iter().find(|of| of.keyspace.id() == keyspace).map(|of| &of.changes)
    }

    /// Changed keyspaces with their changes.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = (&Keyspace, &Changes)> {
        self.keyspaces.iter().filter(|of| !of.changes.is_empty()).map(|of| (&of.keyspace, &of.changes))
    }

    pub(crate) fn add_to(&self, batch: &mut WriteBatch) {
        for KeyspaceWrites { keyspace, changes, deleted } in &self.keyspaces {
            // First: each change that is left was made after the deletes that span its key.
            for range in deleted.iter() {
                batch.delete_range(keyspace, range);
            }
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
    pub(crate) fn savepoint(&mut self) -> u64 {
        self.next_savepoint += 1;
        self.savepoints.push((self.next_savepoint, self.undo.len()));
        self.next_savepoint
    }

    /// Reverts the changes since savepoint `number`, and removes later savepoints; `false` if there is no
    /// such savepoint any more.
    pub(crate) fn rollback_to(&mut self, number: u64) -> bool {
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
