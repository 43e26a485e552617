//! Keys and values: the same for every engine, and self-describing, so that every answer can be checked.
//!
//! Keys are in the order of their records, hold their record, and have an absent key between each two; values
//! begin with a tag of their key and their version, and the rest of a value follows from its tag. So a check
//! needs only the key. Forms of keys are [numbers](numbered) and [text](text), forms of values
//! [half compressible](half) and [JSON](json).

mod half;
mod hex;
mod json;
mod numbered;
mod random;
mod text;
mod zipf;

pub(crate) use random::{Permutation, Random, mix};
pub(crate) use zipf::Zipf;

use crate::engine::Batch;
use half::HalfValues;
use json::JsonValues;
use numbered::NumberedKeys;
use std::ops::RangeInclusive;
use text::TextKeys;

/// Lengths of keys that are numbers: the number must fit, and the buffer is on the stack.
pub(crate) const KEY_BYTES: RangeInclusive<usize> = 8..=64;
/// Bytes in which a key of any form is made: the longest text, of 80 bytes, and what the last copy of its
/// making writes beyond it.
pub(crate) const KEY_BUFFER_BYTES: usize = 96;
/// Lengths of half-compressible values: the tag must fit, and bodies are cut from a pool.
pub(crate) const VALUE_BYTES: RangeInclusive<usize> = 8..=half::POOL_BYTES / 2;
/// Bits of gaps that can be made: one tells absent keys, and 32 are left for the record's number.
pub(crate) const GAP_BITS: RangeInclusive<u32> = 1..=32;

/// Bits of a tag for the version; the others are for the key's mark.
const VERSION_BITS: u32 = 24;
/// Records whose keys are made for their mean length.
const MEASURED_KEYS: u64 = 10_000;

/// Form of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KeyForm {
    /// Numbers of one length.
    Numbered,
    /// Text of 20 to 80 bytes: addresses of pages, and fields of users.
    Text,
}

/// Form of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ValueForm {
    /// Bytes of one length that shrink to half.
    Half,
    /// JSON of 50 to 2,000 bytes.
    Json,
}

enum Keys {
    Numbered(NumberedKeys),
    Text(Box<TextKeys>),
}

enum Values {
    Half(HalfValues),
    Json(JsonValues),
}

/// Makes keys and values, and checks them.
pub(crate) struct Data {
    keys: Keys,
    values: Values,
}

impl Data {
    /// Half-compressible values of this seed, with dense keys that are numbers. Both lengths must be in their
    /// ranges.
    pub(crate) fn new(key_bytes: usize, value_bytes: usize, seed: u64) -> Data {
        let keys = NumberedKeys { key_bytes, gap_bits: *GAP_BITS.start() };
        Data { keys: Keys::Numbered(keys), values: Values::Half(HalfValues::new(value_bytes, seed)) }
    }

    /// The same with this many bits of gaps between keys that are numbers, within [`GAP_BITS`].
    pub(crate) fn with_gaps(mut self, gap_bits: u32) -> Data {
        if let Keys::Numbered(keys) = &mut self.keys {
            keys.gap_bits = gap_bits;
        }
        self
    }

    /// The same with keys that are text.
    pub(crate) fn with_text_keys(self, seed: u64) -> Data {
        Data { keys: Keys::Text(Box::new(TextKeys::new(seed))), ..self }
    }

    /// The same with values that are JSON.
    pub(crate) fn with_json_values(self, seed: u64) -> Data {
        Data { values: Values::Json(JsonValues::new(seed)), ..self }
    }

    /// Bytes of a key among so many records; the mean, rounded, where they differ.
    pub(crate) fn mean_key_bytes(&self, records: u64) -> usize {
        match &self.keys {
            Keys::Numbered(keys) => keys.key_bytes,
            Keys::Text(keys) => {
                let (mut buffer, measured) = ([0; KEY_BUFFER_BYTES], MEASURED_KEYS.min(records).max(1));
                let record_at =
                    |place: u64| place * (records / measured) + mix(place) % (records / measured).max(1);
                let sum: usize =
                    (0..measured).map(|place| keys.key(record_at(place), &mut buffer).len()).sum();
                (sum + measured as usize / 2) / measured as usize
            }
        }
    }

    /// Bytes of a value; the mean where they differ.
    pub(crate) fn mean_value_bytes(&self) -> usize {
        match &self.values {
            Values::Half(values) => values.value_bytes,
            Values::Json(values) => values.mean_bytes(),
        }
    }

