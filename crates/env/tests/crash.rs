//! Crash behaviour of a strict file system, clause by clause.
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

use esker_base::{Error, Result};
use esker_env::fault::{Crash, StrictFs, StrictOptions};
use esker_env::{File, FileSystem, OpenMode};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const SECTOR: usize = 512;
/// Random power losses tried by tests that need every outcome.
const SEEDS: u64 = 300;

fn create(fs: &StrictFs, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = fs.open(path.as_ref(), OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

/// A file whose content and name are durable.
fn durable(fs: &StrictFs, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(fs, path, bytes);
    file.sync_data().unwrap();
    fs.sync_dir(Path::new(path).parent().unwrap()).unwrap();
    file
}

/// The bytes of a file, `None` if there is none.
fn read(fs: &StrictFs, path: &str) -> Option<Vec<u8>> {
    let file = match fs.open(path.as_ref(), OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return None,
        Err(error) => panic!("{error}"),
    };
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

fn text(fs: &StrictFs, path: &str) -> Option<String> {
    read(fs, path).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// The observations of an image, over many random power losses now.
fn outcomes<T: Ord>(fs: &StrictFs, look: impl Fn(&StrictFs) -> T) -> BTreeSet<T> {
    (0..SEEDS).map(|seed| look(&fs.crash(Crash::PowerRandom { seed }))).collect()
}

/// Everything under a directory, paths with contents.
fn dump(fs: &StrictFs, dir: &Path, into: &mut Vec<(String, Option<Vec<u8>>)>) {
    for entry in fs.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        let text = path.to_str().unwrap().to_owned();
        if entry.is_dir {
            into.push((text, None));
            dump(fs, &path, into);
        } else {
            let bytes = read(fs, &text);
            into.push((text, bytes));
        }
    }
}

fn everything(fs: &StrictFs) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    dump(fs, "/".as_ref(), &mut found);
    found
}

#[test]
fn a_name_needs_its_directory_synced_and_a_content_its_file() {
    let fs = StrictFs::new();
    let named = create(&fs, "/named", b"abc");
    fs.sync_dir("/".as_ref()).unwrap();
    create(&fs, "/filled", b"abc").sync_data().unwrap();
    let image = fs.crash(Crash::PowerAllLost);
    assert_eq!((text(&image, "/named").as_deref(), text(&image, "/filled")), (Some(""), None));
    named.sync_data().unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    for crash in [Crash::PowerAllLost, Crash::PowerNoneLost, Crash::Process] {
        let image = fs.crash(crash);
        assert_eq!(text(&image, "/named").as_deref(), Some("abc"), "{crash:?}");
        assert_eq!(text(&image, "/filled").as_deref(), Some("abc"), "{crash:?}");
    }
    let both = BTreeSet::from([(Some("abc".to_owned()), Some("abc".to_owned()))]);
    assert_eq!(outcomes(&fs, |image| (text(image, "/named"), text(image, "/filled"))), both);
}

#[test]
fn an_unsynced_name_may_or_may_not_survive() {
    let fs = StrictFs::new();
    create(&fs, "/file", b"abc").sync_data().unwrap();
    let seen = outcomes(&fs, |image| text(image, "/file"));
    assert_eq!(seen, BTreeSet::from([None, Some("abc".to_owned())]));
    assert_eq!(text(&fs.crash(Crash::PowerNoneLost), "/file").as_deref(), Some("abc"));
}

#[test]
fn unsynced_sectors_survive_in_any_subset_and_in_any_version() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", &[b'0'; 3 * SECTOR]);
    file.write_at(&[b'1'; 3 * SECTOR], 0).unwrap();
    file.write_at(&[b'2'; SECTOR], SECTOR as u64).unwrap();
    let seen = outcomes(&fs, |image| {
        let bytes = read(image, "/file").unwrap();
        assert_eq!(bytes.len(), 3 * SECTOR);
        let sectors = bytes.chunks(SECTOR);
        sectors
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector torn without a mapped store");
                char::from(sector[0])
            })
            .collect::<String>()
    });
    let mut possible = BTreeSet::new();
    for first in "01".chars() {
        for second in "012".chars() {
            for third in "01".chars() {
                possible.insert([first, second, third].into_iter().collect::<String>());
            }
        }
    }
    assert_eq!(seen, possible);
    assert_eq!(read(&fs.crash(Crash::PowerAllLost), "/file").unwrap(), [b'0'; 3 * SECTOR]);
    let newest = [[b'1'; SECTOR], [b'2'; SECTOR], [b'1'; SECTOR]].concat();
    assert_eq!(read(&fs.crash(Crash::PowerNoneLost), "/file").unwrap(), newest);
}

