//! Seeded mutations of encodings: bit flips, cuts, splices and extreme length fields.

use esker_base::coding::put_varint;
use esker_env::SeededRandom;

/// Numbers at the edges of types and limits, where length fields go wrong.
const EXTREMES: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x1_0000,
    0x00ff_ffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    u64::MAX >> 8,
    i64::MAX as u64,
    u64::MAX - 8,
    u64::MAX,
];

/// `bytes` with one to four random changes; `other` is spliced in now and then.
pub fn mutate(bytes: &[u8], other: &[u8], random: &SeededRandom) -> Vec<u8> {
    let mut mutated = bytes.to_vec();
    for _ in 0..=random.below(4) {
        change(&mut mutated, other, random);
    }
    mutated
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &SeededRandom) {
    let place = |len: usize| random.below(len as u64) as usize;
    if bytes.is_empty() {
        bytes.extend_from_slice(&other[..place(other.len() + 1)]);
        return;
    }
    let at = place(bytes.len());
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.below(256) as u8,
        2 => bytes.truncate(at),
        3 => extreme_number(bytes, at, random),
        4 => extreme_varint(bytes, at, random),
        5 => {
            bytes.drain(at..bytes.len().min(at + 1 + place(16)));
        }
        6 => {
            let copied = bytes[at..bytes.len().min(at + 1 + place(64))].to_vec();
            insert(bytes, at, &copied);
        }
        7 => {
            // The beginning of one encoding, the end of another.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[place(other.len() + 1)..]);
        }
        _ => {
            let from = place(other.len() + 1);
            let piece = &other[from..other.len().min(from + place(64))];
            insert(bytes, at, piece);
        }
    }
}

/// Overwrites one, two, four or eight bytes by an extreme number, little- or big-endian.
fn extreme_number(bytes: &mut [u8], at: usize, random: &SeededRandom) {
    let number = EXTREMES[random.below(EXTREMES.len() as u64) as usize];
    let width = 1usize << random.below(4);
    let mut field = number.to_le_bytes();
    if random.below(4) == 0 {
        field[..width].reverse();
    }
    let end = bytes.len().min(at + width);
    bytes[at..end].copy_from_slice(&field[..end - at]);
}

/// Replaces one byte by the varint of an extreme number.
fn extreme_varint(bytes: &mut Vec<u8>, at: usize, random: &SeededRandom) {
    let mut varint = Vec::new();
    put_varint(&mut varint, EXTREMES[random.below(EXTREMES.len() as u64) as usize]);
    bytes.splice(at..=at, varint);
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_follow_from_the_seed_and_differ_from_each_other() {
        let (bytes, other) = (vec![7; 40], vec![9; 30]);
        let run = |seed| {
            let random = SeededRandom::new(seed);
            (0..500).map(|_| mutate(&bytes, &other, &random)).collect::<Vec<_>>()
        };
        assert_eq!(run(3), run(3));
        let mutated = run(4);
        let lengths: std::collections::BTreeSet<usize> = mutated.iter().map(Vec::len).collect();
        assert!(lengths.len() > 40 && mutated.iter().filter(|&one| *one == bytes).count() < 20);
        assert!(mutate(&[], &[], &SeededRandom::new(1)).is_empty());
    }
}
