//! A transaction's cursor: its own changes merged with its snapshot, and changes while it is scanned.

use super::Transaction;
use crate::overlay::{Changes, Pending};
use crate::{Cursor, Expiry, KeyRange, Keyspace, Value, ValueWithExpiry};
use esker_base::{Error, Result};
use esker_iter::Bounds;
use std::cmp::Ordering;
use std::collections::btree_map;
use std::ops::Bound;
use std::time::SystemTime;

/// A position in a keyspace as a transaction sees it: its own changes over its snapshot. It changes what it
/// walks over, and moves in both directions.
///
/// It borrows the transaction exclusively, so there is one at a time; [`Transaction::range`] borrows it
/// shared, for several scans at once. Changes may be made between two moves, through the cursor or through
/// [`TransactionCursor::transaction`]. They do not move the cursor: [`TransactionCursor::entry`] stays as it
/// was found, and the next move goes on behind its key, and sees what has changed there.
///
/// A serializable transaction depends on what was walked over, from each seek to where the walk ended, keys
/// without values included; after an error on the whole range of the cursor.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("esker-doc-tx-cursor-{}", std::process::id()));
/// let db = esker::Database::open(&dir)?;
/// let carts = db.keyspace("carts")?;
/// for (name, state) in [("ada", "paid"), ("alan", "open"), ("grace", "paid")] {
///     carts.put(name, state)?;
/// }
/// db.transact(|tx| {
///     let mut cursor = tx.cursor(&carts)?;
///     cursor.seek_to_first()?;
///     while let Some((_, state)) = cursor.entry() {
///         if state == b"paid" {
///             cursor.delete()?;
///         }
///         cursor.advance()?;
///     }
///     Ok(())
/// })?;
/// assert_eq!(carts.iter().count(), 1);
/// # db.close()?;
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok(()) }
/// ```
pub struct TransactionCursor<'t> {
    transaction: &'t mut Transaction,
    /// The transaction's number: what is recorded belongs to no other one.
    number: u64,
    keyspace: Keyspace,
    bounds: Bounds,
    /// While there is a current entry, on the first stored entry that is not before it in the direction of
    /// the walk.
    stored: Cursor,
    is_backward: bool,
    current: CurrentEntry,
    /// Key and value of the current entry if the transaction made it. Kept for their memory.
    own_key: Vec<u8>,
    own_value: Vec<u8>,
    own_expiry: Option<SystemTime>,
    /// The key that a move starts from. Kept for its memory.
    origin: Vec<u8>,
    /// What was walked over since the last seek, if the transaction depends on it.
    walk: Option<WalkedRange>,
}

/// Where the current entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CurrentEntry {
    None,
    /// The entry of the stored cursor, which the transaction has not changed.
    Stored,
    /// The copy of a value that the transaction put or merged.
    Own,
}

/// The part of the range that was walked over since a seek.
#[derive(Debug)]
struct WalkedRange {
    /// Its index in the read set, where the whole range is recorded until the walk ends.
    place: usize,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl WalkedRange {
    /// Extends the walk to `key` in a direction, or to the end of `bounds` without one.
    fn reach(&mut self, key: Option<&[u8]>, bounds: &Bounds, is_backward: bool) {
        let (bound, end) = match is_backward {
            false => (&mut self.upper, bounds.upper()),
            true => (&mut self.lower, bounds.lower()),
        };
        match (key, bound) {
            (None, bound) => *bound = end.map(<[u8]>::to_vec),
            // The end of the bounds was reached before.
            (Some(_), Bound::Unbounded | Bound::Excluded(_)) => {}
            (Some(key), Bound::Included(reached)) => {
                if (key > reached.as_slice()) != is_backward && key != reached.as_slice() {
                    reached.clear();
                    reached.extend_from_slice(key);
                }
            }
        }
    }
}

/// Where a seek goes to.
#[derive(Clone, Copy)]
enum SeekTarget<'k> {
    First,
    Last,
    /// The first entry that is not before the key.
    From(&'k [u8]),
    /// The last entry that is not behind the key.
    UpTo(&'k [u8]),
}

impl Transaction {
    /// A cursor over all entries, with which they can be changed while they are scanned.
    ///
    /// # Errors
    /// `InvalidArgument` for a keyspace of another database; `NotFound` if it was dropped; `Closed`.
    pub fn cursor(&mut self, keyspace: &Keyspace) -> Result<TransactionCursor<'_>> {
        self.cursor_within(keyspace, Bounds::default())
    }

    /// A cursor that shows the entries in a range only.
    ///
    /// # Errors
    /// As [`Transaction::cursor`].
    pub fn cursor_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<TransactionCursor<'_>> {
        self.cursor_within(keyspace, range.into_bounds())
    }

