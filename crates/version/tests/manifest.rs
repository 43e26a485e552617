//! The manifest under crashes and errors: whatever happens, recovery finds the state before or after an edit.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use esker_base::{Error, FileNumber, KeyspaceId, PartId, RunId, SeqNo, TableUid};
use esker_env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, StrictOptions, When};
use esker_env::{Env, FileSystem, OpenMode};
use esker_version::*;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// The steps of an engine under its manifest lock.
struct Installer {
    env: Env,
    state: DatabaseState,
    manifest: Manifest,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Installed,
    /// The edit was not appended, and the database refuses writes.
    Poisoned,
}

impl Installer {
    /// Opens or creates.
    fn open(fs: Arc<dyn FileSystem>) -> Result<Installer, Error> {
        let env = Env::simulated(fs, 7);
        let dir = Path::new(DIR);
        env.fs.create_dir_all(dir)?;
        env.fs.sync_dir(Path::new("/"))?;
        let (mut state, last_edit, entries) = match recover(&*env.fs, dir)? {
            Recovery::Nothing => (DatabaseState::new([9; 16]), 0, Vec::new()),
            Recovery::NoCurrent { entries } => (DatabaseState::new([9; 16]), 0, entries),
            Recovery::Database(found) => {
                if let Some(closed) = found.closed
                    && let Some(manifest) = Manifest::resume(&env, dir, &closed, found.last_edit)?
                {
                    return Ok(Installer { env, state: found.state, manifest });
                }
                (found.state, found.last_edit, found.entries)
            }
        };
        let seen = entries.iter().filter_map(|entry| parse_manifest_name(&entry.name)).max();
        state.next_file = state.next_file.max(seen.map_or(FileNumber(0), FileNumber::next));
        let number = state.take_file_number();
        let manifest = Manifest::create(&env, dir, number, &state, last_edit)?;
        for entry in entries.iter().filter(|entry| parse_manifest_name(&entry.name).is_some()) {
            env.fs.remove_file(&dir.join(&entry.name))?;
        }
        Ok(Installer { env, state, manifest })
    }

    fn install(&mut self, edit: &VersionEdit) -> Outcome {
        for _ in 0..8 {
            let mut next = self.state.clone();
            next.apply(edit).unwrap();
            match self.manifest.append(edit) {
                Ok(_) => {
                    self.state = next;
                    return Outcome::Installed;
                }
                Err(AppendError::NotWritten(_)) if !self.manifest.needs_rollover() => {}
                Err(_) => {
                    if self.roll_over() == Outcome::Poisoned {
                        return Outcome::Poisoned;
                    }
                }
            }
        }
        Outcome::Poisoned
    }

    fn roll_over(&mut self) -> Outcome {
        for _ in 0..8 {
            let number = self.state.take_file_number();
            match self.manifest.roll_over(number, &self.state) {
                Ok(()) => return Outcome::Installed,
                Err(error) if error.fatal => return Outcome::Poisoned,
                Err(_) => {}
            }
        }
        Outcome::Poisoned
    }
}

/// The edits of the workload: keyspaces come and go, parts are flushed and compacted.
fn edits() -> Vec<VersionEdit> {
    let keyspace = |id: u32| EditOp::CreateKeyspace {
        id: KeyspaceId(id),
        name: format!("k{id}").into(),
        options: Arc::new([id as u8; 3]),
    };
    let part = |id: u64, a: &str, b: &str| {
        let range = KeyRange::inclusive(a.as_bytes(), b.as_bytes());
        let mut part = PartMeta::new(PartId(id), FileNumber(100 + id), 4096, TableUid(id), range);
        part.max_seqno = SeqNo::new(id * 10);
        Arc::new(part)
    };
    let place =
        |level: u8, run: u64| Place { level: LevelIndex::new(level).unwrap(), run: RunId(run), order: run };
    let zero = KeyspaceId(0);
    let (a, b, c) = (part(1, "a", "f"), part(2, "c", "z"), part(3, "a", "z"));
    let mut edits = vec![VersionEdit::new(); 7];
    edits[0].push(keyspace(0)).push(keyspace(1));
    edits[1].push(EditOp::LastSeqno(SeqNo::new(10))).add_part(zero, place(0, 11), a.clone());
    edits[2].push(EditOp::LastSeqno(SeqNo::new(20))).add_part(zero, place(0, 12), b.clone());
    edits[3].push(EditOp::FlushedSeqno { keyspace: zero, seqno: SeqNo::new(20) });
    edits[4]
        .push(EditOp::LastSeqno(SeqNo::new(30)))
        .remove_part(zero, LevelIndex::FLUSH, RunId(11), &a)
        .remove_part(zero, LevelIndex::FLUSH, RunId(12), &b)
        .add_part(zero, place(63, 13), c);
    edits[5].push(EditOp::DropKeyspace { id: KeyspaceId(1) });
    // Longer than a page, so that a power cut can tear it.
    edits[6].push(EditOp::CreateKeyspace {
        id: KeyspaceId(2),
        name: "big".into(),
        options: vec![5; 9000].into(),
    });
    edits
}

