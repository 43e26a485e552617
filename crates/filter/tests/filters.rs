//! Guarantees of every kind: no false negatives for any hashes, batches that agree with single lookups,
//! builders that are reused.

mod common;

use common::{build, key, kinds, policies};
use esker_env::Env;
use esker_filter::{Filter, FilterBuilder, FilterKind, FilterPolicy, build_parallel};

/// Every hash is found, alone and in a batch, before and after hashes that were not added.
fn assert_finds(policy: FilterPolicy, hashes: &[u64], what: &str) -> Filter {
    let filter = Filter::decode(&build(policy, hashes.iter().copied())).expect("it was built");
    for &hash in hashes {
        assert!(filter.may_contain(hash), "{policy}: {what}: {hash:#x} is lost among {}", hashes.len());
    }
    let mixed: Vec<u64> = hashes.iter().flat_map(|&hash| [key(hash), hash]).collect();
    let mut maybe = vec![false; mixed.len()];
    filter.may_contain_many(&mixed, &mut maybe);
    for (&hash, &maybe) in mixed.iter().zip(&maybe) {
        filter.prefetch(hash);
        assert_eq!(filter.may_contain(hash), maybe, "{policy}: {what}: {hash:#x} in a batch");
    }
    filter
}

#[test]
fn added_keys_are_found_at_every_size() {
    for policy in policies() {
        for keys in [0, 1, 2, 3, 7, 50, 51, 52, 127, 128, 129, 1000, 20_000] {
            let hashes: Vec<u64> = (0..keys).map(key).collect();
            let filter = assert_finds(policy, &hashes, "keys");
            assert_eq!(filter.kind(), Some(policy.kind()));
            assert!(keys != 0 || (0..1000).all(|number| !filter.may_contain(key(number))), "{policy}: empty");
        }
    }
}

#[test]
fn added_keys_are_found_among_a_hundred_thousand() {
    for kind in kinds() {
        for keys in [65_537, 100_000, 131_072] {
            let hashes: Vec<u64> = (0..keys).map(key).collect();
            let filter = assert_finds(kind.policy(10.0), &hashes, "keys");
            assert_eq!(filter.kind(), Some(kind));
        }
    }
}

/// Kinds that are solved in shards, with keys for two of the larger ones: each shard has its own place in the
/// filter.
#[test]
fn added_keys_are_found_in_each_of_several_shards() {
    for kind in [FilterKind::Ribbon, FilterKind::BinaryFuse] {
        let filter = Filter::decode(&build(kind.policy(10.0), (0..600_000).map(key))).unwrap();
        assert_eq!(filter.kind(), Some(kind));
        assert!(!filter.describe().contains(" 1 shards"), "{}", filter.describe());
        let lost = (0..600_000).filter(|&number| !filter.may_contain(key(number))).count();
        assert_eq!(lost, 0, "{kind:?}");
        let passed = (600_000..700_000).filter(|&number| filter.may_contain(key(number))).count();
        assert!(passed < 2_000, "{kind:?}: {passed} of 100,000 absent keys pass");
    }
}

/// Hashes that no good hash function makes: the filter may be weak then, but has no false negatives.
#[test]
fn hashes_of_low_entropy_are_found() {
    let sets: Vec<(&str, Vec<u64>)> = vec![
        ("one hash, and another between", (0..5000).map(|at| [42, key(7)][at % 2]).collect()),
        ("counters", (0..20_000).collect()),
        ("counters in the upper half", (0..20_000).map(|at| at << 32).collect()),
        ("counters at the top", (0..20_000).map(|at| at << 44).collect()),
        ("single bits", (0..64).map(|bit| 1 << bit).collect()),
        ("missing bits", (0..64).map(|bit| !(1 << bit)).collect()),
        ("pairs of bits", (0..64).flat_map(|a| (0..a).map(move |b| 1 << a | 1 << b)).collect()),
        ("three hashes, many times", (0..60_000).map(|at| key(at % 3)).collect()),
        ("ends", vec![0, u64::MAX, 1, u64::MAX - 1, 1 << 63, 0]),
        ("a hash twice among others", (0..3000).map(|at| key(at % 2999)).collect()),
        ("every key twice", (0..6000).map(|at| key(at % 3000)).collect()),
    ];
    for policy in policies() {
        for (what, hashes) in &sets {
            assert_finds(policy, hashes, what);
        }
    }
}

/// Random sizes, hashes of random entropy, and random repetition.
#[test]
fn random_sets_are_found() {
    let mut state = 0x5eed_0f11_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        key(state)
    };
    for round in 0..60 {
        let mask = if round % 3 == 0 { next() & next() & next() } else { u64::MAX };
        let fixed = next();
        let len = next() % 3000;
        let mut hashes: Vec<u64> = (0..len).map(|_| (next() & mask) | (fixed & !mask)).collect();
        for _ in 0..next() % 20 {
            if let Some(&again) = hashes.get(next() as usize % hashes.len().max(1)) {
                hashes.push(again);
            }
        }
        for policy in policies() {
            assert_finds(policy, &hashes, &format!("round {round}, mask {mask:#x}"));
        }
    }
}

