//! Keys and values: the same for every engine, and self-describing, so that every answer can be checked.
//!
//! A stored key is an even number, big-endian, followed by a hash of it up to the key's length; the odd
//! number after it is an absent key, which lies before the next present one. The number is the record's own,
//! followed by random bits for the gaps between keys: with one bit the keys are dense. A value begins with a
//! tag of its key and its version; the rest of it follows from the tag and compresses to about half. So a
//! check needs only the key.

mod random;
mod zipf;

pub(crate) use random::{Permutation, Random, mix};
pub(crate) use zipf::Zipf;

use crate::engine::Batch;
use std::ops::RangeInclusive;

/// Lengths of keys that can be made: the number must fit, and the buffer is on the stack.
pub(crate) const KEY_BYTES: RangeInclusive<usize> = 8..=64;
pub(crate) const KEY_BUFFER_BYTES: usize = *KEY_BYTES.end();
/// Lengths of values that can be made: the tag must fit, and bodies are cut from a pool.
pub(crate) const VALUE_BYTES: RangeInclusive<usize> = 8..=POOL_BYTES / 2;
/// Bits of gaps that can be made: one tells absent keys, and 32 are left for the record's number.
pub(crate) const GAP_BITS: RangeInclusive<u32> = 1..=32;

/// Bytes that values are cut from. Few enough to stay in a core's L2 cache beside what a store needs there:
/// with 1 MiB, copying a value waited for memory and took a quarter of a put of the fastest store. Many
/// enough that a block of 4 KiB seldom has the same body twice, and one of 32 KiB has one in twenty twice, so
/// that codecs find no more than the intended half.
const POOL_BYTES: usize = 256 << 10;
/// Bits of a tag for the version; the others are for the key's mark.
const VERSION_BITS: u32 = 24;
const TAG_BYTES: usize = 8;

/// Makes keys and values, and checks them.
pub(crate) struct Data {
    /// Bytes of a key.
    pub(crate) key_bytes: usize,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Bits after a record's number, all but the last of them random.
    gap_bits: u32,
    pool: Vec<u8>,
    /// Bytes of a fragment of the pool; bodies begin where fragments do.
    fragment_bytes: usize,
    /// Number of fragments at which a body can begin.
    starts: u64,
}

impl Data {
    /// The data of this seed, with dense keys. Both lengths must be in their ranges.
    pub(crate) fn new(key_bytes: usize, value_bytes: usize, seed: u64) -> Data {
        let body = value_bytes - TAG_BYTES;
        // The second half of a fragment repeats the first: an LZ codec halves it.
        let mut half = vec![0u8; (body / 2).clamp(1, 50)];
        let fragment_bytes = half.len() * 2;
        let mut random = Random::new(seed ^ 0x70_6f_6f_6c);
        let mut pool = Vec::with_capacity(POOL_BYTES + fragment_bytes);
        while pool.len() < POOL_BYTES {
            for chunk in half.chunks_mut(8) {
                let word = random.next().to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        let starts = ((POOL_BYTES - body) / fragment_bytes) as u64;
        Data { key_bytes, value_bytes, gap_bits: *GAP_BITS.start(), pool, fragment_bytes, starts }
    }

    /// The same with this many bits of gaps between keys, within [`GAP_BITS`].
    pub(crate) fn with_gaps(self, gap_bits: u32) -> Data {
        Data { gap_bits, ..self }
    }

    /// The key of a record.
    #[inline]
    pub(crate) fn key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        self.key_of_number(self.number_of(record), buffer)
    }

    /// A key that is never stored, after that of this record and before the next.
    #[inline]
    pub(crate) fn absent_key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        self.key_of_number(self.number_of(record) | 1, buffer)
    }

    #[inline]
    fn number_of(&self, record: u64) -> u64 {
        let random = mix(record ^ 0x6761_7073) & ((1 << self.gap_bits) - 1) & !1;
        (record << self.gap_bits) | random
    }

