//! What the system is told of a table's reads: scattered, but for the walks that read full windows.

use super::{EXPECTED, identity, new_fs, options, path, write};
use crate::testing::{Shape, TestEntry, entries};
use crate::{ReadPurpose, Table, TableOptions};
use esker_base::{Result, SeqNo};
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{File, FileSystem, FileWrapper, OpenMode, ReadPattern, SeededRandom};
use esker_iter::Cursor;
use std::sync::{Arc, Mutex};

/// A file that keeps what it is told.
#[derive(Debug)]
struct Told {
    file: Arc<dyn File>,
    patterns: Mutex<Vec<ReadPattern>>,
}

impl Told {
    fn take(&self) -> Vec<ReadPattern> {
        std::mem::take(&mut self.patterns.lock().unwrap())
    }
}

impl FileWrapper for Told {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn expect_reads(&self, pattern: ReadPattern) {
        self.patterns.lock().unwrap().push(pattern);
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

/// A table of a mebibyte and more, of which nothing is cached.
fn open(fs: &StrictFs) -> (Arc<Table>, Arc<Told>, Vec<TestEntry>) {
    let mut sample = entries(Shape::Random, 16_000, 0, &SeededRandom::new(8));
    sample.iter_mut().for_each(|entry| entry.value = vec![entry.key[0]; 100]);
    write(fs, &sample, TableOptions { codec: Codec::None, ..options() });
    let file = fs.open(path(), OpenMode::Read).unwrap();
    let len = file.len().unwrap();
    let told = Arc::new(Told { file, patterns: Mutex::default() });
    let table = Table::open(Arc::clone(&told) as Arc<dyn File>, len, EXPECTED, identity(0)).unwrap();
    (Arc::new(table), told, sample)
}

#[test]
fn only_long_walks_are_told_to_be_consecutive() {
    let fs = new_fs();
    let (table, told, sample) = open(&fs);
    assert_eq!(told.take(), [ReadPattern::Scattered]);
    for purpose in [ReadPurpose::Scan, ReadPurpose::Point] {
        let mut cursor = table.cursor(purpose);
        for first in [5_000, 12_000] {
            cursor.seek(&sample[first].key, SeqNo::MAX).unwrap();
            for entry in &sample[first..first + 300] {
                assert_eq!(cursor.key(), entry.key);
                cursor.next().unwrap();
            }
        }
        assert!(told.take().is_empty(), "{purpose:?}: a walk of thirty kilobytes is short");
    }
    for purpose in [ReadPurpose::Scan, ReadPurpose::Compaction] {
        let (mut one, mut other) = (table.cursor(purpose), table.cursor(purpose));
        for cursor in [&mut one, &mut other] {
            cursor.seek_to_first().unwrap();
            (0..8_000).for_each(|_| cursor.next().unwrap());
        }
        drop(one);
        assert_eq!(told.take(), [ReadPattern::Consecutive], "{purpose:?}: one of two is left");
        drop(other);
        assert_eq!(told.take(), [ReadPattern::Scattered], "{purpose:?}");
    }
}
