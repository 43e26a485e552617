//! Fuzz target for compressed blocks: `codec id u8 | raw length u24 | stored bytes`, with one fixed
//! dictionary where the id needs one; and for dictionaries: `255 | dictionary`.

pub mod seeds;

use super::{random_bytes, random_text};
use esker_base::coding::Reader;
use esker_codec::{
    Codec, DecodeError, DictionaryDecoder, DictionaryEncoder, History, decompress, decompress_into,
    decompress_with, id,
};
use esker_env::{Random, SeededRandom};
use std::sync::OnceLock;

/// The limit that a caller sets: four of the largest blocks.
const MAX_RAW_LEN: usize = 256 << 10;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the block decompresses to its stated length.
///
/// # Panics
/// If decompression and compression disagree, or more comes out than was stated.
pub fn accepts(bytes: &[u8]) -> bool {
    if let [DICTIONARY_FOLLOWS, dictionary @ ..] = bytes {
        return accepts_dictionary(dictionary);
    }
    let mut reader = Reader::new(bytes);
    let (Some(codec_id), Some(&[a, b, c])) = (reader.u8(), reader.take(3).and_then(<[u8]>::first_chunk))
    else {
        return false;
    };
    let raw_len = u32::from_le_bytes([a, b, c, 0]) as usize;
    if raw_len > MAX_RAW_LEN {
        return false;
    }
    let stored = reader.rest();
    if codec_id == id::ZSTD_DICTIONARY {
        return accepts_with_dictionary(stored, raw_len);
    }
    let mut raw = Vec::new();
    let outcome = decompress(codec_id, stored, raw_len, &mut raw);
    assert!(raw.capacity() <= raw_len.max(8), "{} bytes allocated for {raw_len}", raw.capacity());
    let mut in_place = vec![0; raw_len];
    assert_eq!(decompress_into(codec_id, stored, &mut in_place), outcome);
    match outcome {
        Ok(()) => {
            assert_eq!(raw, in_place);
            round_trip(&raw);
            true
        }
        Err(DecodeError::Unsupported(_)) => {
            assert!(!id::ALL.contains(&codec_id));
            false
        }
        Err(DecodeError::Damaged(_)) => {
            assert!(raw.is_empty());
            false
        }
    }
}

/// First byte of an input that is a dictionary; it is not a codec id.
const DICTIONARY_FOLLOWS: u8 = 255;

/// Whether any bytes are a dictionary; blocks are then decoded with it.
fn accepts_dictionary(bytes: &[u8]) -> bool {
    let Some(dictionary) = DictionaryDecoder::new(bytes) else { return false };
    let mut out = [0; 4096];
    for stored in [SAMPLES.as_bytes(), b"\x28\xb5\x2f\xfd\x20\x04\x21\x00\x00name"] {
        let _ = decompress_with(id::ZSTD_DICTIONARY, Some(&dictionary), stored, &mut out);
    }
    true
}

/// Whether a block is decoded with the dictionary of [`valid`]. Without, it never is.
fn accepts_with_dictionary(stored: &[u8], raw_len: usize) -> bool {
    let mut raw = vec![0; raw_len];
    assert!(decompress_into(id::ZSTD_DICTIONARY, stored, &mut raw).is_err());
    decompress_with(id::ZSTD_DICTIONARY, Some(&dictionary().1), stored, &mut raw).is_ok()
}

/// Text from which the dictionary is trained.
const SAMPLES: &str = "some words, and others; numbers, and names of people who live in a town by the sea";

fn dictionary() -> &'static (DictionaryEncoder, DictionaryDecoder) {
    static DICTIONARY: OnceLock<(DictionaryEncoder, DictionaryDecoder)> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        let random = SeededRandom::new(7);
        let mut samples = Vec::new();
        let mut lengths = Vec::new();
        while samples.len() < 40_000 {
            let before = samples.len();
            for word in SAMPLES.split(' ').filter(|_| random.below(3) > 0) {
                samples.extend_from_slice(word.as_bytes());
                samples.extend_from_slice(random.below(1000).to_string().as_bytes());
            }
            lengths.push(samples.len() - before);
        }
        let encoder = DictionaryEncoder::train(&samples, &lengths, 3).expect("there is something to learn");
        let decoder = DictionaryDecoder::new(encoder.bytes()).expect("it was just made");
        (encoder, decoder)
    })
}

fn round_trip(raw: &[u8]) {
    let (mut scratch, mut again) = (Vec::new(), Vec::new());
    // Codecs that build their encoder anew for each block are slow, so they are tried seldom.
    let is_seldom = |codec: &Codec| matches!(codec, Codec::Lzma { .. }) && !raw.len().is_multiple_of(16);
    for codec in Codec::ALL.into_iter().filter(|codec| !is_seldom(codec)) {
        let compressed = codec.compress(raw, &mut scratch);
        assert!(compressed.bytes.len() <= raw.len());
        decompress(compressed.codec_id, compressed.bytes, raw.len(), &mut again).expect("just compressed");
        assert_eq!(again, raw, "{codec}");
    }
}

/// A block of text, numbers and noise, compressed by any codec; or the dictionary.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    if random.below(16) == 0 {
        return [&[DICTIONARY_FOLLOWS], dictionary().0.bytes()].concat();
    }
    let raw = if random.below(2) == 0 {
        let mut raw = random_text(random, 200).repeat(1 + random.below(20) as usize);
        raw.extend(random_bytes(random, 200));
        raw
    } else {
        let (base, step) = (random.next_u64(), random.below(1000));
        let few = 1 + random.below(20);
        (0..random.below(300))
            .flat_map(|i| {
                let rising = base.wrapping_add(i * step).to_be_bytes();
                [rising, (base ^ random.below(few)).to_le_bytes()].concat()
            })
            .collect()
    };
    let codec = Codec::ALL[random.below(Codec::ALL.len() as u64) as usize];
    let mut scratch = Vec::new();
    let compressed =
        codec.compress_with(&raw, &[], Some(&dictionary().0), &mut History::default(), &mut scratch);
    let mut bytes = vec![compressed.codec_id];
    bytes.extend_from_slice(&(raw.len() as u32).to_le_bytes()[..3]);
    bytes.extend_from_slice(compressed.bytes);
    bytes
}
