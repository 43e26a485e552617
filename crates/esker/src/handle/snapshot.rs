//! Snapshots: one moment of the whole database.

use super::keyspace::Keyspace;
use crate::{KeyRange, Value, ValueWithExpiry};
use esker_base::{Error, Result, SeqNo};
use esker_engine::state::store::Store;
use esker_iter::Bounds;
use esker_view::read::Pinned;
use esker_view::read::open_readers::{ReaderKind, ReaderSlot};
use esker_view::read::resolve::End;
use esker_view::read::{cursor::Cursor, keys::Keys, layer::Layer, range::Range};
use esker_view::semantics::ReadTime;
use esker_view::snapshot::Moment;
use esker_view::time;
use std::sync::Arc;
use std::time::SystemTime;

/// One moment of the database, over all keyspaces. Reads through [`Keyspace::at`] see exactly what was
/// committed before it was taken. While it lives, compaction keeps the versions it can see; dropping it frees
/// them.
#[derive(Debug)]
#[doc(alias = "ReadTransaction")]
#[doc(alias = "read_tx")]
pub struct Snapshot {
    store: Arc<Store>,
    moment: Moment,
    /// Its slot among the open readers; `None` for a snapshot inside one short call.
    reader_slot: Option<ReaderSlot>,
}

impl Snapshot {
    pub(crate) fn new(store: &Arc<Store>) -> Snapshot {
        Snapshot::of_kind(store, ReaderKind::Snapshot)
    }

    /// A snapshot listed among the open readers with this kind.
    pub(crate) fn of_kind(store: &Arc<Store>, kind: ReaderKind) -> Snapshot {
        let mut snapshot = Snapshot::unlisted(store);
        snapshot.reader_slot = Some(store.open_readers.hold(kind, snapshot.moment.seqno));
        snapshot
    }

    /// A snapshot for one call.
    pub(crate) fn unlisted(store: &Arc<Store>) -> Snapshot {
        let moment = store.snapshots.register(&store.visible, &store.time);
        Snapshot { store: Arc::clone(store), moment, reader_slot: None }
    }

    /// The sequence number of the last operation the snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.moment.seqno
    }

    /// The database time when the snapshot was taken: entries that had not expired by then do not expire for
    /// the snapshot.
    pub fn time(&self) -> SystemTime {
        time::from_ms(self.moment.read_time_ms)
    }

    /// The same in milliseconds since 1970.
    pub(crate) fn time_ms(&self) -> u64 {
        self.moment.read_time_ms
    }

    pub(crate) fn belongs_to(&self, store: &Arc<Store>) -> bool {
        Arc::ptr_eq(&self.store, store)
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        self.store.snapshots.register_again(self.moment);
        let reader_slot = self.reader_slot.as_ref().map(|reader_slot| reader_slot.again());
        Snapshot { store: Arc::clone(&self.store), moment: self.moment, reader_slot }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.store.process.is_inherited() {
            // Another thread may have held the lock when this process was forked.
            return;
        }
        self.store.snapshots.release(self.moment);
    }
}

/// A keyspace as a snapshot sees it.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "ReadOnlyTable")]
pub struct View<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) snapshot: &'a Snapshot,
}

impl View<'_> {
    pub(crate) fn pin(&self) -> Result<Pinned> {
        if !self.snapshot.belongs_to(self.keyspace.store()) {
            return Err(Error::invalid("the snapshot was taken of another database"));
        }
        self.keyspace.store().check_open()?;
        let Moment { seqno, read_time_ms } = self.snapshot.moment;
        let view = self.keyspace.state().view.pin();
        self.keyspace.state().check_living()?;
        Ok(Pinned { view, seqno, time: ReadTime::at(read_time_ms) })
    }

    /// When the value of `key` ends.
    pub(crate) fn end(&self, key: &[u8]) -> Result<End> {
        self.pin()?.end(key)
    }

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.pin()?.get(key.as_ref())
    }

    /// Passes the value of `key` to `read` without copying it.
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.pin()?.get_with(key.as_ref(), read)
    }

    /// Whether `key` has a value.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.pin()?.contains(key.as_ref())
    }

    /// The values of several keys, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.pin()?.multi_get(keys)
    }

    /// The value of `key` and its expiry; see [`Keyspace::get_with_expiry`].
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueWithExpiry>> {
        self.pin()?.get_with_expiry(key.as_ref())
    }

    /// The values of several keys with their expiries, in the order of the keys.
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<ValueWithExpiry>>> {
        self.pin()?.multi_get_with_expiry(keys)
    }

    /// The separate contents of memory and each level, from memory downwards: to display the tree.
    pub fn layers(&self) -> Result<Vec<Layer>> {
        let pinned = self.pin()?;
        Ok(Layer::all_of(pinned))
    }

    /// A cursor over all entries.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(self.keyspace.cursor_of(self.pin()?, Bounds::default()))
    }

    /// A cursor that shows the entries in a range only.
    pub fn cursor_in(&self, range: impl KeyRange) -> Result<Cursor> {
        self.cursor_within(range.into_bounds())
    }

    pub(crate) fn cursor_within(&self, bounds: Bounds) -> Result<Cursor> {
        Ok(self.keyspace.cursor_of(self.pin()?, bounds))
    }

    /// The entries in a range of keys.
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_within(range.into_bounds())
    }

    pub(crate) fn range_within(&self, bounds: Bounds) -> Range {
        self.keyspace.range_of(self.pin(), bounds)
    }

    /// The entries whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range_within(Bounds::prefix(prefix.as_ref()))
    }

    /// All entries.
    pub fn iter(&self) -> Range {
        self.range_within(Bounds::default())
    }

    /// The keys in a range, without their values; see [`Keyspace::keys`].
    pub fn keys(&self, range: impl KeyRange) -> Keys {
        self.keyspace.keys_of(self.pin(), range.into_bounds())
    }

    /// The entry with the smallest key.
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        self.pin()?.first()
    }

    /// The entry with the greatest key.
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        self.pin()?.last()
    }
}
