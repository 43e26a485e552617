//! Damaged and hostile blocks: an error or the stated length, never more memory, never a panic.

mod data;

use data::{Random, samples};
use esker_base::Error;
use esker_codec::{
    Codec, DecodeError, DictionaryDecoder, DictionaryEncoder, History, decompress, decompress_into,
    decompress_with, id,
};
use std::path::Path;

#[test]
fn unknown_ids_are_unsupported_and_named() {
    let mut out = vec![1, 2, 3];
    for codec_id in [9, 77, 255] {
        let error = decompress(codec_id, b"", 1 << 40, &mut out).unwrap_err();
        assert!(matches!(&error, DecodeError::Unsupported(text) if text.contains(&codec_id.to_string())));
        let error = error.into_error(Path::new("/d/7.sst"), 4096);
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported(_)));
        assert!(text.contains("/d/7.sst") && text.contains("4096"), "{text}");
    }
    let error = decompress(9, b"", 1, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "a block is compressed with codec 9");
}

/// Data that every codec shrinks: rows of text with counters.
fn rows(count: u64) -> Vec<u8> {
    (0..count).flat_map(|i| [(7_000_000 + 3 * i).to_be_bytes(), *b"same all"].concat()).collect()
}

#[test]
fn a_wrong_length_is_damage() {
    let raw = rows(60);
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for codec in Codec::ALL {
        let compressed = codec.compress(&raw, &mut scratch);
        assert_eq!(compressed.codec_id == id::NONE, codec == Codec::None, "{codec}");
        for stated in [0, 1, raw.len() - 1, raw.len() + 1, raw.len() * 100] {
            let error = decompress(compressed.codec_id, compressed.bytes, stated, &mut out).unwrap_err();
            assert!(matches!(error, DecodeError::Damaged(_)), "{codec}, {stated}");
            assert!(out.is_empty());
            assert!(error.into_error(Path::new("f"), 1).is_corruption());
        }
        decompress(compressed.codec_id, compressed.bytes, raw.len(), &mut out).unwrap();
        assert_eq!(out, raw);
    }
}

/// Zstandard is left out: an empty frame may follow another.
#[test]
fn trailing_bytes_are_damage() {
    let raw = rows(60);
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let compressed = codec.compress(&raw, &mut scratch);
        for garbage in [&[0][..], &[1], &[0xff], &[0, 0, 0, 0, 0, 0, 0, 0], b"more than a few bytes"] {
            let mut longer = compressed.bytes.to_vec();
            longer.extend_from_slice(garbage);
            let outcome = decompress(compressed.codec_id, &longer, raw.len(), &mut out);
            assert!(matches!(outcome, Err(DecodeError::Damaged(_))), "{codec}, {garbage:x?}");
        }
    }
}

#[test]
fn a_length_beyond_memory_is_an_error() {
    let mut out = Vec::new();
    for codec_id in id::ALL {
        assert!(decompress(codec_id, b"x", usize::MAX, &mut out).is_err());
        assert!(decompress(codec_id, b"x", isize::MAX as usize, &mut out).is_err());
    }
    assert_eq!(out.capacity(), 0);
}

#[test]
fn a_bomb_is_stopped_at_the_stated_length() {
    let raw = vec![0; 1 << 20];
    let mut scratch = Vec::new();
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let bomb = codec.compress(&raw, &mut scratch);
        let mut out = Vec::new();
        assert!(bomb.bytes.len() < raw.len() / 20, "{codec}");
        assert!(decompress(bomb.codec_id, bomb.bytes, 4096, &mut out).is_err());
        assert!(out.capacity() <= 4096, "{codec} allocated {} bytes", out.capacity());
    }
}

