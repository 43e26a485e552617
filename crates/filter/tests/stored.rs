//! The stored form: stable, self-describing, and harmless when it is wrong.

mod common;

use common::{build, key, kinds};
use esker_base::checksum::xxh3_64;
use esker_filter::{Filter, FilterKind, FilterPolicy};

/// Old files rely on the stored form: these bytes and these answers must never change.
#[test]
fn the_stored_forms_are_stable() {
    let bytes = build(FilterPolicy::DEFAULT, (0..1000).map(key));
    assert_eq!(bytes[..8], [1, 1, 6, 0, 20, 0, 0, 0]);
    assert_eq!(bytes.len(), 8 + 20 * 64);
    assert_eq!(xxh3_64(&bytes), 0x2dc6e741f9080459);

    let forms: [(FilterKind, &[u8], usize, u64); 5] = [
        (FilterKind::Bloom, &[2, 1, 7, 0, 20, 0, 0, 0], 8 + 20 * 64, 0x655ba5a1742158fd),
        (FilterKind::LocalBloom, &[3, 1, 6, 0, 20, 0, 0, 0], 8 + 20 * 64, 0x87d5b3e47e6e932c),
        (FilterKind::DoubleProbeBloom, &[4, 1, 7, 0, 20, 0, 0, 0], 8 + 20 * 64, 0xcc4349eac4d27f89),
        (
            FilterKind::Ribbon,
            &[5, 1, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 88, 0, 0, 0, 0, 0, 0, 0],
            8 + 12 + 88 * 16,
            0x81854560a0159a47,
        ),
        (
            FilterKind::BinaryFuse,
            &[6, 1, 8, 0, 1, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0],
            8 + 8 + 11 * 128,
            0x527a70f159771c0c,
        ),
    ];
    let mut wrong = 0;
    for (kind, head, len, hash) in forms {
        let bytes = build(kind.policy(10.0), (0..1000).map(key));
        println!("{kind:?}: {:?}, {} bytes, {:#x}", &bytes[..head.len()], bytes.len(), xxh3_64(&bytes));
        wrong += usize::from((&bytes[..head.len()], bytes.len(), xxh3_64(&bytes)) != (head, len, hash));
    }
    assert_eq!(wrong, 0);
}

#[test]
fn unknown_kinds_answer_maybe() {
    for kind in kinds() {
        let bytes = build(kind.policy(10.0), (0..1000).map(key));
        for (at, value) in [(0, 0), (0, 77), (0, 255), (1, 0), (1, 2)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let filter = Filter::decode(&changed).unwrap();
            assert!(filter.is_unknown() && filter.may_contain(key(1_000_000)), "{}", filter.describe());
            let mut maybe = [false; 3];
            filter.may_contain_many(&[1, 2, 3], &mut maybe);
            assert_eq!((maybe, filter.memory_bytes(), filter.kind()), ([true; 3], 0, None));
        }
    }
}

#[test]
fn kinds_of_lines_detect_damage() {
    let cases = [
        (FilterKind::BlockedBloom, 17),
        (FilterKind::LocalBloom, 17),
        (FilterKind::DoubleProbeBloom, 17),
        (FilterKind::Bloom, 25),
    ];
    for (kind, too_many) in cases {
        let bytes = build(kind.policy(10.0), (0..1000).map(key));
        for (at, value) in [(2, 0), (2, too_many), (2, 255), (3, 1), (4, 19), (4, 21), (7, 255)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert!(Filter::decode(&changed).is_err(), "{kind:?}: byte {at} = {value}");
        }
        for len in (0..8).chain([8, 9, 71, bytes.len() - 1]) {
            assert!(Filter::decode(&bytes[..len]).is_err(), "{kind:?}: {len} bytes");
        }
        assert!(Filter::decode(&[bytes[0], 1, 6, 0, 0, 0, 0, 0]).is_err(), "{kind:?}: no lines");
    }
}