#[test]
fn batches_of_any_length_agree_with_single_lookups() {
    for policy in policies() {
        let filter = Filter::decode(&build(policy, (0..5000).map(key))).unwrap();
        for len in [0, 1, 2, 31, 32, 33, 64, 100, 257] {
            let hashes: Vec<u64> = (0..len).map(|at| key(at * 50)).collect();
            // Previous contents must not matter.
            let mut maybe: Vec<bool> = (0..len).map(|at| at % 2 == 0).collect();
            filter.may_contain_many(&hashes, &mut maybe);
            let single: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain(hash)).collect();
            assert_eq!(maybe, single, "{policy}, {len} keys");
        }
    }
}

#[test]
#[should_panic(expected = "an answer for each hash")]
fn a_batch_needs_room_for_its_answers() {
    let filter = Filter::decode(&build(FilterKind::Bloom.policy(10.0), (0..10).map(key))).unwrap();
    filter.may_contain_many(&[1, 2, 3], &mut [false; 2]);
}

/// Lookups change nothing, so threads in parallel get the answers of a single one.
#[test]
fn threads_may_ask_at_once() {
    for kind in kinds() {
        let filter = Filter::decode(&build(kind.policy(8.0), (0..50_000).map(key))).unwrap();
        let hashes: Vec<u64> = (0..100_000).map(key).collect();
        let alone: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain(hash)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut maybe = vec![false; hashes.len()];
                    for (hashes, maybe) in hashes.chunks(1000).zip(maybe.chunks_mut(1000)) {
                        filter.may_contain_many(hashes, maybe);
                    }
                    assert!(maybe == alone, "{kind:?}");
                });
            }
        });
    }
}

#[test]
fn versions_of_a_key_count_once_and_the_builder_is_reused() {
    for policy in kinds().map(|kind| kind.policy(10.0)) {
        let mut builder = FilterBuilder::new(policy);
        for number in 0..5000 {
            for _ in 0..3 {
                builder.add(key(number));
            }
        }
        assert_eq!(builder.len(), 5000);
        let (first, built) = builder.finish_as_built();
        let first = first.unwrap();
        assert_eq!(built, policy);
        assert_eq!(*first, build(policy, (0..5000).map(key)));
        assert_eq!((builder.len(), builder.memory_bytes()), (0, 0));

        // The second filter has nothing of the first, also if its kind differs.
        (10_000..11_000).for_each(|number| builder.add(key(number)));
        let second = builder.finish().unwrap();
        assert_eq!(*second, build(policy, (10_000..11_000).map(key)));
        for other in kinds().map(|kind| kind.policy(14.0)) {
            builder.set_policy(other);
            (0..500).for_each(|number| builder.add(key(number)));
            assert_eq!(*builder.finish().unwrap(), build(other, (0..500).map(key)));
        }

        builder.add(key(1));
        builder.set_policy(FilterPolicy::None);
        builder.add(key(2));
        assert_eq!((builder.len(), builder.finish_as_built()), (0, (None, FilterPolicy::None)));
    }
}

/// Threads make the same filter as one builder, also of hashes that come twice or cannot be solved.
#[test]
fn parallel_building_makes_the_same_filter() {
    let env = Env::real();
    let sets: [Vec<u64>; 4] = [
        vec![],
        (0..1000).map(key).collect(),
        (0..600_000).map(key).collect(),
        (0..100_000).map(|at| key(at % 70_000)).collect(),
    ];
    for policy in kinds().map(|kind| kind.policy(12.0)) {
        for hashes in &sets {
            let expected = build(policy, hashes.iter().copied());
            for threads in [1, 2, 5] {
                let bytes = build_parallel(&env, hashes.clone(), policy, threads).unwrap();
                assert!(*bytes == *expected, "{policy}, {} keys, {threads} threads", hashes.len());
            }
        }
    }
    assert_eq!(build_parallel(&env, vec![1, 2], FilterPolicy::None, 2), None);
}

/// Hashes that all fall into one shard: the substitute is built, without false negatives.
#[test]
fn hashes_that_defeat_the_shards_get_a_blocked_filter() {
    // Their product with the factor that spreads hashes over shards is small, so that all are in the first
    // shard.
    let inverse = (0..6).fold(1u64, |inverse, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(inverse)))
    });
    for (kind, keys) in [(FilterKind::Ribbon, 300_000u64), (FilterKind::BinaryFuse, 3_000_000)] {
        let hashes: Vec<u64> = (0..keys).map(|at| at.wrapping_mul(inverse)).collect();
        let policy = kind.policy(10.0);
        let mut builder = FilterBuilder::new(policy);
        hashes.iter().for_each(|&hash| builder.add(hash));
        let (bytes, built) = builder.finish_as_built();
        // The policy of what was built is returned, because its rate is higher than the requested one.
        assert_eq!(built, FilterPolicy::blocked_bloom(policy.bits_per_key()));
        assert!(built.false_positive_rate() > 1.1 * policy.false_positive_rate());
        let bytes = bytes.unwrap();
        let filter = Filter::decode(&bytes).unwrap();
        assert_eq!(filter.kind(), Some(FilterKind::BlockedBloom));
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
        let parallel = build_parallel(&Env::real(), hashes, kind.policy(10.0), 2).unwrap();
        assert!(parallel == bytes);
    }
}
