//! Approximate sizes of key ranges, and keys that divide a range for parallel scans.

use super::Keyspace;
use crate::KeyRange;
use esker_base::Result;
use esker_view::read::HalfOpen;
use esker_view::read::range_size::{self, RangeSize};
use esker_view::read::split_points;

impl Keyspace {
    /// The approximate size of a range of keys, without reading its entries.
    ///
    /// A table inside of the range counts as the manifest says. A table in which the range ends is divided by
    /// the bytes of its blocks: the block with the end counts half. A memtable is counted entry by entry up
    /// to 4,096 entries; beyond that its size is estimated from where the range lies between its first and
    /// its last key, as if keys were spread evenly.
    ///
    /// So for tables `disk_bytes` is off by at most half a block for each end of the range and each run of
    /// the tree; large values are assumed to be spread evenly over the table that refers to them. `entries`
    /// counts every stored version: keys that were overwritten, deleted or have expired count until a
    /// compaction drops them. Where entries of a table have similar sizes and each key one version, it is off
    /// by at most half of a block's entries for each end and run. What a memtable contributes lies between
    /// 4,096 entries and all of them where it is estimated.
    ///
    /// O(log blocks) for the two tables of each run in which the range ends, which are opened if they were
    /// not; O(1) for each table between; no block is read, but pages of a paged index may be.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-size-{}", std::process::id()));
    /// let db = esker::Database::open(&dir)?;
    /// let events = db.keyspace("events")?;
    /// for number in 0..100 {
    ///     events.put(format!("2024-{number:02}"), "opened")?;
    /// }
    /// let size = events.approximate_size("2024-10".."2024-20")?;
    /// assert_eq!((size.entries, size.memory_bytes, size.disk_bytes), (10, 130, 0));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of opening tables; `NotFound` if the keyspace was dropped; `Closed`.
    #[doc(alias = "GetApproximateSizes")]
    #[doc(alias = "estimate")]
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<RangeSize> {
        let pinned = self.pin()?.kept();
        match HalfOpen::of(&range.into_bounds()) {
            Some(range) => range_size::range_size(&pinned.view, &range.to_key_range()),
            None => Ok(RangeSize::default()),
        }
    }

    /// Keys that divide a range into `parts` parts of about equal bytes, ascending and inside of the range:
    /// to scan or export it by several threads. There are `parts - 1` of them, fewer if the range holds too
    /// little. They need not be keys of the keyspace.
    ///
    /// Bytes are those of tables and memtables; large values, which are in files of their own, do not count.
    /// Where the range has at least 32 blocks for each part, in a tree of up to ten runs, no part has less
    /// than half or more than twice the mean. Deleted and overwritten entries count until a compaction drops
    /// them.
    ///
    /// O(tables in the range), O(log blocks) for up to 32 tables a part, and the keys of the memtables in the
    /// range are walked over; no block is read, but pages of a paged index may be.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// use std::ops::Bound;
    /// let events = db.keyspace("events")?;
    /// let snapshot = db.snapshot();
    /// let points = events.split_points(.., 4)?;
    /// let mut starts = vec![Bound::Unbounded];
    /// starts.extend(points.iter().map(Bound::Included));
    /// let mut ends: Vec<_> = points.iter().map(Bound::Excluded).collect();
    /// ends.push(Bound::Unbounded);
    /// let count: usize = std::thread::scope(|scope| {
    ///     let scan = |part| {
    ///         let view = events.at(&snapshot);
    ///         scope.spawn(move || view.range(part).count())
    ///     };
    ///     let scans: Vec<_> = starts.into_iter().zip(ends).map(scan).collect();
    ///     scans.into_iter().map(|scan| scan.join().expect("a scan does not panic")).sum()
    /// });
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::approximate_size`].
    pub fn split_points(&self, range: impl KeyRange, parts: usize) -> Result<Vec<Vec<u8>>> {
        let pinned = self.pin()?.kept();
        match HalfOpen::of(&range.into_bounds()) {
            Some(range) => split_points::split_points(&pinned.view, &range.to_key_range(), parts),
            None => Ok(Vec::new()),
        }
    }
}
