//! Hash of an element: MurmurHash64A with the seed of Redis, cut into a register and a run of zeros.

/// Bits of the hash that choose the register.
pub(super) const INDEX_BITS: u32 = 14;
/// Bits of the hash whose lowest set one is looked for.
pub(super) const VALUE_BITS: u32 = 64 - INDEX_BITS;

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// The register of an element and the position, counted from one, of the lowest set bit of the rest of its
/// hash.
pub(super) fn register_and_value(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element);
    let register = hash as usize & ((1 << INDEX_BITS) - 1);
    // The bit behind the last ends a run of zeros only.
    let rest = hash >> INDEX_BITS | 1 << VALUE_BITS;
    (register, rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash2, 64 bits, for 64-bit machines, little-endian everywhere.
fn murmur64a(bytes: &[u8]) -> u64 {
    // Redis hands the length over as an `int`; strings end far below where that matters.
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed = (mixed ^ mixed >> SHIFT).wrapping_mul(MULTIPLIER);
        hash = (hash ^ mixed).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
