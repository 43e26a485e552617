//! Writes of edits, by every call that takes some, and what each means to the oracle.

use super::edits::{PlainChange, Range, effective, is_empty_range, plain_change, put_into, range_of};
use super::{Mark, Runner};
use crate::open_transaction::write_transaction;
use crate::operators::Operator;
use crate::oracle::{Change, Written, over};
use crate::script::{Action, Edit, WriteMethod};
use crate::{Failure, Filler, Outcome, ensure};
use esker::{Database, Durability, Error, Expiry, Keyspace, WriteBatch, WriteOptions};
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

impl Runner {
    /// What edits mean to the oracle: a range delete removes every key of its range that ever was there, or
    /// that edits before it put there; that of a transaction those that have a value.
    fn changes(&self, edits: &[Edit], how: WriteMethod) -> Outcome<Vec<Change>> {
        let mut changes: Vec<Change> = Vec::new();
        for edit in edits {
            match range_of(edit) {
                None => changes.push(self.change_of(edit)?),
                Some(range) if how == WriteMethod::Transaction => {
                    let space = usize::from(edit.space);
                    let gone = self.living_in(space, &range, &changes)?;
                    changes.extend(gone.into_iter().map(|key| (space, key, Written::Delete)));
                }
                Some(range) => {
                    let space = usize::from(edit.space);
                    let bounds = (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice));
                    let put = changes.iter().filter(|(of, key, _)| *of == space && range.contains(key));
                    let put = put.map(|(_, key, _)| key.clone());
                    let known = self.oracle.known_in(space, bounds).map(<[u8]>::to_vec);
                    let gone: BTreeSet<Vec<u8>> = put.chain(known).collect();
                    changes.extend(gone.into_iter().map(|key| (space, key, Written::Delete)));
                }
            }
        }
        Ok(changes)
    }

    /// The keys of a range that have a value now, after these changes.
    fn living_in(&self, space: usize, range: &Range, changes: &[Change]) -> Outcome<Vec<Vec<u8>>> {
        let (now, bounds) =
            (self.now()?, (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice)));
        let stored = self.oracle.range(space, bounds, now).map(|(key, _)| key.to_vec());
        let changed = changes.iter().filter(|(of, key, _)| *of == space && range.contains(key));
        let keys: BTreeSet<Vec<u8>> = stored.chain(changed.map(|(_, key, _)| key.clone())).collect();
        let lives = |key: &Vec<u8>| {
            let own = changes.iter().filter(|(of, changed, _)| *of == space && changed == key);
            let stored = self.oracle.look_up(space, key, now);
            own.fold(stored, |below, (_, _, written)| over(below, written, now.time_ms)).is_some()
        };
        Ok(keys.into_iter().filter(lives).collect())
    }

    fn write_plain(&self, edit: &Edit, keyspace: &Keyspace, durability: Durability) -> esker::Result<()> {
        match edit.action {
            Action::Put(value) => keyspace.put_with(edit.key.bytes(), value.bytes(), durability),
            Action::Delete => keyspace.delete_with(edit.key.bytes(), durability),
            Action::DeleteUpTo(end) => {
                let range = (Bound::Included(edit.key.bytes()), end.map(crate::Key::bytes));
                keyspace.delete_range_with(range, durability)
            }
            Action::Merge(operand) => keyspace.merge_with(edit.key.bytes(), operand.bytes(), durability),
            Action::MergeFor(operand, ttl_ms) => {
                let options = WriteOptions::from(durability).ttl(self.ttl(ttl_ms));
                keyspace.merge_with(edit.key.bytes(), operand.bytes(), options)
            }
            Action::PutFor(value, ttl_ms) => {
                let options = WriteOptions::from(durability).ttl(self.ttl(ttl_ms));
                keyspace.put_with(edit.key.bytes(), value.bytes(), options)
            }
        }
    }

    /// Writes edits by a batch.
    fn write_as_batch(
        &self,
        edits: &[Edit],
        keyspaces: &[Keyspace],
        how: WriteMethod,
        durability: Durability,
    ) -> Outcome<esker::Result<()>> {
        let db = self.db()?;
        let mut batch = db.batch();
        for (edit, keyspace) in edits.iter().zip(keyspaces) {
            match edit.action {
                Action::PutFor(value, ttl_ms) => {
                    batch.put_with(
                        keyspace,
                        edit.key.bytes(),
                        value.bytes(),
                        Expiry::After(self.ttl(ttl_ms)),
                    );
                }
                Action::Merge(operand) => batch.merge(keyspace, edit.key.bytes(), operand.bytes()),
                Action::MergeFor(operand, ttl_ms) => {
                    let ttl = self.ttl(ttl_ms);
                    batch.merge_with(keyspace, edit.key.bytes(), operand.bytes(), Expiry::After(ttl));
                }
                _ => put_into(&mut batch, keyspace, edit),
            }
        }
        let written = edits.iter().filter(|edit| !is_empty_range(edit)).count();
        ensure!(batch.len() == written, "a batch of {} says it has {}", edits.len(), batch.len());
        if how == WriteMethod::Parsed {
            let parsed = db.batch_from_bytes(&batch.to_bytes()?)?;
            ensure!(parsed.iter().eq(batch.iter()), "a batch changed on its way through bytes");
            batch = parsed;
        }
        let options = match how {
            WriteMethod::Try => WriteOptions::new().no_stall(),
            _ => durability.into(),
        };
        write_batch(db, &batch, options)
    }

    /// Carries out a write; `Ok(false)` if it was refused, which a write that must not stall may be.
    pub(crate) fn write(
        &mut self,
        edits: &[Edit],
        how: WriteMethod,
        durability: Durability,
    ) -> Outcome<bool> {
        let keyspaces = edits.iter().map(|edit| self.create(edit.space)).collect::<Outcome<Vec<_>>>()?;
        let edits: Vec<Edit> =
            edits.iter().zip(&keyspaces).map(|(edit, keyspace)| effective(edit, keyspace)).collect();
        let edits = edits.as_slice();
        let changes = self.changes(edits, how)?;
        self.mark(Mark::Begun, self.oracle.now() + 1);
        let written = match (how, edits, keyspaces.as_slice()) {
            (WriteMethod::Plain, [edit], [keyspace]) => self.write_plain(edit, keyspace, durability),
            (WriteMethod::Transaction, ..) => {
                write_transaction(self.db()?, edits, &keyspaces, durability, |ms| self.ttl(ms))
            }
            (WriteMethod::Indexed, ..) => {
                write_indexed(self.db()?, edits, &keyspaces, durability, |ms| self.ttl(ms))?
            }
            _ => self.write_as_batch(edits, &keyspaces, how, durability)?,
        };
        match written {
            Err(Error::WouldStall { .. }) if how == WriteMethod::Try => return Ok(false),
            written => written?,
        }
        let commit = self.oracle.commit(&changes);
        for edit in edits.iter().filter(|edit| how != WriteMethod::Transaction && !is_empty_range(edit)) {
            if let Some(range) = range_of(edit) {
                self.oracle.note_deleted(usize::from(edit.space), range);
            }
        }
        self.note_unlogged_edits(edits, &changes, how, durability);
        self.mark(Mark::Acknowledged, commit);
        if durability == Durability::Power && how != WriteMethod::Try {
            self.mark(Mark::Powered, commit);
        }
        Ok(true)
    }

    fn note_unlogged_edits(
        &mut self,
        edits: &[Edit],
        changes: &[Change],
        how: WriteMethod,
        durability: Durability,
    ) {
        let spaces: BTreeSet<usize> = match how {
            // At the durability of the database.
            WriteMethod::Try => return,
            WriteMethod::Transaction => changes.iter().map(|(space, ..)| *space).collect(),
            _ => {
                let edits = edits.iter().filter(|edit| !is_empty_range(edit));
                edits.map(|edit| usize::from(edit.space)).collect()
            }
        };
        self.note_unlogged(&spaces, durability);
    }

    /// Notes that the last commit, to these keyspaces, was not logged, if that is what its durability means.
    pub(crate) fn note_unlogged(&mut self, spaces: &BTreeSet<usize>, durability: Durability) {
        // Batches over keyspaces are logged, and all while there is a reader of the log.
        if let [space] = spaces.iter().copied().collect::<Vec<_>>()[..]
            && durability == Durability::None
            && self.follower.is_none()
        {
            self.oracle.note_unlogged(space);
        }
    }

    pub(crate) fn change_of(&self, edit: &Edit) -> Outcome<Change> {
        let space = usize::from(edit.space);
        let end_ms = |ttl_ms| Ok::<_, Failure>(self.now()?.time_ms + self.ttl(ttl_ms).as_millis() as u64);
        let merged = |operand: Filler, end_ms| {
            let options = self.spaces[space].as_ref().map(Keyspace::options);
            let operator = options.as_ref().and_then(Operator::of);
            operator.map(|operator| Written::Merge(operator, operand.bytes(), end_ms))
        };
        let written = match edit.action {
            Action::PutFor(value, ttl_ms) => Some(Written::Expiring(value.bytes(), end_ms(ttl_ms)?)),
            Action::Merge(operand) => merged(operand, self.default_end_ms(space)?),
            Action::MergeFor(operand, ttl_ms) => merged(operand, Some(end_ms(ttl_ms)?)),
            Action::Put(_) | Action::Delete | Action::DeleteUpTo(_) => None,
        };
        match written {
            Some(written) => Ok((space, edit.key.bytes(), written)),
            None => self.written(plain_change(edit)),
        }
    }

    /// What a put or a delete means to the oracle, made now.
    pub(crate) fn written(&self, (space, key, value): PlainChange) -> Outcome<Change> {
        let written = match (value, self.default_ttl(space)) {
            (None, _) => Written::Delete,
            (Some(value), None) => Written::Put(value),
            (Some(value), Some(ttl)) => {
                Written::Expiring(value, self.now()?.time_ms + ttl.as_millis() as u64)
            }
        };
        Ok((space, key, written))
    }

    /// When what is written now without a time of its own ends.
    pub(crate) fn default_end_ms(&self, space: usize) -> Outcome<Option<u64>> {
        let Some(ttl) = self.default_ttl(space) else { return Ok(None) };
        Ok(Some(self.now()?.time_ms + ttl.as_millis() as u64))
    }

    pub(crate) fn default_ttl(&self, space: usize) -> Option<Duration> {
        self.spaces[space].as_ref()?.options().ttl_by_default()
    }
}

