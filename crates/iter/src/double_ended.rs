//! Double-ended range: a range of keys taken from both of its ends.
//!
//! Two readers of the same view see the same keys (same sequence number, same sources), so the one that walks
//! forwards and the one that walks backwards meet exactly, and together they return each key once. Each end
//! is on the key it returned last; an end that reaches or passes the other's key has found the meeting point.
//! One cursor for both ends would be sought anew at each change of end.
//!
//! An end is opened at its first use: most ranges are walked in one direction only, and a reader of many
//! sources is not free.

#[cfg(test)]
mod tests;

use crate::cursor::Cursor;
use crate::visible::Visible;
use esker_base::Result;

/// Opens readers of one state of the data.
pub trait ReaderFactory {
    /// The cursor beneath the readers.
    type Cursor: Cursor;

    /// Opens a reader. All readers of a factory show the same keys.
    fn open(&self) -> Result<Visible<Self::Cursor>>;
}

/// The entries of a view, taken from either end: each key is returned exactly once.
#[derive(Debug)]
pub struct DoubleEnded<V: ReaderFactory> {
    view: V,
    /// On the key it returned last; `None` before the first call.
    front: Option<Visible<V::Cursor>>,
    /// As `front`, from the other end.
    back: Option<Visible<V::Cursor>>,
    /// All keys have been returned, or an error has.
    is_finished: bool,
}

impl<V: ReaderFactory> DoubleEnded<V> {
    /// The entries of `view`. Nothing is opened yet.
    pub fn new(view: V) -> DoubleEnded<V> {
        DoubleEnded { view, front: None, back: None, is_finished: false }
    }

    /// The first entry not returned yet, borrowed; `None` when done and after an error.
    pub fn next_front(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_finished {
            return Ok(None);
        }
        // Set first: an error, or the end of the keys, finishes the walk.
        self.is_finished = true;
        let front = match &mut self.front {
            Some(front) => {
                front.next()?;
                front
            }
            closed => {
                let front = closed.insert(self.view.open()?);
                front.seek_to_first()?;
                front
            }
        };
        let Some((key, value)) = front.entry() else { return Ok(None) };
        if self.back.as_ref().is_some_and(|back| key >= back.key()) {
            return Ok(None);
        }
        self.is_finished = false;
        Ok(Some((key, value)))
    }

    /// When the entry expires that [`DoubleEnded::next_front`] returned last, in milliseconds since 1970;
    /// `None` if it does not.
    pub fn front_expiry_ms(&self) -> Option<u64> {
        self.front.as_ref().filter(|front| front.is_valid()).and_then(Visible::expiry_ms)
    }

    /// The same for [`DoubleEnded::next_back`].
    pub fn back_expiry_ms(&self) -> Option<u64> {
        self.back.as_ref().filter(|back| back.is_valid()).and_then(Visible::expiry_ms)
    }

    /// The last entry not returned yet, borrowed; `None` when done and after an error.
    pub fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_finished {
            return Ok(None);
        }
        self.is_finished = true;
        let back = match &mut self.back {
            Some(back) => {
                back.prev()?;
                back
            }
            closed => {
                let back = closed.insert(self.view.open()?);
                back.seek_to_last()?;
                back
            }
        };
        let Some((key, value)) = back.entry() else { return Ok(None) };
        if self.front.as_ref().is_some_and(|front| key <= front.key()) {
            return Ok(None);
        }
        self.is_finished = false;
        Ok(Some((key, value)))
    }
}
