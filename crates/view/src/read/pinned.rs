//! A pinned moment of a keyspace: the input of every read.

use crate::Value;
use crate::semantics::ReadTime;
use crate::super_version::PinnedView;
use esker_base::{Result, SeqNo};
use esker_iter::{LargePolicy, LargeValues, Reader};

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

    /// One more of the same moment, for longer use than one read.
    pub fn again(&self) -> Pinned {
        Pinned { view: self.view.again(), ..*self }
    }

    /// Reads the value of `key` that a pointer in this view refers to.
    #[cold]
    pub fn fetch(&self, key: &[u8], pointer: &[u8]) -> Result<Value> {
        let mut value = Vec::new();
        self.view.tree.large.fetch(key, pointer, &mut value)?;
        Ok(Value::owned(value))
    }

    /// The semantics for iterators of this moment. A second call gives the same only once the time is fixed.
    pub fn reader(&mut self) -> Reader {
        self.reader_with(self.view.large())
    }

    /// The semantics for iterators where nothing expires: the time is not read.
    pub fn reader_of_what_stays(&self) -> Reader {
        Reader::default()
            .operand_merger(self.view.semantics.operand_merger().cloned())
            .with_large(self.view.large())
    }

    /// The semantics for iterators over keys alone.
    pub fn reader_of_keys(&mut self) -> Reader {
        self.reader_with(LargePolicy::Skipped)
    }

    fn reader_with(&mut self, large: LargePolicy) -> Reader {
        let semantics = &self.view.semantics;
        Reader::at(self.time.fix(semantics))
            .operand_merger(semantics.operand_merger().cloned())
            .with_large(large)
    }
}
