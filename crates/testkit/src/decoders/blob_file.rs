//! Fuzz target for blob files: pointers, records, and whole files. The first byte selects which.

use esker_base::checksum::xxh3_64;
use esker_base::{FileNumber, KeyspaceId, TableUid};
use esker_blob::{
    BlobFooter, BlobHeader, BlobOptions, BlobPointer, BlobReader, BlobWriter, FOOTER_BYTES, HEADER_BYTES,
    Record, record,
};
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, Random, SeededRandom};
use std::path::Path;

/// Longer values are not decompressed here: the format permits them, but they are slow.
const MAX_VALUE_LEN: usize = 1 << 20;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes behind the first are a whole encoding of the kind it selects, as they are; they are
/// tried with repaired checksums as well.
///
/// # Panics
/// If what was accepted does not come back from its encoding, or two ways of reading disagree.
pub fn accepts(bytes: &[u8]) -> bool {
    let Some((selector, rest)) = bytes.split_first() else { return false };
    match selector % 3 {
        0 => is_pointer(rest),
        1 => {
            if let Some(body) = rest.get(8..) {
                is_record(&[&xxh3_64(body).to_le_bytes(), body].concat());
            }
            is_record(rest)
        }
        _ => is_file(rest),
    }
}

fn is_pointer(bytes: &[u8]) -> bool {
    let Some(pointer) = BlobPointer::decode(bytes) else { return false };
    let mut again = Vec::new();
    pointer.encode(&mut again);
    // Varints may be longer than necessary; the decoded value is the same.
    assert_eq!(BlobPointer::decode(&again), Some(pointer));
    true
}

fn is_record(bytes: &[u8]) -> bool {
    let Ok(record) = Record::decode(bytes) else { return false };
    let mut value = Vec::new();
    if record.value_len > MAX_VALUE_LEN || record.read_value(&mut value).is_err() {
        return false;
    }
    assert_eq!(value.len(), record.value_len);
    let mut again = Vec::new();
    record::encode(record.key, &value, Codec::None, &mut Vec::new(), &mut again);
    let again = Record::decode(&again).expect("it was just encoded");
    assert_eq!((again.key, again.stored), (record.key, value.as_slice()));
    true
}

fn is_file(bytes: &[u8]) -> bool {
    if let Ok(header) = BlobHeader::decode(bytes.get(..HEADER_BYTES).unwrap_or_default()) {
        assert_eq!(BlobHeader::decode(&header.encode()), Ok(header));
        let foot = bytes.len().saturating_sub(FOOTER_BYTES);
        if let Ok(footer) = BlobFooter::decode(&bytes[foot..], header.uid) {
            assert_eq!(BlobFooter::decode(&footer.encode(header.uid), header.uid), Ok(footer));
        }
    }
    let fs = StrictFs::new();
    let path = Path::new("f.blob");
    let file = fs.open(path, OpenMode::CreateNew).expect("the file system is in memory");
    file.write_at(bytes, 0).expect("the file system is in memory");
    let Ok(reader) = BlobReader::open_any(file, bytes.len() as u64) else { return false };
    let mut pointed = Vec::new();
    let scanned = reader.scan(|offset, record, value| {
        let pointer = BlobPointer {
            file: FileNumber(1),
            offset,
            record_bytes: 0,
            value_bytes: value.len() as u32,
            check: record.checksum as u32,
        };
        pointed.push((pointer, record.key.to_vec(), value.to_vec()));
        Ok(())
    });
    if scanned.is_err() {
        return false;
    }
    let ends: Vec<u64> = pointed.iter().skip(1).map(|(pointer, ..)| pointer.offset).collect();
    let end = (bytes.len() - FOOTER_BYTES) as u64;
    for ((mut pointer, key, value), end) in pointed.into_iter().zip(ends.into_iter().chain([end])) {
        pointer.record_bytes = (end - pointer.offset) as u32;
        let mut read = Vec::new();
        reader.read(&key, &pointer, &mut read).expect("the scan read it");
        assert_eq!(read, value);
    }
    true
}

/// A pointer, a record, or a file of a few values.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let number = || random.next_u64() >> random.below(64);
    let codec = Codec::ALL[random.below(Codec::ALL.len() as u64) as usize];
    let pair = || {
        let key: Vec<u8> = (0..random.below(20)).map(|_| random.below(256) as u8).collect();
        let value: Vec<u8> = (0..random.below(300)).map(|at| (at / (1 + random.below(9))) as u8).collect();
        (key, value)
    };
    match random.below(3) {
        0 => {
            let mut out = vec![0];
            let pointer = BlobPointer {
                file: FileNumber(number()),
                offset: number(),
                record_bytes: number() as u32,
                value_bytes: number() as u32,
                check: number() as u32,
            };
            pointer.encode(&mut out);
            out
        }
        1 => {
            let (key, value) = pair();
            let mut out = vec![1];
            record::encode(&key, &value, codec, &mut Vec::new(), &mut out);
            out
        }
        _ => {
            let fs = StrictFs::new();
            let open = || fs.open(Path::new("f.blob"), OpenMode::CreateOrTruncate);
            let file = open().expect("the file system is in memory");
            let header = BlobHeader {
                db_uuid: [7; 16],
                uid: TableUid(number()),
                keyspace: KeyspaceId(3),
                created_ms: number(),
            };
            let options = BlobOptions { number: FileNumber(1), header, codec };
            let mut writer = BlobWriter::new(std::sync::Arc::clone(&file), options);
            for _ in 0..random.below(5) {
                let (key, value) = pair();
                writer.add(&key, &value).expect("the file system is in memory");
            }
            let summary = writer.finish().expect("the file system is in memory");
            let mut out = vec![2; 1 + summary.file_bytes as usize];
            file.read_exact_at(&mut out[1..], 0).expect("it was just written");
            out
        }
    }
}
