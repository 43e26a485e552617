//! A copy of the database that is kept up from its change stream alone.
//!
//! The follower reads the stream of a named consumer, which acknowledges now and then. When it has caught up
//! it must hold exactly what the database holds (TS2). It keeps a copy of its content at each
//! acknowledgement, so that a crash test can continue from there.

use crate::operators::Operator;
use crate::oracle::Content;
use crate::{Failure, Outcome, SPACES, ensure};
use esker::changes::{Change, ChangeBatch, Changes};
use esker::{Database, Durability, Error, KeyspaceId, SeqNo, Ttl};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const CONSUMER: &str = "follower";

/// By keyspace and key.
type Held = BTreeMap<KeyspaceId, BTreeMap<Vec<u8>, Value>>;

/// The pieces that make up a key's value.
#[derive(Clone, Debug, Default)]
struct Value {
    /// The put value and the operands since, oldest first, each with its expiry.
    pieces: Vec<(Piece, Option<u64>)>,
    /// Whether a read value may consist of pieces with expiries of their own, which it does not show.
    is_blurred: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Value(Vec<u8>),
    Operand(Vec<u8>),
}

impl Value {
    fn put(value: &[u8], end: Option<u64>) -> Value {
        Value { pieces: vec![(Piece::Value(value.to_vec()), end)], is_blurred: false }
    }

