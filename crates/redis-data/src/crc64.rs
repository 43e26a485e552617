//! CRC-64 of the Jones polynomial, reflected, without initial value or final complement: the checksum of
//! DUMP.

use crc::{CRC_64_REDIS, Crc, Table};

/// Takes 16 bytes at a time, by tables of 32 KiB. With one table it would be five times slower.
static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Checksum of `bytes`.
///
/// ```
/// assert_eq!(esker_redis_data::crc64::checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
/// ```
pub fn checksum(bytes: &[u8]) -> u64 {
    CRC.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polynomial with its bits reversed, as a reflected CRC uses it.
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();

    fn bit_by_bit(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |crc, byte| {
            let shift = |crc: u64, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            (0..8).fold(crc ^ u64::from(*byte), shift)
        })
    }

    #[test]
    fn many_bytes_at_a_time_give_what_single_bits_give() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * 37 + 11) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(checksum(&bytes[..len]), bit_by_bit(&bytes[..len]), "{len} bytes");
        }
    }
}
