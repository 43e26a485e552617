//! Spilled memtables: entries stand in a file, and readers notice nothing (MT7).
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use esker_base::{SeqNo, Tag, ValueKind};
use esker_env::{File, FileSystem, OpenMode, StdFileSystem};
use esker_iter::Cursor;
use esker_memtable::{ArenaPool, Memtable, MemtableKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ENTRIES: u64 = 20_000;

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + (number % 7) as usize)
}

/// A file without a name.
fn nameless(name: &str) -> Arc<dyn File> {
    let path: PathBuf = std::env::temp_dir().join(format!("esker-spill-{name}-{}", std::process::id()));
    let file = StdFileSystem.open(&path, OpenMode::CreateNew).unwrap();
    StdFileSystem.remove_file(&path).unwrap();
    file
}

fn filled(kind: MemtableKind, pool: &ArenaPool) -> (Arc<Memtable>, esker_memtable::Inserter) {
    let (memtable, mut inserter) = Memtable::create(kind, pool, kind.reserve_bytes(4 << 20)).unwrap();
    for number in 0..ENTRIES {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        inserter.insert(&key, Tag::new(SeqNo::new(number + 1), ValueKind::Put), &value(number));
    }
    (memtable, inserter)
}

/// The sum of all entries in order, to compare.
fn walk(memtable: &Arc<Memtable>) -> (u64, u64) {
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    let (mut count, mut sum) = (0u64, 0u64);
    while cursor.is_valid() {
        count += 1;
        let bytes = cursor.key().iter().chain(cursor.value());
        sum = bytes.fold(sum, |sum, &byte| sum.rotate_left(5) ^ u64::from(byte));
        cursor.next().unwrap();
    }
    (count, sum)
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn every_kind_reads_the_same_before_and_after() {
    for kind in MemtableKind::ALL {
        let pool = ArenaPool::new(64 << 20);
        let (memtable, inserter) = filled(kind, &pool);
        drop(inserter);
        let before = walk(&memtable);
        assert_eq!(before.0, ENTRIES, "{kind}");
        let held = memtable.allocated_bytes();
        assert!(memtable.spill(&*nameless(kind.name())).unwrap(), "{kind} was not moved");
        assert_eq!(walk(&memtable), before, "{kind}");
        assert!(memtable.allocated_bytes() < held / 2, "{kind} has {} bytes", memtable.allocated_bytes());
        assert!(memtable.spilled_bytes() > ENTRIES * 16, "{kind}");
        assert!(!memtable.spill(&*nameless(kind.name())).unwrap(), "once is enough");
        drop(memtable);
        assert_eq!(pool.idle_bytes(), 0, "{kind}: pages of a file are not reused");
    }
}

#[test]
fn a_memtable_that_takes_entries_is_not_moved() {
    let pool = ArenaPool::new(0);
    let (memtable, mut inserter) = filled(MemtableKind::Art, &pool);
    assert!(!memtable.spill(&*nameless("open")).unwrap());
    inserter.insert(b"one more", Tag::new(SeqNo::new(ENTRIES + 1), ValueKind::Put), b"");
    assert_eq!(walk(&memtable).0, ENTRIES + 1);
}

#[test]
fn readers_go_on_while_it_is_moved() {
    let pool = ArenaPool::new(0);
    for round in 0..8 {
        let (memtable, inserter) = filled(MemtableKind::Art, &pool);
        drop(inserter);
        let (expected, is_over) = (walk(&memtable), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    let mut walks = 0;
                    while !is_over.load(Ordering::Relaxed) || walks == 0 {
                        assert_eq!(walk(&memtable), expected);
                        walks += 1;
                    }
                })
            });
            memtable.spill(&*nameless(&format!("readers-{round}"))).unwrap();
            is_over.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        assert_eq!(walk(&memtable), expected);
    }
}