    /// The key of a record.
    #[inline(always)]
    pub(crate) fn key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        match &self.keys {
            Keys::Numbered(keys) => keys.key(record, buffer),
            Keys::Text(keys) => keys.key(record, buffer),
        }
    }

    /// A key that is never stored, after that of this record and before the next.
    #[inline(always)]
    pub(crate) fn absent_key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        match &self.keys {
            Keys::Numbered(keys) => keys.absent_key(record, buffer),
            Keys::Text(keys) => keys.absent_key(record, buffer),
        }
    }

    /// The record of a stored key.
    #[inline(always)]
    pub(crate) fn record_of(&self, key: &[u8]) -> u64 {
        match &self.keys {
            Keys::Numbered(keys) => keys.record_of(key),
            Keys::Text(keys) => keys.record_of(key),
        }
    }

    /// Whether a key, of which this record was read, is whole: the length where all have one, else every byte
    /// for every 16th of the answers.
    #[inline(always)]
    pub(crate) fn check_key(&self, record: u64, key: &[u8], answer: u64) -> bool {
        match &self.keys {
            Keys::Numbered(keys) => key.len() == keys.key_bytes,
            Keys::Text(keys) => answer & 15 != 0 || key == keys.key(record, &mut [0; KEY_BUFFER_BYTES]),
        }
    }

    /// Bytes of a buffer in which every value can be made.
    #[inline(always)]
    pub(crate) fn most_value_bytes(&self) -> usize {
        match &self.values {
            Values::Half(values) => values.value_bytes,
            Values::Json(_) => json::MOST_JSON_BYTES,
        }
    }

    /// Bytes of a value.
    #[inline(always)]
    pub(crate) fn value_bytes(&self, record: u64, version: u64) -> usize {
        match &self.values {
            Values::Half(values) => values.value_bytes,
            Values::Json(values) => values.len(tag(record, version)),
        }
    }

    /// Makes a value at the beginning of a buffer of [`Data::most_value_bytes`] or of the value's own length,
    /// and returns it.
    #[inline(always)]
    pub(crate) fn value<'b>(&self, record: u64, version: u64, buffer: &'b mut [u8]) -> &'b [u8] {
        let tag = tag(record, version);
        match &self.values {
            Values::Half(values) => {
                values.fill(tag, buffer);
                buffer
            }
            Values::Json(values) => {
                let len = values.fill(tag, buffer);
                &buffer[..len]
            }
        }
    }

    /// The tag of a value whose length is right.
    #[inline(always)]
    fn tag_of(&self, value: &[u8]) -> Option<u64> {
        match &self.values {
            Values::Half(values) => values.tag_of(value),
            Values::Json(values) => values.tag_of(value),
        }
    }

    /// Whether a value belongs to this record, by length and tag; the last byte is read, too.
    #[inline(always)]
    pub(crate) fn belongs(&self, record: u64, value: &[u8]) -> bool {
        let Some(tag) = self.tag_of(value) else { return false };
        std::hint::black_box(value[value.len() - 1]);
        tag >> VERSION_BITS == (mark(record) << VERSION_BITS) >> VERSION_BITS
    }

    /// Whether every byte of a value is right for this record.
    pub(crate) fn is_whole(&self, record: u64, value: &[u8]) -> bool {
        let Some(tag) = self.tag_of(value) else { return false };
        let is_whole = match &self.values {
            Values::Half(values) => values.is_whole(tag, value),
            Values::Json(values) => values.is_whole(tag, value),
        };
        is_whole && self.belongs(record, value)
    }

    /// [`Data::is_whole`] for every 16th of the answers, [`Data::belongs`] for the others: checking must not
    /// be what is measured.
    #[inline(always)]
    pub(crate) fn check(&self, record: u64, value: &[u8], answer: u64) -> bool {
        if answer & 15 == 0 { self.is_whole(record, value) } else { self.belongs(record, value) }
    }

    /// The version in a value; 0 in what is no value.
    pub(crate) fn version_of(&self, value: &[u8]) -> u64 {
        self.tag_of(value).map_or(0, Data::stored_version)
    }

    /// The part of a version that a value stores.
    pub(crate) fn stored_version(version: u64) -> u64 {
        version & version_mask()
    }

    /// Fills `batch` with version 0 of these records.
    pub(crate) fn fill_batch(&self, batch: &mut Batch, records: impl Iterator<Item = u64>) {
        batch.clear();
        let mut buffer = [0; KEY_BUFFER_BYTES];
        for record in records {
            let value = batch.push(self.key(record, &mut buffer), self.value_bytes(record, 0));
            self.value(record, 0, value);
        }
    }
}

#[inline]
fn mark(record: u64) -> u64 {
    mix(record ^ 0x7461_6700)
}

