//! Checksums and the key hash. All of them are persisted: their definitions never change.

use xxhash_rust::xxh3;

/// CRC-32C (Castagnoli) of `bytes`: log and manifest records.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of the bytes that `crc` covers, followed by `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// XXH3-64 of `bytes`: blocks and sections of table files.
#[inline]
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    xxh3::xxh3_64(bytes)
}

/// Streaming XXH3-64: the same value as [`xxh3_64`] of all pieces together.
#[derive(Clone)]
pub struct StreamHash(xxhash_rust::xxh3::Xxh3);

impl StreamHash {
    /// The hash of no bytes.
    pub fn new() -> StreamHash {
        StreamHash(xxhash_rust::xxh3::Xxh3::new())
    }

    /// Adds the next piece.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all pieces.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl Default for StreamHash {
    fn default() -> StreamHash {
        StreamHash::new()
    }
}

impl std::fmt::Debug for StreamHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamHash({:016x})", self.finish())
    }
}

/// The hash of a user key (XXH3-64, seed 0): computed once for a lookup; filters and block fingerprints use
/// it.
///
/// Keys of 9 to 16 bytes, the most common lengths, take a dozen inlined instructions: the library's function
/// is a call that dispatches on seven length classes.
#[inline(always)]
pub fn key_hash(key: &[u8]) -> u64 {
    /// Secret words that XXH3 mixes into inputs of this length: words 3 and 4, and 5 and 6.
    const LOW_SECRET: u64 = 0x6782_737b_ea42_39b9;
    const HIGH_SECRET: u64 = 0xaf56_bc3b_0996_523a;
    const AVALANCHE: u64 = 0x1656_6791_9e37_79f9;
    let (9..=16, Some(first), Some(last)) = (key.len(), key.first_chunk(), key.last_chunk()) else {
        return xxh3::xxh3_64(key);
    };
    let low = u64::from_le_bytes(*first) ^ LOW_SECRET;
    let high = u64::from_le_bytes(*last) ^ HIGH_SECRET;
    let product = u128::from(low) * u128::from(high);
    let folded = product as u64 ^ (product >> 64) as u64;
    let sum = (key.len() as u64).wrapping_add(low.swap_bytes()).wrapping_add(high).wrapping_add(folded);
    let hash = (sum ^ sum >> 37).wrapping_mul(AVALANCHE);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 3720 B.4 and the XXH3 reference vectors.
        assert_eq!(crc32c(&[0u8; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(xxh3_64(b""), 0x2d06_8005_38d3_94c2);
    }

    #[test]
    fn keys_of_every_length_hash_as_the_library_hashes() {
        let bytes: Vec<u8> = (0..300u32).map(|at| (at * at * 7 + at) as u8).collect();
        for len in 0..=200 {
            for start in 0..100 {
                let key = &bytes[start..start + len];
                assert_eq!(key_hash(key), xxh3_64(key), "{key:?}");
            }
        }
    }
}
