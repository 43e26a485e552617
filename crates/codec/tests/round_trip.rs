//! What goes in comes out, and it comes out of equal bytes whatever was compressed before.

mod data;

use data::{Random, samples};
use esker_codec::{Codec, MIN_SAVED_FRACTION, decompress, id};

const CODECS: [Codec; 6] = [
    Codec::None,
    Codec::Lz4,
    Codec::Zstd { level: 1 },
    Codec::Zstd { level: 3 },
    Codec::Zstd { level: 10 },
    Codec::Zstd { level: 22 },
];

#[test]
fn every_sample_survives_every_codec() {
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for (name, raw) in samples(0x5eed_0001) {
        for codec in CODECS {
            let compressed = codec.compress(&raw, &mut scratch);
            if compressed.codec_id == id::NONE {
                assert_eq!(compressed.bytes, raw, "{name}, {codec}");
            } else {
                assert_eq!(compressed.codec_id, codec.id());
                let saved = raw.len() - compressed.bytes.len();
                assert!(saved * MIN_SAVED_FRACTION >= raw.len(), "{name}, {codec}: only {saved} bytes saved");
            }
            decompress(compressed.codec_id, compressed.bytes, raw.len(), &mut out).unwrap();
            assert_eq!(out, raw, "{name}, {codec}");
        }
    }
}

#[test]
fn incompressible_blocks_stay_raw_and_text_does_not() {
    let mut random = Random(0x5eed_0002);
    let mut scratch = Vec::new();
    for codec in CODECS {
        for len in [0, 1, 7, 100, 4096, 70_000] {
            let noise = random.bytes(len);
            assert_eq!(
                codec.compress(&noise, &mut scratch).codec_id,
                id::NONE,
                "{len} random bytes, {codec}"
            );
        }
        let text = b"the same words again and again, ".repeat(128);
        let compressed = codec.compress(&text, &mut scratch);
        assert_eq!(compressed.codec_id, codec.id());
        assert!(codec == Codec::None || compressed.bytes.len() * 8 < text.len(), "{codec}");
    }
}

/// Half a 4 KiB block noise, half repeated: about the limit at which a block pays.
#[test]
fn the_limit_of_an_eighth_is_exact() {
    let mut random = Random(0x5eed_0003);
    let (mut kept, mut refused) = (0, 0);
    for zeros in (0..1200).step_by(5) {
        let mut raw = random.bytes(4096 - zeros);
        raw.resize(4096, 0);
        for codec in [Codec::Lz4, Codec::Zstd { level: 3 }] {
            let mut scratch = Vec::new();
            let compressed = codec.compress(&raw, &mut scratch);
            if compressed.codec_id == id::NONE {
                refused += 1;
                // Noise does not shrink: had the zeros alone saved an eighth, the block had been kept.
                assert!(zeros < 4096 / MIN_SAVED_FRACTION + 64, "{zeros} zeros, {codec}");
            } else {
                kept += 1;
                assert!(compressed.bytes.len() <= 4096 - 4096 / MIN_SAVED_FRACTION);
                assert!(zeros >= 4096 / MIN_SAVED_FRACTION, "{zeros} zeros, {codec}");
            }
        }
    }
    assert!(kept > 100 && refused > 100, "{kept} kept, {refused} refused");
}

#[test]
fn equal_blocks_give_equal_bytes_whatever_came_before() {
    let samples = samples(0x5eed_0004);
    // Not the slowest level: it only costs time here.
    for codec in &CODECS[..5] {
        let fresh: Vec<_> = samples
            .iter()
            .map(|(_, raw)| {
                std::thread::scope(|scope| {
                    let alone = scope.spawn(|| codec.compress(raw, &mut Vec::new()).bytes.to_vec());
                    alone.join().unwrap()
                })
            })
            .collect();
        let mut scratch = Vec::new();
        for other in [Codec::Lz4, Codec::Zstd { level: 10 }] {
            for ((name, raw), expected) in samples.iter().zip(&fresh).rev() {
                other.compress(&samples[0].1, &mut scratch);
                assert_eq!(
                    codec.compress(raw, &mut scratch).bytes,
                    expected,
                    "{name}, {codec} after {other}"
                );
            }
        }
    }
}

#[test]
fn blocks_past_the_reused_contexts_round_trip() {
    let raw = b"a long value, much longer than any block: ".repeat(40_000);
    assert!(raw.len() > esker_codec::compress::LARGEST_REUSED_INPUT);
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for codec in [Codec::Lz4, Codec::Zstd { level: 3 }, Codec::Zstd { level: 19 }] {
        let compressed = codec.compress(&raw, &mut scratch);
        assert_eq!(compressed.codec_id, codec.id());
        decompress(compressed.codec_id, compressed.bytes, raw.len(), &mut out).unwrap();
        assert!(out == raw, "{codec}");
    }
}

#[test]
fn levels_out_of_range_are_taken_as_the_nearest() {
    let raw = b"zstd would take 0 as its default and negative levels as faster ones".repeat(30);
    for (wrong, right) in [(0, 1), (-7, 1), (23, 22), (i32::MAX, 22)] {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let wrong = Codec::Zstd { level: wrong }.compress(&raw, &mut one);
        assert_eq!(wrong, Codec::Zstd { level: right }.compress(&raw, &mut other));
    }
}
