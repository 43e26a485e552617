//! Read modes of a file: all give the same answers and detect the same damage.

use super::contract::check_everything;
use super::{EXPECTED, options, path, write};
use crate::testing::{Shape, entries};
use crate::{OpenTables, Table, TableIdentity, TableOptions};
use esker_base::checksum::key_hash;
use esker_base::{Error, Result};
use esker_cache::BlockCache;
use esker_codec::Codec;
use esker_env::{AlignedFile, AsyncReads, Env, FileSystem, OpenMode, ReadQueue, SeededRandom, StdFileSystem};
use std::path::PathBuf;
use std::sync::Arc;

/// A table written by tests, as a file on disk that is removed with the value.
pub(super) struct OnDisk {
    path: PathBuf,
}

impl OnDisk {
    pub(super) fn new(name: &str, entries: &[crate::testing::TestEntry], options: TableOptions) -> OnDisk {
        let fs = super::new_fs();
        write(&fs, entries, options);
        let file = fs.open(path(), OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let path = std::env::temp_dir().join(format!("esker-table-{name}-{}", std::process::id()));
        let on_disk = OnDisk { path };
        on_disk.replace(&bytes);
        on_disk
    }

    fn replace(&self, bytes: &[u8]) {
        let file = StdFileSystem.open(&self.path, OpenMode::CreateOrTruncate).unwrap();
        file.write_at(bytes, 0).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        let file = StdFileSystem.open(&self.path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    pub(super) fn open(
        &self,
        mode: OpenMode,
        cache_bytes: usize,
        reads: Option<Arc<ReadQueue>>,
    ) -> Result<Arc<Table>> {
        let mut file = StdFileSystem.open(&self.path, mode)?;
        if mode == OpenMode::ReadDirect {
            file = Arc::new(AlignedFile::over(file));
        }
        let len = file.len()?;
        let tables = OpenTables::with_choices(
            Arc::new(BlockCache::new(cache_bytes)),
            false,
            reads,
            esker_env::MemoryLedger::unlimited(),
        );
        Ok(Arc::new(Table::open(file, len, EXPECTED, TableIdentity::new(&tables)?)?))
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = StdFileSystem.remove_file(&self.path);
    }
}

const MODES: [OpenMode; 3] = [OpenMode::Read, OpenMode::ReadDirect, OpenMode::ReadMapped];

fn queues() -> Vec<Option<Arc<ReadQueue>>> {
    let ways = [AsyncReads::Off, AsyncReads::IoUring, AsyncReads::Threads];
    ways.into_iter().filter_map(|way| ReadQueue::new(way, &Env::real()).ok()).collect()
}

#[test]
fn all_read_modes_give_the_same_answers() {
    let queues = queues();
    let shapes = [Shape::Random, Shape::Paths, Shape::Versions, Shape::Giant];
    for (round, shape) in shapes.into_iter().enumerate() {
        for codec in [Codec::None, Codec::Lz4] {
            let random = SeededRandom::new(round as u64);
            let count = if shape == Shape::Giant { 25 } else { 400 };
            let entries = entries(shape, count, 100, &random);
            let on_disk =
                OnDisk::new("answers", &entries, TableOptions { codec, block_size_bytes: 512, ..options() });
            for mode in MODES {
                for queue in &queues {
                    let way = queue.as_ref().map(|queue| queue.way());
                    println!("{shape:?}, {codec}, {mode:?}, {way:?}");
                    // A cache that holds a part, and none at all: then every block is read each time.
                    for cache_bytes in [20_000, 0] {
                        let table = on_disk.open(mode, cache_bytes, queue.clone()).unwrap();
                        check_everything(table, &entries, shape, &random);
                    }
                }
            }
        }
    }
}

#[test]
fn windows_grow_and_overlap_over_a_large_table() {
    let random = SeededRandom::new(1);
    let mut large = entries(Shape::Random, 6_000, 0, &random);
    large.iter_mut().filter(|entry| !entry.value.is_empty()).for_each(|entry| entry.value = vec![3; 700]);
    let on_disk = OnDisk::new("windows", &large, options());
    for mode in MODES {
        for queue in queues() {
            let table = on_disk.open(mode, 100_000, queue).unwrap();
            for purpose in [crate::ReadPurpose::Scan, crate::ReadPurpose::Compaction] {
                super::contract::check_walks(&table, &large, purpose);
            }
        }
    }
}

#[test]
fn values_of_a_mapped_file_outlive_the_table() {
    let random = SeededRandom::new(2);
    let entries = entries(Shape::Decimal, 500, 0, &random);
    let on_disk = OnDisk::new("outlive", &entries, options());
    let table = on_disk.open(OpenMode::ReadMapped, 0, None).unwrap();
    let entry = entries.iter().find(|entry| entry.value.len() > 4).unwrap();
    let hit = table.get(&entry.key, key_hash(&entry.key), esker_base::SeqNo::MAX).unwrap().unwrap();
    assert_eq!(hit.value.pinned_bytes(), 0);
    drop(table);
    assert_eq!(&*hit.value, &entry.value[..]);
    assert_eq!(&*hit.value.skip(2), &entry.value[2..]);
}

#[test]
fn all_read_modes_detect_damage() {
    let random = SeededRandom::new(3);
    let entries = entries(Shape::Decimal, 60, 0, &random);
    let on_disk = OnDisk::new("damage", &entries, TableOptions { block_size_bytes: 512, ..options() });
    let whole = on_disk.bytes();
    let data_end = on_disk.open(OpenMode::Read, 0, None).unwrap().sections()[0].offset as usize;
    for mode in MODES {
        for queue in queues() {
            for at in (32..data_end).step_by(7) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x10;
                on_disk.replace(&damaged);
                let table = on_disk.open(mode, 0, queue.clone()).unwrap();
                let mut errors = 0;
                for entry in &entries {
                    match table.get(&entry.key, key_hash(&entry.key), esker_base::SeqNo::MAX) {
                        Ok(Some(hit)) => assert_eq!((hit.tag, &*hit.value), (entry.tag, &entry.value[..])),
                        Ok(None) => panic!("byte {at} hides a key"),
                        Err(error) => {
                            assert!(matches!(error, Error::Corruption(_) | Error::Unsupported(_)), "{error}");
                            errors += 1;
                        }
                    }
                }
                assert!(errors > 0 && errors < entries.len(), "byte {at}: {errors} errors");
            }
        }
    }
    on_disk.replace(&whole);
}
