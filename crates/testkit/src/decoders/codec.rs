//! Compressed blocks: `codec id u8 | raw length u24 | stored bytes`.

use super::{random_bytes, random_text};
use esker_base::coding::Reader;
use esker_codec::{Codec, DecodeError, decompress, decompress_into, id};
use esker_env::SeededRandom;

/// What a caller would permit: four of the largest blocks.
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
            assert!(![id::NONE, id::LZ4, id::ZSTD].contains(&codec_id));
            false
        }
        Err(DecodeError::Damaged(_)) => {
            assert!(raw.is_empty());
            false
        }
    }
}

fn round_trip(raw: &[u8]) {
    let (mut scratch, mut again) = (Vec::new(), Vec::new());
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }] {
        let compressed = codec.compress(raw, &mut scratch);
        assert!(compressed.bytes.len() <= raw.len());
        decompress(compressed.codec_id, compressed.bytes, raw.len(), &mut again).expect("just compressed");
        assert_eq!(again, raw, "{codec}");
    }
}

/// A block of text and noise, compressed by any codec.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let mut raw = random_text(random, 200).repeat(1 + random.below(20) as usize);
    raw.extend(random_bytes(random, 200));
    let codec = [Codec::None, Codec::Lz4, Codec::Zstd { level: 3 }][random.below(3) as usize];
    let mut scratch = Vec::new();
    let compressed = codec.compress(&raw, &mut scratch);
    let mut bytes = vec![compressed.codec_id];
    bytes.extend_from_slice(&(raw.len() as u32).to_le_bytes()[..3]);
    bytes.extend_from_slice(compressed.bytes);
    bytes
}