#[test]
fn length_and_data_are_lost_apart() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", b"old");
    file.write_at(b"new and longer", 0).unwrap();
    let seen = outcomes(&fs, |image| text(image, "/file").unwrap().replace('\0', "_"));
    let possible = ["old", "new", "old___________", "new and longer"].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(possible));
}

#[test]
fn cutting_and_growing_again_never_shows_old_bytes() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", &[b'0'; 2 * SECTOR]);
    file.write_at(&[b'1'; SECTOR], SECTOR as u64).unwrap();
    file.set_len(SECTOR as u64 / 2).unwrap();
    file.set_len(2 * SECTOR as u64).unwrap();
    let whole = |byte: u8| vec![byte; SECTOR];
    let half = [vec![b'0'; SECTOR / 2], vec![0; SECTOR / 2]].concat();
    let seen = outcomes(&fs, |image| {
        let bytes = read(image, "/file").unwrap();
        if bytes.len() == SECTOR / 2 {
            assert_eq!(bytes, half[..SECTOR / 2]);
            return None;
        }
        assert_eq!(bytes.len(), 2 * SECTOR);
        let (first, second) = bytes.split_at(SECTOR);
        assert!(first == whole(b'0') || first == half);
        assert!([b'0', b'1', 0].iter().any(|&byte| second == whole(byte)));
        Some((first == half, second[0]))
    });
    assert_eq!(seen.len(), 7, "cut short, or one of two by one of three: {seen:?}");
    assert_eq!(read(&fs.crash(Crash::PowerNoneLost), "/file").unwrap(), [half, whole(0)].concat());
}

#[test]
fn cutting_within_a_sector_that_was_only_just_written_is_a_version_of_its_own() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", b"");
    file.write_at(&[b'1'; SECTOR], 0).unwrap();
    file.set_len(10).unwrap();
    file.set_len(SECTOR as u64).unwrap();
    let seen = outcomes(&fs, |image| {
        let bytes = read(image, "/file").unwrap();
        (bytes.len(), bytes.iter().filter(|&&byte| byte == b'1').count())
    });
    let possible = [(0, 0), (10, 0), (10, 10), (SECTOR, 0), (SECTOR, 10), (SECTOR, SECTOR)];
    assert_eq!(seen, BTreeSet::from(possible));
}

#[test]
fn a_rename_within_a_directory_is_atomic() {
    let fs = StrictFs::new();
    durable(&fs, "/CURRENT", b"old");
    durable(&fs, "/temporary", b"new");
    fs.rename("/temporary".as_ref(), "/CURRENT".as_ref()).unwrap();
    let some = |text: &str| Some(text.to_owned());
    let seen = outcomes(&fs, |image| (text(image, "/temporary"), text(image, "/CURRENT")));
    assert_eq!(seen, BTreeSet::from([(some("new"), some("old")), (None, some("new"))]));
    fs.sync_dir("/".as_ref()).unwrap();
    let seen = outcomes(&fs, |image| (text(image, "/temporary"), text(image, "/CURRENT")));
    assert_eq!(seen, BTreeSet::from([(None, some("new"))]));
}

