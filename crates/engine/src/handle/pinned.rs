//! A moment of a keyspace, pinned: what every read goes through.

use crate::Value;
use crate::read::cursor::Cursor;
use crate::read::multi;
use crate::read::point::{self, Found};
use crate::read::range::Range;
use crate::semantics::ReadTime;
use crate::view::SuperVersion;
use esker_base::{Result, SeqNo};
use esker_iter::{Bounds, Reader};
use std::sync::Arc;

/// A view and the sequence number to read it at.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) view: Arc<SuperVersion>,
    pub(crate) seqno: SeqNo,
    /// The moment at which it is judged what has expired.
    pub(crate) time: ReadTime,
}

impl Pinned {
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(match point::lookup(self, key)? {
            Found::Borrowed(value) => Some(Value::copied(value)),
            Found::Pinned(value) => Some(Value::pinned(value)),
            Found::Folded(value) => Some(Value::owned(value)),
            Found::Absent => None,
        })
    }

    #[inline]
    pub(crate) fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(point::lookup(self, key)?.as_bytes()))
    }

    #[inline]
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        self.get_with(key, |value| value.is_some())
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        multi::multi_get(self, keys)
    }

    pub(crate) fn cursor(self, bounds: Bounds) -> Cursor {
        Cursor::new(self, bounds)
    }

    /// What the iterators of this moment are. Asking again gives the same only once the time is fixed.
    pub(crate) fn reader(&mut self) -> Reader {
        let semantics = &self.view.semantics;
        Reader::at(self.time.fix(semantics)).folding(semantics.folding().cloned())
    }

    pub(crate) fn range(self, bounds: Bounds) -> Range {
        Range::new(Ok(self), bounds)
    }

    pub(crate) fn first(self) -> Result<Option<(Value, Value)>> {
        self.range(Bounds::default()).next().transpose()
    }

    pub(crate) fn last(self) -> Result<Option<(Value, Value)>> {
        self.range(Bounds::default()).next_back().transpose()
    }
}
