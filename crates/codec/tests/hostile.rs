//! Damaged and hostile blocks: an error or the stated length, never more memory, never a panic.

mod data;

use data::{Random, samples};
use esker_base::Error;
use esker_codec::{Codec, DecodeError, decompress, decompress_into, id};
use std::path::Path;

#[test]
fn unknown_ids_are_unsupported_and_named() {
    let mut out = vec![1, 2, 3];
    for codec_id in [id::SNAPPY, id::LZMA, 5, 77, 255] {
        let error = decompress(codec_id, b"", 1 << 40, &mut out).unwrap_err();
        assert!(matches!(&error, DecodeError::Unsupported(text) if text.contains(&codec_id.to_string())));
        let error = error.into_error(Path::new("/d/7.sst"), 4096);
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported(_)));
        assert!(text.contains("/d/7.sst") && text.contains("4096"), "{text}");
    }
    assert_eq!(
        decompress(id::SNAPPY, b"", 1, &mut out).unwrap_err().to_string(),
        "a block is compressed with snappy (codec 2)"
    );
}

#[test]
fn a_wrong_length_is_damage() {
    let raw = b"eight bytes, eight bytes, eight bytes".repeat(20);
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 3 }] {
        let compressed = codec.compress(&raw, &mut scratch);
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

#[test]
fn a_length_beyond_memory_is_an_error() {
    let mut out = Vec::new();
    for codec_id in [id::NONE, id::LZ4, id::ZSTD] {
        assert!(decompress(codec_id, b"x", usize::MAX, &mut out).is_err());
        assert!(decompress(codec_id, b"x", isize::MAX as usize, &mut out).is_err());
    }
    assert_eq!(out.capacity(), 0);
}

#[test]
fn a_bomb_is_stopped_at_the_stated_length() {
    let raw = vec![0; 1 << 20];
    let mut scratch = Vec::new();
    for codec in [Codec::Lz4, Codec::Zstd { level: 3 }] {
        let bomb = codec.compress(&raw, &mut scratch);
        let mut out = Vec::new();
        assert!(decompress(bomb.codec_id, bomb.bytes, 4096, &mut out).is_err());
        assert!(out.capacity() <= 4096, "{codec} allocated {} bytes", out.capacity());
    }
}

/// Bit flips, truncations, extensions and splices of valid blocks, and plain noise.
#[test]
fn mutated_blocks_never_panic() {
    let seed = 0x5eed_0010;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let samples: Vec<_> =
        samples(seed).into_iter().filter(|(_, raw)| (64..5000).contains(&raw.len())).collect();
    let (mut accepted, mut refused) = (0, 0);
    let mut out = Vec::new();
    for _ in 0..20_000 {
        let (_, raw) = &samples[random.below(samples.len())];
        let codec = [Codec::Lz4, Codec::Zstd { level: 1 }, Codec::Zstd { level: 5 }][random.below(3)];
        let mut scratch = Vec::new();
        let mut stored = codec.compress(raw, &mut scratch).bytes.to_vec();
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
        // The buffer lies within a larger one, whose rest must stay as it was.
        let mut guarded = vec![0xa5; stated + 64];
        let inside = decompress_into(codec.id(), &stored, &mut guarded[32..32 + stated]);
        assert!(guarded[..32].iter().chain(&guarded[32 + stated..]).all(|&byte| byte == 0xa5));
        assert_eq!(decompress(codec.id(), &stored, stated, &mut out).is_ok(), inside.is_ok());
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