#[test]
fn a_chain_of_renames_never_loses_the_durable_target() {
    let fs = StrictFs::new();
    durable(&fs, "/CURRENT", b"0");
    for round in 1..=3 {
        durable_content(&fs, &format!("/temporary{round}"), round.to_string().as_bytes());
        fs.rename(format!("/temporary{round}").as_ref(), "/CURRENT".as_ref()).unwrap();
    }
    let possible = |texts: &[Option<&str>]| texts.iter().map(|text| text.map(str::to_owned)).collect();
    let seen: BTreeSet<_> = outcomes(&fs, |image| text(image, "/CURRENT"));
    assert_eq!(seen, possible(&[Some("0"), Some("1"), Some("2"), Some("3")]));
    fs.rename("/CURRENT".as_ref(), "/moved".as_ref()).unwrap();
    fs.remove_file("/moved".as_ref()).unwrap();
    let seen = outcomes(&fs, |image| text(image, "/CURRENT"));
    // Gone if the move survives together with the last rename; without that the removal concerns another
    // file.
    assert_eq!(seen, possible(&[None, Some("0"), Some("1"), Some("2"), Some("3")]));
    let lost = |image: &StrictFs| text(image, "/CURRENT").is_none() && text(image, "/temporary3").is_some();
    assert_eq!(outcomes(&fs, lost), BTreeSet::from([false]), "moved away before it arrived");
    assert_eq!(text(&fs.crash(Crash::PowerAllLost), "/CURRENT").as_deref(), Some("0"));
}

fn durable_content(fs: &StrictFs, path: &str, bytes: &[u8]) {
    create(fs, path, bytes).sync_data().unwrap();
}

