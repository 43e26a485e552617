//! The adaptive choice: by cost, by the options, and by history.

mod data;

use data::Random;
use esker_codec::{Codec, History, decompress, id};

const BLOCK_BYTES: usize = 4096;

fn codec(name: &str) -> Codec {
    name.parse().expect("a codec")
}

/// Words of which few follow each other twice: LZ4 halves it at best.
fn text(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < BLOCK_BYTES {
        let number = random.below(60);
        text.extend_from_slice(format!("word{number} of {} ", number * 7919 % 1000).as_bytes());
    }
    text.truncate(BLOCK_BYTES);
    text
}

fn numbers(random: &mut Random) -> Vec<u8> {
    (0..BLOCK_BYTES / 8).flat_map(|_| (5_000_000_000 + random.next() % (1 << 16)).to_le_bytes()).collect()
}

/// Noise that is classified as text: six bits a byte.
fn letters_of_noise(random: &mut Random) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..BLOCK_BYTES).map(|_| LETTERS[random.below(64)]).collect()
}

/// The ids of a table's blocks, each of which is read back.
fn ids(codec: Codec, blocks: &[Vec<u8>]) -> Vec<u8> {
    let (mut history, mut scratch, mut out) = (History::default(), Vec::new(), Vec::new());
    let mut id_of = |raw: &Vec<u8>| {
        let stored = codec.compress_with(raw, &[], None, &mut history, &mut scratch);
        decompress(stored.codec_id, stored.bytes, raw.len(), &mut out).expect("just compressed");
        assert_eq!(&out, raw);
        stored.codec_id
    };
    blocks.iter().map(&mut id_of).collect()
}

fn id_of(name: &str, block: &[u8]) -> u8 {
    codec(name).compress(block, &mut Vec::new()).codec_id
}

/// At 400 MB/s LZ4 saves more of text than it takes. The slower the device the more compression pays, and on
/// one fast enough nothing does.
#[test]
fn the_cheapest_codec_is_chosen() {
    let mut random = Random(0x5eed_0020);
    let (text, numbers) = (text(&mut random), numbers(&mut random));
    let lines = b"2026-11-22 09:41:07 INFO accepted a connection\n".repeat(100)[..BLOCK_BYTES].to_vec();
    for (name, text_id, numbers_id, lines_id) in [
        ("adaptive", id::LZ4, id::DELTA, id::LZ4),
        ("adaptive:device=36", id::ZSTD, id::DELTA, id::LZ4),
        ("adaptive:device=1000:reads=0", id::NONE, id::DELTA, id::LZ4),
        ("adaptive:device=400:reads=0", id::LZ4, id::DELTA, id::LZ4),
        ("adaptive:device=20:reads=0", id::ZSTD, id::DELTA, id::LZ4),
        ("adaptive:device=100000", id::NONE, id::NONE, id::NONE),
        ("adaptive:mode=speed", id::LZ4, id::DELTA, id::LZ4),
        ("adaptive:mode=ratio", id::ZSTD, id::DELTA, id::ZSTD),
    ] {
        let chosen = [&text, &numbers, &lines].map(|block| id_of(name, block));
        assert_eq!(chosen, [text_id, numbers_id, lines_id], "{name}");
    }
}

/// CS265's sizes, 8 and 256 KiB, choose the level where size decides.
#[test]
fn sizes_of_blocks_are_distinguished() {
    let mut random = Random(0x5eed_0025);
    let long: Vec<u8> = (0..65).flat_map(|_| text(&mut random)).collect();
    let compressed =
        |name: &str, len: usize| codec(name).compress(&long[..len], &mut Vec::new()).bytes.to_vec();
    for (len, level) in
        [(4 << 10, "zstd:3"), (8 << 10, "zstd:6"), (255 << 10, "zstd:6"), (256 << 10, "zstd:9")]
    {
        assert!(compressed("adaptive:mode=ratio", len) == compressed(level, len), "{level} for {len} bytes");
    }
}

