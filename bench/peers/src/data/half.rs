//! Values of one length that compress to about half: a tag, and a body cut from a pool at a place that
//! follows from the tag.

use super::first_word;
use super::random::{Random, mix};

/// Bytes that values are cut from. Few enough to stay in a core's L2 cache beside what a store needs there:
/// with 1 MiB, copying a value waited for memory and took a quarter of a put of the fastest store. Many
/// enough that a block of 4 KiB seldom has the same body twice, and one of 32 KiB has one in twenty twice, so
/// that codecs find no more than the intended half.
pub(super) const POOL_BYTES: usize = 256 << 10;
pub(super) const TAG_BYTES: usize = 8;

/// Half-compressible values.
pub(super) struct HalfValues {
    /// Bytes of a value.
    pub(super) value_bytes: usize,
    pool: Vec<u8>,
    /// Bytes of a fragment of the pool; bodies begin where fragments do.
    fragment_bytes: usize,
    /// Number of fragments at which a body can begin.
    starts: u64,
}

impl HalfValues {
    pub(super) fn new(value_bytes: usize, seed: u64) -> HalfValues {
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
        HalfValues { value_bytes, pool, fragment_bytes, starts }
    }

    /// Fills `value`, which must have the length of values.
    #[inline]
    pub(super) fn fill(&self, tag: u64, value: &mut [u8]) {
        let (head, body) = value.split_at_mut(TAG_BYTES);
        head.copy_from_slice(&tag.to_le_bytes());
        body.copy_from_slice(self.body(tag));
    }

    #[inline]
    fn body(&self, tag: u64) -> &[u8] {
        let start = ((u128::from(mix(tag)) * u128::from(self.starts)) >> 64) as usize * self.fragment_bytes;
        &self.pool[start..start + self.value_bytes - TAG_BYTES]
    }

    /// The tag of a value of the right length.
    #[inline]
    pub(super) fn tag_of(&self, value: &[u8]) -> Option<u64> {
        if value.len() != self.value_bytes {
            return None;
        }
        first_word(value).map(u64::from_le_bytes)
    }

    /// Whether the body of a value of the right length follows from its tag.
    pub(super) fn is_whole(&self, tag: u64, value: &[u8]) -> bool {
        value[TAG_BYTES..] == *self.body(tag)
    }
}