#[test]
fn two_directories_are_durable_one_by_one() {
    let fs = StrictFs::new();
    fs.create_dir_all("/a".as_ref()).unwrap();
    fs.create_dir_all("/b".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    durable(&fs, "/a/file", b"x");
    fs.rename("/a/file".as_ref(), "/b/file".as_ref()).unwrap();
    let places = |image: &StrictFs| (read(image, "/a/file").is_some(), read(image, "/b/file").is_some());
    assert_eq!(outcomes(&fs, places).len(), 4);
    assert_eq!(places(&fs), (false, true));
    fs.sync_dir("/b".as_ref()).unwrap();
    assert_eq!(outcomes(&fs, places), BTreeSet::from([(false, true), (true, true)]));
    fs.sync_dir("/a".as_ref()).unwrap();
    assert_eq!(outcomes(&fs, places), BTreeSet::from([(false, true)]));
}

#[test]
fn links_and_removals_wait_for_their_directory() {
    let fs = StrictFs::new();
    durable(&fs, "/file", b"abc");
    fs.hard_link("/file".as_ref(), "/link".as_ref()).unwrap();
    fs.remove_file("/file".as_ref()).unwrap();
    let names = |image: &StrictFs| (text(image, "/file"), text(image, "/link"));
    let abc = || Some("abc".to_owned());
    assert_eq!(names(&fs.crash(Crash::PowerAllLost)), (abc(), None));
    assert_eq!(names(&fs.crash(Crash::PowerNoneLost)), (None, abc()));
    assert_eq!(outcomes(&fs, names).len(), 4);
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(outcomes(&fs, names), BTreeSet::from([(None, abc())]));
}

#[test]
fn a_directory_whose_name_is_lost_loses_its_content() {
    let fs = StrictFs::new();
    fs.create_dir_all("/db/wal".as_ref()).unwrap();
    durable(&fs, "/db/wal/1", b"abc");
    assert_eq!(everything(&fs.crash(Crash::PowerAllLost)), []);
    fs.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(everything(&fs.crash(Crash::PowerAllLost)), []);
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(text(&fs.crash(Crash::PowerAllLost), "/db/wal/1").as_deref(), Some("abc"));
}

#[test]
fn a_directory_moved_to_another_is_found_once_at_most() {
    let fs = StrictFs::new();
    for dir in ["/a/inner", "/b"] {
        fs.create_dir_all(dir.as_ref()).unwrap();
    }
    durable(&fs, "/a/inner/file", b"x");
    fs.sync_dir("/a".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    fs.rename("/a/inner".as_ref(), "/b/inner".as_ref()).unwrap();
    let places =
        |image: &StrictFs| (read(image, "/a/inner/file").is_some(), read(image, "/b/inner/file").is_some());
    assert_eq!(outcomes(&fs, places), BTreeSet::from([(false, false), (false, true), (true, false)]));
}

#[test]
fn a_killed_process_leaves_everything_and_the_same_boot() {
    let fs = StrictFs::new();
    durable(&fs, "/file", b"synced").write_at(b"AND NOT", 6).unwrap();
    create(&fs, "/other", b"x");
    let killed = fs.crash(Crash::Process);
    assert_eq!(everything(&killed), everything(&fs));
    assert_eq!(killed.boot_id(), fs.boot_id());
    // The page cache is still only a cache: a later power loss takes everything unsynced.
    let rebooted = killed.crash(Crash::PowerAllLost);
    assert_eq!(text(&rebooted, "/file").as_deref(), Some("synced"));
    assert_eq!(read(&rebooted, "/other"), None);
    assert_ne!(rebooted.boot_id(), fs.boot_id());
    // A power loss that lost nothing has made everything durable.
    let written = killed.crash(Crash::PowerNoneLost);
    assert_eq!(everything(&written.crash(Crash::PowerAllLost)), everything(&fs));
}

#[test]
fn an_image_is_a_file_system_of_its_own() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", b"abc");
    let image = fs.image(fs.trace_len(), Crash::Process);
    assert_eq!(image.trace_len(), 0);
    file.write_at(b"X", 0).unwrap();
    assert_eq!(text(&image, "/file").as_deref(), Some("abc"));
    let reopened = image.open("/file".as_ref(), OpenMode::ReadWrite).unwrap();
    reopened.write_at(b"Y", 1).unwrap();
    assert_eq!(text(&fs, "/file").as_deref(), Some("Xbc"));
    assert_eq!(text(&image.image(0, Crash::Process), "/file").as_deref(), Some("abc"));
    assert_eq!(text(&image.image(1, Crash::Process), "/file").as_deref(), Some("aYc"));
    assert_eq!(text(&image.image(1, Crash::PowerAllLost), "/file").as_deref(), Some("abc"));
}

#[test]
fn files_that_only_the_process_held_open_and_locks_are_gone() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", b"abc");
    let _lock = fs.lock("/LOCK".as_ref(), esker_env::LockKind::Exclusive).unwrap();
    fs.remove_file("/file".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(file.len().unwrap(), 3);
    let image = fs.crash(Crash::Process);
    assert_eq!(image.used_bytes(), 4096, "only the lock file");
    assert!(format!("{image:?}").contains("files: 1,"), "{image:?}");
    image.lock("/LOCK".as_ref(), esker_env::LockKind::Exclusive).unwrap();
}

#[test]
fn a_store_can_be_torn_anywhere_and_a_write_between_pages() -> Result<()> {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", &[0; 8192]);
    let mut map = file.map_writable(8192)?;
    map.write(100, b"record");
    for keep_bytes in 0..8 {
        let torn = read(&fs.crash(Crash::ProcessTorn { keep_bytes }), "/file").unwrap();
        let kept = keep_bytes.min(6);
        assert_eq!(&torn[100..100 + kept], &b"record"[..kept]);
        assert!(torn[100 + kept..].iter().all(|&byte| byte == 0));
    }
    // A later write-back does not restore torn-off bytes.
    let torn = fs.crash(Crash::ProcessTorn { keep_bytes: 2 });
    assert_eq!(&read(&torn.crash(Crash::PowerNoneLost), "/file").unwrap()[99..104], b"\0re\0\0");
    let seen = outcomes(&torn, |image| read(image, "/file").unwrap()[99..106].to_vec());
    assert!(seen.contains(&b"\0re\0\0\0\0"[..]) && seen.iter().all(|bytes| bytes[3..] == [0; 4]), "{seen:?}");

    file.write_at(&[b'w'; 5000], 4000)?;
    let written = |keep_bytes| {
        let bytes = read(&fs.crash(Crash::ProcessTorn { keep_bytes }), "/file").unwrap();
        (bytes.len(), bytes.iter().filter(|&&byte| byte == b'w').count())
    };
    assert_eq!(
        [0, 95, 96, 4191, 4192, 4999].map(written).map(|(_, count)| count),
        [0, 0, 96, 96, 4192, 4192]
    );
    assert_eq!((written(4999), written(5000)), ((8192, 4192), (9000, 5000)));
    // Any other last event happened completely or not at all.
    fs.rename("/file".as_ref(), "/renamed".as_ref())?;
    assert_eq!(everything(&fs.crash(Crash::ProcessTorn { keep_bytes: 0 })), everything(&fs));
    Ok(())
}

#[test]
fn a_power_loss_can_catch_a_mapped_store_half_done() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/file", &[0; 4096]);
    let mut map = file.map_writable(4096).unwrap();
    map.write(0, &[b'a'; 300]);
    map.write(300, &[b'b'; 300]);
    let seen = outcomes(&fs, |image| {
        let bytes = read(image, "/file").unwrap();
        let count = |byte| bytes.iter().filter(|&&found| found == byte).count();
        (count(b'a'), count(b'b'))
    });
    let torn = seen.iter().any(|&(a, b)| (a > 0 && a < 300) || (b > 0 && b < 300 && b != 212 && b != 88));
    assert!(torn, "{seen:?}");
    // The first sector holds both: `b` without `a` there would be a version that never existed.
    assert!(seen.iter().all(|&(a, b)| a == 300 || b <= 88), "{seen:?}");
}

