//! Reads of a keyspace handle: each pins a view and a sequence number.

use super::Keyspace;
use crate::Value;
use crate::handle::snapshot::{Snapshot, View};
use esker_base::{Result, SeqNo};
use esker_iter::Bounds;
use esker_view::read::open_readers::ReaderKind;
use esker_view::read::scan_tally::ScanTally;
use esker_view::read::{KeyRange, Pinned};
use esker_view::read::{cursor::Cursor, keys::Keys, range::Range};
use esker_view::semantics::ReadTime;
use std::sync::atomic::Ordering;

impl Keyspace {
    /// The present, pinned. The view first, then the sequence number (RV1); the view also before the mark of
    /// a dropped keyspace, which is set before the view is emptied.
    #[inline(always)]
    pub(crate) fn pin(&self) -> Result<Pinned> {
        let store = &self.handle.store;
        store.check_open()?;
        let view = self.state.view.pin();
        self.state.check_living()?;
        let seqno = SeqNo::new(store.visible.load(Ordering::Acquire));
        Ok(Pinned { view, seqno, time: ReadTime::PRESENT })
    }

    /// The value of `key`.
    #[inline]
    #[doc(alias = "GetPinnableSlice")]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.pin()?.get(key.as_ref())
    }

    /// Passes the value of `key`, or `None`, to `read` without copying or allocating.
    #[inline]
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.pin()?.get_with(key.as_ref(), read)
    }

    /// Whether `key` has a value.
    #[inline]
    #[doc(alias = "KeyMayExist")]
    #[doc(alias = "contains_key")]
    #[doc(alias = "exists")]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.pin()?.contains(key.as_ref())
    }

    /// The values of several keys, in their order, all of one moment. The cache misses of the keys overlap,
    /// so this is several times faster than as many calls of [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.pin()?.multi_get(keys)
    }

    /// The entries in a range of keys, forwards and backwards. If the iterator cannot be created, the error
    /// is its first item.
    #[doc(alias = "iterator")]
    #[doc(alias = "NewIterator")]
    #[doc(alias = "scan")]
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_of(self.pin(), range.into_bounds())
    }

    /// The entries whose keys start with `prefix`.
    #[doc(alias = "prefix_iterator")]
    #[doc(alias = "scan_prefix")]
    #[doc(alias = "prefix_same_as_start")]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range_of(self.pin(), Bounds::prefix(prefix.as_ref()))
    }

    /// All entries.
    #[doc(alias = "iterator")]
    #[doc(alias = "NewIterator")]
    #[doc(alias = "full_iterator")]
    pub fn iter(&self) -> Range {
        self.range_of(self.pin(), Bounds::default())
    }

    /// The keys in a range, without their values: large values, which are stored in separate files, are not
    /// read.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let images = db.keyspace("images")?;
    /// for key in images.keys("2024-"..) {
    ///     println!("{}", key?.escape_ascii());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn keys(&self, range: impl KeyRange) -> Keys {
        self.keys_of(self.pin(), range.into_bounds())
    }

    /// The entry with the smallest key.
    #[doc(alias = "first_key_value")]
    #[doc(alias = "SeekToFirst")]
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        self.pin()?.first()
    }

    /// The entry with the greatest key.
    #[doc(alias = "last_key_value")]
    #[doc(alias = "SeekToLast")]
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        self.pin()?.last()
    }

    /// A cursor over all entries.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// # let users = db.keyspace("users")?;
    /// let mut cursor = users.cursor()?;
    /// cursor.seek(b"b")?;
    /// while let Some((key, value)) = cursor.entry() {
    ///     println!("{} {}", key.escape_ascii(), value.len());
    ///     cursor.advance()?;
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "NewIterator")]
    #[doc(alias = "raw_iterator")]
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(self.cursor_of(self.pin()?, Bounds::default()))
    }

    /// A cursor that shows the entries in a range only.
    #[doc(alias = "iterate_lower_bound")]
    #[doc(alias = "iterate_upper_bound")]
    pub fn cursor_in(&self, range: impl KeyRange) -> Result<Cursor> {
        Ok(self.cursor_of(self.pin()?, range.into_bounds()))
    }

    /// A cursor over a pinned view, listed among the open readers.
    pub(crate) fn cursor_of(&self, pinned: Pinned, bounds: Bounds) -> Cursor {
        let pinned = pinned.kept();
        let reader_slot =
            self.handle.store.open_readers.hold_view(ReaderKind::Cursor, self.state.id, &pinned);
        Cursor::new(pinned, bounds, reader_slot, ScanTally::new(&self.state.tuning.scans))
    }

    /// A range over a pinned view, listed among the open readers.
    pub(crate) fn range_of(&self, pinned: Result<Pinned>, bounds: Bounds) -> Range {
        let pinned = pinned.map(Pinned::kept);
        let open_readers = &self.handle.store.open_readers;
        let reader_slot =
            pinned.as_ref().map(|pinned| open_readers.hold_view(ReaderKind::Range, self.state.id, pinned));
        let reader_slot = reader_slot.ok();
        Range::new(pinned, bounds).held(reader_slot, ScanTally::new(&self.state.tuning.scans))
    }

    /// As [`Keyspace::range_of`], of keys alone.
    pub(crate) fn keys_of(&self, pinned: Result<Pinned>, bounds: Bounds) -> Keys {
        let pinned = pinned.map(Pinned::kept);
        let open_readers = &self.handle.store.open_readers;
        let reader_slot =
            pinned.as_ref().map(|pinned| open_readers.hold_view(ReaderKind::Range, self.state.id, pinned));
        let reader_slot = reader_slot.ok();
        Keys::new(pinned, bounds).held(reader_slot, ScanTally::new(&self.state.tuning.scans))
    }

    /// This keyspace as `snapshot` sees it.
    #[doc(alias = "ReadOptions")]
    #[doc(alias = "snapshot_at")]
    pub fn at<'a>(&'a self, snapshot: &'a Snapshot) -> View<'a> {
        View { keyspace: self, snapshot }
    }
}