/// The states that the workload goes through.
fn history() -> Vec<DatabaseState> {
    let mut state = DatabaseState::new([9; 16]);
    let mut states = vec![plain(&state)];
    for edit in edits() {
        state.apply(&edit).unwrap();
        states.push(plain(&state));
    }
    states
}

/// A state without the file counter, which moves with every manifest.
fn plain(state: &DatabaseState) -> DatabaseState {
    DatabaseState { next_file: FileNumber(0), ..state.clone() }
}

/// What recovery finds; `None` if there is no database.
fn found_in(fs: &dyn FileSystem, what: &str) -> Option<DatabaseState> {
    match recover(fs, Path::new(DIR)).unwrap_or_else(|error| panic!("{what}: {error}")) {
        Recovery::Nothing | Recovery::NoCurrent { .. } => None,
        Recovery::Database(found) => {
            assert!(found.state.next_file > found.manifest, "{what}");
            assert_eq!(found.state.problems(), Vec::<String>::new(), "{what}");
            Some(plain(&found.state))
        }
    }
}

fn crashes(seed: u64) -> [Crash; 7] {
    [
        Crash::Process,
        Crash::ProcessTorn { keep_bytes: 13 },
        Crash::PowerAllLost,
        Crash::PowerNoneLost,
        Crash::PowerRandom { seed },
        Crash::PowerRandom { seed: seed ^ 0x5555 },
        Crash::PowerRandom { seed: seed ^ 0xaaaa },
    ]
}

/// Runs the workload, noting each acknowledged edit in the trace, with a rollover in the middle.
fn run_workload(fs: &StrictFs) {
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    fs.mark(0);
    for (at, edit) in edits().iter().enumerate() {
        assert_eq!(installer.install(edit), Outcome::Installed);
        fs.mark(at as u64 + 1);
        if at == 3 {
            assert_eq!(installer.roll_over(), Outcome::Installed);
        }
        if [2, 4, 5].contains(&at) {
            installer.manifest.close().unwrap();
            installer = Installer::open(Arc::new(fs.clone())).unwrap();
        }
    }
}

#[test]
fn a_crash_at_any_moment_leaves_the_state_before_or_after_an_edit() {
    for can_allocate in [true, false] {
        let fs = StrictFs::with_options(StrictOptions { can_allocate, ..StrictOptions::default() });
        run_workload(&fs);
        let history = history();
        let mut replayer = fs.replayer();
        let mut images = 0;
        loop {
            let acked = replayer.marks().last().copied();
            for crash in crashes(replayer.position() as u64) {
                let what = format!("cut {} {crash:?}", replayer.position());
                let image = replayer.image(crash);
                let found = found_in(&image, &what);
                match acked {
                    None => assert!(found.is_none_or(|found| found == history[0]), "{what}"),
                    Some(acked) => {
                        let found = found.unwrap_or_else(|| panic!("{what}: the database is gone"));
                        let allowed = &history[acked as usize..history.len().min(acked as usize + 2)];
                        assert!(allowed.contains(&found), "{what}: acknowledged {acked}");
                    }
                }
                images += 1;
            }
            if replayer.step().is_none() {
                break;
            }
        }
        assert!(images > 300, "the workload was recorded: {images} images");
    }
}

