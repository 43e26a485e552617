use super::peeling::{PeelingScratch, build_shard, segments_for};
use super::*;
use crate::bits::FingerprintBits;
use crate::shards::seeded as hash_of;
use std::collections::BTreeMap;

#[test]
fn places_lie_in_three_neighbouring_segments() {
    for (count, log) in [(1, 0), (1, 2), (5, 0), (9, 7), (100, 12), (3, MAX_SEGMENT_LOG)] {
        let segments = Segments { count, log };
        for at in 0..5000 {
            let slots = Places::of(hash_of(at, 0), 3, segments).slots;
            let of = slots.map(|slot| slot >> log);
            assert!(of[0] < count as usize && of[1] == of[0] + 1 && of[2] == of[0] + 2, "{slots:?}");
            assert!(slots.iter().all(|&slot| (slot as u64) < segments.slots()));
        }
    }
}

#[test]
fn attempts_succeed_with_the_slots_there_are() {
    let bits = FingerprintBits::DEFAULT;
    for keys in [1, 2, 3, 10, 100, 1000, 5000, 20_000, 100_000, SHARD_KEYS] {
        let rounds = (300_000 / keys).clamp(2, 200);
        let mut attempts = 0;
        for round in 0..rounds {
            let mut hashes: Vec<u64> = (0..keys).map(|at| hash_of((round * keys + at) as u64, 9)).collect();
            let solved = build_shard(&mut PeelingScratch::default(), &mut hashes, bits, ATTEMPTS)
                .expect("it has enough attempts");
            attempts += usize::from(solved.seed) + 1;
        }
        let slots = segments_for(keys, 0).slots() as f64 / keys as f64;
        assert!(attempts <= 2 * rounds + 2, "{keys} keys: {attempts} attempts in {rounds} rounds");
        assert!(keys < 100_000 || slots < 1.2, "{keys} keys: {slots} slots a key");
    }
}

#[test]
fn without_attempts_there_is_no_filter() {
    let mut hashes: Vec<u64> = (0..100).map(|at| hash_of(at, 0)).collect();
    assert!(build(&mut hashes, FingerprintBits::DEFAULT, 0, &|| false).is_none());
    // The first attempt leaves equal hashes alone.
    hashes.push(hashes[0]);
    assert!(build(&mut hashes, FingerprintBits::DEFAULT, 1, &|| false).is_none());
    assert!(build(&mut hashes, FingerprintBits::DEFAULT, ATTEMPTS, &|| false).is_some());
}

/// Three keys share a slot, 257 times together: a count of eight bits would say 1, and their sum is no key.
#[test]
fn a_slot_with_more_keys_than_can_be_counted_is_noticed() {
    let segments = segments_for(257, 0);
    let mut sharing: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for hash in (0..5_000).map(|at| hash_of(at, 5)) {
        sharing.entry(Places::of(hash, 0, segments).slots[0]).or_default().push(hash);
    }
    let mut tried = 0;
    for keys in sharing.values().filter(|keys| keys.len() >= 3) {
        let mut hashes = [vec![keys[0]; 85], vec![keys[1]; 85], vec![keys[2]; 87]].concat();
        let bits = FingerprintBits::DEFAULT;
        assert!(build_shard(&mut PeelingScratch::default(), &mut hashes, bits, 1).is_none());
        assert!(build_shard(&mut PeelingScratch::default(), &mut hashes, bits, ATTEMPTS).is_some());
        tried += 1;
    }
    assert!(tried > 100, "{tried} slots have three keys");
}
