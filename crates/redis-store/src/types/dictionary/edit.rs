//! Changes of a dictionary: fields are added and removed, it grows from one layout to the next, and is saved.

use super::elements::element_key;
use super::items::{integers, push_integers};
use super::{
    Body, Dictionary, ELEMENTS, INTEGERS, LOOKUPS_AT_ONCE, MAX_PACKED_BYTES, MAX_PACKED_FIELDS,
    MAX_PACKED_INTEGERS, REDIS_PACKS_IT, STRINGS, find_string, lookup_some,
};
use crate::entry::Entry;
use crate::layout::{PhysicalDb, Space};
use crate::record::{Kind, Record};
use crate::txn::Txn;
use crate::types::packed::{push_number, push_string, string_bytes, take_string};
use crate::types::{delete_key, malformed};
use esker::{Error, Result};
use esker_redis_data::EncodingLimits;
use esker_resp::integer::{parse_integer, write_integer};
use std::collections::BTreeSet;

/// A dictionary that is being changed. Elements change at once, the record by [`Edit::save`].
#[derive(Debug)]
pub struct Edit {
    kind: Kind,
    db: PhysicalDb,
    limits: EncodingLimits,
    body: Changing,
    count: u64,
    redis_packs_it: bool,
    /// Whether the record differs from what is stored.
    is_changed: bool,
}

#[derive(Debug)]
enum Changing {
    Strings(Vec<u8>),
    Integers(Vec<i64>),
    Elements(u64),
}

impl Edit {
    /// The dictionary of a key, whose type has been checked; a new one if the key is not there.
    ///
    /// # Errors
    /// `Internal` if the record is malformed; `InvalidArgument` for a key that is too long.
    pub fn of(txn: &Txn<'_>, entry: &Entry, kind: Kind) -> Result<Self> {
        let Some(record) = entry.record() else { return Self::new(txn, entry, kind) };
        let stored = Dictionary::open(record)?;
        let body = match stored.body {
            Body::Strings { bytes, .. } => Changing::Strings(bytes.to_vec()),
            Body::Integers { width, bytes } => Changing::Integers(integers(width, bytes).collect()),
            Body::Elements { object, .. } => Changing::Elements(object),
        };
        let redis_packs_it = stored.redis_packs_it;
        let (db, limits) = (entry.physical(), txn.store().encoding_limits());
        Ok(Self { kind, db, limits, body, count: stored.len(), redis_packs_it, is_changed: false })
    }

    /// An empty dictionary, which replaces what a key has.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is too long: nothing has changed yet.
    pub fn new(txn: &Txn<'_>, entry: &Entry, kind: Kind) -> Result<Self> {
        entry.check_key_length()?;
        let body = match kind {
            Kind::Set => Changing::Integers(Vec::new()),
            _ => Changing::Strings(Vec::new()),
        };
        let (db, limits) = (entry.physical(), txn.store().encoding_limits());
        Ok(Self { kind, db, limits, body, count: 0, redis_packs_it: true, is_changed: true })
    }

    /// The number of fields.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sets fields to values, empty ones in a set; returns how many fields are new.
    ///
    /// # Errors
    /// Those of the engine; `InvalidArgument` for a field that is too long, see
    /// [`check_lengths`](super::elements::check_lengths).
    pub fn put_all(&mut self, txn: &mut Txn<'_>, pairs: &[(&[u8], &[u8])]) -> Result<u64> {
        let before = self.count;
        let mut rest = pairs;
        while let [(field, value), behind @ ..] = rest
            && !matches!(self.body, Changing::Elements(_))
        {
            self.put_packed(txn, field, value)?;
            rest = behind;
        }
        if let Changing::Elements(object) = self.body {
            for some in rest.chunks(LOOKUPS_AT_ONCE) {
                self.put_elements(txn, object, some)?;
            }
        }
        Ok(self.count - before)
    }

    /// Sets one field; `true` if it is new.
    ///
    /// # Errors
    /// As [`Edit::put_all`].
    pub fn put(&mut self, txn: &mut Txn<'_>, field: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.put_all(txn, &[(field, value)])? == 1)
    }