    #[inline]
    fn key_of_number<'b>(&self, number: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        let key = &mut buffer[..self.key_bytes];
        let (head, tail) = key.split_at_mut(8);
        head.copy_from_slice(&number.to_be_bytes());
        let mut hash = mix(number);
        for chunk in tail.chunks_mut(8) {
            chunk.copy_from_slice(&hash.to_le_bytes()[..chunk.len()]);
            hash = mix(hash);
        }
        key
    }

    /// The record of a stored key.
    #[inline]
    pub(crate) fn record_of(&self, key: &[u8]) -> u64 {
        first_word(key).map_or(u64::MAX, |word| u64::from_be_bytes(word) >> self.gap_bits)
    }

    /// Fills `value`, which must have the length of values.
    #[inline]
    pub(crate) fn fill_value(&self, record: u64, version: u64, value: &mut [u8]) {
        let tag = (mark(record) << VERSION_BITS) | Data::stored_version(version);
        let (head, body) = value.split_at_mut(TAG_BYTES);
        head.copy_from_slice(&tag.to_le_bytes());
        body.copy_from_slice(self.body(tag));
    }

    #[inline]
    fn body(&self, tag: u64) -> &[u8] {
        let start = ((u128::from(mix(tag)) * u128::from(self.starts)) >> 64) as usize * self.fragment_bytes;
        &self.pool[start..start + self.value_bytes - TAG_BYTES]
    }

    /// Whether a value belongs to this record, by length and tag; the last byte is read, too.
    #[inline]
    pub(crate) fn belongs(&self, record: u64, value: &[u8]) -> bool {
        if value.len() != self.value_bytes {
            return false;
        }
        std::hint::black_box(value[value.len() - 1]);
        tag_of(value) >> VERSION_BITS == (mark(record) << VERSION_BITS) >> VERSION_BITS
    }

    /// Whether every byte of a value is right for this record.
    pub(crate) fn is_whole(&self, record: u64, value: &[u8]) -> bool {
        self.belongs(record, value) && value[TAG_BYTES..] == *self.body(tag_of(value))
    }

    /// [`Data::is_whole`] for every 16th of the answers, [`Data::belongs`] for the others: checking must not
    /// be what is measured.
    #[inline]
    pub(crate) fn check(&self, record: u64, value: &[u8], answer: u64) -> bool {
        if answer & 15 == 0 { self.is_whole(record, value) } else { self.belongs(record, value) }
    }

    /// The version in a value.
    pub(crate) fn version_of(value: &[u8]) -> u64 {
        tag_of(value) & version_mask()
    }

    /// The part of a version that a value stores.
    pub(crate) fn stored_version(version: u64) -> u64 {
        version & version_mask()
    }

    /// Fills `batch` with version 0 of these records.
    pub(crate) fn fill_batch(&self, batch: &mut Batch, records: impl Iterator<Item = u64>) {
        batch.clear(self.key_bytes, self.value_bytes);
        let mut buffer = [0; KEY_BUFFER_BYTES];
        for record in records {
            let value = batch.push(self.key(record, &mut buffer));
            self.fill_value(record, 0, value);
        }
    }
}

#[inline]
fn mark(record: u64) -> u64 {
    mix(record ^ 0x7461_6700)
}

#[inline]
fn version_mask() -> u64 {
    (1 << VERSION_BITS) - 1
}

#[inline]
fn tag_of(value: &[u8]) -> u64 {
    first_word(value).map_or(0, u64::from_le_bytes)
}

#[inline]
fn first_word(bytes: &[u8]) -> Option<[u8; 8]> {
    bytes.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::{Batch, Data, KEY_BUFFER_BYTES};

    #[test]
    fn values_are_recognized_and_damage_is_seen() {
        for value_bytes in [8, 9, 100, 1000] {
            let data = Data::new(16, value_bytes, 7);
            let mut value = vec![0; value_bytes];
            data.fill_value(5, 3, &mut value);
            assert!(data.is_whole(5, &value));
            assert!(!data.belongs(6, &value), "another record's value");
            assert_eq!(Data::version_of(&value), 3);
            if value_bytes > 8 {
                value[value_bytes - 1] ^= 1;
                assert!(data.belongs(5, &value));
                assert!(!data.is_whole(5, &value), "a flipped bit in the last of {value_bytes} bytes");
            }
            assert!(!data.belongs(5, &value[1..]), "a byte is missing");
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
    fn a_batch_has_the_requested_records() {
        let data = Data::new(16, 100, 7);
        let mut batch = Batch::default();
        data.fill_batch(&mut batch, [3u64, 1].into_iter());
        assert_eq!(batch.len(), 2);
        let records: Vec<u64> = batch.iter().map(|(key, _)| data.record_of(key)).collect();
        assert_eq!(records, [3, 1]);
        assert!(batch.iter().zip(records).all(|((_, value), record)| data.is_whole(record, value)));
    }
}
