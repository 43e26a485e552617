//! Fuzz target for exports, read as `esker import --check` reads them. The valid ones are written here after
//! `docs/format/export.md`, not by the code that writes exports.

use super::{random_bytes, random_text};
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{put_prefixed, put_varint};
use esker_codec::Codec;
use esker_env::{Random, SeededRandom};

const HEADER: usize = 16;
const CHUNK_HEADER: usize = 16;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are a whole export, as they are or with all checksums repaired.
///
/// # Panics
/// If the reported length of a whole export is wrong.
pub fn accepts(bytes: &[u8]) -> bool {
    check(bytes) | check(&repaired(bytes))
}

fn check(bytes: &[u8]) -> bool {
    match esker::backup::check_export(&mut &*bytes, |_| {}) {
        Ok(report) => {
            assert_eq!(report.read_bytes, bytes.len() as u64);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some((header, _)) = bytes.split_at_mut_checked(HEADER) {
        let crc = crc32c(&header[..12]);
        header[12..].copy_from_slice(&crc.to_le_bytes());
    }
    let mut at = HEADER;
    while let Some(chunk) = bytes.get_mut(at..).filter(|chunk| chunk.len() >= CHUNK_HEADER) {
        let stored = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]) as usize;
        let Some(payload) = chunk.get(CHUNK_HEADER..CHUNK_HEADER + stored) else { break };
        let crc = crc32c_append(crc32c(&chunk[..12]), payload);
        chunk[12..CHUNK_HEADER].copy_from_slice(&crc.to_le_bytes());
        at += CHUNK_HEADER + stored;
    }
    bytes
}

fn put_chunk(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let mut scratch = Vec::new();
    let stored = Codec::Zstd { level: 1 }.compress(payload, &mut scratch);
    let mut header = vec![kind, stored.codec_id, 0, 0];
    let stored = stored.bytes;
    header.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    header.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32c_append(crc32c(&header), stored);
    out.extend_from_slice(&header);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(stored);
}

/// A few keyspaces with a few entries.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let mut out = b"ESKEREXP\x01\0\0\0".to_vec();
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    let (mut keyspaces, mut entries) = (0, 0);
    for _ in 0..random.below(3) {
        let mut name = random_text(random, 8);
        name.push(b'n');
        put_chunk(&mut out, 1, &name);
        keyspaces += 1;
        for _ in 0..random.below(3) {
            let mut payload = Vec::new();
            for _ in 0..random.below(4) {
                let expires = random.below(2);
                payload.push(expires as u8);
                put_prefixed(&mut payload, &random_bytes(random, 12));
                if expires == 1 {
                    payload.extend_from_slice(&random.next_u64().to_le_bytes());
                }
                put_prefixed(&mut payload, &random_text(random, 60).repeat(1 + random.below(4) as usize));
                entries += 1;
            }
            put_chunk(&mut out, 2, &payload);
        }
    }
    let mut totals = Vec::new();
    put_varint(&mut totals, keyspaces);
    put_varint(&mut totals, entries);
    put_chunk(&mut out, 3, &totals);
    out
}
