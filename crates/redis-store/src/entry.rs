//! A key in a transaction: its record, and the changes that keep counts, expiries and garbage right.

use crate::layout::{MAX_KEY_BYTES, PhysicalDb, Space, expiry_key, record_key};
use crate::notifications::EventClass;
use crate::record::{Kind, Record};
use crate::store::garbage_key;
use crate::txn::Txn;
use esker::{Error, Result};
use std::sync::atomic::Ordering;

/// A key that was looked up in a transaction. It stays true as long as the key is changed through it alone.
#[derive(Debug)]
pub struct Entry {
    db: u16,
    physical: PhysicalDb,
    record_key: Vec<u8>,
    /// What is stored, also if it has expired.
    stored: Option<Record>,
    has_expired: bool,
}

impl Entry {
    /// The record; `None` if there is none or it has expired.
    pub fn record(&self) -> Option<&Record> {
        self.stored.as_ref().filter(|_| !self.has_expired)
    }

    /// Whether the record is stored but has expired.
    pub fn has_expired(&self) -> bool {
        self.has_expired
    }

    /// The logical database.
    pub fn db(&self) -> u16 {
        self.db
    }

    /// The physical database.
    pub fn physical(&self) -> PhysicalDb {
        self.physical
    }

    /// The key of the record.
    pub(crate) fn record_key(&self) -> &[u8] {
        &self.record_key
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        crate::layout::user_key(&self.record_key)
    }

    /// When the key expires, in milliseconds since 1970.
    pub fn expiry_ms(&self) -> Option<u64> {
        self.record().and_then(Record::expiry_ms)
    }

    /// Checks that the key can be stored, before anything is stored for it.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over [`MAX_KEY_BYTES`].
    pub(crate) fn check_key_length(&self) -> Result<()> {
        let length = self.key().len();
        if length <= MAX_KEY_BYTES {
            return Ok(());
        }
        let text = format!("the key has {length} bytes; the longest has {MAX_KEY_BYTES}");
        Err(Error::InvalidArgument(text.into()))
    }
}

impl Txn<'_> {
    /// Looks a key up.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn entry(&mut self, db: u16, key: &[u8]) -> Result<Entry> {
        let physical = self.physical(db);
        let record_key = record_key(physical, key);
        // A key of this length cannot be stored, so it is absent; only putting it is an error.
        let stored = match key.len() > MAX_KEY_BYTES {
            true => None,
            false => self.record_of(&record_key)?,
        };
        self.entry_of(db, physical, record_key, stored)
    }

    /// Looks several keys up together.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn entries<K: AsRef<[u8]>>(&mut self, db: u16, keys: &[K]) -> Result<Vec<Entry>> {
        if keys.iter().any(|key| key.as_ref().len() > MAX_KEY_BYTES) {
            return keys.iter().map(|key| self.entry(db, key.as_ref())).collect();
        }
        let physical = self.physical(db);
        let record_keys: Vec<_> = keys.iter().map(|key| record_key(physical, key.as_ref())).collect();
        let stored = self.multi_get(Space::Keys, &record_keys)?;
        let found = record_keys.into_iter().zip(stored);
        found.map(|(record_key, stored)| self.entry_of(db, physical, record_key, stored)).collect()
    }

    fn entry_of(
        &mut self,
        db: u16,
        physical: PhysicalDb,
        record_key: Vec<u8>,
        stored: Option<esker::Value>,
    ) -> Result<Entry> {
        let stored = stored.map(Record::decode).transpose()?;
        let now_ms = self.now_ms();
        let has_expired = stored.as_ref().is_some_and(|record| !record.is_alive(now_ms));
        if has_expired {
            self.note_expired(db, crate::layout::user_key(&record_key));
        }
        Ok(Entry { db, physical, record_key, stored, has_expired })
    }

    /// Sets the record of a key. Objects of the record before it are the caller's to keep or to
    /// [discard](Txn::discard_object).
    ///
    /// # Errors
    /// Those of the engine; `InvalidArgument` for a key over [`MAX_KEY_BYTES`].
    pub fn set_record(
        &mut self,
        entry: &mut Entry,
        kind: Kind,
        layout: u8,
        expiry_ms: Option<u64>,
        payload: &[u8],
    ) -> Result<()> {
        entry.check_key_length()?;
        self.bury_expired(entry)?;
        let before = entry.stored.as_ref();
        let is_new = before.is_none();
        let old_expiry_ms = before.and_then(Record::expiry_ms);
        if old_expiry_ms != expiry_ms {
            if let Some(old_ms) = old_expiry_ms {
                self.delete(Space::Expiries, &expiry_key(entry.physical, old_ms, entry.key()))?;
            }
            if let Some(new_ms) = expiry_ms {
                self.put(Space::Expiries, &expiry_key(entry.physical, new_ms, entry.key()), &[])?;
                self.earliest_expiry_ms = self.earliest_expiry_ms.min(new_ms);
            }
        }
        let expiring = i64::from(expiry_ms.is_some()) - i64::from(old_expiry_ms.is_some());
        self.count(entry.physical, i64::from(is_new), expiring);
        let bytes = Record::encode(kind, layout, expiry_ms, payload);
        self.put(Space::Keys, &entry.record_key, &bytes)?;
        if is_new {
            self.event(EventClass::NEW, "new", entry.db, entry.key());
        }
        entry.stored = Some(Record::decode(esker::Value::owned(bytes))?);
        Ok(())
    }

    /// Sets a key's expiry alone.
    ///
    /// # Errors
    /// As [`Txn::set_record`]; `NotFound` if the key is not there.
    pub fn set_expiry(&mut self, entry: &mut Entry, expiry_ms: Option<u64>) -> Result<()> {
        let Some(record) = entry.record().cloned() else {
            return Err(Error::NotFound("the key has no value".into()));
        };
        self.set_record(entry, record.kind(), record.layout(), expiry_ms, record.payload())
    }

    /// Removes the record of a key, if it is there. Its objects are the caller's to keep or to discard;
    /// [`delete_key`](crate::types::delete_key) deletes a key with all it has.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn remove_record(&mut self, entry: &mut Entry) -> Result<()> {
        let Some(stored) = entry.stored.take() else { return Ok(()) };
        if let Some(expiry_ms) = stored.expiry_ms() {
            self.delete(Space::Expiries, &expiry_key(entry.physical, expiry_ms, entry.key()))?;
        }
        self.count(entry.physical, -1, -i64::from(stored.expiry_ms().is_some()));
        entry.has_expired = false;
        self.delete(Space::Keys, &entry.record_key)
    }

    /// Deletes a record that has expired, as if at the time of its expiry: `expired` is told. A record that
    /// is alive or absent stays as it is.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn bury_expired(&mut self, entry: &mut Entry) -> Result<bool> {
        if !entry.has_expired {
            return Ok(false);
        }
        if let Some(object) = entry.stored.as_ref().and_then(Record::object) {
            self.discard_object(object)?;
        }
        self.remove_record(entry)?;
        self.store().expired_keys.fetch_add(1, Ordering::Relaxed);
        self.forget_expired(entry.db, entry.key());
        self.removed_as_expired(entry.db, entry.key());
        self.event(EventClass::EXPIRED, "expired", entry.db, entry.key());
        Ok(true)
    }

    /// Puts an object into the garbage list: nothing refers to it when this transaction is committed (KR4).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn discard_object(&mut self, object: u64) -> Result<()> {
        self.new_garbage.push(object);
        self.put(Space::System, &garbage_key(object), &[])
    }
}