#[test]
fn allocation_is_lost_like_everything_else() {
    let fs = StrictFs::new();
    let file = durable(&fs, "/segment", b"");
    assert!(file.allocate(0, 65_536, false).unwrap());
    let mappable = |image: &StrictFs| {
        let file = image.open("/segment".as_ref(), OpenMode::ReadWrite).unwrap();
        let len = file.len().unwrap() as usize;
        (len, len > 0 && file.map_writable(len).is_ok())
    };
    // The length may survive without the blocks: such a file must not be mapped (WL4).
    assert_eq!(outcomes(&fs, mappable), BTreeSet::from([(0, false), (65_536, false), (65_536, true)]));
    file.sync_data().unwrap();
    assert_eq!(outcomes(&fs, mappable), BTreeSet::from([(65_536, true)]));
}

#[test]
fn a_replayer_shows_the_state_at_each_cut() {
    let fs = StrictFs::new();
    let mut states = vec![everything(&fs)];
    let mut seen = |fs: &StrictFs| {
        assert_eq!(fs.trace_len(), states.len(), "one event a call");
        states.push(everything(fs));
    };
    fs.create_dir_all("/d".as_ref()).unwrap();
    seen(&fs);
    let file = fs.open("/d/a".as_ref(), OpenMode::CreateNew).unwrap();
    seen(&fs);
    file.write_at(&[7; 5000], 0).unwrap();
    seen(&fs);
    fs.mark(41);
    seen(&fs);
    let mut map = file.map_writable(5000).unwrap();
    map.write(4999, b"!");
    seen(&fs);
    file.sync_data().unwrap();
    seen(&fs);
    fs.rename("/d/a".as_ref(), "/b".as_ref()).unwrap();
    seen(&fs);
    file.set_len(10).unwrap();
    seen(&fs);
    fs.hard_link("/b".as_ref(), "/d/c".as_ref()).unwrap();
    seen(&fs);
    fs.mark(42);
    seen(&fs);
    fs.remove_file("/b".as_ref()).unwrap();
    seen(&fs);

    let mut replayer = fs.replayer();
    for (cut, state) in states.iter().enumerate() {
        assert_eq!(replayer.position(), cut);
        assert_eq!(&everything(&replayer.image(Crash::Process)), state, "cut {cut}");
        for crash in [Crash::PowerAllLost, Crash::PowerNoneLost, Crash::PowerRandom { seed: cut as u64 }] {
            let (stepped, direct) = (replayer.image(crash), fs.image(cut, crash));
            assert_eq!(everything(&stepped), everything(&direct), "cut {cut}, {crash:?}");
        }
        // A write or a store of which nothing was carried out leaves the previous contents.
        let torn = everything(&replayer.image(Crash::ProcessTorn { keep_bytes: 0 }));
        let written = replayer.last_event().is_some_and(|event| event.written_bytes().is_some());
        assert_eq!(&torn, if written { &states[cut - 1] } else { state }, "cut {cut}");
        replayer.step();
    }
    assert!(replayer.step().is_none());
    assert_eq!(replayer.marks(), [41, 42]);
    assert_eq!(replayer.last_event().unwrap().to_string(), "remove /b");
    let texts: Vec<String> = fs.events().iter().map(ToString::to_string).collect();
    assert_eq!(texts[4], "store 1 bytes at 4999 of /d/a");
    assert_eq!(texts[6], "rename /d/a to /b");
    assert_eq!(fs.events()[2].written_bytes(), Some(5000));
}

