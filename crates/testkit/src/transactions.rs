//! Transactions of a script: several are open at once, between other operations, and the oracle knows which
//! of them must meet a conflict, and which must not.

use crate::model::{lent, same, same_entry};
use crate::operators::Operator;
use crate::oracle::{Change, Moment, Written};
use crate::runner::{Mark, Runner, effective, key_bounds, plain_change};
use crate::script::{Deed, Edit, Op, Step};
use crate::{Oracle, Outcome, SPACES, ensure};
use esker::transaction::{Isolation, Savepoint};
use esker::{Database, Durability, Error, Keyspace, Transaction, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Most transactions that a script has open at once.
const MAX_OPEN: usize = 4;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
type Changes = BTreeMap<(usize, Vec<u8>), Own>;

/// What a transaction makes of a key.
#[derive(Clone, Debug)]
enum Own {
    /// A put with its expiry in milliseconds since 1970, which counts from the call.
    Put(Vec<u8>, Option<u64>),
    Delete,
    Merge(Operator, Vec<Vec<u8>>),
}

impl Own {
    /// What a reader in the transaction sees over what is stored.
    fn over(&self, stored: Option<Vec<u8>>) -> Option<Vec<u8>> {
        match self {
            Own::Put(value, _) => Some(value.clone()),
            Own::Delete => None,
            Own::Merge(operator, operands) => {
                operands.iter().fold(stored, |value, operand| Some(operator.apply(value, operand)))
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Open {
    tx: Transaction,
    /// When it began.
    at: Moment,
    serializable: bool,
    changes: Changes,
    points: BTreeSet<(usize, Vec<u8>)>,
    ranges: Vec<(usize, Bounds)>,
    savepoints: Vec<(Savepoint, Changes)>,
}

fn lend(bounds: &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice))
}

impl Open {
    fn value(&self, oracle: &Oracle, space: usize, key: &[u8]) -> Option<Vec<u8>> {
        let stored = oracle.get(space, key, self.at).map(std::borrow::Cow::into_owned);
        match self.changes.get(&(space, key.to_vec())) {
            Some(own) => own.over(stored),
            None => stored,
        }
    }

    fn entries(&self, oracle: &Oracle, space: usize, bounds: &Bounds) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let stored = oracle.range(space, lend(bounds), self.at);
        let mut entries: BTreeMap<Vec<u8>, Vec<u8>> =
            stored.map(|(key, value)| (key.to_vec(), value.into_owned())).collect();
        for ((of, key), value) in &self.changes {
            if *of == space && std::ops::RangeBounds::contains(bounds, key) {
                let stored = entries.remove(key);
                if let Some(value) = value.over(stored) {
                    entries.insert(key.clone(), value);
                }
            }
        }
        entries
    }

    fn conflicts(&self, oracle: &Oracle) -> BTreeSet<(usize, Vec<u8>)> {
        if self.changes.is_empty() {
            return BTreeSet::new();
        }
        let points = self.points.iter().chain(self.changes.keys());
        let mut found: BTreeSet<_> =
            points.filter(|(space, key)| oracle.is_changed(*space, key, self.at.commit)).cloned().collect();
        for (space, bounds) in &self.ranges {
            let changed = oracle.changed_in(*space, lend(bounds), self.at.commit);
            found.extend(changed.map(|key| (*space, key.to_vec())));
        }
        found
    }
}

impl Open {
    /// Whether a deleted range reaches into one it depends on: a conflict without a key is possible.
    fn is_under_deletes(&self, oracle: &Oracle) -> bool {
        self.ranges.iter().any(|(space, bounds)| oracle.is_deleted_in(*space, lend(bounds), self.at.commit))
    }
}

/// Writes the edits in one transaction, which reads each key before it is put or deleted.
pub(crate) fn write_transaction(
    db: &Database,
    edits: &[Edit],
    keyspaces: &[Keyspace],
    durability: Durability,
) -> esker::Result<()> {
    db.transact_with(TransactionOptions::default().durability(durability), |tx| {
        for (edit, keyspace) in edits.iter().zip(keyspaces) {
            let (_, key, value) = plain_change(edit);
            if let Deed::Merge(operand) | Deed::MergeFor(operand, _) = edit.deed {
                tx.merge(keyspace, &key, operand.bytes())?;
                continue;
            }
            tx.get(keyspace, &key)?;
            match value {
                Some(value) => tx.put(keyspace, &key, value)?,
                None => tx.delete(keyspace, &key)?,
            }
        }
        Ok(())
    })
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
        self.transactions.push(Open {
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

    fn carry_out(&mut self, open: &mut Open, step: &Step) -> Outcome {
        match step {
            Step::Change(edit) => {
                let keyspace = self.create(edit.space)?;
                let edit = effective(edit, &keyspace);
                let (space, key, value) = plain_change(&edit);
                let operator = Operator::of(&keyspace.options());
                let own = match (edit.deed, operator) {
                    (Deed::Merge(operand) | Deed::MergeFor(operand, _), Some(operator)) => {
                        let operand = operand.bytes();
                        open.tx.merge(&keyspace, &key, &operand)?;
                        match open.changes.remove(&(space, key.clone())) {
                            Some(Own::Put(value, end_ms)) => {
                                Own::Put(operator.apply(Some(value), &operand), end_ms)
                            }
                            Some(Own::Delete) => {
                                Own::Put(operator.apply(None, &operand), self.default_end_ms(space)?)
                            }
                            Some(Own::Merge(_, operands)) => {
                                Own::Merge(operator, [operands, vec![operand]].concat())
                            }
                            None => Own::Merge(operator, vec![operand]),
                        }
                    }
                    _ => match value {
                        Some(value) => {
                            open.tx.put(&keyspace, &key, &value)?;
                            Own::Put(value, self.default_end_ms(space)?)
                        }
                        None => {
                            open.tx.delete(&keyspace, &key)?;
                            Own::Delete
                        }
                    },
                };
                open.changes.insert((space, key), own);
            }
            Step::Get { space, key, for_update } => {
                self.check_get_in(open, usize::from(*space), &key.bytes(), *for_update)?;
            }
            Step::Range { space, lower, upper, ends, count } => {
                let bounds = key_bounds(lower, upper);
                self.check_range_in(open, usize::from(*space), bounds, *ends, usize::from(*count))?;
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

    fn check_get_in(&self, open: &mut Open, space: usize, key: &[u8], for_update: bool) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let expected = open.value(&self.oracle, space, key);
        if !open.changes.contains_key(&(space, key.to_vec())) && (for_update || open.serializable) {
            open.points.insert((space, key.to_vec()));
        }
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

    /// Takes up to `count` entries of a range; what was walked of it is what is depended on.
    fn check_range_in(
        &self,
        open: &mut Open,
        space: usize,
        bounds: Bounds,
        ends: u64,
        count: usize,
    ) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let entries = open.entries(&self.oracle, space, &bounds);
        let mut expected = entries.iter();
        let (mut front, mut back, mut is_finished) = (None, None, false);
        let mut range = open.tx.range(keyspace, bounds.clone());
        for turn in 0..count {
            let from_back = ends >> (turn % 64) & 1 == 1;
            let (found, expected) = match from_back {
                true => (range.next_back().transpose()?, expected.next_back()),
                false => (range.next().transpose()?, expected.next()),
            };
            let what = format!("range in a transaction, entry {turn}");
            same_entry(&what, lent(&found), expected.map(|(key, value)| (key.as_slice(), value.as_slice())))?;
            match expected {
                Some((key, _)) => *if from_back { &mut back } else { &mut front } = Some(key.clone()),
                None => {
                    is_finished = true;
                    break;
                }
            }
        }
        drop(range);
        if open.serializable && is_finished {
            open.ranges.push((space, bounds));
        } else if open.serializable {
            let (lower, upper) = bounds;
            open.ranges.extend(front.map(|key| (space, (lower, Bound::Included(key)))));
            open.ranges.extend(back.map(|key| (space, (Bound::Included(key), upper))));
        }
        Ok(())
    }

    fn commit(&mut self, open: Open) -> Outcome {
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
                match own {
                    Own::Put(value, None) => changes.push((space, key, Written::Put(value))),
                    Own::Put(value, Some(end_ms)) => {
                        changes.push((space, key, Written::Expiring(value, end_ms)));
                    }
                    Own::Delete => changes.push((space, key, Written::Delete)),
                    Own::Merge(operator, operands) => {
                        let end_ms = self.default_end_ms(space)?;
                        let written = |operand| Written::Merge(operator, operand, end_ms);
                        changes.extend(operands.into_iter().map(|of| (space, key.clone(), written(of))));
                    }
                }
            }
            let commit = self.oracle.commit(&changes);
            self.mark(Mark::Acknowledged, commit);
        }
        Ok(())
    }
}
