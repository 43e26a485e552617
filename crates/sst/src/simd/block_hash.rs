//! Block checksum: XXH3-64 with the widest vectors of this machine.
//!
//! The hash is that of [`esker_base::checksum::xxh3_64`], bit for bit. Inputs of more than 240 bytes are
//! taken in *stripes* of 64 bytes: eight accumulators each add the product of two halves of a word, and the
//! word beside it. Eight accumulators are one vector of 512 bits, two of 256 or four of 128. The library used
//! for other hashes chooses between them at compile time: 45 instructions a stripe for the baseline; chosen
//! at run time 10 or 20. A compaction hashes every byte twice. Constants and step order are those of the
//! specification, and persisted.

use super::InstructionSet;
use esker_base::checksum::xxh3_64;

const STRIPE_BYTES: usize = 64;
/// Inputs of up to so many bytes are hashed by other algorithms, which gain nothing.
const LONGEST_SHORT_BYTES: usize = 240;
/// Bytes by which the secret moves on with each stripe.
const SECRET_STEP_BYTES: usize = 8;
/// Stripes until the secret is used up and the accumulators are scrambled.
const STRIPES_A_ROUND: usize = (SECRET.len() - STRIPE_BYTES) / SECRET_STEP_BYTES;
/// Offset of the secret of the last stripe, which is not aligned.
const LAST_SECRET_AT: usize = SECRET.len() - STRIPE_BYTES - 7;
/// Where the secret starts that the accumulators are merged with.
const MERGE_SECRET_AT: usize = 11;

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;
const AVALANCHE: u64 = 0x1656_6791_9e37_79f9;

const START: [u64; 8] =
    [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];

static SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde,
    0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79,
    0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46,
    0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb,
    0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2,
    0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c,
    0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59,
    0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3,
    0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3,
    0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8,
    0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb,
    0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// XXH3-64 of `bytes`, the same value as [`xxh3_64`].
#[inline]
pub(crate) fn block_hash(bytes: &[u8]) -> u64 {
    if bytes.len() <= LONGEST_SHORT_BYTES {
        xxh3_64(bytes)
    } else {
        long_hash(InstructionSet::detect(), bytes)
    }
}

fn long_hash(isa: InstructionSet, bytes: &[u8]) -> u64 {
    match isa {
        // SAFETY: an `InstructionSet` comes from `InstructionSet::detect`, or from tests that checked
        // `InstructionSet::is_available`.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { x86::on_avx512(bytes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { x86::on_avx2(bytes) },
        _ => xxh3_64(bytes),
    }
}

/// Eight accumulators in vectors.
///
/// # Safety
/// Every function may be called only where the vectors' instructions are available.
#[cfg(target_arch = "x86_64")]
trait Lanes: Copy {
    unsafe fn start() -> Self;
    unsafe fn accumulate(self, stripe: &[u8; STRIPE_BYTES], secret: &[u8; STRIPE_BYTES]) -> Self;
    unsafe fn scramble(self, secret: &[u8; STRIPE_BYTES]) -> Self;
    unsafe fn words(self) -> [u64; 8];
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn secret_at(at: usize) -> &'static [u8; STRIPE_BYTES] {
    SECRET[at..].first_chunk().expect("the secret is longer")
}

/// # Safety
/// As [`Lanes`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn hash_stripes<L: Lanes>(bytes: &[u8]) -> u64 {
    let last = bytes.last_chunk::<STRIPE_BYTES>().expect("the input is longer than a stripe");
    // The last stripe is taken by itself, even if the others reach the end.
    let stripes = bytes[..bytes.len() - 1].as_chunks::<STRIPE_BYTES>().0;
    // SAFETY: the caller has the instructions.
    unsafe {
        let mut lanes = L::start();
        let (rounds, rest) = stripes.as_chunks::<STRIPES_A_ROUND>();
        for round in rounds {
            for (i, stripe) in round.iter().enumerate() {
                lanes = lanes.accumulate(stripe, secret_at(SECRET_STEP_BYTES * i));
            }
            lanes = lanes.scramble(secret_at(SECRET.len() - STRIPE_BYTES));
        }
        for (i, stripe) in rest.iter().enumerate() {
            lanes = lanes.accumulate(stripe, secret_at(SECRET_STEP_BYTES * i));
        }
        merge(lanes.accumulate(last, secret_at(LAST_SECRET_AT)).words(), bytes.len())
    }
}