#[test]
#[should_panic(expected = "cut 3 of a trace of 2 events")]
fn a_cut_past_the_end_is_a_mistake() {
    let fs = StrictFs::new();
    fs.mark(1);
    fs.mark(2);
    fs.image(3, Crash::Process);
}

#[test]
fn without_a_trace_only_the_current_state_can_be_crashed() {
    let fs = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    durable(&fs, "/file", b"synced").write_at(b"AND NOT", 6).unwrap();
    assert_eq!(fs.trace_len(), 0);
    assert_eq!(text(&fs.crash(Crash::PowerAllLost), "/file").as_deref(), Some("synced"));
    assert_eq!(text(&fs.crash(Crash::ProcessTorn { keep_bytes: 0 }), "/file").as_deref(), Some("synced"));

    let traced = StrictFs::new();
    durable(&traced, "/file", b"synced");
    traced.forget_trace();
    assert_eq!(traced.trace_len(), 0);
    create(&traced, "/other", b"x");
    assert_eq!(text(&traced.image(0, Crash::PowerAllLost), "/file").as_deref(), Some("synced"));
    assert_eq!(traced.image(1, Crash::Process).list("/".as_ref()).unwrap().len(), 2);
}

#[test]
fn blocks_allocated_behind_the_end_are_freed_by_set_len() {
    let fs = StrictFs::new();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    file.write_at(&[1; 5000], 0).unwrap();
    for len in [5000, 4096] {
        assert!(file.allocate(0, 10 * 4096, true).unwrap());
        assert_eq!(fs.used_bytes(), 10 * 4096);
        file.set_len(len).unwrap();
        assert_eq!((file.len().unwrap(), fs.used_bytes()), (len, len.next_multiple_of(4096)));
    }
}

#[test]
fn a_full_disk_takes_the_bytes_that_fit_and_recovers() {
    let options = StrictOptions { capacity_bytes: Some(3 * 4096), ..StrictOptions::default() };
    let fs = StrictFs::with_options(options);
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    assert!(matches!(file.write_at(&[1; 20_000], 100), Err(Error::Full(_))));
    assert_eq!((file.len().unwrap(), fs.used_bytes()), (3 * 4096, 3 * 4096));
    assert_eq!(fs.free_bytes("/".as_ref()).unwrap(), 0);
    file.write_at(&[2; 3 * 4096], 0).unwrap();
    assert!(matches!(file.allocate(3 * 4096, 1, true), Err(Error::Full(_))));
    assert!(file.allocate(0, 3 * 4096, true).unwrap());
    let other = fs.open("/other".as_ref(), OpenMode::CreateNew).unwrap();
    assert!(matches!(other.write_at(b"x", 0), Err(Error::Full(_))));
    assert_eq!(other.len().unwrap(), 0);
    // A removed file takes space as long as it is open.
    fs.remove_file("/file".as_ref()).unwrap();
    assert!(other.write_at(b"x", 0).is_err());
    drop(file);
    other.write_at(b"x", 0).unwrap();
    fs.set_capacity_bytes(Some(4096));
    assert!(other.write_at(b"y", 4096).is_err());
    fs.set_capacity_bytes(None);
    other.write_at(b"y", 4096).unwrap();
}

