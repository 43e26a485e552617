use super::*;

#[test]
fn the_mode_changes_at_one_threshold_and_back_at_another() {
    let compression_downgrade = CompressionDowngrade::default();
    let seen =
        [0, 799, 800, 700, 600, 599, 600, 799, 2_000, 0].map(|pressure| compression_downgrade.next(pressure));
    assert_eq!(seen, [false, false, true, true, true, false, false, false, true, false]);
}

#[test]
fn fast_codecs_are_left_alone_and_others_become_fast() {
    for codec in Codec::ALL {
        let fast = downgraded(codec);
        assert_eq!(downgraded(fast), fast, "{codec}");
        fast.validate().unwrap();
        match codec {
            Codec::Adaptive(_) => assert!(fast.to_string().contains("mode=speed"), "{fast}"),
            Codec::Zstd { .. } | Codec::ZstdDictionary { .. } | Codec::Lzma { .. } | Codec::Lz4Hc { .. } => {
                assert_eq!(fast, Codec::Lz4);
            }
            other => assert_eq!(fast, other),
        }
    }
}