/// Recovers, crashes in the middle of it, recovers from that, `depth` times: the state stays the same (RC2).
fn recover_nested(fs: &StrictFs, depth: u32, what: &str) {
    let before = found_in(fs, what);
    fs.forget_trace();
    drop(Installer::open(Arc::new(fs.clone())).unwrap_or_else(|error| panic!("{what}: {error}")));
    let expected = before.clone().unwrap_or_else(|| history().swap_remove(0));
    let mut replayer = fs.replayer();
    loop {
        for crash in [Crash::PowerAllLost, Crash::PowerRandom { seed: replayer.position() as u64 }] {
            let what = format!("{what}, cut {} {crash:?}", replayer.position());
            let image = replayer.image(crash);
            let found = found_in(&image, &what);
            assert!(found == before || found.as_ref() == Some(&expected), "{what}");
            // Deeper only in the middle of a step.
            if depth > 1 && replayer.position() % 3 == 1 {
                recover_nested(&image, depth - 1, &what);
            }
        }
        if replayer.step().is_none() {
            break;
        }
    }
}

#[test]
fn recovery_may_be_interrupted_again_and_again() {
    let fs = StrictFs::new();
    run_workload(&fs);
    let mut replayer = fs.replayer();
    while replayer.step().is_some() {
        let seed = replayer.position() as u64;
        if seed.is_multiple_of(5) {
            recover_nested(&replayer.image(Crash::PowerRandom { seed }), 3, &format!("cut {seed}"));
        }
    }
}

/// Runs the workload over a failing file system; returns the number of acknowledged edits.
fn run_with_faults(fs: &FaultFs) -> Option<usize> {
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let mut installer = (0..3).find_map(|_| Installer::open(shared.clone()).ok())?;
    let edits = edits();
    for (at, edit) in edits.iter().enumerate() {
        if installer.install(edit) == Outcome::Poisoned {
            return Some(at);
        }
        if at == 3 && installer.roll_over() == Outcome::Poisoned {
            return Some(at + 1);
        }
        if [2, 4, 5].contains(&at) {
            // Whether closing succeeds or not, the next open finds every edit.
            let _ = installer.manifest.close();
            installer = (0..3).find_map(|_| Installer::open(shared.clone()).ok())?;
        }
    }
    Some(edits.len())
}

#[test]
fn one_error_anywhere_loses_nothing_acknowledged() {
    let counting = FaultFs::over_strict(StrictFs::new());
    run_with_faults(&counting).unwrap();
    let faults = [
        Fault::Io,
        Fault::Full,
        Fault::ShortWrite { keep_bytes: 1 },
        Fault::ShortWrite { keep_bytes: 60 },
        Fault::ShortFull { keep_bytes: 5000 },
        Fault::LostSync,
    ];
    let (mut poisoned, mut survived) = (0, 0);
    for call in 1..=counting.total_calls() {
        for fault in faults {
            check_one_fault(call, fault, &mut poisoned, &mut survived);
        }
    }
    assert!(survived > 20 * poisoned, "an error is hardly ever fatal: {survived} against {poisoned}");
    assert!(poisoned > 0, "a failed directory sync after the rename is");
}

fn check_one_fault(call: u64, fault: Fault, poisoned: &mut u32, survived: &mut u32) {
    let history = history();
    let strict = StrictFs::new();
    let fs = FaultFs::over_strict(strict.clone());
    fs.add(Rule::new(fault, When::Nth(call)));
    let what = format!("call {call} {fault:?}");
    let acked = run_with_faults(&fs).unwrap_or_else(|| panic!("{what}: one error and no open succeeds"));
    let count = if acked + 1 == history.len() { survived } else { poisoned };
    *count += 1;
    for crash in crashes(call) {
        let what = format!("{what} {crash:?}");
        let image = strict.crash(crash);
        let found = found_in(&image, &what).unwrap_or_else(|| panic!("{what}: the database is gone"));
        let allowed = &history[acked..history.len().min(acked + 2)];
        assert!(allowed.contains(&found), "{what}: acknowledged {acked}");
        let mut reopened = Installer::open(Arc::new(image)).unwrap();
        let mut edit = VersionEdit::new();
        assert_eq!(reopened.install(edit.push(EditOp::TimeFloor(77))), Outcome::Installed, "{what}");
    }
}