#[test]
fn optional_features_can_be_switched_off() {
    let options = StrictOptions { can_map_writable: false, can_allocate: false, ..StrictOptions::default() };
    let fs = StrictFs::with_options(options);
    let file = create(&fs, "/file", &[0; 4096]);
    assert!(!fs.can_map_writable("/".as_ref()));
    assert!(matches!(file.map_writable(4096), Err(Error::Unsupported(_))));
    assert!(!file.allocate(0, 8192, false).unwrap());
    assert_eq!(file.len().unwrap(), 4096);
    assert!(!fs.crash(Crash::PowerAllLost).can_map_writable("/".as_ref()));
}

#[test]
fn a_hole_cannot_be_mapped_and_a_direct_read_must_be_aligned() {
    let fs = StrictFs::new();
    let file = create(&fs, "/file", b"x");
    file.set_len(8192).unwrap();
    assert!(file.map_writable(4096).is_ok());
    let error = file.map_writable(8192).unwrap_err().to_string();
    assert!(error.contains("1 pages that were not allocated"), "{error}");
    let direct = fs.open("/file".as_ref(), OpenMode::ReadDirect).unwrap();
    let error = direct.read_at(&mut [0; 4096], 512).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
}

#[test]
#[should_panic(expected = "which was cut to 100, kills the process")]
fn storing_past_the_end_of_a_cut_file_kills() {
    let fs = StrictFs::new();
    let file = create(&fs, "/file", &[0; 4096]);
    let mut map = file.map_writable(4096).unwrap();
    file.set_len(100).unwrap();
    map.write(90, b"within");
    map.write(99, b"outside");
}

#[test]
fn forgotten_inodes_do_not_pile_up_nor_come_back() {
    let fs = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let kept = durable(&fs, "/kept", b"abc");
    fs.remove_file("/kept".as_ref()).unwrap();
    fs.create_dir_all("/a".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    durable(&fs, "/a/durable", b"1");
    durable(&fs, "/a/replaced", b"4");
    fs.remove_file("/a/durable".as_ref()).unwrap();
    durable_content(&fs, "/a/between", b"2");
    durable_content(&fs, "/a/replacement", b"3");
    fs.rename("/a/replacement".as_ref(), "/a/between".as_ref()).unwrap();
    durable_content(&fs, "/b", b"5");
    fs.rename("/b".as_ref(), "/a/replaced".as_ref()).unwrap();
    for round in 0..2_000 {
        let path = format!("/file{round}");
        durable(&fs, &path, b"x");
        fs.remove_file(path.as_ref()).unwrap();
        fs.sync_dir("/".as_ref()).unwrap();
    }
    let described = format!("{fs:?}");
    let files: usize = described.split("files: ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert!(files < 200, "{described}");
    // Kept: inodes that a durable name, a name in between, or an open file refers to.
    assert_eq!(text(&fs.crash(Crash::PowerAllLost), "/a/durable").as_deref(), Some("1"));
    assert_eq!(text(&fs.crash(Crash::PowerAllLost), "/a/replaced").as_deref(), Some("4"));
    let between = outcomes(&fs, |image| text(image, "/a/between"));
    assert_eq!(between, BTreeSet::from([None, Some("2".to_owned()), Some("3".to_owned())]));
    let mut buffer = [0; 3];
    kept.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer, b"abc");
}
