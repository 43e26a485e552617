use super::banding::{ATTEMPTS, BandingScratch, build_shard};
use super::*;
use crate::bits::BitsPerKey;
use crate::shards::seeded as hash_of;

#[test]
fn shapes_share_out_their_words() {
    for (blocks, words) in
        [(1, 0), (1, 1), (1, 32), (5, 0), (5, 3), (5, 5), (5, 17), (5, 160), (u32::MAX, 1), (7, 8)]
    {
        let shape = Shape::new(blocks, words).unwrap();
        assert_eq!(shape.words(), u64::from(words));
        let mut next = 0;
        let mut last = 0;
        for block in 0..u64::from(blocks.min(1000)) {
            let (first, columns) = shape.words_of(block);
            assert_eq!(first, next, "{blocks} blocks, {words} words");
            assert!(
                columns >= last && columns <= MAX_COLUMNS,
                "a row finds no fewer words in the next block"
            );
            next = first + columns;
            last = columns;
        }
        assert!(blocks > 1000 || next == u64::from(words));
    }
    assert_eq!(Shape::new(0, 0).unwrap().starts(), 0);
    assert_eq!((Shape::new(0, 1), Shape::new(1, 33), Shape::new(3, 97)), (None, None, None));
    assert_eq!(Shape::new(1, 5).unwrap().starts(), 1);
    assert_eq!(Shape::new(2, 5).unwrap().starts(), 129);
}

#[test]
fn rows_stay_within_their_slots() {
    for starts in [1, 2, 129, 1000, 34_000, 1 << 39] {
        let rows = (0..5000).map(|at| Row::new(hash_of(at, 0), 1, starts));
        let (mut first, mut last) = (0, 0);
        for row in rows.chain([Row::new(0, 0, starts), Row::new(u64::MAX, 255, starts)]) {
            assert!(row.start < starts && row.coefficients & 1 == 1);
            first += u32::from(row.start == 0);
            last += u32::from(row.start == starts - 1);
        }
        // Both ends are starts of more keys than others.
        assert!(starts > 1000 || (first > 1 && last > 1), "{starts}: {first} and {last}");
    }
}

/// Few attempts fail, and some must be able to: otherwise slots would be wasted.
#[test]
fn attempts_succeed_as_often_as_the_share_of_spare_slots_predicts() {
    for keys in [10, 100, 115, 116, 117, 1000, 5000, 20_000, SHARD_KEYS, SHARD_KEYS * 5 / 4] {
        let rounds = (200_000 / keys).clamp(8, 200);
        let mut attempts = 0;
        for round in 0..rounds {
            let hashes: Vec<u64> = (0..keys).map(|at| hash_of((round * keys + at) as u64, 9)).collect();
            let solved = build_shard(&mut BandingScratch::default(), &hashes, BitsPerKey::MIN, ATTEMPTS)
                .expect("it has enough attempts");
            attempts += usize::from(solved.seed) + 1;
        }
        assert!(2 * attempts <= 3 * rounds, "{keys} keys: {attempts} attempts in {rounds} rounds");
    }
}

#[test]
fn without_attempts_there_is_no_filter() {
    let mut hashes: Vec<u64> = (0..100).map(|at| hash_of(at, 0)).collect();
    assert!(build(&mut hashes, BitsPerKey::DEFAULT, 0, &|| false).is_none());
    assert!(build(&mut hashes, BitsPerKey::DEFAULT, ATTEMPTS, &|| false).is_some());
}

/// One attempt that cannot succeed: more keys than slots.
#[test]
fn contradictions_are_noticed() {
    let hashes: Vec<u64> = (0..1000).map(|at| hash_of(at, 0)).collect();
    let (few, enough) = (Shape::new(7, 70).unwrap(), Shape::new(9, 90).unwrap());
    let mut scratch = BandingScratch::default();
    for seed in 0..20 {
        assert!(!scratch.try_rows(&hashes, seed, &few));
        assert!(scratch.try_rows(&hashes, seed, &enough));
    }
}