#[inline]
fn tag(record: u64, version: u64) -> u64 {
    (mark(record) << VERSION_BITS) | Data::stored_version(version)
}

#[inline]
fn version_mask() -> u64 {
    (1 << VERSION_BITS) - 1
}

#[inline]
fn first_word(bytes: &[u8]) -> Option<[u8; 8]> {
    bytes.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::{Batch, Data, KEY_BUFFER_BYTES};

    fn value_of(data: &Data, record: u64, version: u64) -> Vec<u8> {
        let mut value = vec![0; data.most_value_bytes()];
        let len = data.value(record, version, &mut value).len();
        value.truncate(len);
        value
    }

    fn shapes() -> Vec<Data> {
        let lengths = [8, 9, 100, 1000, 4096];
        let mut shapes: Vec<Data> = lengths.into_iter().map(|bytes| Data::new(16, bytes, 7)).collect();
        shapes.push(Data::new(16, 100, 7).with_gaps(20).with_json_values(7));
        shapes.push(Data::new(16, 100, 7).with_text_keys(7).with_json_values(7));
        shapes
    }

    #[test]
    fn values_are_recognized_and_damage_is_seen() {
        for data in shapes() {
            for record in 5..100 {
                let mut value = value_of(&data, record, 3);
                assert_eq!(value.len(), data.value_bytes(record, 3));
                assert!(data.is_whole(record, &value));
                assert!(!data.belongs(record + 1, &value), "another record's value");
                assert!(!data.is_whole(record + 1, &value), "another record's value");
                assert_eq!(data.version_of(&value), 3);
                for place in (8..value.len()).rev().step_by(7) {
                    value[place] ^= 1;
                    assert!(
                        !data.is_whole(record, &value),
                        "a flipped bit at {place} of {} bytes",
                        value.len()
                    );
                    value[place] ^= 1;
                }
                assert!(!data.belongs(record, &value[1..]), "a byte is missing");
                assert!(!data.belongs(record, &value[..value.len() - 1]), "a byte is missing");
                assert!((0..value.len()).all(|len| data.version_of(&value[..len]) <= 0xff_ffff));
            }
        }
    }

    #[test]
    fn keys_are_in_the_order_of_records_with_absent_ones_between() {
        for (key_bytes, gap_bits) in [(8, 1), (9, 1), (16, 24), (64, 32)] {
            let data = Data::new(key_bytes, 8, 7).with_gaps(gap_bits);
            let (mut one, mut other) = ([0; KEY_BUFFER_BYTES], [0; KEY_BUFFER_BYTES]);
            for record in 0..2000u64 {
                let key = data.key(record, &mut one).to_vec();
                assert_eq!(key.len(), key_bytes);
                assert!(key.as_slice() < data.absent_key(record, &mut other));
                assert!(data.absent_key(record, &mut other) < data.key(record + 1, &mut one));
                assert_eq!(data.record_of(&key), record);
            }
        }
    }

    #[test]
    fn damaged_keys_are_seen() {
        for data in shapes() {
            let mut buffer = [0; KEY_BUFFER_BYTES];
            for record in [0, 7, 70_000] {
                let key = data.key(record, &mut buffer).to_vec();
                assert!(data.check_key(record, &key, 0) && data.check_key(record, &key, 1));
                assert!(!data.check_key(record, &key[..key.len() - 1], 0));
                let last = key.len() - 1;
                assert!(data.record_of(&key[..3]) == u64::MAX && data.record_of(&key[..last]) == record);
            }
        }
    }

    #[test]
    fn a_batch_has_the_requested_records() {
        for data in shapes() {
            let mut batch = Batch::default();
            data.fill_batch(&mut batch, [3u64, 1, 90_000].into_iter());
            assert_eq!(batch.len(), 3);
            let records: Vec<u64> = batch.iter().map(|(key, _)| data.record_of(key)).collect();
            assert_eq!(records, [3, 1, 90_000]);
            assert!(batch.iter().zip(records).all(|((_, value), record)| data.is_whole(record, value)));
        }
    }

    #[test]
    fn means_are_those_of_the_records() {
        let records = 200_000;
        for data in shapes() {
            let mut buffer = [0; KEY_BUFFER_BYTES];
            let (mut keys, mut values) = (0, 0);
            for record in 0..records {
                keys += data.key(record, &mut buffer).len();
                values += data.value_bytes(record, 0);
            }
            assert!(data.mean_key_bytes(records).abs_diff(keys / records as usize) <= 1);
            assert!(data.mean_value_bytes().abs_diff(values / records as usize) <= 10);
        }
    }
}