    fn cursor_within(&mut self, keyspace: &Keyspace, bounds: Bounds) -> Result<TransactionCursor<'_>> {
        let stored = keyspace.at(&self.snapshot).cursor_within(bounds.clone())?;
        Ok(TransactionCursor {
            number: self.number(),
            transaction: self,
            keyspace: keyspace.clone(),
            bounds,
            stored,
            is_backward: false,
            current: CurrentEntry::None,
            own_key: Vec::new(),
            own_value: Vec::new(),
            own_expiry: None,
            origin: Vec::new(),
            walk: None,
        })
    }
}

impl TransactionCursor<'_> {
    /// Moves to the first entry.
    ///
    /// # Errors
    /// `Full` past the memory limit; those of reading. There is no current entry then.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek_to(SeekTarget::First)
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// As [`TransactionCursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.seek_to(SeekTarget::Last)
    }

    /// Moves to the first entry whose key is not less than `key`.
    ///
    /// # Errors
    /// As [`TransactionCursor::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_to(SeekTarget::From(key.as_ref()))
    }

    /// Moves to the last entry whose key is not greater than `key`.
    ///
    /// # Errors
    /// As [`TransactionCursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_to(SeekTarget::UpTo(key.as_ref()))
    }

    /// Moves to the next entry; does nothing if there is no current one.
    ///
    /// # Errors
    /// Those of reading. There is no current entry then.
    #[doc(alias = "next")]
    pub fn advance(&mut self) -> Result<()> {
        self.step(false)
    }

    /// Moves to the previous entry; does nothing if there is no current one.
    ///
    /// # Errors
    /// As [`TransactionCursor::advance`].
    #[doc(alias = "prev")]
    pub fn retreat(&mut self) -> Result<()> {
        self.step(true)
    }

    /// The current key and value, as the last move found them; `None` before the first seek and past either
    /// end.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.current {
            CurrentEntry::None => None,
            CurrentEntry::Stored => self.stored.entry(),
            CurrentEntry::Own => Some((&self.own_key, &self.own_value)),
        }
    }

    /// The current key.
    pub fn key(&self) -> Option<&[u8]> {
        match self.current {
            CurrentEntry::None => None,
            CurrentEntry::Stored => self.stored.key(),
            CurrentEntry::Own => Some(&self.own_key),
        }
    }

    /// The current value.
    pub fn value(&self) -> Option<&[u8]> {
        self.entry().map(|(_, value)| value)
    }

    /// When the current value expires; `None` if it does not, or if there is none.
    pub fn expiry(&self) -> Option<SystemTime> {
        match self.current {
            CurrentEntry::None => None,
            CurrentEntry::Stored => self.stored.expiry(),
            CurrentEntry::Own => self.own_expiry,
        }
    }

    /// Sets the current key to `value`; see [`Transaction::put`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; `InvalidArgument` if there is no current entry.
    pub fn put(&mut self, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(value, Expiry::Default)
    }

    /// Sets the current key to `value`, with this expiry; see [`Transaction::put_with`].
    ///
    /// # Errors
    /// As [`Transaction::put_with`]; `InvalidArgument` if there is no current entry.
    pub fn put_with(&mut self, value: impl AsRef<[u8]>, expiry: Expiry) -> Result<()> {
        let key = self.key().ok_or_else(no_entry)?.to_vec();
        self.transaction.put_with(&self.keyspace, key, value, expiry)
    }

    /// Deletes the current key.
    ///
    /// # Errors
    /// As [`Transaction::delete`]; `InvalidArgument` if there is no current entry.
    pub fn delete(&mut self) -> Result<()> {
        let key = self.key().ok_or_else(no_entry)?.to_vec();
        self.transaction.delete(&self.keyspace, key)
    }

    /// The transaction, for other calls between two moves: to change another keyspace by what was found here.
    pub fn transaction(&mut self) -> &mut Transaction {
        self.transaction
    }

    fn seek_to(&mut self, target: SeekTarget<'_>) -> Result<()> {
        self.end_walk();
        self.current = CurrentEntry::None;
        let place = self.transaction.depend_on_range(&self.keyspace, &self.bounds)?;
        let whole = (self.bounds.lower().map(<[u8]>::to_vec), self.bounds.upper().map(<[u8]>::to_vec));
        self.walk = place.map(|place| WalkedRange { place, lower: whole.0, upper: whole.1 });
        self.is_backward = matches!(target, SeekTarget::Last | SeekTarget::UpTo(_));
        match target {
            SeekTarget::First => self.stored.seek_to_first()?,
            SeekTarget::Last => self.stored.seek_to_last()?,
            SeekTarget::From(key) => self.stored.seek(key)?,
            SeekTarget::UpTo(key) => self.stored.seek_for_prev(key)?,
        }
        let from = match target {
            SeekTarget::From(key) if !self.bounds.is_before(key) => Bound::Included(key),
            SeekTarget::UpTo(key) if !self.bounds.is_behind(key) => Bound::Included(key),
            _ => Bound::Unbounded,
        };
        self.settle(from)?;
        // The walk began at the key, and has reached the entry.
        if let Some(mut walk) = self.walk.take() {
            let (begin, end) = match self.is_backward {
                false => (&mut walk.lower, &mut walk.upper),
                true => (&mut walk.upper, &mut walk.lower),
            };
            if from != Bound::Unbounded {
                *begin = from.map(<[u8]>::to_vec);
            }
            if let Some(key) = self.key() {
                *end = Bound::Included(key.to_vec());
            }
            self.walk = Some(walk);
        }
        Ok(())
    }

    fn step(&mut self, is_backward: bool) -> Result<()> {
        let mut origin = std::mem::take(&mut self.origin);
        origin.clear();
        match self.key() {
            Some(key) => origin.extend_from_slice(key),
            None => return Ok(()),
        }
        self.current = CurrentEntry::None;
        let moved = self.step_from(&origin, is_backward);
        self.origin = origin;
        let bounds = &self.bounds;
        if let Some(mut walk) = self.walk.take() {
            match &moved {
                Ok(()) => walk.reach(self.key(), bounds, is_backward),
                Err(_) => {
                    walk.reach(None, bounds, false);
                    walk.reach(None, bounds, true);
                }
            }
            self.walk = Some(walk);
        }
        moved
    }

    fn step_from(&mut self, origin: &[u8], is_backward: bool) -> Result<()> {
        if self.is_backward != is_backward {
            self.is_backward = is_backward;
            if is_backward { self.stored.seek_for_prev(origin)? } else { self.stored.seek(origin)? }
        }
        if self.stored.key() == Some(origin) {
            move_on(&mut self.stored, is_backward)?;
        }
        self.settle(Bound::Excluded(origin))
    }

    /// Moves to the first entry in the direction of the walk, where the stored cursor is at the first stored
    /// one and own changes begin at `from`.
    fn settle(&mut self, from: Bound<&[u8]>) -> Result<()> {
        let is_backward = self.is_backward;
        let changes = self.transaction.writes.of(self.keyspace.id());
        let mut own = changes_from(changes, &self.bounds, from, is_backward);
        let mut next_own = || if is_backward { own.next_back() } else { own.next() };
        let mut change = next_own();
        loop {
            let order = match (self.stored.key(), change) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(stored), Some((own, _))) if is_backward => (**own).cmp(stored),
                (Some(stored), Some((own, _))) => stored.cmp(&**own),
            };
            let Some((key, pending)) = change.filter(|_| order != Ordering::Less) else {
                self.current = CurrentEntry::Stored;
                return Ok(());
            };
            let stored = self.stored.value().filter(|_| order == Ordering::Equal);
            let below = || {
                Ok(stored.map(|value| ValueWithExpiry {
                    value: Value::copied(value),
                    expiry: self.stored.expiry(),
                }))
            };
            let seen = pending.seen(&self.keyspace, key, self.transaction.time_ms(), below)?;
            if let Some(ValueWithExpiry { value, expiry }) = seen {
                self.own_key.clear();
                self.own_key.extend_from_slice(key);
                self.own_value.clear();
                self.own_value.extend_from_slice(&value);
                self.own_expiry = expiry;
                self.current = CurrentEntry::Own;
                return Ok(());
            }
            if order == Ordering::Equal {
                move_on(&mut self.stored, is_backward)?;
            }
            change = next_own();
        }
    }

    /// Narrows what the transaction depends on to what was walked over since the last seek.
    fn end_walk(&mut self) {
        let Some(WalkedRange { place, lower, upper }) = self.walk.take() else { return };
        // Another transaction may have been swapped in; this one then depends on the whole range.
        if self.transaction.number() == self.number {
            let walked = Bounds::new(as_slice(&lower), as_slice(&upper));
            self.transaction.narrow(&self.keyspace, place, [Some(walked), None]);
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn move_on(stored: &mut Cursor, is_backward: bool) -> Result<()> {
    if is_backward { stored.retreat() } else { stored.advance() }
}

/// The changes within `bounds` that a walk meets which starts at `from`.
fn changes_from<'c>(
    changes: Option<&'c Changes>,
    bounds: &Bounds,
    from: Bound<&[u8]>,
    is_backward: bool,
) -> btree_map::Range<'c, Box<[u8]>, Pending> {
    let within = match (from, is_backward) {
        (Bound::Unbounded, _) => bounds.clone(),
        (from, false) => Bounds::new(from, bounds.upper()),
        (from, true) => Bounds::new(bounds.lower(), from),
    };
    // `BTreeMap::range` panics on a range that ends before it starts.
    let changes = changes.filter(|_| !within.is_empty());
    changes.map_or_else(btree_map::Range::default, |changes| {
        changes.range::<[u8], _>((within.lower(), within.upper()))
    })
}

#[cold]
fn no_entry() -> Error {
    Error::invalid("the cursor has no current entry that could be changed")
}

impl Drop for TransactionCursor<'_> {
    fn drop(&mut self) {
        self.end_walk();
    }
}

impl std::fmt::Debug for TransactionCursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionCursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
