//! Write batches: operations that become visible and durable together.

use super::{Keyspace, no_expiry_to_keep};
use crate::{Database, Expiry};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, KeyspaceId, Result, ValueKind};
use esker_engine::state::store::Store;
use esker_engine::write::batch::{EncodedBatch, Share};
use esker_engine::write::write_options::Ends;
use esker_view::read::{HalfOpen, KeyRange};
use esker_view::time::from_ms;
use esker_wal::{BatchEncoder, Entry, EntryIter};
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// Operations that are applied together, over any keyspaces: after a crash either all of them are there or
/// none, and no reader sees a part of them.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Database::open("data")?;
/// let users = db.keyspace("users")?;
/// let by_mail = db.keyspace("users by mail")?;
/// let mut batch = db.batch();
/// batch.put(&users, b"7", b"Ada");
/// batch.put(&by_mail, b"ada@example.org", b"7");
/// db.write(&batch)?;
/// # Ok(()) }
/// ```
///
/// An invalid argument (a key that is too long, a keyspace of another database) is recorded and reported by
/// the call that writes the batch, which then changes nothing.
#[derive(Debug)]
#[doc(alias = "Batch")]
#[doc(alias = "transaction")]
pub struct WriteBatch {
    store: Weak<Store>,
    encoder: BatchEncoder,
    shares: Vec<Share>,
    error: Option<Error>,
}

impl WriteBatch {
    /// The most range deletes of one batch in one keyspace: 1,024. They are held by one memtable, whose
    /// readers search them as fragments with every sequence number over each; so many nested ranges take 16
    /// MiB, and four times as many would take 256.
    pub const MAX_RANGE_DELETES: u64 = esker_memtable::MAX_RANGE_DELETES;

    pub(crate) fn new(store: &Arc<Store>) -> WriteBatch {
        WriteBatch::with_capacity(store, 0)
    }

    /// With capacity for operations that take `bytes` in the log.
    pub(crate) fn with_capacity(store: &Arc<Store>, bytes: usize) -> WriteBatch {
        WriteBatch {
            store: Arc::downgrade(store),
            encoder: BatchEncoder::with_capacity(bytes),
            shares: Vec::new(),
            error: None,
        }
    }

