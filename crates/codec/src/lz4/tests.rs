//! Both encoders against the format, and the fast one against its guarantees.

use super::format::{LAST_LITERALS, LAST_MATCH_START, MIN_MATCH, longest_len};
use super::{decompress, fast, high};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    at: usize,
    distance: usize,
    len: usize,
}

/// Decodes by the format, byte by byte, and checks its rules for the end.
fn decode_strictly(stored: &[u8]) -> (Vec<u8>, Vec<Match>) {
    let (mut raw, mut seen) = (Vec::new(), Vec::new());
    let mut bytes = stored.iter().copied();
    let length = |nibble: u8, bytes: &mut dyn Iterator<Item = u8>| {
        let mut len = usize::from(nibble);
        let mut goes_on = nibble == 15;
        while goes_on {
            let more = bytes.next().expect("a length goes on");
            len += usize::from(more);
            goes_on = more == 255;
        }
        len
    };
    loop {
        let token = bytes.next().expect("a sequence begins");
        let literals = length(token >> 4, &mut bytes);
        raw.extend(bytes.by_ref().take(literals));
        let Some(low) = bytes.next() else {
            assert_eq!(token & 15, 0, "the last sequence has no match");
            if let Some(&Match { at, len, .. }) = seen.last() {
                assert!(at + len + LAST_LITERALS <= raw.len(), "the last literals are too few");
                assert!(at + LAST_MATCH_START <= raw.len(), "the last match starts too late");
            }
            return (raw, seen);
        };
        let distance = usize::from(low) | usize::from(bytes.next().expect("a distance has two bytes")) << 8;
        let len = MIN_MATCH + length(token & 15, &mut bytes);
        assert!(distance > 0 && distance <= raw.len(), "distance {distance} at {}", raw.len());
        seen.push(Match { at: raw.len(), distance, len });
        for _ in 0..len {
            raw.push(raw[raw.len() - distance]);
        }
    }
}

/// The fast encoder's result, with the checks that hold for any block.
fn compress(raw: &[u8]) -> (usize, Vec<Match>) {
    // Memory of an earlier block must not matter.
    let mut scratch = vec![0xa5; 100];
    let len = fast::compress(raw, &mut scratch);
    assert!(len <= longest_len(raw.len()), "{len} bytes of {}", raw.len());
    let mut out = vec![0; raw.len()];
    assert_eq!(decompress(&scratch[..len], &mut out).unwrap(), raw.len());
    assert!(out == raw, "{} bytes do not survive", raw.len());
    let (decoded, seen) = decode_strictly(&scratch[..len]);
    assert!(decoded == raw, "{} bytes do not survive another decoder", raw.len());
    (len, seen)
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 56) as u8
    }

    fn below(&mut self, end: usize) -> usize {
        let word: [u8; 4] = std::array::from_fn(|_| self.next());
        u32::from_le_bytes(word) as usize % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next()).collect()
    }
}

/// Bytes with pieces of any length copied from any distance, and noise between them.
fn patchwork(noise: &mut Noise, len: usize) -> Vec<u8> {
    let mut raw = Vec::new();
    let longest = 1 << noise.below(12);
    while raw.len() < len {
        let piece = 1 + noise.below(longest);
        if noise.next() & 1 == 0 || raw.is_empty() {
            raw.extend(noise.bytes(piece));
        } else {
            let reach = 1 << noise.below(18);
            let distance = 1 + noise.below(raw.len().min(reach));
            for _ in 0..piece {
                raw.push(raw[raw.len() - distance]);
            }
        }
    }
    raw.truncate(len);
    raw
}

#[test]
fn blocks_of_every_length_survive() {
    let mut noise = Noise(1);
    let around = |middle: usize| middle - 20..middle + 20;
    for len in (0..700).chain(around(4096)).chain(around(65_536)).chain([69_999, 70_000, 131_072, 200_001]) {
        compress(&vec![0; len]);
        compress(&noise.bytes(len));
        compress(&b"abcde".repeat(len / 5 + 1)[..len]);
        compress(&patchwork(&mut noise, len));
    }
    for _ in 0..2_000 {
        let longest = if noise.next() < 16 { 140_000 } else { 5_000 };
        let len = noise.below(longest);
        compress(&patchwork(&mut noise, len));
    }
}

#[test]
fn the_thorough_encoder_keeps_to_the_same_rules() {
    let mut noise = Noise(2);
    let mut scratch = Vec::new();
    for round in 0..300u32 {
        let len = noise.below(6_000);
        let raw = patchwork(&mut noise, len);
        let len = high::compress(1 + (round % 12) as u8, &raw, &mut scratch).unwrap();
        assert!(len <= longest_len(raw.len()));
        assert!(decode_strictly(&scratch[..len]).0 == raw);
    }
}

