//! Binary fuse filter: three reads for any key, and the least memory of strong filters that build quickly
//! (Graf and Lemire: "Binary Fuse Filters: Fast and Smaller Than Xor Filters", 2022).
//!
//! Each key has three *slots* in an array of fingerprints, in three adjacent segments of it, and a
//! fingerprint, all by its hash. The filter stores fingerprints such that the exclusive or of a key's three
//! slots is its own fingerprint. That of an absent key matches with chance 2^-b for fingerprints of `b` bits,
//! from 1 to 16. There are about 1.14 slots for each key of a large table, more for small ones.
//!
//! * **Peeling.** A slot that only one key has can be set last, for that key; without the key other slots may
//!   become such. If all keys can be removed in this order, the fingerprints are found in the reverse one
//!   ([`peeling`]).
//! * **Shards.** Peeling takes some 30 bytes a key, so it is done for 2^19 keys together
//!   ([`shards`](crate::shards)).
//! * **Attempts.** It mostly succeeds at the first or the second seed. Equal hashes can never be removed:
//!   they are deduplicated after a failure. If more seeds and slots do not help, the table gets a blocked
//!   Bloom filter.
//!
//! Cost: 45 ns a key to build; 15 ns a key to look up, from the cache, and three cache lines, which do not
//! depend on each other.
//!
//! Persisted, hence fixed: [`Places::new`], [`Segments::slots`].

mod peeling;
mod query;

pub(crate) use peeling::{PeelingScratch, build_shard, encode};
pub(crate) use query::Fuse;

use crate::bits::FingerprintBits;
use crate::shards::{fold, list_bytes, partition, seeded, shards_for};
use peeling::{PeeledShard, scratch_bytes};

/// Mean number of keys of a shard, at most.
pub(crate) const SHARD_KEYS: usize = 1 << 19;

/// Largest segment, as a power of two: the limit of the hash's bits.
pub(crate) const MAX_SEGMENT_LOG: u8 = 18;

/// Slots for each key of a full shard, as a filter of millions of keys has them.
pub(crate) const SLOTS_PER_KEY: f64 = 1.14;

/// Attempts before the substitute is built.
pub(crate) const ATTEMPTS: u8 = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Segments that a key's first slot may lie in; none if the shard has no keys. Two more follow.
    pub(crate) count: u32,
    /// Slots of a segment, as a power of two.
    pub(crate) log: u8,
}

impl Segments {
    pub(crate) fn slots(&self) -> u64 {
        if self.count == 0 { 0 } else { (u64::from(self.count) + 2) << self.log }
    }

    pub(crate) fn bytes(&self, bits: u8) -> u64 {
        (self.slots() * u64::from(bits)).div_ceil(8)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) slots: [usize; 3],
    pub(crate) fingerprint: u16,
}

impl Places {
    /// From a hash that went through [`seeded`], in a shard with keys.
    #[inline(always)]
    pub(crate) fn new(seeded: u64, segments: Segments) -> Places {
        let starts = u64::from(segments.count) << segments.log;
        let first = ((u128::from(seeded) * u128::from(starts)) >> 64) as usize;
        let mask = (1usize << segments.log) - 1;
        let second = (first + (1 << segments.log)) ^ ((seeded >> MAX_SEGMENT_LOG) as usize & mask);
        let third = (first + (2 << segments.log)) ^ (seeded as usize & mask);
        Places { slots: [first, second, third], fingerprint: fold(seeded, 0x5899_65cc_7537_4cc3) as u16 }
    }

    #[inline(always)]
    pub(crate) fn of(hash: u64, seed: u8, segments: Segments) -> Places {
        Places::new(seeded(hash, seed), segments)
    }
}

/// Most bytes that [`build`] takes for `keys` keys, the filter included.
pub(crate) fn build_bytes(keys: usize, bits: FingerprintBits) -> usize {
    let shards = shards_for(keys, SHARD_KEYS) as usize;
    // Shards of random hashes deviate from their mean by a hundredth of it.
    let of_a_shard = keys.div_ceil(shards) * 17 / 16 + 1;
    let slots = peeling::segments_for(of_a_shard, 1).bytes(bits.bits()) as usize;
    let lists = list_bytes(keys, SHARD_KEYS, size_of::<PeeledShard>() + 8);
    2 * shards * slots + lists + scratch_bytes(of_a_shard)
}

/// The stored filter of `hashes`, whose order changes; `None` if it cannot be built, or is cancelled.
pub(crate) fn build(
    hashes: &mut Vec<u64>,
    bits: FingerprintBits,
    attempts: u8,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Vec<u8>> {
    let mut scratch = PeelingScratch::default();
    let shards = partition(hashes, SHARD_KEYS)?;
    let solve = |hashes: &mut [u64]| match is_cancelled() {
        true => None,
        false => build_shard(&mut scratch, hashes, bits, attempts),
    };
    Some(encode(&shards.into_iter().map(solve).collect::<Option<Vec<_>>>()?, bits))
}

#[cfg(test)]
mod tests;
