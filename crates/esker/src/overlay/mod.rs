//! Changes over stored data, before they are committed: what a transaction consists of, and the batch that
//! can be read.
//!
//! [`writes`] holds the last change of each key and the [ranges](deleted_ranges) that were deleted below
//! them; [`range`] merges them with a scan of what is stored. A [`Transaction`](crate::Transaction) adds a
//! snapshot, a read set and a validation; an [`IndexedBatch`] adds nothing, and [`view`] is how it is read.
//!
//! * OV1: *the newest change of a key hides everything below it*: what is stored, and for a put or a delete
//!   the earlier changes. A range delete removes the changes in its range and hides what is stored there, so
//!   every change that is left is newer than the range deletes over its key. Hence a batch with all range
//!   deletes first, and then one change for each key, does what was done in order.

mod batch;
mod deleted_ranges;
mod range;
mod view;
mod writes;

pub use batch::IndexedBatch;
pub(crate) use range::OverlayRange;
pub use view::{BatchRange, BatchRangeWithExpiry, BatchView};
pub(crate) use writes::{Changes, ENTRY_OVERHEAD_BYTES, MergePart, Pending, Writes, check_sizes};