    /// Sets `key` to `value`. In a keyspace with a default TTL the value expires by it, counted from this
    /// call.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), keyspace.default_expiry_ms());
    }

    /// Sets `key` to `value`, with this expiry, counted from this call. [`Expiry::Keep`] is an error that the
    /// call which writes the batch reports: a batch does not read.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// # use std::time::Duration;
    /// use esker::{Durability, Expiry};
    /// let sessions = db.keyspace("sessions")?;
    /// let mut batch = db.batch();
    /// batch.put_with(&sessions, "ada", "token", Expiry::After(Duration::from_secs(1800)));
    /// db.write_with(&batch, Durability::Power)?;
    /// # Ok(()) }
    /// ```
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) {
        match expiry.resolve(&keyspace.store().time, keyspace.state().default_ttl()) {
            Ends::Never => self.put_until(keyspace, key.as_ref(), value.as_ref(), None),
            Ends::At(expiry_ms) => self.put_until(keyspace, key.as_ref(), value.as_ref(), Some(expiry_ms)),
            Ends::AsBefore => self.fail(no_expiry_to_keep()),
        }
    }

    /// Sets `key` to `value` until `expiry_ms`, in milliseconds since 1970; without expiry if `None`.
    pub(crate) fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expiry_ms: Option<u64>,
    ) {
        match expiry_ms {
            None => self.add(keyspace, key.len() + value.len(), |encoder, id| encoder.put(id, key, value)),
            Some(expiry_ms) => self.add(keyspace, key.len() + EXPIRY_LEN + value.len(), |encoder, id| {
                encoder.put_expiring(id, key, value, expiry_ms)
            }),
        }
    }

    /// Adds an operand for `key`: see [`Keyspace::merge`].
    pub fn merge(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.merge_with(keyspace, key, operand, Expiry::Default);
    }

    /// Adds an operand for `key` with this expiry. See [`Keyspace::merge_with`].
    pub fn merge_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        expiry: Expiry,
    ) {
        match expiry.resolve(&keyspace.store().time, keyspace.state().default_ttl()) {
            Ends::Never => self.merge_until(keyspace, key.as_ref(), operand.as_ref(), None),
            Ends::At(expiry_ms) => {
                self.merge_until(keyspace, key.as_ref(), operand.as_ref(), Some(expiry_ms));
            }
            Ends::AsBefore => self.fail(no_expiry_to_keep()),
        }
    }

    /// Adds an operand for `key` until `expiry_ms`, in milliseconds since 1970; without expiry if `None`.
    pub(crate) fn merge_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        operand: &[u8],
        expiry_ms: Option<u64>,
    ) {
        let bytes = key.len() + expiry_ms.map_or(0, |_| EXPIRY_LEN) + operand.len();
        self.add(keyspace, bytes, |encoder, id| {
            keyspace.state().operand_merger()?.check_operand(key, operand)?;
            match expiry_ms {
                None => encoder.merge(id, key, operand),
                Some(expiry_ms) => encoder.merge_expiring(id, key, operand, expiry_ms),
            }
        });
    }

    /// Deletes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        self.add(keyspace, key.len(), |encoder, id| encoder.delete(id, key));
    }

    /// Deletes all keys in `range`, at the cost of one put. Later operations of the batch in the range stay.
    ///
    /// One batch takes at most [`WriteBatch::MAX_RANGE_DELETES`] for a keyspace; one more is an error that
    /// the call which writes the batch reports.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// # let users = db.keyspace("users")?;
    /// let mut batch = db.batch();
    /// batch.delete_range(&users, "7/"..="7/~");
    /// batch.put(&users, "7/name", "Ada");
    /// db.write(&batch)?;
    /// # Ok(()) }
    /// ```
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyRange) {
        let bounds = range.into_bounds();
        let Some(half_open) = HalfOpen::of(&bounds) else { return };
        let id = keyspace.id();
        let count =
            self.shares.iter().find(|share| share.keyspace == id).map_or(0, |share| share.range_deletes);
        let limit = WriteBatch::MAX_RANGE_DELETES;
        self.add(keyspace, half_open.counted_bytes(), |encoder, id| {
            if u64::from(count) >= limit {
                return Err(Error::invalid(format!(
                    "a batch takes at most {limit} range deletes for one keyspace (WriteBatch::MAX_RANGE_DELETES), and                      this is one more for keyspace {:?}: write them in several batches, or as fewer, wider ranges",
                    keyspace.name()
                )));
            }
            encoder.range_delete(id, &half_open.start, &half_open.end)
        });
        if self.error.is_none()
            && let Some(share) = self.shares.iter_mut().find(|share| share.keyspace == id)
        {
            share.range_deletes += 1;
        }
    }

    /// The operations in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = BatchEntry<'_>> {
        self.encoder.entries().filter_map(|entry| BatchEntry::of(&entry.ok()?))
    }

    /// The operations as bytes, as a record of the log has them; [`Database::batch_from_bytes`] reads them.
    /// They name keyspaces by number, so they are for the same database, or for a copy of it.
    ///
    /// # Errors
    /// What was wrong while the batch was built.
    #[doc(alias = "Data")]
    #[doc(alias = "serialize")]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(self.encoder.payload().to_vec()),
        }
    }

    /// Operations in the batch.
    #[doc(alias = "Count")]
    pub fn len(&self) -> usize {
        self.encoder.count() as usize
    }

    /// Whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.encoder.is_empty()
    }

    /// Bytes the batch takes in the log.
    #[doc(alias = "GetDataSize")]
    #[doc(alias = "size_in_bytes")]
    pub fn encoded_bytes(&self) -> usize {
        self.encoder.payload().len()
    }

    /// Removes all operations and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.encoder.clear();
        self.shares.clear();
        self.error = None;
    }

    /// Records the first error, which the call that writes the batch reports.
    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    fn add(
        &mut self,
        keyspace: &Keyspace,
        bytes: usize,
        encode: impl FnOnce(&mut BatchEncoder, KeyspaceId) -> Result<()>,
    ) {
        if self.error.is_some() {
            return;
        }
        if !std::ptr::eq(self.store.as_ptr(), Arc::as_ptr(keyspace.store())) {
            let name = keyspace.name();
            self.error =
                Some(Error::invalid(format!("keyspace {name:?} belongs to another database than the batch")));
            return;
        }
        let id = keyspace.id();
        if let Err(error) = encode(&mut self.encoder, id) {
            self.error = Some(error);
            return;
        }
        let share = match self.shares.iter_mut().rfind(|share| share.keyspace == id) {
            Some(share) => share,
            None => {
                self.shares.push(Share::nothing(id));
                self.shares.last_mut().expect("pushed just now")
            }
        };
        share.entries += 1;
        share.bytes += bytes as u64;
    }

    /// The batch in the form of the commit pipeline, or the first error of building it.
    pub(crate) fn encoded(&self, store: &Arc<Store>) -> Result<EncodedBatch<'_>> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if !std::ptr::eq(self.store.as_ptr(), Arc::as_ptr(store)) {
            return Err(Error::invalid("the batch was made by another database"));
        }
        Ok(EncodedBatch::new(&self.encoder, &self.shares))
    }
}

