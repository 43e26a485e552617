//! What the cursor of a transaction walks over, for the read set that the oracle expects.

use crate::script::Move;
use esker::transaction::TransactionCursor;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The walks of a cursor, each from a seek on, and where it is.
#[derive(Default)]
pub(crate) struct Walks {
    pub(crate) all: Vec<Bounds>,
    pub(crate) at: Option<Vec<u8>>,
}

impl Walks {
    /// Moves over these entries within these bounds, as the cursor does.
    pub(crate) fn turn(&mut self, entries: &BTreeMap<Vec<u8>, Vec<u8>>, bounds: &Bounds, by: &Move) {
        let next = |from: Bound<Vec<u8>>| {
            let behind = |key: &&Vec<u8>| RangeBounds::contains(&(from.clone(), Bound::Unbounded), *key);
            entries.keys().find(behind).cloned()
        };
        let previous = |from: Bound<Vec<u8>>| {
            let before = |key: &&Vec<u8>| RangeBounds::contains(&(Bound::Unbounded, from.clone()), *key);
            entries.keys().rev().find(before).cloned()
        };
        let is_forward = matches!(by, Move::First | Move::Seek(_) | Move::Next);
        let (found, begin) = match (by, self.at.take()) {
            (Move::First, _) => (next(Bound::Unbounded), Some(bounds.0.clone())),
            (Move::Last, _) => (previous(Bound::Unbounded), Some(bounds.1.clone())),
            (Move::Seek(key), _) => {
                let key = key.bytes();
                // A seek to before the bounds begins where they do.
                let is_inside = RangeBounds::contains(&(bounds.0.clone(), Bound::Unbounded), &key);
                let begin = if is_inside { Bound::Included(key.clone()) } else { bounds.0.clone() };
                (next(Bound::Included(key)), Some(begin))
            }
            (Move::SeekForPrev(key), _) => {
                let key = key.bytes();
                let is_inside = RangeBounds::contains(&(Bound::Unbounded, bounds.1.clone()), &key);
                let begin = if is_inside { Bound::Included(key.clone()) } else { bounds.1.clone() };
                (previous(Bound::Included(key)), Some(begin))
            }
            (Move::Next | Move::Prev, None) => return,
            (Move::Next, Some(at)) => (next(Bound::Excluded(at)), None),
            (Move::Prev, Some(at)) => (previous(Bound::Excluded(at)), None),
        };
        let reached = found.clone().map(Bound::Included);
        match (begin, self.all.last_mut()) {
            (Some(begin), _) if is_forward => self.all.push((begin, reached.unwrap_or(bounds.1.clone()))),
            (Some(begin), _) => self.all.push((reached.unwrap_or(bounds.0.clone()), begin)),
            (None, Some((_, upper))) if is_forward => match (upper, &found) {
                (upper, None) => *upper = bounds.1.clone(),
                (Bound::Included(upper), Some(key)) if key > upper => upper.clone_from(key),
                _ => {}
            },
            (None, Some((lower, _))) => match (lower, &found) {
                (lower, None) => *lower = bounds.0.clone(),
                (Bound::Included(lower), Some(key)) if key < lower => lower.clone_from(key),
                _ => {}
            },
            (None, None) => {}
        }
        self.at = found;
    }
}

/// Moves a cursor.
pub(crate) fn turn(cursor: &mut TransactionCursor<'_>, by: &Move) -> esker::Result<()> {
    match by {
        Move::First => cursor.seek_to_first(),
        Move::Last => cursor.seek_to_last(),
        Move::Seek(key) => cursor.seek(key.bytes()),
        Move::SeekForPrev(key) => cursor.seek_for_prev(key.bytes()),
        Move::Next => cursor.advance(),
        Move::Prev => cursor.retreat(),
    }
}
