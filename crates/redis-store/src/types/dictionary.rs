//! Dictionaries: values by field, packed in the record while small, else entries placed by hash. Hashes and
//! sets lie in them; a set has no values.
//!
//! # Layouts
//! Numbers `v` and strings are those of [`packed`](super::packed); other numbers are little-endian.
//!
//! | layout | of | payload |
//! |---|---|---|
//! | 0, strings | hashes, sets | flags (1), `v` count, per field its string and in a hash the value's |
//! | 1, integers | sets | flags (1), bytes of an integer (1): 2, 4 or 8; the integers, ascending |
//! | 8, elements | hashes, sets | object (8), flags (1), `v` count |
//!
//! An element's key is its object, the field's hash in eight bytes, big-endian, and the field; its value is
//! the field's value, and nothing in a set. The hash is `xxh3_64` with the seed of the store, so clients
//! cannot choose fields that meet.
//!
//! Flags: bit 7 is set while Redis would keep the value as listpack or intset. It is cleared for ever by what
//! makes Redis convert the value, whatever the layout is here, so that OBJECT ENCODING answers as Redis does.
//!
//! # What holds
//! * KD1. The count in the payload is the number of fields.
//! * KD2. A dictionary is never empty: with its last field the key is deleted.
//! * KD3. Elements are never packed again, so a scan by hash that has begun stays valid.
//!
//! # Map
//! [`items`] reads fields in order; [`elements`] has the keys of elements; [`random`] picks; [`edit`]
//! changes.

pub mod edit;
pub mod elements;
pub mod items;
pub mod random;

use super::malformed;
use super::packed::{take_number, take_string};
use crate::entry::Entry;
use crate::layout::Space;
use crate::record::{Kind, Record};
use crate::txn::Txn;
use elements::{element_key, hash_of, range_from, range_of};
use esker::{Result, Value};
use esker_resp::integer::parse_integer;
use items::{Items, Piece, integers};

/// Fields and values as strings in the record.
pub const STRINGS: u8 = 0;

/// Integers in the record.
pub const INTEGERS: u8 = 1;

/// Elements by hash.
pub const ELEMENTS: u8 = crate::record::FIRST_OBJECT_LAYOUT;

/// Redis would keep the value as listpack or intset.
const REDIS_PACKS_IT: u8 = 0x80;

/// Fields of a packed dictionary, at most.
pub const MAX_PACKED_FIELDS: usize = 128;

/// Bytes of packed strings, at most: a change writes all of them.
pub const MAX_PACKED_BYTES: usize = 1024;

/// Integers of a packed set, at most, which take 4 KiB: as many as Redis packs, so that the order in which
/// they are read is that of Redis.
pub const MAX_PACKED_INTEGERS: usize = 512;

/// Fields that are looked up together.
const LOOKUPS_AT_ONCE: usize = 256;

/// Bytes of fields and values after which a step of a scan ends.
const SCAN_STEP_BYTES: usize = 1 << 20;

/// A dictionary as its record has it, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary<'r> {
    has_values: bool,
    redis_packs_it: bool,
    body: Body<'r>,
}

