//! Key iterator: keys without values, from both ends.

use crate::Value;
use crate::read::open_readers::ReaderSlot;
use crate::read::pinned::Pinned;
use crate::read::range::Range;
use crate::read::scan_tally::ScanTally;
use esker_base::Result;
use esker_iter::Bounds;
use std::iter::FusedIterator;

/// The keys of a range in order, as at the creation of the iterator. Lazy, as [`Range`] is; large values,
/// which are stored in separate files, are not read. After an error the iterator is at its end.
#[derive(Debug)]
pub struct Keys(Range);

impl Keys {
    /// The keys of a pinned view within bounds.
    pub fn new(pinned: Result<Pinned>, bounds: Bounds) -> Keys {
        Keys(Range::without_large(pinned, bounds))
    }

    /// These keys, listed among the open readers while they live, and counted.
    pub fn held(self, reader_slot: Option<ReaderSlot>, tally: ScanTally) -> Keys {
        Keys(self.0.held(reader_slot, tally))
    }
}

impl Iterator for Keys {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Result<Value>> {
        self.0.next_key()
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Result<Value>> {
        self.0.next_key_back()
    }
}

impl FusedIterator for Keys {}
