//! Cursors and what is built from them: merging, visibility, range tombstones, merge operands, and what a
//! flush or compaction retains.
//!
//! A *cursor* walks entries in internal order: by user key ascending, and among the versions of one key by
//! [`Tag`](esker_base::Tag) descending, so that the newest version comes first. Memtables and tables provide
//! cursors; the engine merges them and shows the user what is visible.
//!
//! ```text
//!   memtables   tables        Cursor: all versions of one source
//!        \      /
//!      MergingCursor          all versions of all sources, in internal order
//!        /      \
//!    Visible   CompactionIter each key once: as a reader sees it; what a flush or compaction must write
//!       |
//!  DoubleEnded                a range taken from both ends
//! ```
//!
//! Everything is generic over the cursor, without dynamic dispatch, and borrows keys and values instead of
//! copying them where the direction allows it. An error of any source ends the walk and is returned by the
//! call that met it.
//!
//! Files, in reading order: [`cursor`] the contract; [`mod@slice`] the simplest source; [`merge`] the loser
//! tree; [`meaning`](mod@meaning) how a [`reader`] interprets each kind of entry; [`bounds`] ranges of keys;
//! [`visible`] the reader's view; [`range_del`] range tombstones, their [aggregate](range_del::aggregate) for
//! readers and their [elision](range_del::compaction) in compactions; [`operator`] and [`full_merge`] merge
//! operators and their application; [`tombstone_span`] known spans without values; [`double_ended`] two
//! readers that meet; [`boundaries`] the sequence numbers of readers; [`compaction_iter`] what a compaction
//! keeps; [`compaction_filter`] user code in a compaction.

#![forbid(unsafe_code)]

pub mod boundaries;
pub mod bounds;
pub mod compaction_filter;
pub mod compaction_iter;
pub mod cursor;
pub mod double_ended;
pub mod full_merge;
mod key_buffer;
pub mod key_span;
mod large_values;
pub mod meaning;
pub mod merge;
pub mod operator;
pub mod range_del;
pub mod reader;
pub mod slice;
#[cfg(test)]
mod testing;
pub mod tombstone_span;
pub mod visible;

pub use boundaries::Boundaries;
pub use bounds::Bounds;
pub use compaction_filter::{CompactionFilter, Decision};
pub use compaction_iter::{CompactionIter, CompactionIterStats, EntrySink};
pub use cursor::{BoundOrder, Cursor};
pub use double_ended::{DoubleEnded, ReaderFactory};
pub use full_merge::{FullMerge, OperandMerger};
pub use key_span::KeySpan;
pub use large_values::{LargePolicy, LargeValues};
pub use meaning::{Meaning, is_large, meaning, split_expiry, without_operator};
pub use merge::MergingCursor;
pub use range_del::aggregate::{PartCursor, RangeDelAggregate, RangeDelSource, SkipDeleted, SkipTarget};
pub use range_del::compaction::InputRangeDels;
pub use range_del::{RangeTombstone, RangeTombstones, TombstoneFragment, TombstoneHull, TombstoneInterval};
pub use reader::Reader;
pub use slice::{Entry, SliceCursor};
pub use tombstone_span::{TombstoneSpan, TombstoneSpans};
pub use visible::Visible;
