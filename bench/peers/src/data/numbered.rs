//! Keys that are numbers: big-endian, followed by a hash up to the key's length.
//!
//! A stored key is an even number; the odd number after it is an absent key, which lies before the next
//! present one. The number is the record's own, followed by random bits for the gaps between keys: with one
//! bit the keys are dense. With gaps of 20 bits they are as a log's, whose entries are named by a time in
//! microseconds, about a second apart.

use super::random::mix;
use super::{KEY_BUFFER_BYTES, first_word};

/// Keys of one length.
pub(super) struct NumberedKeys {
    /// Bytes of a key.
    pub(super) key_bytes: usize,
    /// Bits after a record's number, all but the last of them random.
    pub(super) gap_bits: u32,
}

impl NumberedKeys {
    #[inline]
    pub(super) fn key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        self.key_of_number(self.number_of(record), buffer)
    }

    #[inline]
    pub(super) fn absent_key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
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

    #[inline]
    pub(super) fn record_of(&self, key: &[u8]) -> u64 {
        first_word(key).map_or(u64::MAX, |word| u64::from_be_bytes(word) >> self.gap_bits)
    }
}
