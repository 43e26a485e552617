//! Transactions of a script: several are open at once, between other operations, and the oracle knows which
//! of them must meet a conflict, and which must not.

use crate::cursor_walks::{Walks, turn};
use crate::model::{lent, same, same_entry};
use crate::one_key::put;
use crate::open_transaction::{Bounds, Changes, OpenTransaction};
use crate::operators::Operator;
use crate::oracle::{Change, Written, over};
use crate::runner::{Mark, Runner, effective, key_bounds, plain_change, range_of};
use crate::script::{Action, CursorStep, Edit, Lifetime, Op, Step};
use crate::{Filler, Key, Outcome, SPACES, ensure};
use esker::transaction::Isolation;
use esker::{Error, Keyspace, TransactionOptions, Value};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Most transactions that a script has open at once.
const MAX_OPEN: usize = 4;

/// What is taken of a range: from which ends, and how much.
#[derive(Clone, Copy)]
struct Taken {
    keys_only: bool,
    ends: u64,
    count: usize,
}

impl Runner {
    /// Runs a transaction's operation and checks the result; `Ok(false)` for other operations.
    pub(crate) fn step_transaction(&mut self, op: &Op) -> Outcome<bool> {
        match op {
            Op::Begin { serializable } => self.begin(*serializable)?,
            Op::InTransaction { which, step } => {
                if let Some(at) = self.open_transaction(*which) {
                    // Taken out, because a step may need the runner as well.
                    let mut open = self.transactions.remove(at);
                    let done = self.carry_out(&mut open, step);
                    self.transactions.insert(at, open);
                    done?;
                }
            }
            Op::Finish { which, commit } => {
                if let Some(at) = self.open_transaction(*which) {
                    let open = self.transactions.remove(at);
                    if *commit { self.commit(open)? } else { open.tx.rollback() }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn open_transaction(&self, which: u8) -> Option<usize> {
        usize::from(which).checked_rem(self.transactions.len())
    }

    fn begin(&mut self, serializable: bool) -> Outcome {
        if self.transactions.len() == MAX_OPEN {
            self.transactions.remove(0);
        }
        let at = self.now()?;
        let isolation = if serializable { Isolation::Serializable } else { Isolation::Snapshot };
        let tx = self.db()?.transaction_with(TransactionOptions::default().isolation(isolation));
        self.transactions.push(OpenTransaction {
            tx,
            at,
            serializable,
            changes: Changes::new(),
            points: BTreeSet::new(),
            ranges: Vec::new(),
            savepoints: Vec::new(),
        });
        Ok(())
    }

    fn carry_out(&mut self, open: &mut OpenTransaction, step: &Step) -> Outcome {
        match step {
            Step::Change(edit) => self.change_in(open, edit)?,
            Step::Put { space, key, value, lifetime } => {
                self.put_in(open, *space, *key, *value, *lifetime)?;
            }
            Step::Merge { space, key, operand, lifetime } => {
                self.merge_in(open, *space, *key, *operand, *lifetime)?;
            }
            Step::Update { space, key, value } => self.update_in(open, *space, *key, *value)?,
            Step::Get { space, key, for_update } => {
                self.check_get_in(open, usize::from(*space), &key.bytes(), *for_update)?;
            }
            Step::Range { keys_only, space, lower, upper, ends, count } => {
                let bounds = key_bounds(lower, upper);
                let taken = Taken { keys_only: *keys_only, ends: *ends, count: usize::from(*count) };
                self.check_range_in(open, usize::from(*space), bounds, taken)?;
            }
            Step::Ends { space } => self.check_ends_in(open, usize::from(*space))?,
            Step::Cursor { space, lower, upper, steps } => {
                self.check_cursor_in(open, usize::from(*space), key_bounds(lower, upper), steps)?;
            }
            Step::Savepoint => open.savepoints.push((open.tx.savepoint(), open.changes.clone())),
            Step::RollbackTo(which) => {
                let Some(at) = usize::from(*which).checked_rem(open.savepoints.len()) else { return Ok(()) };
                open.savepoints.truncate(at + 1);
                let (savepoint, changes) = &open.savepoints[at];
                open.tx.rollback_to(*savepoint)?;
                open.changes.clone_from(changes);
            }
        }
        Ok(())
    }

    fn change_in(&mut self, open: &mut OpenTransaction, edit: &Edit) -> Outcome {
        let keyspace = self.create(edit.space)?;
        let edit = effective(edit, &keyspace);
        match edit.action {
            Action::Put(value) => self.put_in(open, edit.space, edit.key, value, Lifetime::Default),
            Action::PutFor(value, ttl_ms) => {
                self.put_in(open, edit.space, edit.key, value, Lifetime::After(ttl_ms))
            }
            Action::Merge(operand) => self.merge_in(open, edit.space, edit.key, operand, Lifetime::Default),
            Action::MergeFor(operand, ttl_ms) => {
                self.merge_in(open, edit.space, edit.key, operand, Lifetime::After(ttl_ms))
            }
            Action::Delete => {
                let (space, key, _) = plain_change(&edit);
                open.tx.delete(&keyspace, &key)?;
                open.change(space, key, Written::Delete);
                Ok(())
            }
            Action::DeleteUpTo(_) => self.delete_range_in(open, &edit, &keyspace),
        }
    }

    fn delete_range_in(&self, open: &mut OpenTransaction, edit: &Edit, keyspace: &Keyspace) -> Outcome {
        let (space, Some(bounds)) = (usize::from(edit.space), range_of(edit)) else { return Ok(()) };
        let expected = open.entries(&self.oracle, space, &bounds);
        let deleted = open.tx.delete_range(keyspace, bounds.clone())?;
        ensure!(deleted == expected.len() as u64, "{deleted} keys deleted, not {}", expected.len());
        for key in expected.into_keys() {
            open.change(space, key, Written::Delete);
        }
        open.read_range(space, bounds);
        Ok(())
    }

    fn put_in(
        &mut self,
        open: &mut OpenTransaction,
        space: u8,
        key: Key,
        value: Filler,
        lifetime: Lifetime,
    ) -> Outcome {
        let keyspace = self.create(space)?;
        let (space, key, value) = (usize::from(space), key.bytes(), value.bytes());
        let replaced = open.living(&self.oracle, space, &key).map(|(_, end)| end);
        let end_ms = self.end_ms(space, lifetime, replaced)?;
        open.tx.put_with(&keyspace, &key, &value, self.expiry(lifetime)?)?;
        open.read(space, &key, lifetime == Lifetime::Keep);
        open.change(space, key, put(value, end_ms));
        Ok(())
    }

    fn merge_in(
        &mut self,
        open: &mut OpenTransaction,
        space: u8,
        key: Key,
        operand: Filler,
        lifetime: Lifetime,
    ) -> Outcome {
        let keyspace = self.create(space)?;
        let Some(operator) = Operator::of(&keyspace.options()) else { return Ok(()) };
        let (space, key, operand) = (usize::from(space), key.bytes(), operand.bytes());
        let end_ms = self.end_ms(space, lifetime, None)?;
        open.tx.merge_with(&keyspace, &key, &operand, self.expiry(lifetime)?)?;
        open.change(space, key, Written::Merge(operator, operand, end_ms));
        Ok(())
    }

    fn update_in(
        &mut self,
        open: &mut OpenTransaction,
        space: u8,
        key: Key,
        value: Option<Filler>,
    ) -> Outcome {
        let keyspace = self.create(space)?;
        let (space, key) = (usize::from(space), key.bytes());
        let before = open.living(&self.oracle, space, &key).map(|(value, end)| (value.into_owned(), end));
        let end_ms = self.end_ms(space, Lifetime::Keep, before.as_ref().map(|(_, end)| *end))?;
        let found = open.tx.fetch_update(&keyspace, &key, |_| value.map(Filler::bytes))?;
        let expected = before.as_ref().map(|(value, _)| value.as_slice());
        same("an update in a transaction", found.as_deref(), expected)?;
        open.read(space, &key, true);
        match value {
            Some(value) => open.change(space, key, put(value.bytes(), end_ms)),
            None if before.is_some() => open.change(space, key, Written::Delete),
            None => {}
        }
        Ok(())
    }

    fn check_get_in(
        &self,
        open: &mut OpenTransaction,
        space: usize,
        key: &[u8],
        for_update: bool,
    ) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        open.read(space, key, for_update || open.serializable);
        let expected = open.living(&self.oracle, space, key).map(|(value, _)| value);
        let found = if for_update {
            open.tx.get_for_update(keyspace, key)?
        } else {
            ensure!(open.tx.contains(keyspace, key)? == expected.is_some(), "contains in a transaction");
            let several = open.tx.multi_get(keyspace, &[key, key])?;
            same("multi_get in a transaction", several[1].as_deref(), expected.as_deref())?;
            open.tx.get(keyspace, key)?
        };
        same("get in a transaction", found.as_deref(), expected.as_deref())
    }

    fn check_ends_in(&self, open: &mut OpenTransaction, space: usize) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let entries = open.entries(&self.oracle, space, &(Bound::Unbounded, Bound::Unbounded));
        let expected = [entries.first_key_value(), entries.last_key_value()];
        let found = [open.tx.first(keyspace)?, open.tx.last(keyspace)?];
        for (found, expected) in found.iter().zip(expected) {
            let expected = expected.map(|(key, value)| (key.as_slice(), value.as_slice()));
            same_entry("an end of a transaction's keyspace", lent(found), expected)?;
        }
        let up_to = |entry: Option<(&Vec<u8>, _)>| {
            entry.map_or(Bound::Unbounded, |(key, _)| Bound::Included(key.clone()))
        };
        open.read_range(space, (Bound::Unbounded, up_to(entries.first_key_value())));
        open.read_range(space, (up_to(entries.last_key_value()), Bound::Unbounded));
        Ok(())
    }

    /// Takes some entries of a range; what was walked of it is what is depended on.
    fn check_range_in(
        &self,
        open: &mut OpenTransaction,
        space: usize,
        bounds: Bounds,
        taken: Taken,
    ) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let entries = open.entries(&self.oracle, space, &bounds);
        let mut expected = entries.iter();
        let (mut front, mut back, mut is_finished) = (None, None, false);
        let mut range: Box<dyn DoubleEndedIterator<Item = esker::Result<(Value, Option<Value>)>>> =
            match taken.keys_only {
                true => Box::new(open.tx.keys(keyspace, bounds.clone()).map(|key| Ok((key?, None)))),
                false => Box::new(open.tx.range(keyspace, bounds.clone()).map(|entry| {
                    let (key, value) = entry?;
                    Ok((key, Some(value)))
                })),
            };
        for turn in 0..taken.count {
            let from_back = taken.ends >> (turn % 64) & 1 == 1;
            let (found, expected) = match from_back {
                true => (range.next_back().transpose()?, expected.next_back()),
                false => (range.next().transpose()?, expected.next()),
            };
            let what = format!("range in a transaction, entry {turn}");
            same(&what, found.as_ref().map(|(key, _)| &**key), expected.map(|(key, _)| key.as_slice()))?;
            if let Some((_, Some(value))) = &found {
                same(&what, Some(value), expected.map(|(_, value)| value.as_slice()))?;
            }
            match expected {
                Some((key, _)) => *if from_back { &mut back } else { &mut front } = Some(key.clone()),
                None => {
                    is_finished = true;
                    break;
                }
            }
        }
        drop(range);
        if is_finished {
            open.read_range(space, bounds);
        } else {
            let (lower, upper) = bounds;
            if let Some(key) = front {
                open.read_range(space, (lower, Bound::Included(key)));
            }
            if let Some(key) = back {
                open.read_range(space, (Bound::Included(key), upper));
            }
        }
        Ok(())
    }

    /// Moves a cursor about, and changes what it is at; what was walked since each seek is depended on.
    fn check_cursor_in(
        &self,
        open: &mut OpenTransaction,
        space: usize,
        bounds: Bounds,
        steps: &[CursorStep],
    ) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let mut entries = open.entries(&self.oracle, space, &bounds);
        let mut walks = Walks::default();
        let mut changes = Vec::new();
        let mut cursor = open.tx.cursor_in(keyspace, bounds.clone())?;
        for (number, step) in steps.iter().enumerate() {
            let at = cursor.key().map(<[u8]>::to_vec);
            ensure!(at == walks.at, "cursor in a transaction, step {number}: a change moved it");
            match (step, at) {
                (CursorStep::Move(by), _) => {
                    turn(&mut cursor, by)?;
                    walks.turn(&entries, &bounds, by);
                    let expected = walks.at.as_ref().map(|key| (key.as_slice(), entries[key].as_slice()));
                    same_entry(&format!("cursor in a transaction, step {number}"), cursor.entry(), expected)?;
                }
                (CursorStep::Put(value), Some(key)) => {
                    cursor.put(value.bytes())?;
                    let written = put(value.bytes(), self.default_end_ms(space)?);
                    match over(None, &written, open.at.time_ms) {
                        Some(_) => entries.insert(key.clone(), value.bytes()),
                        None => entries.remove(&key),
                    };
                    changes.push((key, written));
                }
                (CursorStep::Delete, Some(key)) => {
                    cursor.delete()?;
                    entries.remove(&key);
                    changes.push((key, Written::Delete));
                }
                (_, None) => ensure!(cursor.delete().is_err(), "there is nothing to delete"),
            }
        }
        drop(cursor);
        for (key, written) in changes {
            open.change(space, key, written);
        }
        for walk in walks.all {
            open.read_range(space, walk);
        }
        Ok(())
    }

    fn commit(&mut self, open: OpenTransaction) -> Outcome {
        let conflicts = open.conflicts(&self.oracle);
        let may_conflict = open.is_under_deletes(&self.oracle);
        if conflicts.is_empty() && !open.changes.is_empty() {
            self.mark(Mark::Begun, self.oracle.now() + 1);
        }
        match open.tx.commit() {
            Ok(_) => ensure!(conflicts.is_empty(), "a transaction commits over changes of {conflicts:?}"),
            Err(Error::Conflict(conflict)) => {
                let space = SPACES.iter().position(|name| **name == *conflict.keyspace);
                let met = space.map(|space| (space, conflict.key.to_vec()));
                let is_right = may_conflict || met.is_some_and(|met| conflicts.contains(&met));
                ensure!(is_right, "{conflict}; the changes were of {conflicts:?}");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        if !open.changes.is_empty() {
            let mut changes: Vec<Change> = Vec::new();
            for ((space, key), own) in open.changes {
                changes.extend(own.into_iter().map(|written| (space, key.clone(), written)));
            }
            let commit = self.oracle.commit(&changes);
            self.mark(Mark::Acknowledged, commit);
        }
        Ok(())
    }
}