/// Only a closed manifest is resumed, without a sync; one whose tail may not be durable is not.
#[test]
fn only_a_closed_manifest_is_continued() {
    let fs = FaultFs::over_strict(StrictFs::new());
    let open = || Installer::open(Arc::new(fs.clone())).unwrap();
    let mut installer = open();
    // The directory above is synced by every open.
    let syncs = || fs.calls(Operation::SyncData) + fs.calls(Operation::SyncAll);
    let first = installer.manifest.number();
    for edit in &edits()[..3] {
        installer.manifest.close().unwrap();
        let before = syncs();
        installer = open();
        assert_eq!((installer.manifest.number(), syncs()), (first, before));
        assert_eq!(installer.install(edit), Outcome::Installed);
    }
    let second = open();
    assert_ne!(second.manifest.number(), first, "the last record may be anything");
    let mut installer = open();
    fs.add(Rule::new(Fault::Io, When::Nth(1)).on(Operation::SyncData));
    assert!(installer.manifest.append(&edits()[3]).is_err());
    installer.manifest.close().unwrap_err();
    let failed = installer.manifest.number();
    assert_ne!(open().manifest.number(), failed, "an edit whose sync failed is in the page cache alone");
}

#[test]
fn repeated_failures_are_fatal_and_a_full_disk_is_not() {
    let fs = FaultFs::over_strict(StrictFs::new());
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    fs.add(Rule::new(Fault::Full, When::From(1)).on(Operation::Write).on(Operation::Allocate));
    let number = |installer: &mut Installer| installer.state.take_file_number();
    for _ in 0..10 {
        let number = number(&mut installer);
        let error = installer.manifest.roll_over(number, &installer.state.clone()).unwrap_err();
        assert!(!error.fatal && matches!(error.error, Error::Full(_)), "{error}");
    }
    fs.heal();
    fs.add(Rule::new(Fault::Io, When::From(1)).on(Operation::Rename));
    for attempt in 1..=3 {
        let number = number(&mut installer);
        let error = installer.manifest.roll_over(number, &installer.state.clone()).unwrap_err();
        assert_eq!(error.fatal, attempt == 3, "attempt {attempt}: {error}");
    }
    fs.heal();
    // The old manifest stays current, and the failed attempts leave nothing behind.
    assert!(installer.manifest.append(&edits()[0]).is_ok());
    let names: Vec<String> =
        installer.env.fs.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["CURRENT", "CURRENT.tmp", &manifest_name(installer.manifest.number())]);
}

#[test]
fn after_a_failed_append_only_a_new_manifest_takes_edits() {
    let fs = FaultFs::over_strict(StrictFs::new());
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    let edits = edits();
    installer.install(&edits[0]);
    fs.add(Rule::new(Fault::LostSync, When::Nth(1)).on(Operation::SyncData));
    assert!(matches!(installer.manifest.append(&edits[3]), Err(AppendError::Unknown(_))));
    fs.heal();
    assert!(matches!(installer.manifest.append(&edits[3]), Err(AppendError::NotWritten(_))));
    assert!(installer.manifest.needs_rollover());
    assert_eq!(installer.roll_over(), Outcome::Installed);
    assert!(!installer.manifest.needs_rollover());
    assert_eq!(installer.manifest.last_edit(), 2, "the number of the doubtful edit is not used again");
    assert_eq!(found_in(&fs, "rolled over"), Some(plain(&installer.state)), "and the edit is not in");
    assert_eq!(installer.manifest.append(&edits[3]).unwrap(), 3);
}

#[test]
fn an_edit_that_frees_space_fits_on_a_full_disk() {
    let fs = StrictFs::new();
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    let edits = edits();
    installer.install(&edits[0]);
    fs.set_capacity_bytes(Some(0));
    for edit in &edits[1..5] {
        assert_eq!(installer.install(edit), Outcome::Installed);
    }
    // In the end the space is used up; that is detected before a byte is written.
    let mut filler = VersionEdit::new();
    filler.push(EditOp::SetKeyspaceOptions { id: KeyspaceId(0), options: vec![1; 100_000].into() });
    let error = (0..100).find_map(|_| installer.manifest.append(&filler).err()).unwrap();
    assert!(matches!(error, AppendError::NotWritten(Error::Full(_))), "{error}");
    let found = found_in(&fs.crash(Crash::PowerAllLost), "full").unwrap();
    assert_eq!(found.keyspaces[&KeyspaceId(0)].options.len(), 100_000);
    fs.set_capacity_bytes(None);
    assert!(installer.manifest.append(&filler).is_ok());
}