/// Writes edits by a batch that shows what it will store: each key reads the same over the batch before it is
/// written, and without it afterwards.
fn write_indexed(
    db: &Database,
    edits: &[Edit],
    keyspaces: &[Keyspace],
    durability: Durability,
    ttl: impl Fn(u32) -> Duration,
) -> Outcome<esker::Result<()>> {
    let mut batch = db.indexed_batch();
    for (edit, keyspace) in edits.iter().zip(keyspaces) {
        let key = edit.key.bytes();
        match (edit.action, range_of(edit)) {
            (Action::Put(value), _) => batch.put(keyspace, key, value.bytes())?,
            (Action::PutFor(value, ms), _) => {
                batch.put_with(keyspace, key, value.bytes(), Expiry::After(ttl(ms)))?;
            }
            (Action::Merge(operand), _) => batch.merge(keyspace, key, operand.bytes())?,
            (Action::MergeFor(operand, ms), _) => {
                batch.merge_with(keyspace, key, operand.bytes(), Expiry::After(ttl(ms)))?;
            }
            (_, Some(range)) => batch.delete_range(keyspace, range)?,
            _ => batch.delete(keyspace, key)?,
        }
    }
    let shown: Vec<_> = (edits.iter().zip(keyspaces))
        .map(|(edit, keyspace)| batch.over(keyspace).get_with_expiry(edit.key.bytes()))
        .collect::<esker::Result<_>>()?;
    let written = write_batch(db, &batch.to_batch()?, durability.into())?;
    if written.is_ok() {
        for ((edit, keyspace), shown) in edits.iter().zip(keyspaces).zip(shown) {
            let stored = keyspace.get_with_expiry(edit.key.bytes())?;
            ensure!(stored == shown, "a batch showed {shown:?} for {edit:?}, and stored {stored:?}");
        }
    }
    Ok(written)
}

/// Writes a batch, whose last sequence number is then the last one that readers see.
fn write_batch(db: &Database, batch: &WriteBatch, options: WriteOptions) -> Outcome<esker::Result<()>> {
    Ok(match db.write_with(batch, options) {
        Ok(last) => {
            let visible = db.snapshot().seqno();
            ensure!(last == visible, "a batch says that {last} was its last, and {visible} is");
            Ok(())
        }
        Err(error) => Err(error),
    })
}