    fn at(&self, now_ms: u64, operator: Option<Operator>) -> Option<Vec<u8>> {
        let living = self.pieces.iter().filter(|(_, end)| end.is_none_or(|end| end > now_ms));
        living.fold(None, |value, (piece, _)| match piece {
            Piece::Value(value) => Some(value.clone()),
            Piece::Operand(operand) => Some(operator?.apply(value, operand)),
        })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Copy {
    /// The newest sequence number that is in it.
    pub(crate) seqno: SeqNo,
    held: Held,
}

#[derive(Debug)]
pub(crate) struct Follower {
    copy: Copy,
    /// Copies at the beginning and at each acknowledgement since, oldest first.
    pub(crate) acknowledged: Vec<Copy>,
    stream: Option<Changes>,
}

impl Copy {
    fn of(db: &Database) -> Outcome<Copy> {
        let mut held = Held::new();
        for name in db.keyspaces() {
            let keyspace = db.open_keyspace(&name)?;
            let values = held.entry(keyspace.id()).or_default();
            let is_blurred = keyspace.options().operator().is_some();
            for entry in keyspace.iter() {
                let (key, value) = entry?;
                let end = match keyspace.ttl(&key)? {
                    Some(Ttl::Expires { at, .. }) => Some(crate::unix_ms(at)),
                    Some(Ttl::Forever) => None,
                    // It expired between the scan and the call.
                    None => Some(0),
                };
                values.insert(key.into_vec(), Value { is_blurred, ..Value::put(&value, end) });
            }
        }
        Ok(Copy { seqno: db.metrics().visible_seqno, held })
    }

    fn apply(&mut self, batch: &ChangeBatch) -> Outcome {
        for change in batch {
            let values = self.held.entry(change.keyspace().id).or_default();
            match change {
                Change::Put { key, value, expiry_ms, .. } => {
                    values.insert(key.to_vec(), Value::put(value, expiry_ms));
                }
                Change::Merge { key, operand, expiry_ms, .. } => {
                    let piece = (Piece::Operand(operand.to_vec()), expiry_ms);
                    values.entry(key.to_vec()).or_default().pieces.push(piece);
                }
                Change::Delete { key, .. } | Change::SingleDelete { key, .. } => {
                    values.remove(key);
                }
                Change::DeleteRange { start, end, .. } => {
                    values.retain(|key, _| **key < *start || end.is_some_and(|end| **key >= *end));
                }
                other => return Err(Failure::new(format!("a follower does not know {other:?}"))),
            }
        }
        self.seqno = batch.last_seqno();
        Ok(())
    }

    /// Applies everything that a stream holds, which may begin at the copy's end or anywhere before.
    pub(crate) fn take(&mut self, stream: &mut Changes) -> esker::Result<Outcome> {
        let mut expected: Option<u64> = None;
        while let Some(batch) = stream.try_next()? {
            let (first, last) = (batch.first_seqno().get(), batch.last_seqno().get());
            if expected.is_some_and(|expected| expected > first) || first > last {
                return Ok(Err(Failure::new(format!("batch {first}..={last}, {expected:?} comes next"))));
            }
            expected = Some(last + 1);
            if last <= self.seqno.get() {
                continue;
            }
            if first <= self.seqno.get() {
                return Ok(Err(Failure::new(format!(
                    "batch {first}..={last} was there in part, up to {}",
                    self.seqno
                ))));
            }
            if let Err(failure) = self.apply(&batch) {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    /// The visible content of the existing keyspaces at a time.
    pub(crate) fn content(&self, db: &Database, now_ms: u64) -> Outcome<Content> {
        let mut content = vec![BTreeMap::new(); SPACES.len()];
        for name in db.keyspaces() {
            let space = SPACES.iter().position(|known| *known == name);
            let space = space.ok_or_else(|| Failure::new(format!("nobody created keyspace {name:?}")))?;
            let keyspace = db.open_keyspace(&name)?;
            let operator = Operator::of(&keyspace.options());
            let values = self.held.get(&keyspace.id()).into_iter().flatten();
            let living = values.filter_map(|(key, value)| Some((key.clone(), value.at(now_ms, operator)?)));
            content[space] = living.collect();
        }
        Ok(content)
    }

    /// Removes the keys from a content whose expiry the copy cannot know.
    pub(crate) fn without_blurred(&self, db: &Database, mut content: Content) -> Outcome<Content> {
        for (space, entries) in content.iter_mut().enumerate() {
            let Ok(keyspace) = db.open_keyspace(SPACES[space]) else { continue };
            let values = self.held.get(&keyspace.id()).into_iter().flatten();
            let blurred: BTreeSet<&[u8]> =
                values.filter(|(_, value)| value.is_blurred).map(|(key, _)| key.as_slice()).collect();
            entries.retain(|key, _| !blurred.contains(key.as_slice()));
        }
        Ok(content)
    }
}

impl Follower {
    pub(crate) fn start(db: &Database) -> Outcome<Follower> {
        let consumer = db.create_consumer(CONSUMER)?;
        let copy = Copy::of(db)?;
        ensure!(
            consumer.acknowledged()? == copy.seqno,
            "a new consumer begins at {}",
            consumer.acknowledged()?
        );
        Ok(Follower { acknowledged: vec![copy.clone()], copy, stream: None })
    }

    /// Closes the stream, so that the database can be closed.
    pub(crate) fn rest(&mut self) {
        self.stream = None;
    }

    /// Opens a stream if none is open; `false` if history is gone.
    pub(crate) fn hold_stream(&mut self, db: &Database) -> Outcome<bool> {
        if self.stream.is_none() {
            self.stream = match db.consumer(CONSUMER)?.changes() {
                Err(Error::HistoryGone(_)) => return Ok(false),
                opened => Some(opened?),
            };
        }
        Ok(true)
    }

    /// Catches up by a new or the open stream; `false` if history is gone: then it starts from a copy.
    pub(crate) fn follow(&mut self, db: &Database, anew: bool, durability: Durability) -> Outcome<bool> {
        match self.catch_up(db, anew, durability) {
            Ok(outcome) => outcome?,
            Err(Error::HistoryGone(gone)) => {
                ensure!(gone.oldest > gone.requested, "gone is what is there: {gone}");
                if db.metrics().read_only_cause.is_some() {
                    // The consumer of a read-only database cannot be replaced, so the follower stays behind.
                    return Ok(false);
                }
                db.drop_consumer(CONSUMER)?;
                *self = Follower::start(db)?;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        let visible = db.metrics().visible_seqno;
        ensure!(self.copy.seqno == visible, "the stream ends at {}, not at {visible}", self.copy.seqno);
        Ok(true)
    }

    fn catch_up(&mut self, db: &Database, anew: bool, durability: Durability) -> esker::Result<Outcome> {
        let running = self.stream.take().filter(|_| !anew);
        let stream = running.map_or_else(|| db.consumer(CONSUMER)?.changes(), Ok)?;
        let mut stream = stream.with_durability(durability);
        let taken = self.copy.take(&mut stream)?;
        self.stream = Some(stream);
        Ok(taken)
    }

    /// Acknowledges everything read so far.
    pub(crate) fn acknowledge(&mut self, db: &Database) -> Outcome {
        // Kept before the call: a crash may come between the durable acknowledgement and the return.
        self.acknowledged.push(self.copy.clone());
        db.consumer(CONSUMER)?.acknowledge(self.copy.seqno)?;
        Ok(())
    }

    pub(crate) fn copy(&self) -> &Copy {
        &self.copy
    }
}
