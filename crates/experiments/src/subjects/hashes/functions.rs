//! The hash functions behind one trait. Each is compiled into loops of its own, so that the trait adds no
//! call.

use crate::keys::{push_decimal, scatter};
use std::hash::{BuildHasher, Hasher};

pub(super) const SHARDS: usize = 16;

trait Function {
    /// The hash of some bytes. Functions of fewer than 64 bits leave the low ones zero.
    fn hash(bytes: &[u8]) -> u64;
}

/// A function with the loops around it.
pub(super) struct HashFunction {
    pub(super) name: &'static str,
    /// Hashes so many bytes of a buffer in pieces of one length.
    pub(super) pieces: fn(buffer: &[u8], length: usize, bytes: usize) -> u64,
    /// Hashes so many pieces, each at a place that depends on the hash before.
    pub(super) chain: fn(buffer: &[u8], length: usize, count: usize) -> u64,
    /// How many of so many keys each shard gets.
    pub(super) count: fn(kind: KeyKind, count: u64) -> [u64; SHARDS],
    /// The hash of some bytes, for measurements without a clock.
    pub(super) hash: fn(bytes: &[u8]) -> u64,
    /// Bits of the function's value, from the highest of [`HashFunction::hash`] on.
    pub(super) bits: u32,
}

/// Keys whose balance is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// Sixteen random bytes: any function that preserves their entropy is balanced on these.
    Random,
    /// `user:` and a number of ten digits that counts up.
    Decimal,
    /// A big-endian number of eight bytes that counts up.
    Counter,
}

impl KeyKind {
    pub(super) const ALL: [KeyKind; 3] = [KeyKind::Random, KeyKind::Decimal, KeyKind::Counter];

    pub(super) const fn name(self) -> &'static str {
        match self {
            KeyKind::Random => "random",
            KeyKind::Decimal => "user:%010d",
            KeyKind::Counter => "counter",
        }
    }

    /// Makes `key` the key of this number; different numbers have different keys.
    pub(super) fn write(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        match self {
            KeyKind::Random => {
                let (low, high) = (scatter(number), scatter(!number));
                key.extend_from_slice(&(u128::from(low) << 64 | u128::from(high)).to_le_bytes());
            }
            KeyKind::Decimal => {
                key.extend_from_slice(b"user:");
                push_decimal(number, 10, key);
            }
            KeyKind::Counter => key.extend_from_slice(&number.to_be_bytes()),
        }
    }
}

macro_rules! subjects {
    ($($name:literal $bits:literal $function:ident $bytes:ident => $hash:expr;)*) => {
        $(
            struct $function;
            impl Function for $function {
                #[inline(always)]
                fn hash($bytes: &[u8]) -> u64 {
                    $hash
                }
            }
        )*
        impl HashFunction {
            pub(super) const ALL: &[HashFunction] = &[$(HashFunction {
                name: $name,
                pieces: pieces::<$function>,
                chain: chain::<$function>,
                count: count::<$function>,
                hash: <$function as Function>::hash,
                bits: $bits,
            }),*];
        }
    };
}

const SEED: u64 = 0x5EED;

subjects! {
    "xxh3-64" 64 Xxh3 bytes => esker::parts::base::checksum::xxh3_64(bytes);
    "xxh3-128" 64 Xxh3Wide bytes => (xxhash_rust::xxh3::xxh3_128(bytes) >> 64) as u64;
    "xxh64" 64 Xxh64 bytes => xxhash_rust::xxh64::xxh64(bytes, SEED);
    "rapidhash" 64 Rapid bytes => finish(rapidhash::fast::RapidHasher::new(SEED), bytes);
    "foldhash-fast" 64 FoldFast bytes => finish(foldhash::fast::FixedState::with_seed(SEED).build_hasher(), bytes);
    "foldhash-quality" 64 FoldQuality bytes => finish(foldhash::quality::FixedState::with_seed(SEED).build_hasher(), bytes);
    "ahash" 64 Ahash bytes => finish(ahash::RandomState::with_seeds(SEED, 1, 2, 3).build_hasher(), bytes);
    "murmur3-128" 64 Murmur3 bytes => fastmurmur3::murmur3_x64_128(bytes, SEED) as u64;
    "siphash-1-3" 64 Sip13 bytes => siphasher::sip::SipHasher13::new_with_keys(SEED, 1).hash(bytes);
    "siphash-2-4" 64 Sip24 bytes => siphasher::sip::SipHasher24::new_with_keys(SEED, 1).hash(bytes);
    "crc32c" 32 Crc32c bytes => u64::from(esker::parts::base::checksum::crc32c(bytes)) << 32;
    "fnv-1a" 64 Fnv bytes => finish(fnv::FnvHasher::default(), bytes);
}

