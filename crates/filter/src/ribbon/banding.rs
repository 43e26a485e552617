//! Banding: solves the equations of a shard.
//!
//! Rows are brought into echelon form as they come ("on the fly" Gaussian elimination): a row that starts
//! where another one lies is added to it, which moves its start up, until it reaches a free slot or nothing
//! of it is left. Then at most one row starts at every slot, so a walk from the last slot to the first one
//! gives the solution.

use super::{MAX_COLUMNS, Row, SLOTS_PER_THOUSAND_KEYS, Shape, WIDTH};
use crate::bits::BitsPerKey;
use crate::lines::AHEAD;
use crate::probe::prefetch;
use crate::shards::renew;
use crate::stored::{RIBBON, VERSION};

/// Attempts before the substitute is built. Each succeeds with a chance of a half or more, with good hashes.
pub(crate) const ATTEMPTS: u8 = 48;

/// Attempts with one number of slots, before it grows.
const ATTEMPTS_OF_A_SIZE: u8 = 4;

/// A shard, solved.
#[derive(Debug)]
pub(crate) struct BandedShard {
    pub(crate) blocks: u32,
    pub(crate) seed: u8,
    pub(crate) words: Vec<u128>,
}

/// Most bytes of solving a shard besides the words; hashes that are not random need more.
pub(crate) fn scratch_bytes(keys: usize) -> usize {
    let blocks = blocks_for(keys, 1) as usize;
    blocks * WIDTH as usize * (size_of::<u128>() + size_of::<u32>())
}

/// Number of blocks for `keys` keys after so many enlargements.
fn blocks_for(keys: usize, enlargements: u8) -> u32 {
    if keys == 0 {
        return 0;
    }
    // A few slots beyond the share, for shards of few keys, whose sizes vary more.
    let slots = keys as u64 * SLOTS_PER_THOUSAND_KEYS / 1000 + 12;
    let blocks = slots.div_ceil(u64::from(WIDTH));
    let larger = blocks + (blocks.div_ceil(64)) * u64::from(enlargements);
    u32::try_from(larger).unwrap_or(u32::MAX)
}

/// Words of so many blocks: as many bits a slot as a key has, less the spare slots' share.
fn words_for(blocks: u32, bits_per_key: BitsPerKey) -> u32 {
    let share = u64::from(bits_per_key.tenths()) * 1000;
    let whole = 10 * SLOTS_PER_THOUSAND_KEYS;
    u32::try_from((u64::from(blocks) * share + whole / 2) / whole).unwrap_or(u32::MAX)
}

/// Solves the equations of `hashes`; `None` if all attempts fail.
pub(crate) fn build_shard(
    scratch: &mut BandingScratch,
    hashes: &[u64],
    bits_per_key: BitsPerKey,
    attempts: u8,
) -> Option<BandedShard> {
    (0..attempts).find_map(|seed| {
        let blocks = blocks_for(hashes.len(), seed / ATTEMPTS_OF_A_SIZE);
        let shape = Shape::new(blocks, words_for(blocks, bits_per_key))?;
        scratch.try_rows(hashes, seed, &shape).then(|| BandedShard {
            blocks,
            seed,
            words: scratch.solve(&shape),
        })
    })
}

/// A shard's rows in echelon form: coefficients and result of the row starting at each slot.
#[derive(Debug, Default)]
pub(crate) struct BandingScratch {
    coefficients: Vec<u128>,
    results: Vec<u32>,
}

impl BandingScratch {
    /// Inserts the rows of all hashes; returns whether none contradicts the others.
    pub(super) fn try_rows(&mut self, hashes: &[u64], seed: u8, shape: &Shape) -> bool {
        let slots = shape.blocks as usize * WIDTH as usize;
        renew(&mut self.coefficients, slots);
        renew(&mut self.results, slots);
        let mut rows = [Row::default(); AHEAD];
        for hashes in hashes.chunks(AHEAD) {
            for (row, &hash) in rows.iter_mut().zip(hashes) {
                *row = Row::new(hash, seed, shape.starts());
                prefetch(self.coefficients.as_ptr().wrapping_add(row.start as usize));
            }
            if !rows[..hashes.len()].iter().all(|row| self.add(row)) {
                return false;
            }
        }
        true
    }

    fn add(&mut self, row: &Row) -> bool {
        let (mut slot, mut coefficients, mut result) = (row.start as usize, row.coefficients, row.result);
        loop {
            let there = &mut self.coefficients[slot];
            if *there == 0 {
                *there = coefficients;
                self.results[slot] = result;
                return true;
            }
            coefficients ^= *there;
            result ^= self.results[slot];
            if coefficients == 0 {
                // A sum of other rows. An equal key has the same result; another one hardly ever.
                return result == 0;
            }
            let moved = coefficients.trailing_zeros();
            slot += moved as usize;
            coefficients >>= moved;
        }
    }

    /// The words of the solution. Slots in which no row starts are free, and are zero.
    fn solve(&self, shape: &Shape) -> Vec<u128> {
        let mut words = vec![0; shape.words() as usize];
        // For each column the bits of the slots from the present one on.
        let mut window = [0u128; MAX_COLUMNS as usize];
        for block in (0..shape.blocks as usize).rev() {
            let (first, columns) = shape.words_of(block as u64);
            let window = &mut window[..columns as usize];
            let slots = block * WIDTH as usize..(block + 1) * WIDTH as usize;
            let rows = self.coefficients[slots.clone()].iter().zip(&self.results[slots]);
            for (&coefficients, &result) in rows.rev() {
                for (column, bits) in window.iter_mut().enumerate() {
                    *bits <<= 1;
                    *bits |= u128::from(parity(*bits & coefficients) ^ (result >> column & 1 == 1));
                }
            }
            words[first as usize..][..window.len()].copy_from_slice(window);
        }
        words
    }
}

#[inline(always)]
pub(super) fn parity(bits: u128) -> bool {
    (bits as u64 ^ (bits >> 64) as u64).count_ones() & 1 == 1
}

pub(crate) fn encode(shards: &[BandedShard]) -> Vec<u8> {
    let words: usize = shards.iter().map(|shard| shard.words.len()).sum();
    let mut bytes = Vec::with_capacity(8 + 12 * shards.len() + 16 * words);
    bytes.extend_from_slice(&[RIBBON, VERSION, 0, 0]);
    bytes.extend_from_slice(&(shards.len() as u32).to_le_bytes());
    for shard in shards {
        bytes.extend_from_slice(&shard.blocks.to_le_bytes());
        bytes.extend_from_slice(&(shard.words.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[shard.seed, 0, 0, 0]);
    }
    for word in shards.iter().flat_map(|shard| &shard.words) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Mean number of bits of a result under a budget.
pub(crate) fn columns(bits_per_key: BitsPerKey) -> f64 {
    bits_per_key.bits() * 1000.0 / SLOTS_PER_THOUSAND_KEYS as f64
}