/// Where the fields lie.
#[derive(Clone, Copy, Debug)]
enum Body<'r> {
    Strings { count: u64, bytes: &'r [u8] },
    Integers { width: usize, bytes: &'r [u8] },
    Elements { object: u64, count: u64 },
}

impl<'r> Dictionary<'r> {
    /// The dictionary of a key; an empty one if the key is not there. The key's type has been checked.
    ///
    /// # Errors
    /// `Internal` if the record is malformed.
    pub fn of(entry: &'r Entry, kind: Kind) -> Result<Self> {
        match entry.record() {
            Some(record) => Self::open(record),
            None => Ok(Self {
                has_values: kind == Kind::Hash,
                redis_packs_it: true,
                body: Body::Strings { count: 0, bytes: &[] },
            }),
        }
    }

    /// The dictionary of a record.
    ///
    /// # Errors
    /// `Internal` if the record is malformed.
    pub fn open(record: &'r Record) -> Result<Self> {
        Self::decode(record).ok_or_else(|| malformed("hash or set"))
    }

    fn decode(record: &'r Record) -> Option<Self> {
        let has_values = match record.kind() {
            Kind::Hash => true,
            Kind::Set => false,
            _ => return None,
        };
        let mut rest = record.payload();
        if record.object().is_some() {
            rest = rest.get(8..)?;
        }
        let (flags, mut rest) = rest.split_first()?;
        let body = match record.layout() {
            STRINGS => Body::Strings { count: take_number(&mut rest)?, bytes: rest },
            INTEGERS => {
                let (width, bytes) = rest.split_first()?;
                let width = usize::from(*width);
                let fits = matches!(width, 2 | 4 | 8) && bytes.len().is_multiple_of(width);
                fits.then_some(Body::Integers { width, bytes })?
            }
            ELEMENTS => Body::Elements { object: record.object()?, count: take_number(&mut rest)? },
            _ => return None,
        };
        Some(Self { has_values, redis_packs_it: flags & REDIS_PACKS_IT != 0, body })
    }

    /// The number of fields.
    pub fn len(&self) -> u64 {
        match self.body {
            Body::Strings { count, .. } | Body::Elements { count, .. } => count,
            Body::Integers { width, bytes } => (bytes.len() / width) as u64,
        }
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it as listpack or intset.
    pub fn redis_packs_it(&self) -> bool {
        self.redis_packs_it
    }

    /// The value of a field.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn get<'t>(&self, txn: &'t Txn<'_>, field: &[u8]) -> Result<Option<Piece<'t>>>
    where
        'r: 't,
    {
        match self.body {
            Body::Strings { bytes, .. } => {
                let found = find_string(bytes, self.has_values, field)?;
                Ok(found.map(|found| Piece::Slice(found.value)))
            }
            Body::Integers { width, bytes } => {
                Ok(has_integer(width, bytes, field).then_some(Piece::Slice(&[])))
            }
            Body::Elements { object, .. } => {
                let Some(key) = element_key(txn.store(), object, field) else { return Ok(None) };
                Ok(txn.get(Space::Elements, &key)?.map(Piece::stored))
            }
        }
    }

    /// Whether a field is there.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn contains(&self, txn: &Txn<'_>, field: &[u8]) -> Result<bool> {
        if let Body::Elements { object, .. } = self.body {
            let Some(key) = element_key(txn.store(), object, field) else { return Ok(false) };
            return txn.contains(Space::Elements, &key);
        }
        Ok(self.get(txn, field)?.is_some())
    }

    /// Calls `each` with the value of each of some fields, in their order.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn get_each<F: AsRef<[u8]>>(
        &self,
        txn: &Txn<'_>,
        fields: &[F],
        mut each: impl FnMut(Option<&[u8]>),
    ) -> Result<()> {
        let Body::Elements { object, .. } = self.body else {
            for field in fields {
                each(self.get(txn, field.as_ref())?.as_deref());
            }
            return Ok(());
        };
        for some in fields.chunks(LOOKUPS_AT_ONCE) {
            for value in lookup_some(txn, object, some)? {
                each(value.as_deref());
            }
        }
        Ok(())
    }

    /// All fields with their values: packed strings in the order in which they came, integers ascending,
    /// elements by hash.
    pub fn items<'t>(&self, txn: &'t Txn<'_>) -> Items<'t>
    where
        'r: 't,
    {
        match self.body {
            Body::Strings { bytes, .. } => Items::strings(bytes, self.has_values),
            Body::Integers { width, bytes } => Items::integers(width, bytes),
            Body::Elements { object, .. } => {
                let (first, end) = range_of(object);
                Items::elements(txn.range(Space::Elements, first..end))
            }
        }
    }

    /// The fields whose hashes are in a range, its ends included, with their hashes in no order.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn fields_by_hash(&self, txn: &Txn<'_>, first: u64, last: u64) -> Result<Vec<Vec<u8>>> {
        let mut fields = Vec::new();
        let items = match self.body {
            Body::Elements { object, .. } => {
                Items::elements(txn.range(Space::Elements, elements::hash_range(object, first, last)))
            }
            _ => self.items(txn),
        };
        for item in items {
            let (field, _) = item?;
            if (first..=last).contains(&hash_of(txn.store(), &field)) {
                fields.push(field.to_vec());
            }
        }
        Ok(fields)
    }

    /// One step of a scan that began with cursor 0: calls `each` with about `count` fields and their values,
    /// and returns the next cursor, 0 at the end.
    ///
    /// A cursor is the hash of the next field, so it needs no memory here, and what is there all the time is
    /// met, whatever else is added or removed meanwhile. Fields of the same hash come in one step, and so do
    /// all of a packed dictionary.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn scan(
        &self,
        txn: &Txn<'_>,
        cursor: u64,
        count: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let Body::Elements { object, .. } = self.body else {
            for item in self.items(txn) {
                let (field, value) = item?;
                each(&field, &value);
            }
            return Ok(0);
        };
        let (mut met, mut bytes, mut last) = (0, 0, None);
        for entry in txn.range(Space::Elements, range_from(object, cursor)) {
            let (key, value) = entry?;
            let (hash, field) = elements::place_of(&key).ok_or_else(|| malformed("element"))?;
            if last != Some(hash) && (met >= count || bytes >= SCAN_STEP_BYTES) {
                return Ok(hash);
            }
            each(field, &value);
            last = Some(hash);
            met += 1;
            bytes += field.len() + value.len();
        }
        Ok(0)
    }
}

/// The values of a few fields of an object.
fn lookup_some<F: AsRef<[u8]>>(txn: &Txn<'_>, object: u64, fields: &[F]) -> Result<Vec<Option<Value>>> {
    let keys: Vec<_> = fields.iter().map(|field| element_key(txn.store(), object, field.as_ref())).collect();
    if keys.iter().all(Option::is_some) {
        let keys: Vec<_> = keys.into_iter().flatten().collect();
        return txn.multi_get(Space::Elements, &keys);
    }
    let get = |key: Option<Vec<u8>>| key.map_or(Ok(None), |key| txn.get(Space::Elements, &key));
    keys.into_iter().map(get).collect()
}

/// Where a field lies in packed strings: offsets of its item, of its value's item, and of the next.
struct FoundString<'r> {
    item: usize,
    value_item: usize,
    end: usize,
    value: &'r [u8],
}

fn find_string<'r>(bytes: &'r [u8], has_values: bool, field: &[u8]) -> Result<Option<FoundString<'r>>> {
    let broken = || malformed("packed hash or set");
    let mut rest = bytes;
    while !rest.is_empty() {
        let item = bytes.len() - rest.len();
        let name = take_string(&mut rest).ok_or_else(broken)?;
        let value_item = bytes.len() - rest.len();
        let value = if has_values { take_string(&mut rest).ok_or_else(broken)? } else { &[] };
        if name == field {
            return Ok(Some(FoundString { item, value_item, end: bytes.len() - rest.len(), value }));
        }
    }
    Ok(None)
}

fn has_integer(width: usize, bytes: &[u8], field: &[u8]) -> bool {
    let Some(wanted) = parse_integer(field) else { return false };
    let count = bytes.len() / width;
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(found) = integers(width, &bytes[middle * width..]).next() else { return false };
        match found.cmp(&wanted) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    false
}
