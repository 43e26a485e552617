//! Round trips, and equal bytes whatever was compressed before.

mod data;

use data::{Random, samples};
use esker_codec::{AdaptiveOptions, Codec, History, MIN_SAVED_FRACTION, Mode, Rows, decompress, id};

/// All kinds, and more of their levels.
fn codecs() -> Vec<Codec> {
    let mut codecs = Codec::ALL.to_vec();
    codecs.extend([1, 10, 22].map(|level| Codec::Zstd { level }));
    codecs.extend([1, 12].map(|level| Codec::Lz4Hc { level }));
    codecs.extend([0, 9].map(|level| Codec::Lzma { level }));
    codecs
        .extend(Mode::ALL.map(|mode| Codec::Adaptive(AdaptiveOptions { mode, ..AdaptiveOptions::DEFAULT })));
    codecs
}

fn is_for_integers(codec: Codec) -> bool {
    matches!(codec, Codec::BitPacking | Codec::Delta | Codec::Dictionary)
}

#[test]
fn every_sample_survives_every_codec() {
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for (name, raw) in samples(0x5eed_0001) {
        for codec in codecs() {
            let compressed = codec.compress(&raw, &mut scratch);
            if compressed.codec_id == id::NONE {
                assert_eq!(compressed.bytes, raw, "{name}, {codec}");
            } else {
                assert!(
                    codec.ids().contains(&compressed.codec_id),
                    "{name}, {codec}: {}",
                    compressed.codec_id
                );
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
    for codec in codecs() {
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
        if codec != Codec::None && !is_for_integers(codec) {
            assert!(codec.ids().contains(&compressed.codec_id));
            assert!(compressed.bytes.len() * 8 < text.len(), "{codec}");
        }
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
    // Not the slowest levels: they only cost time here.
    let codecs = Codec::ALL.into_iter().chain([1, 10].map(|level| Codec::Zstd { level }));
    for codec in codecs.filter(|codec| !matches!(codec, Codec::Lzma { .. })) {
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
        let before =
            [Codec::Lz4, Codec::Zstd { level: 10 }, Codec::Lz4Hc { level: 3 }, Codec::Snappy, Codec::Delta];
        for other in before {
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
    for codec in Codec::ALL.into_iter().chain([Codec::Zstd { level: 19 }]) {
        let compressed = codec.compress(&raw, &mut scratch);
        if !is_for_integers(codec) {
            assert_eq!(compressed.codec_id == id::NONE, codec == Codec::None, "{codec}");
        }
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
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for (wrong, right) in [
        (Codec::Lz4Hc { level: 0 }, Codec::Lz4Hc { level: 1 }),
        (Codec::Lz4Hc { level: 255 }, Codec::Lz4Hc { level: 12 }),
        (Codec::Lzma { level: 10 }, Codec::Lzma { level: 9 }),
    ] {
        assert_eq!(wrong.compress(&raw, &mut one), right.compress(&raw, &mut other));
    }
}

/// Each codec shrinks the data that it is made for.
#[test]
fn each_codec_shrinks_what_it_is_made_for() {
    let mut random = Random(0x5eed_0005);
    let mut scratch = Vec::new();
    let mut shrunk =
        |codec: Codec, raw: &[u8]| raw.len() as f64 / codec.compress(raw, &mut scratch).bytes.len() as f64;
    let near: Vec<u8> =
        (0..512).flat_map(|_| (5_000_000_000 + random.next() % (1 << 16)).to_le_bytes()).collect();
    let big_endian: Vec<u8> = near.chunks_exact(8).flat_map(|value| value.iter().rev().copied()).collect();
    for values in [&near, &big_endian] {
        for codec in [Codec::BitPacking, Codec::Delta, Codec::Dictionary, Codec::ADAPTIVE] {
            // Sixteen bits of 64, and a head of ten bytes, five of them the least value.
            assert!(shrunk(codec, values) >= 4096.0 / 1034.0, "{codec}: {:.2}", shrunk(codec, values));
        }
    }
    let many: Vec<u8> = near.iter().copied().cycle().take(1 << 20).collect();
    assert!(shrunk(Codec::BitPacking, &many) > 3.99, "{}", shrunk(Codec::BitPacking, &many));

    let mut now = 1_700_000_000_000u64;
    let rising: Vec<u8> = (0..512)
        .flat_map(|_| {
            now += 990 + random.next() % 16;
            now.to_le_bytes()
        })
        .collect();
    assert!(shrunk(Codec::Delta, &rising) > 14.0, "{}", shrunk(Codec::Delta, &rising));
    assert!(shrunk(Codec::BitPacking, &rising) < 4.0);

    let values: Vec<u64> = (0..12).map(|_| random.next()).collect();
    let few: Vec<u8> = (0..512).flat_map(|_| values[random.below(12)].to_le_bytes()).collect();
    assert!(shrunk(Codec::Dictionary, &few) > 10.0, "{}", shrunk(Codec::Dictionary, &few));
    assert!(shrunk(Codec::Delta, &few) < 1.3);

    let text: Vec<u8> =
        (0..200).flat_map(|i| format!("user {} paid {} coins; ", i * i, i % 7).into_bytes()).collect();
    assert!(shrunk(Codec::Lz4Hc { level: 9 }, &text) > shrunk(Codec::Lz4, &text));
    assert!(shrunk(Codec::Zstd { level: 3 }, &text) > shrunk(Codec::Lz4, &text));
    assert!(shrunk(Codec::Snappy, &text) > 1.5);
    assert!(shrunk(Codec::Lzma { level: 6 }, &text) > 2.0);
}

/// Rows that the caller knows affect the size only; wrong ones are harmless.
#[test]
fn known_rows_help_and_wrong_ones_do_no_harm() {
    let mut random = Random(0x5eed_0006);
    // A directory of two arrays, then rows of 13 bytes: no single distance describes them.
    let mut raw = b"some header of any length".to_vec();
    raw.extend(random.bytes(200));
    let offsets_at = raw.len();
    raw.extend((0..200u16).flat_map(|i| (700 + 13 * i).to_le_bytes()));
    let entries_at = raw.len();
    for i in 0..200u64 {
        raw.extend_from_slice(&(7_000 + 3 * i).to_be_bytes()[3..]);
        raw.extend_from_slice(&(random.next() & 0xffff).to_le_bytes());
    }
    let known = [
        Rows { start: offsets_at, stride: 2, count: 200 },
        Rows { start: entries_at, stride: 13, count: 200 },
    ];
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    let stored = Codec::Delta.compress_with(&raw, &known, None, &mut History::default(), &mut scratch);
    assert!(stored.bytes.len() < 900, "{} bytes of {}", stored.bytes.len(), raw.len());
    decompress(stored.codec_id, stored.bytes, raw.len(), &mut out).unwrap();
    assert_eq!(out, raw);

    for _ in 0..3_000 {
        let rows: Vec<Rows> = (0..random.below(4))
            .map(|_| Rows {
                start: random.below(raw.len() + 100),
                stride: random.below(300),
                count: [random.below(400), usize::MAX, usize::MAX / 13][random.below(40) / 19],
            })
            .collect();
        for codec in [Codec::BitPacking, Codec::Delta, Codec::Dictionary, Codec::ADAPTIVE] {
            let stored = codec.compress_with(&raw, &rows, None, &mut History::default(), &mut scratch);
            decompress(stored.codec_id, stored.bytes, raw.len(), &mut out).unwrap();
            assert_eq!(out, raw, "{codec}, {rows:?}");
        }
    }
}

/// Columns of every width, byte order, range and coding, with rows of every length.
#[test]
fn random_columns_survive() {
    let mut random = Random(0x5eed_0007);
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    let mut packed = 0;
    for _ in 0..3_000 {
        let columns: Vec<(usize, u64, u64, usize)> = (0..1 + random.below(4))
            .map(|_| (1 + random.below(8), random.next(), 1 << random.below(64), random.below(4)))
            .collect();
        let mut raw = Vec::new();
        for i in 0..random.below(150) as u64 {
            for &(width, base, span, kind) in &columns {
                let value = match kind {
                    // No power of two, so that some are packed in groups.
                    0 => base.wrapping_add(random.next() % (span - span / 4)),
                    1 => base.wrapping_add(i.wrapping_mul(span)).wrapping_add(random.next() % 3),
                    2 => base.wrapping_mul(random.next() % 5),
                    _ => base.wrapping_sub(i.wrapping_mul(span)),
                };
                raw.extend_from_slice(
                    &if base & 1 == 0 { value.to_le_bytes() } else { value.to_be_bytes() }[..width],
                );
            }
        }
        raw.extend(random.bytes(random.0 as usize % 9));
        let stride = columns.iter().map(|column| column.0).sum();
        let rows = [Rows { start: 0, stride, count: raw.len() / stride }];
        for codec in [Codec::BitPacking, Codec::Delta, Codec::Dictionary] {
            for rows in [&rows[..], &[]] {
                let stored = codec.compress_with(&raw, rows, None, &mut History::default(), &mut scratch);
                packed += u32::from(stored.codec_id != id::NONE);
                decompress(stored.codec_id, stored.bytes, raw.len(), &mut out).unwrap();
                assert_eq!(out, raw, "{codec}, {columns:?}");
            }
        }
    }
    assert!(packed > 5_000, "only {packed} were packed");
}
