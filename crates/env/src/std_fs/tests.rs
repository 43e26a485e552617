//! Tests particular to the machine's file system. The contract that it shares with the strict one is tested
//! in `tests/contract.rs`.

use super::*;
use crate::fs::DIRECT_ALIGNMENT_BYTES;
use crate::{Clock, SystemClock};
use std::path::PathBuf;

/// A separate directory for each test, removed when the test ends.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let unique = format!("esker-env-{name}-{}-{}", std::process::id(), SystemClock::new().wall_ms());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_lock_file_holds_the_process_id_while_it_is_locked_exclusively() {
    let dir = TempDir::new("pid");
    let path = dir.path("LOCK");
    let lock = StdFileSystem.lock(&path, LockKind::Exclusive).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    drop(lock);
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn a_second_open_by_another_path_is_still_the_same_lock() {
    let dir = TempDir::new("alias");
    let _lock = StdFileSystem.lock(&dir.path("LOCK"), LockKind::Exclusive).unwrap();
    fs::create_dir_all(dir.path("sub")).unwrap();
    let error = StdFileSystem.lock(&dir.path("sub").join("..").join("LOCK"), LockKind::Shared).unwrap_err();
    let Error::Locked { owner, .. } = &error else { panic!("{error}") };
    assert_eq!(&**owner, format!("this process ({})", std::process::id()));
}

/// The system's lock apart from the registry: `flock` distinguishes open files, not processes.
#[cfg(unix)]
#[test]
fn a_lock_held_elsewhere_names_its_owner_only_if_that_is_alive() {
    let dir = TempDir::new("foreign");
    let path = dir.path("LOCK");
    let foreign = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    foreign.lock().unwrap();
    let owner_named_by = |text: &str| {
        fs::write(&path, text).unwrap();
        match StdFileSystem.lock(&path, LockKind::Exclusive).unwrap_err() {
            Error::Locked { owner, .. } => owner.to_string(),
            other => panic!("{other}"),
        }
    };
    assert_eq!(
        owner_named_by(&format!("{}\n", std::process::id())),
        format!("process {}", std::process::id())
    );
    assert_eq!(owner_named_by("2147483646"), "another process");
    for damaged in ["", "not a number", "-1", "0", "99999999999999999999999999", "\u{fffd}\0"] {
        assert_eq!(owner_named_by(damaged), "another process", "{damaged:?}");
    }
    drop(foreign);
    StdFileSystem.lock(&path, LockKind::Exclusive).unwrap();
}

#[test]
fn a_failed_lock_leaves_no_claim_behind() {
    let dir = TempDir::new("claim");
    let missing = dir.path("no such directory").join("LOCK");
    assert!(StdFileSystem.lock(&missing, LockKind::Exclusive).unwrap_err().is_not_found());
    fs::create_dir_all(missing.parent().unwrap()).unwrap();
    StdFileSystem.lock(&missing, LockKind::Exclusive).unwrap();
}

#[test]
fn a_reader_can_lock_where_it_may_not_write() {
    let dir = TempDir::new("reader");
    let path = dir.path("LOCK");
    fs::write(&path, "").unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    StdFileSystem.lock(&path, LockKind::Shared).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn direct_reads_see_all_bytes_up_to_an_odd_end() {
    let dir = TempDir::new("direct");
    let path = dir.path("file");
    let bytes: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let file = StdFileSystem.open(&path, OpenMode::ReadDirect).unwrap();
    let mut buffer = vec![0; 5 * DIRECT_ALIGNMENT_BYTES];
    let start = buffer.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES);
    let aligned = &mut buffer[start..start + 4 * DIRECT_ALIGNMENT_BYTES];
    assert_eq!(file.read_at(aligned, 0).unwrap(), 10_000);
    assert_eq!(aligned[..10_000], bytes);
    assert_eq!(file.read_at(aligned, 8192).unwrap(), 10_000 - 8192);
    assert_eq!(aligned[..10_000 - 8192], bytes[8192..]);
    assert_eq!(file.read_at(aligned, 1 << 20).unwrap(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_temporary_directory_reports_space_and_a_boot_id() {
    let dir = std::env::temp_dir();
    assert!(StdFileSystem.free_bytes(&dir).unwrap() > 0);
    assert_ne!(StdFileSystem.boot_id(), [0; 16]);
    assert!(!StdFileSystem.can_map_writable("/proc".as_ref()), "procfs is on no list");
    assert!(!StdFileSystem.can_map_writable("/no such directory".as_ref()));
}

#[test]
fn boot_ids_parse_only_when_whole() {
    let id = platform::parse_boot_id("00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
    assert_eq!(
        id,
        [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]
    );
    for wrong in
        ["", "0011", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0", "x"]
    {
        assert_eq!(platform::parse_boot_id(wrong), None, "{wrong:?}");
    }
}

#[test]
fn errors_name_the_operation_and_the_path() {
    let dir = TempDir::new("errors");
    let missing = dir.path("missing");
    let text = StdFileSystem.open(&missing, OpenMode::Read).unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot open {}: ", missing.display())), "{text}");
    let text = StdFileSystem.list(&missing).unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot list {}: ", missing.display())), "{text}");
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_not_listed() {
    let dir = TempDir::new("dangling");
    std::os::unix::fs::symlink(dir.path("nowhere"), dir.path("link")).unwrap();
    fs::write(dir.path("file"), "abc").unwrap();
    let expected = DirEntry { name: "file".to_owned(), len: 3, is_dir: false };
    assert_eq!(StdFileSystem.list(&dir.0).unwrap(), [expected]);
}

/// Links are removed, and what they lead to stays.
#[cfg(unix)]
#[test]
fn removing_a_directory_follows_no_link() {
    let (dir, outside) = (TempDir::new("held-links"), TempDir::new("held-outside"));
    fs::write(outside.path("kept"), b"kept").unwrap();
    let held = StdFileSystem.hold_dir(&dir.0).unwrap().unwrap();
    held.create_dir_all(&dir.path("a/b")).unwrap();
    fs::write(dir.path("a/b/file"), b"gone").unwrap();
    std::os::unix::fs::symlink(&outside.0, dir.path("a/b/link")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path("a/dangling")).unwrap();
    held.remove_dir_all(&dir.path("a")).unwrap();
    assert!(!dir.path("a").exists());
    assert_eq!(fs::read(outside.path("kept")).unwrap(), b"kept");
}

/// Both directories are renamed: a link from one into the other connects what is in them.
#[cfg(unix)]
#[test]
fn two_directories_are_held_at_once() {
    let dir = TempDir::new("held-twice");
    let named = |name: &str| dir.path(name);
    for name in ["one", "two"] {
        fs::create_dir_all(named(name)).unwrap();
    }
    let one = StdFileSystem.hold_dir(&named("one")).unwrap().unwrap();
    let both = one.hold_dir(&named("two")).unwrap().unwrap();
    fs::write(named("one/file"), b"abc").unwrap();
    for name in ["one", "two"] {
        fs::rename(named(name), named(&format!("{name}-moved"))).unwrap();
        fs::create_dir_all(named(name)).unwrap();
    }
    both.hard_link(&named("one/file"), &named("two/link")).unwrap();
    both.rename(&named("two/link"), &named("two/renamed")).unwrap();
    let lock = both.lock(&named("two/LOCK"), crate::fs::LockKind::Exclusive).unwrap();
    assert_eq!(fs::read(named("two-moved/renamed")).unwrap(), b"abc");
    assert!(named("two-moved/LOCK").exists());
    assert_eq!(fs::read_dir(named("two")).unwrap().count(), 0);
    drop(lock);
}