#[test]
fn long_manifests_are_replaced() {
    let fs = StrictFs::new();
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    installer.install(&edits()[0]);
    let mut edit = VersionEdit::new();
    edit.push(EditOp::SetKeyspaceOptions { id: KeyspaceId(0), options: vec![1; 600_000].into() });
    let mut count = 1;
    while !installer.manifest.needs_rollover() {
        installer.install(&edit);
        count += 1;
    }
    assert_eq!(count, 8, "seven of 600 KB exceed 4 MiB");
    let (before, number) = (plain(&installer.state), installer.manifest.number());
    assert_eq!(installer.manifest.last_edit(), count);
    installer.roll_over();
    assert_eq!(installer.manifest.last_edit(), count, "numbers go on over rollovers");
    assert!(!installer.manifest.needs_rollover() && installer.manifest.len_bytes() < 1_000_000);
    assert_eq!(found_in(&fs, "rolled over"), Some(before));
    assert_eq!(fs.file_len(&Path::new(DIR).join(manifest_name(number))).unwrap(), None);
}

#[test]
fn damage_is_reported_and_never_read_past() {
    let fs = StrictFs::new();
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    let edits = edits();
    edits[..4].iter().for_each(|edit| assert_eq!(installer.install(edit), Outcome::Installed));
    let history = history();
    let path = Path::new(DIR).join(manifest_name(installer.manifest.number()));
    let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let records = ManifestFile::read(&fs, &path).unwrap();
    let last = records.records().last().unwrap().unwrap().offset as usize;
    for at in 0..bytes.len() {
        file.write_at(&[bytes[at] ^ 0x10], at as u64).unwrap();
        match recover(&fs, Path::new(DIR)) {
            Err(error) => assert!(error.is_corruption() && at < last, "byte {at}: {error}"),
            // Only the last record can be taken for a torn tail, and only padding for no record.
            Ok(Recovery::Database(found)) => {
                assert!(at >= last || plain(&found.state) == history[4], "byte {at}");
                assert!(history[3..=4].contains(&plain(&found.state)), "byte {at}");
            }
            Ok(other) => panic!("byte {at}: {other:?}"),
        }
        file.write_at(&bytes[at..=at], at as u64).unwrap();
    }

    fs.remove_file(&path).unwrap();
    let error = recover(&fs, Path::new(DIR)).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("does not exist"), "{error}");
    let current = fs.open(&Path::new(DIR).join(CURRENT_NAME), OpenMode::ReadWrite).unwrap();
    current.write_at(b"X", 20).unwrap();
    assert!(recover(&fs, Path::new(DIR)).unwrap_err().is_corruption());
}

#[test]
fn directories_without_a_database_are_distinguished() {
    let fs = StrictFs::new();
    let dir = Path::new(DIR);
    assert!(matches!(recover(&fs, dir), Ok(Recovery::Nothing)), "absent");
    fs.create_dir_all(dir).unwrap();
    fs.open(&dir.join(LOCK_NAME), OpenMode::CreateNew).unwrap();
    assert!(matches!(recover(&fs, dir), Ok(Recovery::Nothing)), "only locked");
    fs.open(&dir.join("000001.sst"), OpenMode::CreateNew).unwrap();
    match recover(&fs, dir) {
        Ok(Recovery::NoCurrent { entries }) => assert_eq!(entries[0].name, "000001.sst"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_can_be_inspected() {
    let fs = StrictFs::new();
    let mut installer = Installer::open(Arc::new(fs.clone())).unwrap();
    edits().iter().for_each(|edit| assert_eq!(installer.install(edit), Outcome::Installed));
    let path = Path::new(DIR).join(manifest_name(installer.manifest.number()));
    let file = ManifestFile::read(&fs, &path).unwrap();
    let records: Vec<ManifestRecord> = file.records().map(Result::unwrap).collect();
    let numbers: Vec<u64> = records.iter().map(|record| record.edit_no).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(records[0].edit.is_snapshot());
    let text = records[5].edit.to_string();
    assert_eq!(
        text,
        "last seqno 30\n\
         remove from keyspace 0 L0 run 11: part 1 at a\n\
         remove from keyspace 0 L0 run 12: part 2 at c\n\
         add to keyspace 0 Llast run 13 (order 13): part 3 file 103 [a..z] 4096 bytes, 0 entries, seqno 0..30"
    );
}
