//! Files are written and read back; every bit of one is flipped.

use super::*;
use crate::writer::{BlobOptions, BlobWriter};
use esker_base::FileNumber;
use esker_codec::Codec;
use esker_env::{Env, OpenMode};
use std::path::{Path, PathBuf};

fn env() -> (Env, PathBuf) {
    let env = Env::simulated(Arc::new(esker_env::fault::StrictFs::new()), 1);
    (env, PathBuf::from("b.blob"))
}

fn header() -> BlobHeader {
    BlobHeader { db_uuid: [1; 16], uid: TableUid(5), keyspace: KeyspaceId(2), created_ms: 9 }
}

fn write(env: &Env, path: &Path, codec: Codec, values: &[(&[u8], Vec<u8>)]) -> (u64, Vec<BlobPointer>) {
    let file = env.fs.open(path, OpenMode::CreateOrTruncate).unwrap();
    let mut writer = BlobWriter::new(file, BlobOptions { number: FileNumber(7), header: header(), codec });
    let pointers = values.iter().map(|(key, value)| writer.add(key, value).unwrap()).collect();
    (writer.finish().unwrap().file_bytes, pointers)
}

fn open(env: &Env, path: &Path, file_bytes: u64) -> Result<BlobReader> {
    let check = ExpectedBlob { file_bytes, uid: TableUid(5), keyspace: KeyspaceId(2) };
    BlobReader::open(env.fs.open(path, OpenMode::Read)?, check)
}

fn values() -> Vec<(&'static [u8], Vec<u8>)> {
    vec![(b"a", vec![1; 5_000]), (b"b", (0..=255).collect()), (b"c", Vec::new()), (b"b", vec![2; 300])]
}

#[test]
fn values_read_back_by_pointer_and_in_order() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }] {
        let (env, path) = env();
        let values = values();
        let (bytes, pointers) = write(&env, &path, codec, &values);
        let reader = open(&env, &path, bytes).unwrap();
        let mut out = vec![9; 3];
        for ((key, value), pointer) in values.iter().zip(&pointers) {
            reader.read(key, pointer, &mut out).unwrap();
            assert_eq!(&out, value);
        }
        let mut seen = Vec::new();
        let scanned = reader.scan(|offset, record, value| {
            seen.push((offset, record.key.to_vec(), value.to_vec()));
            Ok(())
        });
        let expected: Vec<_> = values
            .iter()
            .zip(&pointers)
            .map(|((key, value), pointer)| (pointer.offset, key.to_vec(), value.clone()))
            .collect();
        assert_eq!(seen, expected);
        assert_eq!(scanned.unwrap().records, 4);
    }
}

#[test]
fn a_pointer_to_another_record_is_refused_with_file_and_offset() {
    let (env, path) = env();
    let values = values();
    let (bytes, pointers) = write(&env, &path, Codec::None, &values);
    let reader = open(&env, &path, bytes).unwrap();
    let mut out = Vec::new();
    // The same key with another value: only the checksum tells.
    let swapped =
        BlobPointer { offset: pointers[3].offset, record_bytes: pointers[3].record_bytes, ..pointers[1] };
    let text = reader.read(b"b", &swapped, &mut out).unwrap_err().to_string();
    assert!(text.contains("b.blob") && text.contains(&format!("at byte {}", swapped.offset)), "{text}");
    assert!(reader.read(b"a", &pointers[1], &mut out).is_err(), "another key");
    for (offset, record_bytes) in [(0, 10), (bytes, 1), (u64::MAX, 7), (64, u32::MAX)] {
        let beyond = BlobPointer { offset, record_bytes, ..pointers[0] };
        assert!(reader.read(b"a", &beyond, &mut out).is_err(), "{beyond:?}");
    }
    let other = ExpectedBlob { file_bytes: bytes, uid: TableUid(6), keyspace: KeyspaceId(2) };
    assert!(BlobReader::open(env.fs.open(&path, OpenMode::Read).unwrap(), other).is_err());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (env, path) = env();
    let values: Vec<(&[u8], Vec<u8>)> = vec![(b"key", vec![3; 40]), (b"l", vec![4; 9])];
    let (bytes, pointers) = write(&env, &path, Codec::None, &values);
    let file = env.fs.open(&path, OpenMode::ReadWrite).unwrap();
    for at in 0..bytes {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        for bit in 0..8 {
            file.write_at(&[byte[0] ^ (1 << bit)], at).unwrap();
            let scanned = open(&env, &path, bytes).and_then(|reader| reader.scan(|_, _, _| Ok(())));
            assert!(scanned.is_err(), "bit {bit} of byte {at}");
            if let Ok(reader) = open(&env, &path, bytes) {
                // A damaged record does not prevent reads of the others.
                let read: Vec<bool> = values
                    .iter()
                    .zip(&pointers)
                    .map(|((key, value), pointer)| {
                        let mut out = Vec::new();
                        let read = reader.read(key, pointer, &mut out).is_ok();
                        assert!(!read || out == *value);
                        read
                    })
                    .collect();
                assert!(read.iter().any(|read| *read));
            }
        }
        file.write_at(&byte, at).unwrap();
    }
    assert!(open(&env, &path, bytes - 1).unwrap().scan(|_, _, _| Ok(())).is_err(), "cut off");
}

/// A large value is written from where it is, and reads back like any other; the turn ends with it.
#[test]
fn large_values_are_written_in_place() {
    use esker_base::large_buffer::LARGE_BYTES;
    let ledger = esker_env::MemoryLedger::for_budget(1 << 20);
    for codec in [Codec::None, Codec::Lz4] {
        let (env, path) = env();
        let half = |len: usize| (0..len).map(|at| if at % 2 == 0 { ((at * 7919) >> 5) as u8 } else { 0 });
        let values: Vec<(&[u8], Vec<u8>)> = vec![
            (b"small", vec![1; 50]),
            (b"large", half(LARGE_BYTES).collect()),
            (b"larger", half(3 * LARGE_BYTES + 5).collect()),
            (b"last", vec![2; 50]),
        ];
        let file = env.fs.open(&path, OpenMode::CreateOrTruncate).unwrap();
        let options = BlobOptions { number: FileNumber(7), header: header(), codec };
        let mut writer = BlobWriter::new(file, options).counted_in(&ledger);
        let pointers: Vec<_> = values.iter().map(|(key, value)| writer.add(key, value).unwrap()).collect();
        assert_eq!(ledger.held_bytes(), 0);
        let bytes = writer.finish().unwrap().file_bytes;
        let reader = open(&env, &path, bytes).unwrap();
        let mut out = Vec::new();
        for ((key, value), pointer) in values.iter().zip(&pointers) {
            reader.read(key, pointer, &mut out).unwrap();
            assert_eq!(&out, value);
        }
        assert_eq!(reader.scan(|_, _, _| Ok(())).unwrap().records, 4);
    }
}
