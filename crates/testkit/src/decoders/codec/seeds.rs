//! Seeds for the codec target that chance does not find: every codec at the lengths where its encoding
//! changes, and blocks whose length fields are wrong.

use super::{DICTIONARY_FOLLOWS, dictionary};
use esker_codec::{Codec, History, id};

/// Lengths of blocks: the least that shrinks, the usual ones and one byte more or less, around the limit of
/// two-byte offsets, and more than a piece of rows.
const RAW_LENGTHS: [usize; 8] = [64, 511, 4_095, 4_096, 4_097, 65_535, 65_537, 70_000];

/// Blocks of every codec and length: file name and bytes.
pub fn valid() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for codec in Codec::ALL {
        for len in RAW_LENGTHS {
            let raw: Vec<u8> = counters().take(len).collect();
            let mut scratch = Vec::new();
            let dictionary = Some(&dictionary().0);
            let stored = codec.compress_with(&raw, &[], dictionary, &mut History::default(), &mut scratch);
            // Raw blocks exercise no codec, and long ones only fill the corpus.
            if stored.codec_id != id::NONE && stored.bytes.len() <= 4_096 {
                let name = format!("valid-{}-{len}", codec.name().replace('+', "-"));
                seeds.push((name, block(stored.codec_id, len, stored.bytes)));
            }
        }
    }
    seeds
}

/// Rows of a counter and a word, which every codec shrinks.
fn counters() -> impl Iterator<Item = u8> {
    (0u64..).flat_map(|i| [(7_000_000 + 3 * i).to_be_bytes(), *b"same all"].concat())
}

fn block(codec_id: u8, raw_len: usize, stored: &[u8]) -> Vec<u8> {
    [&[codec_id], &(raw_len as u32).to_le_bytes()[..3], stored].concat()
}

/// The varint of about 2^63.
const HUGE: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00];

/// Blocks that claim data they do not have: what is wrong, and the bytes. All must be refused.
pub fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let columns = |stored: &[u8]| block(id::DELTA, 4096, stored);
    let with = |front: &[u8], rest: &[u8]| [front, rest].concat();
    vec![
        ("length-beyond-what-is-there", block(id::NONE, 200_000, b"a few bytes")),
        ("length-beyond-what-is-permitted", block(id::LZ4, 0xff_ffff, &[0x1f, 0, 1, 0, 255])),
        ("lz4-literals-beyond-the-end", block(id::LZ4, 4096, &[0xf0, 255, 255, 255, 255, 255, 1, 7])),
        ("lz4-match-before-the-start", block(id::LZ4, 4096, &[0x1f, b'a', 2, 0, 255, 255, 10])),
        ("lz4-match-at-no-distance", block(id::LZ4, 4096, &[0x1f, b'a', 0, 0, 255, 255, 10])),
        ("lz4-match-beyond-the-block", block(id::LZ4, 64, &with(&[0x1f, b'a', 1, 0], &[255; 400]))),
        ("snappy-4-gib", block(id::SNAPPY, 4096, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, b'a'])),
        ("snappy-copy-before-the-start", block(id::SNAPPY, 64, &[64, 0, b'a', 0xfe, 9, 0])),
        ("snappy-literal-beyond-the-end", block(id::SNAPPY, 64, &[64, 0xfc, 0xff, 0xff, 0xff, 0x7f])),
        ("zstd-content-of-2-63", block(id::ZSTD, 4096, &with(&ZSTD_MAGIC, &with(&[0xe0], &[0xff; 8])))),
        ("zstd-window-of-terabytes", block(id::ZSTD, 4096, &with(&ZSTD_MAGIC, &[0x00, 0xff, 1, 0, 0]))),
        ("zstd-skippable-4-gib", block(id::ZSTD, 4096, &[0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff])),
        ("zstd-dictionary-of-nobody", block(id::ZSTD_DICTIONARY, 4096, &with(&ZSTD_MAGIC, &[0x23; 12]))),
        ("lzma-chunk-beyond-the-end", block(id::LZMA, 4096, &[0xff, 0xff, 0xff, 0xff, 0xff, 0x5d, 0])),
        ("lzma-raw-chunk-beyond-the-end", block(id::LZMA, 4096, &[1, 0xff, 0xff, 7])),
        ("lzma-without-an-end", block(id::LZMA, 4, &[1, 0, 3, b'a', b'b', b'c', b'd'])),
        ("columns-plain-2-62", columns(&with(&[0xfe], &HUGE[1..]))),
        ("columns-stride-2-62", columns(&with(&HUGE, &[1, 0]))),
        ("columns-rows-2-63", columns(&with(&[0x11], &with(&HUGE, &[0x17, 0, 0])))),
        ("columns-rows-overflow", columns(&with(&[0x81, 0x04], &with(&HUGE, &[0x17, 0, 0])))),
        ("columns-all-alike-beyond-the-block", columns(&[0x11, 0x81, 0x04, 0x17, 0])),
        ("columns-values-2-63", columns(&with(&[0x11, 0x80, 0x04, 0x37], &HUGE))),
        ("columns-values-257", columns(&with(&[0x11, 0x80, 0x04, 0x37, 0x81, 0x02], &[0; 4000]))),
        ("columns-63-bits", columns(&with(&[0x11, 0x80, 0x04, 0x17, 63], &[0; 4096]))),
        ("columns-base-of-15-bytes", columns(&with(&[0x11, 0x80, 0x04, 0xd7, 0xc8], &[0; 800]))),
        ("dictionary-of-noise", with(&[DICTIONARY_FOLLOWS], &[0xa5; 300])),
        ("dictionary-cut", with(&[DICTIONARY_FOLLOWS], &dictionary().0.bytes()[..60])),
    ]
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::codec::accepts;
    use std::collections::BTreeSet;

    #[test]
    fn every_codec_is_there_at_every_length_around_the_usual_block() {
        let seeds = valid();
        let ids: BTreeSet<u8> = seeds.iter().map(|(_, bytes)| bytes[0]).collect();
        let all: BTreeSet<u8> = id::ALL.into_iter().filter(|&id| id != id::NONE).collect();
        assert_eq!(ids, all);
        for (name, bytes) in &seeds {
            assert!(accepts(bytes), "{name}");
        }
        for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
            let prefix = format!("valid-{}-409", codec.name().replace('+', "-"));
            assert_eq!(seeds.iter().filter(|(name, _)| name.starts_with(&prefix)).count(), 3, "{codec}");
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for (name, bytes) in hostile() {
            assert!(!accepts(&bytes), "{name}");
        }
    }
}