/// Hand-written columns, each wrong in one way.
#[test]
fn malformed_columns_are_refused() {
    // One segment of 8 rows of 2 bytes: one column of width 2, packed with 4 bits behind a base of a byte.
    let good = [2 << 1 | 1, 8, 0b0101_0001, 4, 9, 0x10, 0x32, 0x54, 0x76];
    let mut out = [0; 16];
    decompress_into(id::BIT_PACKING, &good, &mut out).unwrap();
    assert_eq!(out, [9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15, 0, 16, 0]);
    // The same as digits of numbers to the base 10, two in seven bits.
    let groups = [2 << 1 | 1, 8, 0b0101_0001, 57, 9, 10, 0x0a, 0x90, 0x8d, 0x09];
    out.fill(0);
    decompress_into(id::BIT_PACKING, &groups, &mut out).unwrap();
    assert_eq!(out, [9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15, 0, 16, 0]);
    let in_groups = |column: &[u8]| [&groups[..4], column].concat();
    let counted = |count: &[u8]| [&good[..1], count, &good[2..]].concat();
    let column = |column: &[u8]| [&good[..2], column].concat();
    let wrong: [(&str, Vec<u8>); 24] = [
        ("nothing", vec![]),
        ("no plain bytes", [&[0], &good[..]].concat()),
        ("cut", good[..8].to_vec()),
        ("more behind", [&good[..], &[5, 1, 0b0101_0001, 0, 9]].concat()),
        ("stride 0", vec![1, 8, 0b0101_0001, 4, 9, 0x10, 0x32, 0x54, 0x76]),
        ("stride 257", [&[0x83, 0x04, 1, 0b0000_0000][..], &[0; 300]].concat()),
        ("no rows", counted(&[0])),
        ("too few rows", counted(&[7])),
        ("too many rows", [counted(&[9]), vec![0]].concat()),
        ("rows beyond all numbers", counted(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])),
        ("wider than the row", column(&[0b0101_0010, 4, 9, 0x10, 0x32, 0x54, 0x76])),
        ("a base wider than the column", column(&[0b1101_0001, 4, 9, 0, 0, 0x10, 0x32, 0x54, 0x76])),
        ("a base wider than any", column(&[0b1101_0001, 4 | 3 << 6, 9, 0, 0, 0, 0, 0, 0, 0x10, 0x32])),
        ("a base of what has none", column(&[[0b0100_0001].as_slice(), &[0; 16]].concat())),
        ("groups cut", groups[..9].to_vec()),
        ("groups of no radix", in_groups(&[9, 0, 0x0a, 0x90, 0x8d, 0x09])),
        ("groups of nothing", in_groups(&[9, 1, 0x0a, 0x90, 0x8d, 0x09])),
        // Of 2^22 the third power does not fit.
        ("groups of too great a radix", in_groups(&[&[9, 0x80, 0x80, 0x80, 0x02][..], &[0; 22]].concat())),
        ("more behind groups", [&groups[..], &[0]].concat()),
        ("groups of steps", column(&[0b0110_0001, 57, 9, 10, 0x0a, 0x90, 0x8d, 0x09])),
        ("57 bits", column(&[[0b0101_0001, 57, 9].as_slice(), &[0; 57]].concat())),
        ("no value in the dictionary", column(&[0b0011_0001, 0])),
        ("a place beyond the dictionary", column(&[0b0011_0001, 3, 1, 0, 2, 0, 3, 0, 0b1100_0110, 0])),
        ("a plain segment beyond the block", [&[17 << 1][..], &[7; 17]].concat()),
    ];
    for (what, bytes) in wrong {
        let outcome = decompress_into(id::BIT_PACKING, &bytes, &mut out);
        assert!(matches!(outcome, Err(DecodeError::Damaged(_))), "{what}");
    }
}

