//! Ribbon filter: a third less memory than a Bloom filter of the same rate (Dillinger and Walzer: "Ribbon
//! filter: practically smaller than Bloom and Xor", 2021; Dillinger, Hübschle-Schneider, Sanders, Walzer:
//! "Fast Succinct Retrieval and Approximate Membership using Ribbon", 2022).
//!
//! Each key is a linear equation over bits: the exclusive or of some of 128 adjacent *slots*, chosen by the
//! hash, is the key's *result*, some bits of the hash. The filter stores a solution of all equations. The
//! equation of a present key holds; that of an absent key holds with chance one half for each bit of its
//! result. With as many bits a slot as the result has, that takes a few percent more slots than keys.
//!
//! * **Shape.** Slots come in *blocks* of 128. For each block as many *words* of 128 bits are stored as
//!   results have bits there: word `j` has bit `j` of each slot. The first blocks may have one word less than
//!   the others, so that any mean number of bits is possible, not only whole ones. A key's equation has the
//!   bits of the block it starts in, and may reach into the next, which has no fewer.
//! * **Ends.** Keys near both ends of the slots start exactly there instead ("smash"), so that the outermost
//!   slots, which few equations reach, are used.
//! * **Shards.** Equations are solved for 2^15 keys together ([`shards`](crate::shards)): fewer keys need
//!   fewer spare slots, and these fit a core's own cache.
//! * **Attempts.** Keys whose equations contradict each other are tried with other seeds, and after some with
//!   more slots. If that does not help, which only hashes made for the purpose can cause, the table gets a
//!   blocked Bloom filter.
//!
//! Cost: some hundred nanoseconds a key to build; a lookup with 10 bits a key takes 40 ns for an absent and
//! 55 ns for a present key, from the cache, where a blocked Bloom filter takes 10.
//!
//! Persisted, hence fixed: [`Row::new`], [`Shape::starts`], [`Shape::words_of`].

mod banding;
mod query;

pub(crate) use banding::{ATTEMPTS, BandingScratch, build_shard, columns, encode};
pub(crate) use query::Ribbon;

use crate::bits::BitsPerKey;
use crate::shards::{fold, list_bytes, partition, seeded, shards_for};
use banding::{BandedShard, scratch_bytes};

/// Slots of a block, and width of an equation.
pub(crate) const WIDTH: u32 = 128;

/// Most words of a block: bits of a result.
pub(crate) const MAX_COLUMNS: u64 = 32;

/// Mean number of keys of a shard.
pub(crate) const SHARD_KEYS: usize = 1 << 15;

/// Slots for a thousand keys: with 1020 one attempt in six to eight fails, with 1030 none in fifty.
pub(crate) const SLOTS_PER_THOUSAND_KEYS: u64 = 1020;

/// Keys that would start within so many slots of an end start at the end.
const SMASHED: u64 = 32;

/// The equation of a key: its slots and their expected exclusive or.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    /// Slot of the lowest coefficient.
    pub(crate) start: u64,
    /// Bit `i` is set if slot `start + i` counts; the lowest always is.
    pub(crate) coefficients: u128,
    /// The expected exclusive or of the slots, one bit for each column.
    pub(crate) result: u32,
}

impl Row {
    /// The equation of a hash in a shard of `starts` possible starts, at least one.
    #[inline(always)]
    pub(crate) fn new(hash: u64, seed: u8, starts: u64) -> Row {
        let seeded = seeded(hash, seed);
        let range = starts + 2 * SMASHED;
        let place = ((u128::from(seeded) * u128::from(range)) >> 64) as u64;
        let low = fold(seeded, 0xe703_7ed1_a0b4_28db) | 1;
        let high = fold(seeded, 0x8ebc_6af0_9c88_c6e3);
        Row {
            start: place.saturating_sub(SMASHED).min(starts - 1),
            coefficients: u128::from(high) << 64 | u128::from(low),
            result: (fold(seeded, 0x5899_65cc_7537_4cc3) >> 32) as u32,
        }
    }
}

/// Number of words of each block of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Blocks of the shard; none if it has no keys.
    blocks: u32,
    /// The first blocks, which have one word less than the others.
    short: u32,
    /// Words of the other blocks, up to [`MAX_COLUMNS`].
    columns: u8,
}

impl Shape {
    /// A shard of `blocks` blocks that share `words` words; `None` if that is none or too many for a block.
    pub(crate) fn new(blocks: u32, words: u32) -> Option<Shape> {
        if blocks == 0 {
            return (words == 0).then(Shape::default);
        }
        let columns = u64::from(words.div_ceil(blocks));
        let short = columns * u64::from(blocks) - u64::from(words);
        (columns <= MAX_COLUMNS).then_some(Shape { blocks, short: short as u32, columns: columns as u8 })
    }

    pub(crate) fn words(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.columns) - u64::from(self.short)
    }

    /// Slots that a row can start in: all from which [`WIDTH`] slots follow. 0 if there are no blocks.
    #[inline(always)]
    pub(crate) fn starts(&self) -> u64 {
        (u64::from(self.blocks) * u64::from(WIDTH)).saturating_sub(u64::from(WIDTH) - 1)
    }

    /// Number of the first word of a block, and how many it has.
    #[inline(always)]
    pub(crate) fn words_of(&self, block: u64) -> (u64, u64) {
        let less = u64::from(block < u64::from(self.short));
        let columns = u64::from(self.columns);
        (block * columns - block.min(u64::from(self.short)), columns.saturating_sub(less))
    }
}

/// Most bytes that [`build`] takes for `keys` keys, the filter included.
pub(crate) fn build_bytes(keys: usize, bits_per_key: BitsPerKey) -> usize {
    // Shards of random hashes deviate from their mean by a hundredth of it, and round their blocks up.
    let words = keys / 8 * usize::from(bits_per_key.tenths()) / 10;
    let rounded = shards_for(keys, SHARD_KEYS) as usize * 2 * WIDTH as usize / 8 * MAX_COLUMNS as usize;
    let lists = list_bytes(keys, SHARD_KEYS, size_of::<BandedShard>() + 12);
    2 * (words + rounded) + lists + scratch_bytes(keys.min(SHARD_KEYS * 9 / 8))
}

/// The stored filter of `hashes`, whose order changes; `None` if it cannot be built, or is cancelled.
pub(crate) fn build(
    hashes: &mut Vec<u64>,
    bits_per_key: BitsPerKey,
    attempts: u8,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Vec<u8>> {
    let mut scratch = BandingScratch::default();
    let shards = partition(hashes, SHARD_KEYS)?;
    let solve = |hashes: &mut [u64]| match is_cancelled() {
        true => None,
        false => build_shard(&mut scratch, hashes, bits_per_key, attempts),
    };
    Some(encode(&shards.into_iter().map(solve).collect::<Option<Vec<_>>>()?))
}

#[cfg(test)]
mod tests;
