//! Dictionary section: the Zstandard dictionary of all blocks of a table ([`esker_codec::dictionary`]).
//!
//! ```text
//! magic 8 | length u32 | zero u32 | dictionary | checksum u64, placed, of all before it
//! ```
//! The section directory has a checksum of the section, too. Magic and checksum inside are for repair: the
//! blocks of a table that lost its footer can be decompressed only with the dictionary, so it must be
//! findable like them.

use crate::block::header::placed_checksum;
use crate::decode_error::{DecodeError, damaged};
use esker_base::coding::Reader;
use esker_base::{Result, TableUid};
use esker_codec::DictionaryDecoder;
use esker_codec::dictionary::MAX_DICTIONARY_BYTES;
use esker_codec::id;
use esker_env::File;

const MAGIC: [u8; 8] = *b"EskerDic";
/// Bytes in front of the dictionary and behind it.
const HEADER_BYTES: usize = 16;
const TRAILER_BYTES: usize = 8;
const MAX_SECTION_BYTES: usize = HEADER_BYTES + MAX_DICTIONARY_BYTES + TRAILER_BYTES;
const WINDOW_BYTES: usize = 1 << 20;

pub(crate) fn encode(uid: TableUid, offset: u64, dictionary: &[u8]) -> Vec<u8> {
    let mut section = Vec::with_capacity(HEADER_BYTES + dictionary.len() + TRAILER_BYTES);
    section.extend_from_slice(&MAGIC);
    // Trained dictionaries have some KiB.
    section.extend_from_slice(&(dictionary.len() as u32).to_le_bytes());
    section.extend_from_slice(&[0; 4]);
    section.extend_from_slice(dictionary);
    let checksum = placed_checksum(uid, offset, &section);
    section.extend_from_slice(&checksum.to_le_bytes());
    section
}

/// Decodes the section at the start of `bytes`, at `offset` of the file: dictionary and section length.
fn read(uid: TableUid, offset: u64, bytes: &[u8]) -> Result<(DictionaryDecoder, usize), DecodeError> {
    let mut reader = Reader::new(bytes);
    let (magic, len, _zero) = (reader.take(8), reader.u32(), reader.u32());
    let (Some(len), true) = (len, magic == Some(&MAGIC[..])) else {
        return damaged("no dictionary starts here");
    };
    // Checked before the checksum is computed over so many bytes.
    if len as usize > MAX_DICTIONARY_BYTES {
        return damaged(format!("a dictionary has at most {MAX_DICTIONARY_BYTES} bytes, not {len}"));
    }
    let (dictionary, checksum) = (reader.take(len as usize), reader.u64());
    let (Some(dictionary), Some(stored)) = (dictionary, checksum) else {
        return damaged(format!("a dictionary of {len} bytes does not fit {} bytes", bytes.len()));
    };
    let covered = HEADER_BYTES + dictionary.len();
    let computed = placed_checksum(uid, offset, &bytes[..covered]);
    if computed != stored {
        return damaged(format!("dictionary checksum {stored:016x} expected, {computed:016x} computed"));
    }
    if let Some(feature) = id::missing_feature(id::ZSTD_DICTIONARY) {
        let told = format!("the table has a dictionary of zstd, which needs the Cargo feature {feature:?}");
        return Err(DecodeError::Unsupported(told));
    }
    match DictionaryDecoder::new(dictionary) {
        Some(decoder) => Ok((decoder, covered + TRAILER_BYTES)),
        None => damaged(format!("{len} bytes are no dictionary of Zstandard")),
    }
}

pub(crate) fn decode(uid: TableUid, offset: u64, section: &[u8]) -> Result<DictionaryDecoder, DecodeError> {
    match read(uid, offset, section)? {
        (decoder, len) if len == section.len() => Ok(decoder),
        (_, len) => damaged(format!("a dictionary ends at {len} of {} bytes", section.len())),
    }
}

/// Searches a file of `file_bytes` for the table's dictionary, backwards from the end, where it lies.
///
/// # Errors
/// Errors of reading.
pub(crate) fn find(file: &dyn File, file_bytes: u64, uid: TableUid) -> Result<Option<DictionaryDecoder>> {
    let mut end = file_bytes;
    let mut bytes = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(WINDOW_BYTES as u64);
        // A section that starts in front of `end` may reach beyond it.
        let len = (file_bytes - start).min((WINDOW_BYTES + MAX_SECTION_BYTES) as u64) as usize;
        bytes.resize(len, 0);
        file.read_exact_at(&mut bytes, start)?;
        for at in (0..(end - start) as usize).rev().filter(|&at| bytes[at..].starts_with(&MAGIC)) {
            if let Ok((decoder, _)) = read(uid, start + at as u64, &bytes[at..]) {
                return Ok(Some(decoder));
            }
        }
        end = start;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{UID, new_fs, path};
    use esker_codec::DictionaryEncoder;
    use esker_env::{FileSystem, OpenMode};

    fn trained() -> Vec<u8> {
        let text: Vec<u8> = (0..4_000u32)
            .flat_map(|i| format!("{{\"id\":{i},\"of\":{}}}", i * i % 977).into_bytes())
            .collect();
        let lengths: Vec<usize> = text.chunks(500).map(<[u8]>::len).collect();
        DictionaryEncoder::train(&text, &lengths, 3).unwrap().bytes().to_vec()
    }

    #[test]
    fn sections_round_trip_and_every_change_is_noticed() {
        let dictionary = trained();
        let section = encode(UID, 777, &dictionary);
        decode(UID, 777, &section).unwrap();
        assert!(decode(UID, 778, &section).is_err() && decode(TableUid(1), 777, &section).is_err());
        for at in 0..section.len() {
            let mut changed = section.clone();
            changed[at] ^= 0x10;
            assert!(decode(UID, 777, &changed).is_err(), "byte {at}");
            assert!(decode(UID, 777, &section[..at]).is_err(), "cut at {at}");
        }
        assert!(decode(UID, 777, &[&section[..], &[0]].concat()).is_err());
        let not_one = encode(UID, 0, b"no dictionary");
        assert!(decode(UID, 0, &not_one).is_err());
    }

    #[test]
    fn it_is_found_wherever_it_lies() {
        let (fs, dictionary) = (new_fs(), trained());
        for offset in [0, 5, WINDOW_BYTES as u64 - 100, WINDOW_BYTES as u64 + 7, 3 << 20] {
            for behind in [0, 3, 2 << 20] {
                let file = fs.open(path(), OpenMode::CreateOrTruncate).unwrap();
                let section = encode(UID, offset, &dictionary);
                // Magic bytes without a section behind them.
                file.write_at(&MAGIC.repeat(20), offset + section.len() as u64 + 9).unwrap();
                file.write_at(&section, offset).unwrap();
                let len = file.len().unwrap().max(offset + section.len() as u64 + behind);
                file.set_len(len).unwrap();
                assert!(find(&*file, len, UID).unwrap().is_some(), "{offset}, {behind}");
                assert!(find(&*file, len, TableUid(3)).unwrap().is_none());
                assert!(find(&*file, offset + 100, UID).unwrap().is_none());
            }
        }
    }
}