/// One operation of a [`WriteBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchEntry<'a> {
    /// A key gets a value.
    Put {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The first moment without the value.
        expiry: Option<SystemTime>,
    },
    /// A key is deleted.
    Delete {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// The key.
        key: &'a [u8],
    },
    /// A range of keys is deleted.
    DeleteRange {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// The first key of the range.
        start: &'a [u8],
        /// The first key behind the range; `None` if it has no end.
        end: Option<&'a [u8]>,
    },
    /// An operand is merged into the value of a key.
    Merge {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
        /// The first moment without the operand.
        expiry: Option<SystemTime>,
    },
}

impl<'a> BatchEntry<'a> {
    /// The operation that an encoded entry stands for; `None` for a kind that no batch of a user has.
    fn of(entry: &Entry<'a>) -> Option<BatchEntry<'a>> {
        let Entry { kind_byte, keyspace, key, value } = *entry;
        let (value, expiry) = match kind_byte & FLAG_EXPIRY {
            0 => (value, None),
            _ => {
                let (expiry_ms, value) = value.split_first_chunk::<EXPIRY_LEN>()?;
                (value, Some(from_ms(u64::from_le_bytes(*expiry_ms))))
            }
        };
        Some(match ValueKind::from_byte(kind_byte)? {
            _ if kind_byte & FLAG_BLOB != 0 => return None,
            ValueKind::Put => BatchEntry::Put { keyspace, key, value, expiry },
            ValueKind::Delete => BatchEntry::Delete { keyspace, key },
            ValueKind::RangeDelete => {
                BatchEntry::DeleteRange { keyspace, start: key, end: (!value.is_empty()).then_some(value) }
            }
            ValueKind::Merge => BatchEntry::Merge { keyspace, key, operand: value, expiry },
            _ => return None,
        })
    }
}

impl Database {
    /// The batch that [`WriteBatch::to_bytes`] gave. Any bytes may be given.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let mut batch = db.batch();
    /// batch.put(db.default_keyspace(), "ada", "1815");
    /// let bytes = batch.to_bytes()?;
    /// db.write(&db.batch_from_bytes(&bytes)?)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for bytes that are no batch; `NotFound` for a keyspace that the database does not
    /// have.
    #[doc(alias = "deserialize")]
    pub fn batch_from_bytes(&self, bytes: &[u8]) -> Result<WriteBatch> {
        let store = self.store();
        let mut batch = WriteBatch::with_capacity(store, bytes.len());
        let invalid = |what: String| Error::invalid(format!("these bytes are no write batch: {what}"));
        for entry in EntryIter::new(bytes) {
            let entry = entry.map_err(|damage| invalid(damage.to_string()))?;
            let Some(operation) = BatchEntry::of(&entry) else {
                return Err(invalid(format!("kind byte {:#04x}", entry.kind_byte)));
            };
            let state = store.keyspace_with_id(entry.keyspace);
            let Some(state) = state else {
                let id = entry.keyspace.get();
                return Err(Error::NotFound(format!("there is no keyspace with number {id}").into()));
            };
            let keyspace = Keyspace::new(Arc::clone(self.handle()), state);
            match operation {
                BatchEntry::DeleteRange { start, end, .. } => {
                    if end.is_some_and(|end| end <= start) {
                        return Err(invalid("a range ends before it starts".to_owned()));
                    }
                    let end = end.map_or(Bound::Unbounded, Bound::Excluded);
                    batch.delete_range(&keyspace, (Bound::Included(start), end));
                }
                _ => batch.add(&keyspace, entry.key.len() + entry.value.len(), |encoder, _| {
                    if let BatchEntry::Merge { key, operand, .. } = operation {
                        keyspace.state().operand_merger()?.check_operand(key, operand)?;
                    }
                    encoder.entry(&entry)
                }),
            }
            if let Some(error) = batch.error.take() {
                return Err(error);
            }
        }
        Ok(batch)
    }
}
