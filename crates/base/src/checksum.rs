//! Checksums and the key hash. All of them are persisted: their definitions never change.

use xxhash_rust::xxh3;

/// CRC-32C (Castagnoli) of `bytes`: log and manifest records.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of what `crc` covered followed by `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// XXH3-64 of `bytes`: blocks and sections of table files.
#[inline]
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    xxh3::xxh3_64(bytes)
}

/// The hash of a user key (XXH3-64, seed 0): computed once for a lookup; filters and block fingerprints use it.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3::xxh3_64(key)
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
}