/// A block with a dictionary is not decoded without, or with another one.
#[test]
fn dictionaries_are_not_confused() {
    let text = |word: &str| -> (Vec<u8>, Vec<usize>) {
        let samples: Vec<String> = (0..200)
            .map(|i| format!("{{\"{word}\":{i},\"{word}_name\":\"{}\"}}", i * 7919).repeat(4))
            .collect();
        (samples.concat().into_bytes(), samples.iter().map(String::len).collect())
    };
    let (samples, lengths) = text("user");
    let encoder = DictionaryEncoder::train(&samples, &lengths, 3).unwrap();
    let raw = &samples[..lengths.iter().take(4).sum()];
    let codec = Codec::ZstdDictionary { level: 3 };
    let (mut scratch, mut plain) = (Vec::new(), Vec::new());
    let stored = codec.compress_with(raw, &[], Some(&encoder), &mut History::default(), &mut scratch);
    assert_eq!(stored.codec_id, id::ZSTD_DICTIONARY);
    let without = codec.compress(raw, &mut plain);
    assert_eq!(without.codec_id, id::ZSTD);
    assert!(stored.bytes.len() < without.bytes.len());

    let mut out = vec![0; raw.len()];
    let own = DictionaryDecoder::new(encoder.bytes()).unwrap();
    decompress_with(stored.codec_id, Some(&own), stored.bytes, &mut out).unwrap();
    assert_eq!(out, raw);
    let (samples, lengths) = text("city");
    let other = DictionaryEncoder::train(&samples, &lengths, 3).unwrap();
    let other = DictionaryDecoder::new(other.bytes()).unwrap();
    for dictionary in [None, Some(&other)] {
        let outcome = decompress_with(stored.codec_id, dictionary, stored.bytes, &mut out);
        assert!(matches!(outcome, Err(DecodeError::Damaged(_))));
    }

    // Nothing to train from, and no dictionaries.
    assert!(DictionaryEncoder::train(b"", &[], 3).is_none());
    assert!(DictionaryEncoder::train(&samples[..5_000], &[5_000], 3).is_none());
    assert!(DictionaryEncoder::train(&samples, &[1], 3).is_none());
    assert!(DictionaryDecoder::new(b"").is_none() && DictionaryDecoder::new(b"some words").is_none());
    assert!(DictionaryDecoder::new(&vec![7; 1 << 20]).is_none());
    let mut random = Random(0x5eed_0011);
    for _ in 0..2_000 {
        let mut bytes = encoder.bytes().to_vec();
        // Mostly within the tables in front.
        let at = if random.below(4) == 0 { random.below(bytes.len()) } else { random.below(150) };
        bytes[at] ^= 1 << random.below(8);
        bytes.truncate(random.below(2 * bytes.len()).max(1));
        if let Some(damaged) = DictionaryDecoder::new(&bytes) {
            let _ = decompress_with(stored.codec_id, Some(&damaged), stored.bytes, &mut out);
        }
    }
}

/// Bit flips, truncations, extensions and splices of valid blocks, and plain noise.
#[test]
fn mutated_blocks_never_panic() {
    let seed = 0x5eed_0010;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut samples: Vec<_> =
        samples(seed).into_iter().filter(|(_, raw)| (64..5000).contains(&raw.len())).collect();
    samples.extend([40, 200].map(|count| (format!("{count} rows"), rows(count))));
    let codecs: Vec<Codec> = Codec::ALL.into_iter().filter(|codec| *codec != Codec::None).collect();
    let (mut accepted, mut refused) = (0, 0);
    let mut out = Vec::new();
    for _ in 0..20_000 {
        let (_, raw) = &samples[random.below(samples.len())];
        let codec = codecs[random.below(codecs.len())];
        let mut scratch = Vec::new();
        let compressed = codec.compress(raw, &mut scratch);
        let (codec_id, mut stored) = (compressed.codec_id, compressed.bytes.to_vec());
        // Noise is stored raw; it is given to the decoder all the same.
        let codec_id = if codec_id == id::NONE { codec.ids()[0] } else { codec_id };
        match random.below(5) {
            0 => stored.truncate(random.below(stored.len())),
            1 => stored.extend((0..20).map(|_| random.next() as u8)),
            2 => stored = random.bytes(stored.len().min(300)),
            3 => {
                let (from, to) = (random.below(stored.len()), random.below(stored.len()));
                stored.copy_within(from.max(to).., from.min(to));
            }
            _ => {
                let at = random.below(stored.len());
                stored[at] ^= 1 << random.below(8);
            }
        }
        let stated = if random.below(4) == 0 { random.below(9000) } else { raw.len() };
        // The buffer lies within a larger one, whose rest must stay unchanged.
        let mut guarded = vec![0xa5; stated + 64];
        let inside = decompress_into(codec_id, &stored, &mut guarded[32..32 + stated]);
        assert!(guarded[..32].iter().chain(&guarded[32 + stated..]).all(|&byte| byte == 0xa5));
        assert_eq!(decompress(codec_id, &stored, stated, &mut out).is_ok(), inside.is_ok());
        match inside {
            Ok(()) => {
                assert_eq!(out, guarded[32..32 + stated]);
                accepted += 1;
            }
            Err(_) => refused += 1,
        }
    }
    // Flipped literals are accepted (checksums find those), most of the rest is refused.
    assert!(accepted > 100 && refused > 10_000, "{accepted} accepted, {refused} refused");
}