/// Fields of the kinds of shards that exceed the bytes present, or contradict each other.
#[test]
fn kinds_of_shards_detect_damage() {
    let damages: [(FilterKind, &[(usize, u8)]); 2] = [
        // Padding, number of shards, blocks, words, padding.
        (
            FilterKind::Ribbon,
            &[
                (2, 1),
                (3, 1),
                (4, 0),
                (4, 2),
                (7, 255),
                (8, 0),
                (8, 1),
                (12, 87),
                (15, 255),
                (17, 1),
                (19, 1),
            ],
        ),
        // Bits, padding, number of shards, segments, their size, padding.
        (
            FilterKind::BinaryFuse,
            &[
                (2, 0),
                (2, 17),
                (2, 7),
                (3, 1),
                (4, 0),
                (4, 2),
                (7, 255),
                (8, 0),
                (11, 255),
                (12, 8),
                (12, 19),
                (12, 255),
                (14, 1),
                (15, 1),
            ],
        ),
    ];
    for (kind, damages) in damages {
        let bytes = build(kind.policy(10.0), (0..1000).map(key));
        for &(at, value) in damages {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert!(changed == bytes || Filter::decode(&changed).is_err(), "{kind:?}: byte {at} = {value}");
        }
        for len in (0..24).chain([bytes.len() - 1]) {
            assert!(Filter::decode(&bytes[..len]).is_err(), "{kind:?}: {len} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Filter::decode(&longer).is_err(), "{kind:?}: a byte more");
    }
    // More shards than memory, or slots than can be counted, are refused before memory is allocated.
    assert!(Filter::decode(&[5, 1, 0, 0, 255, 255, 255, 255, 1, 2, 3]).is_err());
    assert!(Filter::decode(&[6, 1, 16, 0, 255, 255, 255, 255, 1, 2, 3]).is_err());
    assert!(Filter::decode(&[6, 1, 16, 0, 1, 0, 0, 0, 255, 255, 255, 255, 18, 0, 0, 0]).is_err());
    // A block without words lets everything pass, and a shard without blocks nothing.
    let all = Filter::decode(&[5, 1, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 9, 0, 0, 0]).unwrap();
    let none = Filter::decode(&[5, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0]).unwrap();
    assert!((0..100).all(|number| all.may_contain(key(number)) && !none.may_contain(key(number))));
}

/// Whatever bytes are accepted, lookups return and do not panic: every byte of the head and of some of the
/// rest takes many values, and every length is tried.
#[test]
fn lookups_survive_what_decoding_accepts() {
    let hashes: Vec<u64> = (0..40).map(key).chain([0, 1, u64::MAX, u64::MAX << 32, u64::MAX >> 32]).collect();
    let mut maybe = vec![false; hashes.len()];
    for kind in kinds() {
        let mut accepted = 0;
        for keys in [0, 1, 300] {
            let bytes = build(kind.policy(9.0), (0..keys).map(key));
            let mutations = (0..bytes.len().min(64)).flat_map(|at| (0..=255).map(move |value| (at, value)));
            let inputs = mutations
                .map(|(at, value)| {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    changed
                })
                .chain((0..bytes.len()).map(|len| bytes[..len].to_vec()));
            for input in inputs {
                let Ok(filter) = Filter::decode(&input) else { continue };
                accepted += 1;
                filter.may_contain_many(&hashes, &mut maybe);
                for (&hash, &maybe) in hashes.iter().zip(&maybe) {
                    filter.prefetch(hash);
                    assert_eq!(filter.may_contain(hash), maybe, "{kind:?}");
                }
            }
        }
        assert!(accepted > 1000, "{kind:?}: {accepted} accepted");
    }
}

/// Any stored number of probes is used, not the one this build would choose.
#[test]
fn stored_parameters_apply() {
    for kind in [FilterKind::BlockedBloom, FilterKind::LocalBloom, FilterKind::Bloom] {
        let mut bytes = build(kind.policy(10.0), (0..5000).map(key));
        for probes in 1..=bytes[2] {
            bytes[2] = probes;
            let filter = Filter::decode(&bytes).unwrap();
            assert!((0..5000).all(|number| filter.may_contain(key(number))));
            // With fewer probes than were set more absent keys pass: about fill ratio to the power of probes.
            let expected = filter.fill_ratio().unwrap().powi(i32::from(probes));
            let passed = (5000..105_000).filter(|&number| filter.may_contain(key(number))).count();
            let rate = passed as f64 / 100_000.0;
            assert!(
                rate > expected * 0.9 && rate < expected * 1.6,
                "{probes} probes: {rate} against {expected}"
            );
        }
    }
}
