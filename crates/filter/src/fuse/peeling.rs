//! Peeling: finds fingerprints whose exclusive or is right for every key of a shard.

use super::{MAX_SEGMENT_LOG, Places, Segments};
use crate::bits::FingerprintBits;
use crate::shards::{renew, seeded};
use crate::stored::{BINARY_FUSE, VERSION};

/// Keys from which on segments have 2^(index + 1) slots: 3.33^(index - 1.25), by the authors.
const SEGMENT_FROM_KEYS: [usize; MAX_SEGMENT_LOG as usize] = [
    0,
    0,
    3,
    9,
    28,
    91,
    303,
    1009,
    3358,
    11_182,
    37_236,
    123_993,
    412_896,
    1_374_943,
    4_578_558,
    15_246_597,
    50_771_168,
    169_067_987,
];

/// Attempts with one number of slots, before it grows.
const ATTEMPTS_OF_A_SIZE: u8 = 4;

#[derive(Debug)]
pub(crate) struct PeeledShard {
    pub(crate) segments: Segments,
    pub(crate) seed: u8,
    pub(crate) bytes: Vec<u8>,
}

/// Slots for `keys` keys, in segments. The share of spare slots falls from a half for hundreds of keys to an
/// eighth for a million, as the authors measured, and grows with the attempts.
pub(super) fn segments_for(keys: usize, enlargements: u8) -> Segments {
    if keys == 0 {
        return Segments::default();
    }
    let log = SEGMENT_FROM_KEYS.iter().take_while(|&&from| keys >= from).count() as u8;
    // Six times the logarithm, in integers: equal keys give equal filters on every machine.
    let keys = keys as u128;
    let six_logarithms = u128::from(keys.max(2).saturating_pow(6).ilog2());
    // The logarithm of a million is 19.93.
    let thousandths = (875 + 250 * 1196 / (10 * six_logarithms)).max(1125);
    let slots = keys * (thousandths + 25 * u128::from(enlargements)) / 1000;
    let count = (slots >> log) + u128::from(slots & ((1 << log) - 1) != 0);
    Segments { count: u32::try_from(count.saturating_sub(2)).unwrap_or(u32::MAX).max(1), log }
}

/// Most bytes of solving a shard besides the slots; hashes that are not random need more.
pub(crate) fn scratch_bytes(keys: usize) -> usize {
    let slots = segments_for(keys, 1).slots() as usize;
    slots * (size_of::<u64>() + size_of::<u8>() + size_of::<u16>() + size_of::<u32>())
        + keys * size_of::<(u64, u32)>()
}

/// Solves the shard of `hashes`, sorted and deduplicated at need; `None` if all attempts fail.
pub(crate) fn build_shard(
    scratch: &mut PeelingScratch,
    hashes: &mut [u64],
    bits: FingerprintBits,
    attempts: u8,
) -> Option<PeeledShard> {
    let mut keys = hashes.len();
    (0..attempts).find_map(|seed| {
        if seed == 1 {
            keys = sort_and_deduplicate(hashes);
        }
        let segments = segments_for(keys, seed / ATTEMPTS_OF_A_SIZE);
        let peeled = scratch.peel(&hashes[..keys], seed, segments);
        peeled.then(|| PeeledShard { segments, seed, bytes: scratch.solve(segments, bits) })
    })
}

/// Moves one of each hash to the front, and returns their number.
fn sort_and_deduplicate(hashes: &mut [u64]) -> usize {
    hashes.sort_unstable();
    let mut unique = hashes.len().min(1);
    for at in 1..hashes.len() {
        if hashes[at] != hashes[unique - 1] {
            hashes[unique] = hashes[at];
            unique += 1;
        }
    }
    unique
}

/// Slots with the number and the exclusive or of their keys, in place of a list of them.
#[derive(Debug, Default)]
pub(crate) struct PeelingScratch {
    /// Number of keys of a slot.
    counts: Vec<u8>,
    /// Exclusive or of a slot's seeded keys: identifies a single one.
    sums: Vec<u64>,
    /// Slots with one key, to be peeled.
    single: Vec<u32>,
    /// Keys in the order of their removal, each with the slot that it had alone.
    order: Vec<(u64, u32)>,
    values: Vec<u16>,
}

impl PeelingScratch {
    /// Whether all keys can be removed.
    fn peel(&mut self, hashes: &[u64], seed: u8, segments: Segments) -> bool {
        let slots = segments.slots() as usize;
        renew(&mut self.counts, slots);
        renew(&mut self.sums, slots);
        // Neither list outgrows this.
        renew(&mut self.single, slots);
        self.single.clear();
        renew(&mut self.order, hashes.len());
        self.order.clear();
        for &hash in hashes {
            let key = seeded(hash, seed);
            for slot in Places::new(key, segments).slots {
                let Some(count) = self.counts[slot].checked_add(1) else {
                    return false;
                };
                self.counts[slot] = count;
                self.sums[slot] ^= key;
            }
        }
        self.single.extend((0..slots as u32).filter(|&slot| self.counts[slot as usize] == 1));
        while let Some(slot) = self.single.pop() {
            if self.counts[slot as usize] != 1 {
                continue;
            }
            let key = self.sums[slot as usize];
            self.order.push((key, slot));
            for slot in Places::new(key, segments).slots {
                self.counts[slot] -= 1;
                self.sums[slot] ^= key;
                if self.counts[slot] == 1 {
                    self.single.push(slot as u32);
                }
            }
        }
        self.order.len() == hashes.len()
    }

    /// The fingerprints, after all keys are removed: a slot that a key had alone stays once set.
    fn solve(&mut self, segments: Segments, bits: FingerprintBits) -> Vec<u8> {
        renew(&mut self.values, segments.slots() as usize);
        for &(key, alone) in self.order.iter().rev() {
            let places = Places::new(key, segments);
            let sum = places.slots.iter().fold(places.fingerprint, |sum, &slot| sum ^ self.values[slot]);
            self.values[alone as usize] ^= sum & bits.mask();
        }
        pack(&self.values, bits)
    }
}

fn pack(values: &[u16], bits: FingerprintBits) -> Vec<u8> {
    let width = u32::from(bits.bits());
    let mut bytes = Vec::with_capacity((values.len() * width as usize).div_ceil(8));
    let (mut pending, mut count) = (0u32, 0);
    for &value in values {
        pending |= u32::from(value & bits.mask()) << count;
        count += width;
        while count >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        bytes.push(pending as u8);
    }
    bytes
}

pub(crate) fn encode(shards: &[PeeledShard], bits: FingerprintBits) -> Vec<u8> {
    let data: usize = shards.iter().map(|shard| shard.bytes.len()).sum();
    let mut bytes = Vec::with_capacity(8 + 8 * shards.len() + data);
    bytes.extend_from_slice(&[BINARY_FUSE, VERSION, bits.bits(), 0]);
    bytes.extend_from_slice(&(shards.len() as u32).to_le_bytes());
    for shard in shards {
        bytes.extend_from_slice(&shard.segments.count.to_le_bytes());
        bytes.extend_from_slice(&[shard.segments.log, shard.seed, 0, 0]);
    }
    shards.iter().for_each(|shard| bytes.extend_from_slice(&shard.bytes));
    bytes
}