#[test]
fn the_options_limit_what_is_compressed() {
    let mut random = Random(0x5eed_0021);
    let text = text(&mut random);
    assert_eq!(id_of("adaptive:mode=speed:least=4096", &text), id::LZ4);
    assert_eq!(id_of("adaptive:mode=speed:least=4097", &text), id::NONE);
    assert_eq!(id_of("adaptive:mode=speed:entropy=3", &text), id::NONE);
    let shrunk = Codec::Lz4.compress(&text, &mut Vec::new()).bytes.len();
    let ratio = |thousandths: usize| format!("adaptive:mode=speed:ratio={:.3}", thousandths as f64 / 1e3);
    assert_eq!(id_of(&ratio(text.len() * 1_000 / shrunk - 2), &text), id::LZ4);
    assert_eq!(id_of(&ratio(text.len() * 1_000 / shrunk + 2), &text), id::NONE);
    // Integers, too.
    assert_eq!(id_of("adaptive:mode=speed:ratio=4.1", &numbers(&mut random)), id::NONE);
    // A small sample sees the noise in front only.
    let headed = [&random.bytes(256)[..], &text[256..]].concat();
    assert_eq!(id_of("adaptive:mode=speed:sample=256", &headed), id::NONE);
    assert_eq!(id_of("adaptive:mode=speed", &headed), id::LZ4);
}

/// The result of a trial holds for similar blocks, for each kind of data; and no longer.
#[test]
fn kinds_of_one_table_do_not_disturb_each_other() {
    let mut random = Random(0x5eed_0022);
    let makers = [text, numbers, letters_of_noise, |random: &mut Random| random.bytes(BLOCK_BYTES)];
    let blocks: Vec<Vec<u8>> = (0..600).map(|_| makers[random.below(4)](&mut random)).collect();
    for name in ["adaptive", "adaptive:device=60", "adaptive:mode=speed", "adaptive:mode=ratio"] {
        let codec = codec(name);
        let (together, again) = (ids(codec, &blocks), ids(codec, &blocks));
        assert_eq!(together, again, "{name}");
        let alone: Vec<u8> =
            blocks.iter().map(|block| codec.compress(block, &mut Vec::new()).codec_id).collect();
        let same = together.iter().zip(&alone).filter(|(together, alone)| together == alone).count();
        // Letters of noise are classified as text: after one of them up to three texts stay raw.
        assert!(same * 5 >= blocks.len() * 4, "{name}: {same} of {}", blocks.len());
    }
}

/// A remembered codec that does not pay any more is given up at once, and taken up again when it does.
#[test]
fn a_change_within_a_data_kind_is_noticed() {
    let mut random = Random(0x5eed_0023);
    let mut blocks: Vec<Vec<u8>> = (0..100).map(|_| text(&mut random)).collect();
    blocks.extend((0..100).map(|_| letters_of_noise(&mut random)));
    blocks.extend((0..100).map(|_| text(&mut random)));
    for name in ["adaptive", "adaptive:mode=speed"] {
        let ids = ids(codec(name), &blocks);
        assert!(ids[..100].iter().all(|&id| id == id::LZ4), "{name}: {ids:?}");
        assert!(ids[100..200].iter().all(|&id| id == id::NONE), "{name}: {ids:?}");
        // Raw blocks show nothing, so only a trial notices: after at most 64 blocks.
        assert!(ids[264..].iter().all(|&id| id == id::LZ4), "{name}: {ids:?}");
    }
}

/// A remembered codec may shrink a block and still cost more than it saves.
#[test]
fn a_remembered_codec_must_pay_for_each_block() {
    let mut random = Random(0x5eed_0024);
    let mut blocks: Vec<Vec<u8>> = (0..30).map(|_| text(&mut random)).collect();
    let (letters, text) = (letters_of_noise(&mut random), text(&mut random));
    let lz4_len = |block: &[u8]| Codec::Lz4.compress(block, &mut Vec::new()).bytes.len();
    // By a fifth and a bit: more than the least ratio, less than pays at 400 MB/s.
    let mixed = (0..BLOCK_BYTES).step_by(32).map(|len| [&letters[..len], &text[len..]].concat());
    let hardly =
        mixed.into_iter().find(|block| lz4_len(block) * 100 >= 78 * BLOCK_BYTES).expect("there is one");
    assert!(lz4_len(&hardly) * 12 <= BLOCK_BYTES * 10);
    blocks.push(hardly);
    assert_eq!(ids(codec("adaptive"), &blocks)[29..], [id::LZ4, id::NONE]);
    assert_eq!(ids(codec("adaptive:mode=speed"), &blocks)[29..], [id::LZ4, id::LZ4]);
}
