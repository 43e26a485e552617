//! All probe paths give the same answers.

use super::*;
use crate::blocked::Blocked;
use crate::reference::double::Double;
use esker_base::checksum::xxh3_64;
use esker_env::OffHeapSlice;

/// Miri gets one of so many cases: each takes thousands of times as long.
const STEP: usize = if cfg!(miri) { 40 } else { 1 };

fn paths() -> impl Iterator<Item = ProbePath> {
    ProbePath::ALL.iter().copied().filter(|path| path.is_available())
}

fn hash_of(seed: u64, at: u64) -> u64 {
    xxh3_64(&[seed.to_le_bytes(), at.to_le_bytes()].concat())
}

/// Hashes whose probes coincide, lie at the edges, or differ from each other in one bit.
fn adversarial() -> Vec<u64> {
    let mut hashes =
        vec![0, 1, u64::MAX, u64::MAX >> 32, u64::MAX << 32, 1 << 31, 1 << 32, 0x9e37_79b9, 0x8000_0001];
    hashes.extend((0..64).map(|bit| 1 << bit));
    hashes.extend((0..64).map(|bit| !(1 << bit)));
    hashes.extend((0..512u64).map(|top| (top << 23) | (top << 55)));
    hashes.extend((0..16).map(|word| (word << 28) | 0x007f_ffff));
    hashes.into_iter().step_by(STEP).collect()
}

#[test]
fn every_path_agrees_on_every_line_and_number_of_probes() {
    let seed = 0x5eed_0020;
    let mut hashes = adversarial();
    hashes.extend((0..2000).step_by(STEP).map(|at| hash_of(seed, at)));
    let mut found = 0;
    for density in [0u32, 1, 2, 3, 7, 20, 31, 32] {
        let mut line = Line::default();
        for bit in 0..512usize {
            if (hash_of(seed + 1, bit as u64) % 32) < u64::from(density) {
                line.0[bit / 32] |= 1 << (bit % 32);
            }
        }
        for probes in 1..=MAX_PROBES {
            for &hash in &hashes {
                let expected = scalar(&line, hash as u32, probes);
                found += usize::from(expected);
                for path in paths() {
                    assert_eq!(
                        path.probe(&line, hash as u32, probes),
                        expected,
                        "{path:?} {hash:#x} {probes}"
                    );
                }
            }
        }
    }
    assert!(found > 5 * hashes.len(), "only {found} positive answers");
}

/// A line in which exactly the bits of one key are set, and then one of them is not: no other bit is tested.
#[test]
fn every_path_looks_at_every_probe() {
    for hash in adversarial().into_iter().chain((0..200).step_by(STEP).map(|at| hash_of(7, at))) {
        for probes in 1..=MAX_PROBES {
            let mut line = Line::default();
            for &power in &POWERS[..usize::from(probes)] {
                let (word, mask) = word_and_mask((hash as u32).wrapping_mul(power));
                line.0[word] |= mask;
            }
            for path in paths() {
                assert!(path.probe(&line, hash as u32, probes), "{path:?} {hash:#x} {probes}");
                for &power in &POWERS[..usize::from(probes)] {
                    let (word, mask) = word_and_mask((hash as u32).wrapping_mul(power));
                    let mut without = line;
                    without.0[word] &= !mask;
                    assert!(!path.probe(&without, hash as u32, probes), "{path:?} {hash:#x} {probes}");
                }
            }
        }
    }
}

/// Lines with three quarters of their bits set.
fn random_lines(count: u64) -> OffHeapSlice<Line> {
    OffHeapSlice::collect((0..count as usize).map(|at| {
        let at = at as u64;
        Line(std::array::from_fn(|word| (hash_of(at, word as u64) | hash_of(!at, word as u64)) as u32))
    }))
}

/// For any number of lines, down to the single one that is its own partner.
#[test]
fn every_path_agrees_on_pairs_of_lines() {
    let sizes = [1, 2, 3, 63, 64, 65, 101].into_iter().flat_map(|n| [1, 2, 5, 9, 16].map(|k| (n, k)));
    for (count, probes) in sizes.step_by(STEP.min(6)) {
        let plain = Double::new(random_lines(count), probes).with_path(ProbePath::Scalar);
        for path in paths() {
            let filter = plain.clone().with_path(path);
            for len in [0, 1, 31, 32, 33, 257] {
                let hashes: Vec<u64> = (0..len).map(|at| hash_of(9, at)).collect();
                let mut maybe = vec![len % 2 == 0; hashes.len()];
                filter.may_contain_many(&hashes, &mut maybe);
                let expected: Vec<bool> = hashes.iter().map(|&hash| plain.may_contain(hash)).collect();
                assert_eq!(maybe, expected, "{path:?}, {count} lines, {probes} probes");
                assert_eq!(hashes.iter().map(|&hash| filter.may_contain(hash)).collect::<Vec<_>>(), expected);
            }
        }
    }
}

#[test]
fn batches_of_any_length_agree_with_single_lookups() {
    let lines = random_lines(101);
    let plain = Blocked::new(lines, 5).with_path(ProbePath::Scalar);
    for path in paths() {
        let filter = plain.clone().with_path(path);
        for len in [0, 1, 2, 31, 32, 33, 64, 100, 257] {
            let hashes: Vec<u64> = (0..len).map(|at| hash_of(9, at)).collect();
            let mut maybe = vec![false; hashes.len()];
            filter.may_contain_many(&hashes, &mut maybe);
            let expected: Vec<bool> = hashes.iter().map(|&hash| plain.may_contain(hash)).collect();
            assert_eq!(maybe, expected, "{path:?}");
            assert_eq!(hashes.iter().map(|&hash| filter.may_contain(hash)).collect::<Vec<_>>(), expected);
            assert!(len < 100 || (expected.contains(&true) && expected.contains(&false)));
        }
    }
}