#[inline(always)]
fn finish(mut hasher: impl Hasher, bytes: &[u8]) -> u64 {
    hasher.write(bytes);
    hasher.finish()
}

fn pieces<F: Function>(buffer: &[u8], length: usize, bytes: usize) -> u64 {
    let (mut sum, mut left) = (0, bytes / length);
    while left > 0 {
        for piece in buffer.chunks_exact(length).take(left) {
            sum ^= F::hash(piece);
            left -= 1;
        }
    }
    sum
}

fn chain<F: Function>(buffer: &[u8], length: usize, count: usize) -> u64 {
    // Starts within 4 KiB, so that short pieces come from the first-level cache.
    let starts = (buffer.len() - length).min(4096).next_power_of_two() / 2;
    let mut last = 0;
    for _ in 0..count {
        let start = (last >> 32) as usize & (starts - 1);
        last = F::hash(&buffer[start..start + length]);
    }
    last
}

fn count<F: Function>(kind: KeyKind, count: u64) -> [u64; SHARDS] {
    let mut counts = [0; SHARDS];
    let mut key = Vec::with_capacity(16);
    for number in 0..count {
        kind.write(number, &mut key);
        counts[(F::hash(&key) >> 60) as usize] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test values of the functions: a crate that computes another function must not get a row.
    #[test]
    fn functions_match_their_names() {
        let fox = b"The quick brown fox jumps over the lazy dog";
        let murmur = fastmurmur3::murmur3_x64_128(fox, 0);
        let (low, high) = (murmur as u64, (murmur >> 64) as u64);
        assert!([low, high].contains(&0xe34b_bc7b_bc07_1b6c), "{murmur:x}");
        assert_eq!(Fnv::hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Crc32c::hash(b"123456789") >> 32, 0xe306_9283);
        assert_eq!(xxhash_rust::xxh64::xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(Xxh3::hash(b""), 0x2d06_8005_38d3_94c2);

        let key: Vec<u8> = (0..16).collect();
        let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let message: Vec<u8> = (0..15).collect();
        let sip = siphasher::sip::SipHasher24::new_with_keys(half(&key[..8]), half(&key[8..]));
        assert_eq!(sip.hash(&message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn every_key_is_counted_once_and_no_shard_is_forgotten() {
        for subject in HashFunction::ALL {
            for kind in KeyKind::ALL {
                let counts = (subject.count)(kind, 5_000);
                assert_eq!(counts.iter().sum::<u64>(), 5_000, "{}", subject.name);
                let random = kind == KeyKind::Random;
                assert!(!random || counts.iter().all(|&count| count > 200), "{}: {counts:?}", subject.name);
            }
        }
    }

    #[test]
    fn pieces_hash_the_requested_bytes() {
        let buffer = vec![7; 1 << 17];
        for subject in HashFunction::ALL {
            // An even number of equal pieces cancels out.
            assert_eq!((subject.pieces)(&buffer, 8, 8 * 40_000), 0, "{}", subject.name);
            assert_ne!((subject.pieces)(&buffer, 8, 8 * 40_001), 0, "{}", subject.name);
            (subject.chain)(&buffer, 65_536, 10);
        }
    }
}