    /// Removes fields; returns how many were there.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn remove_all<F: AsRef<[u8]>>(&mut self, txn: &mut Txn<'_>, fields: &[F]) -> Result<u64> {
        let before = self.count;
        if let Changing::Elements(object) = self.body {
            for some in fields.chunks(LOOKUPS_AT_ONCE) {
                self.remove_elements(txn, object, some)?;
            }
        } else {
            for field in fields {
                self.remove_packed(field.as_ref())?;
            }
        }
        let removed = before - self.count;
        self.is_changed |= removed > 0;
        Ok(removed)
    }

    /// Notes that Redis keeps it unpacked, for a reason that its fields do not tell.
    pub fn redis_unpacks_it(&mut self) {
        self.is_changed |= self.redis_packs_it;
        self.redis_packs_it = false;
    }

    /// Writes the record with the expiry that it had, or deletes the key if nothing is left. Returns whether
    /// the key is there.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn save(self, txn: &mut Txn<'_>, entry: &mut Entry) -> Result<bool> {
        let expiry_ms = entry.expiry_ms();
        self.save_with_expiry(txn, entry, expiry_ms)
    }

    /// The same with this expiry.
    ///
    /// # Errors
    /// As [`Edit::save`].
    pub fn save_with_expiry(
        self,
        txn: &mut Txn<'_>,
        entry: &mut Entry,
        expiry_ms: Option<u64>,
    ) -> Result<bool> {
        if self.count == 0 {
            delete_key(txn, entry)?;
            return Ok(false);
        }
        if !self.is_changed && entry.expiry_ms() == expiry_ms {
            return Ok(true);
        }
        let mut payload = Vec::new();
        let flags = if self.redis_packs_it { REDIS_PACKS_IT } else { 0 };
        let (layout, own_object) = match &self.body {
            Changing::Strings(bytes) => {
                payload.push(flags);
                push_number(self.count, &mut payload);
                payload.extend_from_slice(bytes);
                (STRINGS, None)
            }
            Changing::Integers(integers) => {
                payload.push(flags);
                push_integers(integers, &mut payload);
                (INTEGERS, None)
            }
            Changing::Elements(object) => {
                payload.extend_from_slice(&object.to_le_bytes());
                payload.push(flags);
                push_number(self.count, &mut payload);
                (ELEMENTS, Some(*object))
            }
        };
        let old_object = entry.record().and_then(Record::object);
        if let Some(old) = old_object.filter(|old| own_object != Some(*old)) {
            txn.discard_object(old)?;
        }
        txn.set_record(entry, self.kind, layout, expiry_ms, &payload)?;
        Ok(true)
    }

    /// Counts a new field and keeps the flag of Redis' encoding.
    fn added(&mut self) {
        self.count += 1;
        self.is_changed = true;
        let most = match self.kind {
            Kind::Set => self.limits.set_max_intset_entries,
            _ => self.limits.hash_max_listpack_entries,
        };
        self.redis_packs_it &= self.count <= most as u64;
    }

    /// Keeps the flag when a field is set, new or not.
    fn note_put(&mut self, field: &[u8], value: &[u8]) {
        if !self.redis_packs_it {
            return;
        }
        let most = self.limits.hash_max_listpack_value;
        self.redis_packs_it = match self.kind {
            Kind::Set => parse_integer(field).is_some(),
            _ => field.len() <= most && value.len() <= most,
        };
        self.is_changed |= !self.redis_packs_it;
    }

    /// Sets a field of a packed dictionary, which perhaps is none afterwards.
    fn put_packed(&mut self, txn: &mut Txn<'_>, field: &[u8], value: &[u8]) -> Result<()> {
        if let Changing::Integers(integers) = &mut self.body {
            let integer = parse_integer(field);
            let place = integer.map(|integer| (integer, integers.binary_search(&integer)));
            match place {
                Some((_, Ok(_))) => return Ok(()),
                Some((integer, Err(at))) if integers.len() < MAX_PACKED_INTEGERS => {
                    integers.insert(at, integer);
                    self.added();
                    return Ok(());
                }
                _ => self.integers_to_strings(),
            }
        }
        self.note_put(field, value);
        let has_values = self.kind == Kind::Hash;
        let Changing::Strings(bytes) = &mut self.body else { return Err(malformed("packed set")) };
        let found = find_string(bytes, has_values, field)?;
        let (value_item, end) = match &found {
            Some(_) if !has_values => return Ok(()),
            Some(found) => (found.value_item, found.end),
            None => (bytes.len(), bytes.len()),
        };
        let is_new = found.is_none();
        let mut item = Vec::new();
        if is_new {
            push_string(field, &mut item);
        }
        let value_bytes = if has_values { string_bytes(value) } else { 0 };
        let bytes_after = bytes.len() - (end - value_item) + item.len() + value_bytes;
        let fields_after = self.count as usize + usize::from(is_new);
        if bytes_after > MAX_PACKED_BYTES || fields_after > MAX_PACKED_FIELDS {
            let object = self.strings_to_elements(txn)?;
            return self.put_elements(txn, object, &[(field, value)]);
        }
        if has_values {
            push_string(value, &mut item);
        }
        bytes.splice(value_item..end, item);
        self.is_changed = true;
        if is_new {
            self.added();
        }
        Ok(())
    }

    /// A set that is about to have something else than few integers. What is too large for packed strings
    /// stands in them only until the next field moves all to elements.
    fn integers_to_strings(&mut self) {
        let Changing::Integers(integers) = &self.body else { return };
        let mut bytes = Vec::new();
        let mut digits = Vec::new();
        for integer in integers {
            digits.clear();
            write_integer(*integer, &mut digits);
            push_string(&digits, &mut bytes);
        }
        self.body = Changing::Strings(bytes);
        self.is_changed = true;
    }

    fn strings_to_elements(&mut self, txn: &mut Txn<'_>) -> Result<u64> {
        let object = txn.store().new_object(self.db)?;
        let body = std::mem::replace(&mut self.body, Changing::Elements(object));
        let Changing::Strings(bytes) = body else { return Err(malformed("packed set")) };
        let mut rest = &bytes[..];
        while let Some(field) = take_string(&mut rest) {
            let value =
                if self.kind == Kind::Hash { take_string(&mut rest).unwrap_or_default() } else { &[] };
            put_element(txn, object, field, value)?;
        }
        self.is_changed = true;
        Ok(object)
    }

    fn put_elements(&mut self, txn: &mut Txn<'_>, object: u64, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let fields: Vec<&[u8]> = pairs.iter().map(|(field, _)| *field).collect();
        let stored = exist(txn, object, &fields)?;
        let mut added = BTreeSet::new();
        for ((field, value), is_stored) in pairs.iter().zip(stored) {
            self.note_put(field, value);
            let is_new = !is_stored && (pairs.len() == 1 || added.insert(*field));
            if is_new {
                self.added();
            }
            if is_new || self.kind == Kind::Hash {
                put_element(txn, object, field, value)?;
            }
        }
        Ok(())
    }

    fn remove_packed(&mut self, field: &[u8]) -> Result<()> {
        match &mut self.body {
            Changing::Strings(bytes) => {
                if let Some(found) = find_string(bytes, self.kind == Kind::Hash, field)? {
                    let range = found.item..found.end;
                    bytes.drain(range);
                    self.count -= 1;
                }
            }
            Changing::Integers(integers) => {
                let place = parse_integer(field).and_then(|integer| integers.binary_search(&integer).ok());
                if let Some(at) = place {
                    integers.remove(at);
                    self.count -= 1;
                }
            }
            Changing::Elements(_) => {}
        }
        Ok(())
    }

    fn remove_elements<F: AsRef<[u8]>>(
        &mut self,
        txn: &mut Txn<'_>,
        object: u64,
        fields: &[F],
    ) -> Result<()> {
        let stored = exist(txn, object, fields)?;
        let mut removed = BTreeSet::new();
        for (field, is_stored) in fields.iter().zip(stored) {
            let field = field.as_ref();
            if is_stored
                && (fields.len() == 1 || removed.insert(field))
                && let Some(key) = element_key(txn.store(), object, field)
            {
                txn.delete(Space::Elements, &key)?;
                self.count = self.count.checked_sub(1).ok_or_else(|| malformed("count of a hash or set"))?;
            }
        }
        Ok(())
    }
}

/// Which fields an object has.
fn exist<F: AsRef<[u8]>>(txn: &Txn<'_>, object: u64, fields: &[F]) -> Result<Vec<bool>> {
    if let [field] = fields {
        let key = element_key(txn.store(), object, field.as_ref());
        return Ok(vec![key.map_or(Ok(false), |key| txn.contains(Space::Elements, &key))?]);
    }
    Ok(lookup_some(txn, object, fields)?.iter().map(Option::is_some).collect())
}

fn put_element(txn: &mut Txn<'_>, object: u64, field: &[u8], value: &[u8]) -> Result<()> {
    let too_long = || Error::InvalidArgument("a field or member is too long".into());
    let key = element_key(txn.store(), object, field).ok_or_else(too_long)?;
    txn.put(Space::Elements, &key, value)
}