/// Noise of 600 bytes, of which exactly `len` bytes at `at` repeat those `distance` before.
fn with_repetition(at: usize, distance: usize, len: usize) -> Vec<u8> {
    let mut raw = Noise(3).bytes(600);
    raw.copy_within(at - distance..at - distance + len, at);
    raw[at - 1] = !raw[at - distance - 1];
    raw[at + len] = !raw[at + len - distance];
    raw
}

/// Nine bytes between dense positions and first gap are found at any distance.
#[test]
fn nine_bytes_are_found_at_any_distance() {
    let (mut found, mut lost) = (0, 0);
    for distance in 10..70 {
        for at in 34 + distance..128 - 9 {
            let (_, seen) = compress(&with_repetition(at, distance, 9));
            *if seen == [Match { at, distance, len: 9 }] { &mut found } else { &mut lost } += 1;
        }
    }
    assert!(found > 100 * lost, "{found} found, {lost} lost");
}

/// The same in a coarse search: a long match behind a long search comes first.
#[test]
fn twenty_seven_bytes_are_found_at_any_distance_by_the_coarse_search() {
    let (mut found, mut lost) = (0, 0);
    let coarse_from = 60 + 30 + 4;
    for distance in 28..60 {
        for at in coarse_from + distance..coarse_from + 5 * 24 - 27 {
            let mut raw = with_repetition(at, distance, 27);
            raw.copy_within(5..35, 60);
            raw[59] = !raw[4];
            raw[90] = !raw[35];
            let (_, seen) = compress(&raw);
            let expected = [Match { at: 60, distance: 55, len: 30 }, Match { at, distance, len: 27 }];
            *if seen == expected { &mut found } else { &mut lost } += 1;
        }
    }
    assert!(found > 100 * lost, "{found} found, {lost} lost");
}

/// Records of a noisy key and a half-repeating value, after noise, as in blocks of a table.
fn records(noise: &mut Noise, block_bytes: usize, half_bytes: usize) -> Vec<u8> {
    let count = block_bytes / (24 + 2 * half_bytes);
    let mut raw = noise.bytes(count * 3);
    for number in 0..count as u64 {
        raw.extend_from_slice(&number.to_be_bytes()[4..]);
        raw.extend(noise.bytes(16));
        let half = noise.bytes(half_bytes);
        raw.extend_from_slice(&half);
        raw.extend_from_slice(&half);
    }
    raw
}

/// After a missed repetition the longer steps must not miss all that follow.
#[test]
fn repetitions_of_every_length_are_found_in_blocks_of_every_length() {
    let mut noise = Noise(4);
    for block_bytes in [4 << 10, 16 << 10, 32 << 10, 128 << 10] {
        for half_bytes in 12..70 {
            let blocks: Vec<_> = (0..4).map(|_| records(&mut noise, block_bytes, half_bytes)).collect();
            let own: usize = blocks.iter().map(|raw| compress(raw).0).sum();
            let other: usize = blocks.iter().map(|raw| lz4_flex::block::compress(raw).len()).sum();
            assert!(own * 100 <= other * 102, "{own} bytes and {other}, {half_bytes} of {block_bytes}");
        }
    }
}

#[test]
fn text_is_as_small_as_lz4_flex_makes_it() {
    let text = include_bytes!("fast.rs");
    for block_bytes in [4 << 10, text.len()] {
        let (mut own, mut other) = (0, 0);
        for raw in text.chunks(block_bytes) {
            own += compress(raw).0;
            other += lz4_flex::block::compress(raw).len();
        }
        assert!(own * 100 <= other * 101, "{own} bytes and {other} in blocks of {block_bytes}");
    }
}

/// Beyond 64 KiB the table stores the low bits of positions only.
#[test]
fn far_repetitions_are_found_within_two_bytes_of_distance() {
    let pattern = Noise(5).bytes(300);
    for (distance, is_near) in [(65_535, true), (65_536, false)] {
        let mut raw = pattern.clone();
        // One byte repeated is one match, and leaves the table nearly empty.
        raw.resize(distance, 7);
        raw.extend_from_slice(&pattern);
        raw.extend(Noise(6).bytes(20));
        let (len, _) = compress(&raw);
        assert_eq!(len < 2 * pattern.len(), is_near, "{len} bytes, distance {distance}");
    }
}

/// An empty bucket reads as zero, which at 65,536 is the position itself.
#[test]
fn incompressible_ends_after_long_runs_survive() {
    for start in 65_510..65_540 {
        let mut raw = vec![7; start];
        raw.extend(Noise(7).bytes(60));
        compress(&raw);
    }
}