#[cfg(target_arch = "x86_64")]
fn merge(words: [u64; 8], len: usize) -> u64 {
    let secrets = SECRET[MERGE_SECRET_AT..].as_chunks::<8>().0;
    let mixed = |i: usize| words[i] ^ u64::from_le_bytes(secrets[i]);
    let mut hash = (len as u64).wrapping_mul(PRIME64_1);
    for i in (0..words.len()).step_by(2) {
        let product = u128::from(mixed(i)) * u128::from(mixed(i + 1));
        hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
    }
    hash = (hash ^ hash >> 37).wrapping_mul(AVALANCHE);
    hash ^ hash >> 32
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lanes, PRIME32_1, START, STRIPE_BYTES, hash_stripes};
    use std::arch::x86_64::*;

    /// Exchanges the two words of each pair.
    const SWAP_WORDS: i32 = 0b01_00_11_10;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn on_avx512(bytes: &[u8]) -> u64 {
        // SAFETY: the instructions are enabled.
        unsafe { hash_stripes::<Wide>(bytes) }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn on_avx2(bytes: &[u8]) -> u64 {
        // SAFETY: the instructions are enabled.
        unsafe { hash_stripes::<Pair>(bytes) }
    }

    #[derive(Clone, Copy)]
    struct Wide(__m512i);

    impl Lanes for Wide {
        #[inline(always)]
        unsafe fn start() -> Wide {
            // SAFETY: the caller has the instructions; the array is as long as the vector.
            Wide(unsafe { _mm512_loadu_si512(START.as_ptr().cast()) })
        }

        #[inline(always)]
        unsafe fn accumulate(self, stripe: &[u8; STRIPE_BYTES], secret: &[u8; STRIPE_BYTES]) -> Wide {
            // SAFETY: the caller has the instructions; both arrays are as long as the vector.
            unsafe {
                let data = _mm512_loadu_si512(stripe.as_ptr().cast());
                let mixed = _mm512_xor_si512(data, _mm512_loadu_si512(secret.as_ptr().cast()));
                let product = _mm512_mul_epu32(mixed, _mm512_srli_epi64::<32>(mixed));
                let sum = _mm512_add_epi64(self.0, _mm512_shuffle_epi32::<SWAP_WORDS>(data));
                Wide(_mm512_add_epi64(sum, product))
            }
        }

        #[inline(always)]
        unsafe fn scramble(self, secret: &[u8; STRIPE_BYTES]) -> Wide {
            // SAFETY: as in `accumulate`.
            unsafe {
                let prime = _mm512_set1_epi64(PRIME32_1 as i64);
                let folded = _mm512_xor_si512(self.0, _mm512_srli_epi64::<47>(self.0));
                let mixed = _mm512_xor_si512(folded, _mm512_loadu_si512(secret.as_ptr().cast()));
                let low = _mm512_mul_epu32(mixed, prime);
                let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(mixed), prime);
                Wide(_mm512_add_epi64(low, _mm512_slli_epi64::<32>(high)))
            }
        }

        #[inline(always)]
        unsafe fn words(self) -> [u64; 8] {
            let mut words = [0; 8];
            // SAFETY: the caller has the instructions; the array is as long as the vector.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) };
            words
        }
    }

    #[derive(Clone, Copy)]
    struct Pair([__m256i; 2]);

    impl Pair {
        /// # Safety
        /// As [`Lanes`].
        #[inline(always)]
        unsafe fn load(bytes: &[u8; STRIPE_BYTES]) -> [__m256i; 2] {
            let (low, high) = bytes.split_at(STRIPE_BYTES / 2);
            // SAFETY: the caller has the instructions; each half is as long as a vector.
            unsafe { [_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())] }
        }
    }

    impl Lanes for Pair {
        #[inline(always)]
        unsafe fn start() -> Pair {
            let [low, high] = [&START[..4], &START[4..]];
            // SAFETY: the caller has the instructions; each half is as long as a vector.
            unsafe {
                Pair([_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())])
            }
        }

        #[inline(always)]
        unsafe fn accumulate(self, stripe: &[u8; STRIPE_BYTES], secret: &[u8; STRIPE_BYTES]) -> Pair {
            let mut sums = self.0;
            // SAFETY: the caller has the instructions.
            unsafe {
                let (data, secret) = (Pair::load(stripe), Pair::load(secret));
                for (i, sum) in sums.iter_mut().enumerate() {
                    let mixed = _mm256_xor_si256(data[i], secret[i]);
                    let product = _mm256_mul_epu32(mixed, _mm256_srli_epi64::<32>(mixed));
                    let swapped = _mm256_shuffle_epi32::<SWAP_WORDS>(data[i]);
                    *sum = _mm256_add_epi64(_mm256_add_epi64(*sum, swapped), product);
                }
            }
            Pair(sums)
        }

        #[inline(always)]
        unsafe fn scramble(self, secret: &[u8; STRIPE_BYTES]) -> Pair {
            let mut words = self.0;
            // SAFETY: the caller has the instructions.
            unsafe {
                let prime = _mm256_set1_epi64x(PRIME32_1 as i64);
                let secret = Pair::load(secret);
                for (i, word) in words.iter_mut().enumerate() {
                    let folded = _mm256_xor_si256(*word, _mm256_srli_epi64::<47>(*word));
                    let mixed = _mm256_xor_si256(folded, secret[i]);
                    let low = _mm256_mul_epu32(mixed, prime);
                    let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(mixed), prime);
                    *word = _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high));
                }
            }
            Pair(words)
        }

        #[inline(always)]
        unsafe fn words(self) -> [u64; 8] {
            let mut words = [0; 8];
            // SAFETY: the caller has the instructions; each half is as long as a vector.
            unsafe {
                _mm256_storeu_si256(words[..4].as_mut_ptr().cast(), self.0[0]);
                _mm256_storeu_si256(words[4..].as_mut_ptr().cast(), self.0[1]);
            }
            words
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::SeededRandom;

    #[test]
    fn it_is_the_hash_of_the_library_for_every_length_and_vector() {
        let random = SeededRandom::new(7);
        let bytes: Vec<u8> = (0..5_000).map(|_| random.below(256) as u8).collect();
        for len in 0..bytes.len() {
            // Starts vary, so that nothing depends on how the bytes are aligned.
            let bytes = &bytes[len % 61..len.max(len % 61)];
            assert_eq!(block_hash(bytes), xxh3_64(bytes), "{} bytes", bytes.len());
            for isa in [InstructionSet::Portable, InstructionSet::Avx2, InstructionSet::Avx512] {
                if isa.is_available() && bytes.len() > LONGEST_SHORT_BYTES {
                    assert_eq!(long_hash(isa, bytes), xxh3_64(bytes), "{} bytes, {isa:?}", bytes.len());
                }
            }
        }
    }
}
