//! A pinned moment of a keyspace: the input of every read.

use crate::Value;
use crate::read::multi;
use crate::read::point::{self, Found};
use crate::read::range::Range;
use crate::semantics::ReadTime;
use crate::super_version::PinnedView;
use esker_base::{Result, SeqNo};
use esker_iter::{Bounds, Large, LargeValues, Reader};

/// A view and the sequence number to read it at.
#[derive(Debug)]
pub struct Pinned {
    /// What is read.
    pub view: PinnedView,
    /// Entries above this sequence number are invisible.
    pub seqno: SeqNo,
    /// The time at which expiry is judged.
    pub time: ReadTime,
}

impl Pinned {
    /// The same moment for longer use than one read: see [`PinnedView`].
    pub fn kept(self) -> Pinned {
        Pinned { view: self.view.kept(), ..self }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(match point::lookup(self, key)? {
            Found::Borrowed(value) => Some(Value::copied(value)),
            Found::Pinned(value) => Some(Value::pinned(value)),
            Found::Folded(value) => Some(Value::owned(value)),
            Found::Large(pointer) => Some(self.fetch(key, &pointer)?),
            Found::Absent => None,
        })
    }

    /// Calls `read` with the value of a key, which is not copied.
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(match point::lookup(self, key)? {
            Found::Borrowed(value) => read(Some(value)),
            Found::Pinned(value) => read(Some(&value)),
            Found::Folded(value) => read(Some(&value)),
            Found::Large(pointer) => read(Some(&self.fetch(key, &pointer)?)),
            Found::Absent => read(None),
        })
    }

    /// Reads the value of `key` that a pointer in this view refers to.
    #[cold]
    pub fn fetch(&self, key: &[u8], pointer: &[u8]) -> Result<Value> {
        let mut value = Vec::new();
        self.view.tree.large.fetch(key, pointer, &mut value)?;
        Ok(Value::owned(value))
    }

    /// Whether a key has a value.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(!matches!(point::lookup(self, key)?, Found::Absent))
    }

    /// The values of many keys, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        multi::multi_get(self, keys)
    }

    /// The semantics for iterators of this moment. A second call gives the same only once the time is fixed.
    pub fn reader(&mut self) -> Reader {
        self.reader_with(self.view.large())
    }

    /// The semantics for iterators where nothing expires: the time is not read.
    pub fn reader_of_what_stays(&self) -> Reader {
        Reader::default().folding(self.view.semantics.folding().cloned()).with_large(self.view.large())
    }

    /// The semantics for iterators over keys alone.
    pub fn reader_of_keys(&mut self) -> Reader {
        self.reader_with(Large::Skipped)
    }

    fn reader_with(&mut self, large: Large) -> Reader {
        let semantics = &self.view.semantics;
        Reader::at(self.time.fix(semantics)).folding(semantics.folding().cloned()).with_large(large)
    }

    /// The entries within bounds.
    pub fn range(self, bounds: Bounds) -> Range {
        Range::new(Ok(self), bounds)
    }

    /// The entry with the least key.
    pub fn first(self) -> Result<Option<(Value, Value)>> {
        self.range(Bounds::default()).next().transpose()
    }

    /// The entry with the greatest key.
    pub fn last(self) -> Result<Option<(Value, Value)>> {
        self.range(Bounds::default()).next_back().transpose()
    }
}
