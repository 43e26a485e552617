//! The file system contract, tested on the machine's file system, a directory of it that is held by
//! descriptor, the strict one, and the fault-injecting one without rules.
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(
    clippy::disallowed_methods,
    reason = "the temporary directory is made and removed behind the trait's back"
)]

use esker_base::Error;
use esker_env::fault::{FaultFs, StrictFs};
use esker_env::{DirEntry, File, FileSystem, LockKind, OpenMode, StdFileSystem};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file system and an empty directory in it.
struct Subject {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
    on_disk: bool,
    /// Where the directory is that the root named when it was held.
    moved: Option<PathBuf>,
}

impl Subject {
    fn std() -> Subject {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let unique =
            format!("esker-contract-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(unique);
        // Left behind by a killed run with the same process id.
        let _ = std::fs::remove_dir_all(&root);
        StdFileSystem.create_dir_all(&root).unwrap();
        Subject { fs: Arc::new(StdFileSystem), root, on_disk: true, moved: None }
    }

    /// The root is renamed before the test begins, and another directory takes its name: only calls that
    /// resolve from the held directory find anything.
    #[cfg(unix)]
    fn held() -> Subject {
        let mut subject = Subject::std();
        subject.fs = StdFileSystem.hold_dir(&subject.root).unwrap().unwrap();
        let moved = subject.root.with_extension("moved");
        let _ = std::fs::remove_dir_all(&moved);
        std::fs::rename(&subject.root, &moved).unwrap();
        std::fs::write(&subject.root, b"not a directory").unwrap();
        subject.moved = Some(moved);
        subject
    }

    fn strict() -> Subject {
        let fs = StrictFs::new();
        fs.create_dir_all("/root".as_ref()).unwrap();
        Subject { fs: Arc::new(fs), root: "/root".into(), on_disk: false, moved: None }
    }

    fn faulty() -> Subject {
        let fs = FaultFs::over_strict(StrictFs::new());
        fs.create_dir_all("/root".as_ref()).unwrap();
        Subject { fs: Arc::new(fs), root: "/root".into(), on_disk: false, moved: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Arc<dyn File> {
        let file = self.fs.open(&self.path(name), OpenMode::CreateNew).unwrap();
        file.write_at(bytes, 0).unwrap();
        file
    }

    fn read(&self, name: &str) -> Vec<u8> {
        contents(&*self.fs.open(&self.path(name), OpenMode::Read).unwrap())
    }

    fn names(&self) -> Vec<String> {
        self.fs.list(&self.root).unwrap().into_iter().map(|entry| entry.name).collect()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some(moved) = &self.moved {
            let _ = std::fs::remove_file(&self.root);
            let _ = std::fs::remove_dir_all(moved);
        } else if self.on_disk {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

fn contents(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Runs each function on each file system, as separate tests.
macro_rules! contract {
    ($($name:ident)*) => {
        mod on_std { $(#[test] fn $name() { super::$name(&super::Subject::std()); })* }
        #[cfg(unix)]
        mod on_held { $(#[test] fn $name() { super::$name(&super::Subject::held()); })* }
        mod on_strict { $(#[test] fn $name() { super::$name(&super::Subject::strict()); })* }
        mod on_faulty { $(#[test] fn $name() { super::$name(&super::Subject::faulty()); })* }
    };
}

contract! {
    reads_return_written_bytes
    modes_differ_in_required_existence
    a_file_opened_for_reading_cannot_be_changed
    lengths_grow_and_shrink_with_zeros
    allocation_grows_or_keeps_the_length
    listing_is_sorted_and_complete
    renames_replace_and_open_files_follow
    linked_names_are_one_file
    a_removed_file_stays_readable_while_open
    directories_are_made_moved_and_removed
    syncing_works_on_existing_files
    locks_exclude_as_their_kinds_say
    a_lock_ends_when_it_is_dropped
    a_mapped_store_is_read_by_the_file
    a_map_outlives_its_file_handle
    maps_lie_within_the_file
    aligned_direct_reads_agree_with_plain_ones
    absurd_offsets_are_errors
    threads_write_different_places
    there_is_room
}

fn reads_return_written_bytes(subject: &Subject) {
    let file = subject.create("file", b"hello world");
    let mut buffer = [0; 5];
    assert_eq!(file.read_at(&mut buffer, 6).unwrap(), 5);
    assert_eq!(&buffer, b"world");
    file.write_at(b"W", 6).unwrap();
    file.write_at(b"", 1_000).unwrap();
    assert_eq!(subject.read("file"), b"hello World");

    let mut buffer = [9; 8];
    assert_eq!(file.read_at(&mut buffer, 8).unwrap(), 3);
    assert_eq!(&buffer, b"rld\x09\x09\x09\x09\x09");
    assert_eq!(file.read_at(&mut buffer, 11).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1 << 30).unwrap(), 0);
    assert_eq!(file.path(), subject.path("file"));

    let error = file.read_exact_at(&mut buffer, 8).unwrap_err();
    let Error::Corruption(damage) = &error else { panic!("{error}") };
    assert_eq!((damage.file.as_path(), damage.offset), (file.path(), Some(8)));
}

fn modes_differ_in_required_existence(subject: &Subject) {
    let path = subject.path("file");
    for mode in [OpenMode::Read, OpenMode::ReadDirect, OpenMode::ReadMapped, OpenMode::ReadWrite] {
        let error = subject.fs.open(&path, mode).unwrap_err();
        assert!(error.is_not_found(), "{mode:?}: {error}");
    }
    assert_eq!(subject.names(), [""; 0]);
    subject.create("file", b"abc");
    assert!(matches!(subject.fs.open(&path, OpenMode::CreateNew), Err(Error::Io(_))));
    let file = subject.fs.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_at(b"X", 1).unwrap();
    assert_eq!(subject.read("file"), b"aXc");
    assert!(!file.is_empty().unwrap());
    let emptied = subject.fs.open(&path, OpenMode::CreateOrTruncate).unwrap();
    assert!(emptied.is_empty().unwrap());
    assert_eq!(file.len().unwrap(), 0);
    subject.fs.open(&subject.path("other"), OpenMode::CreateOrTruncate).unwrap();
    assert_eq!(subject.names(), ["file", "other"]);
    assert!(subject.fs.open(&subject.path("no/file"), OpenMode::CreateNew).unwrap_err().is_not_found());
}

fn a_file_opened_for_reading_cannot_be_changed(subject: &Subject) {
    subject.create("file", b"abc");
    let file = subject.fs.open(&subject.path("file"), OpenMode::Read).unwrap();
    assert!(matches!(file.write_at(b"X", 0), Err(Error::Io(_))));
    assert!(matches!(file.set_len(1), Err(Error::Io(_))));
    assert!(matches!(file.allocate(0, 4096, false), Err(Error::Io(_))));
    assert!(matches!(file.map_writable(1), Err(Error::Io(_))));
    file.sync_data().unwrap();
    file.will_need(0, 3);
    file.begin_write_back(0, 3);
    file.begin_write_back(0, 0);
    file.begin_write_back(u64::MAX, u64::MAX);
    assert_eq!(subject.read("file"), b"abc");
}

fn lengths_grow_and_shrink_with_zeros(subject: &Subject) {
    let file = subject.create("file", &[7; 10_000]);
    file.set_len(5_000).unwrap();
    assert_eq!(subject.fs.file_len(file.path()).unwrap(), Some(5_000));
    assert!(subject.fs.disk_bytes(file.path()).unwrap().is_some_and(|bytes| bytes >= 5_000));
    file.set_len(20_000).unwrap();
    assert_eq!(subject.read("file"), [&[7; 5_000][..], &[0; 15_000]].concat());
    file.write_at(b"end", 30_000).unwrap();
    assert_eq!(subject.read("file"), [&[7; 5_000][..], &[0; 25_000], b"end"].concat());
}

fn allocation_grows_or_keeps_the_length(subject: &Subject) {
    let file = subject.create("file", b"abc");
    assert!(file.allocate(0, 0, false).unwrap());
    assert!(file.allocate(0, 100_000, true).unwrap());
    assert_eq!(file.len().unwrap(), 3);
    assert!(file.allocate(50_000, 50_000, false).unwrap());
    assert_eq!(file.len().unwrap(), 100_000);
    assert!(file.allocate(0, 10, false).unwrap());
    assert_eq!(subject.read("file"), [&b"abc"[..], &[0; 99_997]].concat());
}

fn listing_is_sorted_and_complete(subject: &Subject) {
    subject.create("b", b"12");
    subject.create("a10", b"");
    subject.create("a9", b"123456");
    subject.fs.create_dir_all(&subject.path("dir/inner")).unwrap();
    let entry = |name: &str, len, is_dir| DirEntry { name: name.to_owned(), len, is_dir };
    assert_eq!(
        subject.fs.list(&subject.root).unwrap(),
        [entry("a10", 0, false), entry("a9", 6, false), entry("b", 2, false), entry("dir", 0, true)]
    );
    assert!(subject.fs.list(&subject.path("none")).unwrap_err().is_not_found());
    assert!(subject.fs.list(&subject.path("b")).is_err());
    assert_eq!(subject.fs.file_len(&subject.path("a9")).unwrap(), Some(6));
    assert_eq!(subject.fs.file_len(&subject.path("none")).unwrap(), None);
    assert_eq!(subject.fs.disk_bytes(&subject.path("none")).unwrap(), None);
    assert_eq!(subject.fs.file_len(&subject.path("none/none")).unwrap(), None);
    assert_eq!(subject.fs.file_len(&subject.path("dir")).unwrap(), None);
}

fn renames_replace_and_open_files_follow(subject: &Subject) {
    let old = subject.create("target", b"old");
    let new = subject.create("source", b"new");
    subject.fs.rename(&subject.path("source"), &subject.path("target")).unwrap();
    assert_eq!(subject.names(), ["target"]);
    assert_eq!(subject.read("target"), b"new");
    assert_eq!(contents(&*old), b"old");
    new.write_at(b"N", 0).unwrap();
    assert_eq!(subject.read("target"), b"New");
    subject.fs.rename(&subject.path("target"), &subject.path("target")).unwrap();
    assert_eq!(subject.read("target"), b"New");
    assert!(subject.fs.rename(&subject.path("none"), &subject.path("target")).unwrap_err().is_not_found());
    assert_eq!(subject.read("target"), b"New");
    subject.fs.create_dir_all(&subject.path("dir")).unwrap();
    subject.fs.rename(&subject.path("target"), &subject.path("dir/moved")).unwrap();
    assert_eq!(subject.read("dir/moved"), b"New");
    assert!(subject.fs.rename(&subject.path("dir/moved"), &subject.path("dir")).is_err());
}

fn linked_names_are_one_file(subject: &Subject) {
    subject.create("first", b"abc");
    subject.create("other", b"xyz");
    subject.fs.hard_link(&subject.path("first"), &subject.path("second")).unwrap();
    let file = subject.fs.open(&subject.path("second"), OpenMode::ReadWrite).unwrap();
    file.write_at(b"X", 0).unwrap();
    assert_eq!(subject.read("first"), b"Xbc");
    assert!(subject.fs.hard_link(&subject.path("first"), &subject.path("other")).is_err());
    assert!(subject.fs.hard_link(&subject.path("none"), &subject.path("third")).unwrap_err().is_not_found());
    // Renaming one name of a file to another name of it is no operation in POSIX.
    subject.fs.rename(&subject.path("first"), &subject.path("second")).unwrap();
    assert_eq!(subject.names(), ["first", "other", "second"]);
    subject.fs.remove_file(&subject.path("first")).unwrap();
    assert_eq!(subject.read("second"), b"Xbc");
}

fn a_removed_file_stays_readable_while_open(subject: &Subject) {
    let file = subject.create("file", b"abc");
    subject.fs.remove_file(&subject.path("file")).unwrap();
    assert_eq!(subject.names(), [""; 0]);
    file.write_at(b"d", 3).unwrap();
    file.sync_all().unwrap();
    assert_eq!(contents(&*file), b"abcd");
    assert!(subject.fs.remove_file(&subject.path("file")).unwrap_err().is_not_found());
    subject.create("file", b"another");
    assert_eq!(contents(&*file), b"abcd");
}

fn directories_are_made_moved_and_removed(subject: &Subject) {
    let fs = &subject.fs;
    fs.create_dir_all(&subject.path("a/b/c")).unwrap();
    fs.create_dir_all(&subject.path("a/b/c")).unwrap();
    subject.create("a/b/c/file", b"abc");
    assert!(fs.create_dir_all(&subject.path("a/b/c/file")).is_err());
    assert!(fs.create_dir_all(&subject.path("a/b/c/file/d")).is_err());
    assert!(fs.open(&subject.path("a/b"), OpenMode::ReadWrite).is_err());
    assert!(fs.remove_file(&subject.path("a/b")).is_err());
    fs.create_dir_all(&subject.path("z")).unwrap();
    fs.rename(&subject.path("a/b"), &subject.path("z")).unwrap();
    assert_eq!(subject.read("z/c/file"), b"abc");
    assert!(fs.rename(&subject.path("a"), &subject.path("z")).is_err(), "z is not empty");
    assert!(fs.rename(&subject.path("z"), &subject.path("z/c/z")).is_err(), "into itself");
    fs.remove_dir_all(&subject.path("z")).unwrap();
    assert_eq!(subject.names(), ["a"]);
    assert!(fs.remove_dir_all(&subject.path("z")).unwrap_err().is_not_found());
}

fn syncing_works_on_existing_files(subject: &Subject) {
    let file = subject.create("file", b"abc");
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    subject.fs.sync_dir(&subject.root).unwrap();
    assert!(subject.fs.sync_dir(&subject.path("none")).unwrap_err().is_not_found());
    assert_eq!(subject.fs.boot_id(), subject.fs.boot_id());
}

fn locks_exclude_as_their_kinds_say(subject: &Subject) {
    let path = subject.path("LOCK");
    for first in [LockKind::Exclusive, LockKind::Shared] {
        for second in [LockKind::Exclusive, LockKind::Shared] {
            let _held = subject.fs.lock(&path, first).unwrap();
            let both_shared = first == LockKind::Shared && second == LockKind::Shared;
            match subject.fs.lock(&path, second) {
                Ok(_) => assert!(both_shared, "{first:?} then {second:?}"),
                Err(Error::Locked { path: named, owner }) => {
                    assert!(!both_shared, "{first:?} then {second:?}");
                    assert_eq!(named, path);
                    assert!(owner.contains(&std::process::id().to_string()), "{owner}");
                }
                Err(other) => panic!("{first:?} then {second:?}: {other}"),
            }
        }
    }
    let missing = subject.path("none/LOCK");
    assert!(subject.fs.lock(&missing, LockKind::Exclusive).unwrap_err().is_not_found());
}

fn a_lock_ends_when_it_is_dropped(subject: &Subject) {
    let path = subject.path("LOCK");
    let readers = [LockKind::Shared; 3].map(|kind| subject.fs.lock(&path, kind).unwrap());
    let [first, second, third] = readers;
    drop(second);
    drop(first);
    assert!(subject.fs.lock(&path, LockKind::Exclusive).is_err());
    drop(third);
    let writer = subject.fs.lock(&path, LockKind::Exclusive).unwrap();
    assert_eq!(subject.read("LOCK"), format!("{}\n", std::process::id()).as_bytes());
    drop(writer);
    assert_eq!(subject.read("LOCK"), b"");
    subject.fs.lock(&path, LockKind::Exclusive).unwrap();
}

fn a_mapped_store_is_read_by_the_file(subject: &Subject) {
    if !subject.fs.can_map_writable(&subject.root) {
        assert!(subject.on_disk, "only the machine's own file system may lack maps here");
        return;
    }
    let file = subject.create("file", b"");
    assert!(file.allocate(0, 8192, false).unwrap());
    file.write_at(b"before", 100).unwrap();
    let mut map = file.map_writable(8192).unwrap();
    assert_eq!((map.len(), map.is_empty()), (8192, false));
    map.write(103, b"AFTER");
    map.write(8189, b"end");
    map.write(8192, b"");
    // Through a separate descriptor, as a reader of the log does.
    let bytes = subject.read("file");
    assert_eq!(&bytes[99..110], b"\0befAFTER\0\0");
    assert_eq!(&bytes[8189..], b"end");
    file.sync_data().unwrap();
    let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| map.write(8190, b"end")));
    assert!(outside.is_err(), "a store outside of the map was accepted");
    assert_eq!(file.len().unwrap(), 8192);
}

fn a_map_outlives_its_file_handle(subject: &Subject) {
    if !subject.fs.can_map_writable(&subject.root) {
        return;
    }
    let file = subject.create("file", &[1; 4096]);
    let mut map = file.map_writable(4096).unwrap();
    drop(file);
    map.write(0, b"still");
    assert_eq!(&subject.read("file")[..6], b"still\x01");
    let mut moved = map;
    std::thread::scope(|scope| {
        scope.spawn(|| moved.write(10, b"elsewhere"));
    });
    drop(moved);
    assert_eq!(&subject.read("file")[10..19], b"elsewhere");
}

fn maps_lie_within_the_file(subject: &Subject) {
    let file = subject.create("file", b"abc");
    for len in [0, 4, 4096] {
        assert!(matches!(file.map_writable(len), Err(Error::InvalidArgument(_))), "{len}");
    }
}

fn aligned_direct_reads_agree_with_plain_ones(subject: &Subject) {
    let bytes: Vec<u8> = (0..9_000u32).map(|n| (n % 253) as u8).collect();
    let written = subject.create("file", &bytes);
    written.sync_data().unwrap();
    let file = subject.fs.open(&subject.path("file"), OpenMode::ReadDirect).unwrap();
    let mut buffer = vec![0; 4 * esker_env::DIRECT_ALIGNMENT_BYTES];
    let start = buffer.as_ptr().align_offset(esker_env::DIRECT_ALIGNMENT_BYTES);
    let aligned = &mut buffer[start..start + 3 * esker_env::DIRECT_ALIGNMENT_BYTES];
    assert_eq!(file.read_at(aligned, 0).unwrap(), 9_000);
    assert_eq!(aligned[..9_000], bytes);
    assert_eq!(file.read_at(&mut aligned[..4096], 8192).unwrap(), 9_000 - 8192);
    assert_eq!(aligned[..9_000 - 8192], bytes[8192..]);
    assert_eq!(file.read_at(aligned, 12_288).unwrap(), 0);
}

fn absurd_offsets_are_errors(subject: &Subject) {
    let file = subject.create("file", b"abc");
    assert!(matches!(file.write_at(b"X", u64::MAX), Err(Error::Io(_))));
    assert!(matches!(file.write_at(b"X", i64::MAX as u64), Err(Error::Io(_))));
    assert!(matches!(file.set_len(u64::MAX), Err(Error::Io(_))));
    assert!(file.allocate(u64::MAX, 2, false).is_err());
    assert_eq!(subject.read("file"), b"abc");
}

fn threads_write_different_places(subject: &Subject) {
    let file = subject.create("file", b"");
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..50u64 {
                    file.write_at(&[thread + 1; 100], (round * 4 + u64::from(thread)) * 100).unwrap();
                }
            });
        }
    });
    let expected: Vec<u8> = (0..200).flat_map(|block| [block % 4 + 1; 100]).collect();
    assert_eq!(subject.read("file"), expected);
}

fn there_is_room(subject: &Subject) {
    assert!(subject.fs.free_bytes(&subject.root).unwrap() > 1 << 20);
    assert!(subject.fs.free_bytes(Path::new("/no such directory")).is_err());
}
