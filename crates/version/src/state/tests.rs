use super::*;
use crate::edit::{EditOp, VersionEdit};
use crate::part::PartMeta;
use crate::range::KeyRange;
use crate::version::{LevelIndex, Place};
use esker_base::TableUid;

const KEYSPACE: KeyspaceId = KeyspaceId(0);

fn part(id: u64, range: KeyRange) -> Arc<PartMeta> {
    let mut part = PartMeta::new(PartId(id), FileNumber(id), 100, TableUid(id), range);
    part.max_seqno = SeqNo::new(id);
    Arc::new(part)
}

fn keys(a: &str, b: &str) -> KeyRange {
    KeyRange::inclusive(a.as_bytes(), b.as_bytes())
}

fn place(level: u8, run: u64) -> Place {
    Place { level: LevelIndex::new(level).unwrap(), run: RunId(run), order: run }
}

fn state_with_keyspace() -> DatabaseState {
    let mut state = DatabaseState::new([7; 16]);
    let mut edit = VersionEdit::new();
    edit.push(EditOp::CreateKeyspace { id: KEYSPACE, name: "default".into(), options: Arc::default() });
    edit.push(EditOp::LastSeqno(SeqNo::new(1000)));
    let applied = state.apply(&edit).unwrap();
    assert_eq!(applied.changed, [KEYSPACE]);
    state
}

fn apply(state: &mut DatabaseState, edit: &VersionEdit) -> Result<Applied, EditError> {
    let mut next = state.clone();
    let before = state.clone();
    let applied = next.apply(edit)?;
    assert_eq!(*state, before, "applying to a clone must not show through");
    assert_eq!(next.problems(), Vec::<String>::new());
    let mut committed = state.clone();
    let prepared = committed.prepare(edit).expect("what can be applied can be prepared");
    assert_eq!(committed, before, "preparing must not show through");
    assert_eq!(committed.commit(prepared), applied);
    assert_eq!(committed, next, "prepared and committed is applied");
    *state = next;
    Ok(applied)
}

#[test]
fn parts_are_added_moved_and_removed() {
    let mut state = state_with_keyspace();
    let (low, high) = (part(1, keys("a", "f")), part(2, keys("g", "m")));
    let mut edit = VersionEdit::new();
    edit.add_part(KEYSPACE, place(0, 10), low.clone()).add_part(KEYSPACE, place(0, 10), high.clone());
    apply(&mut state, &edit).unwrap();
    assert_eq!(state.next_part, PartId(11));
    assert_eq!(state.next_file, FileNumber(3));

    // Moving a part keeps its file; the addition may be listed before the removal.
    let mut edit = VersionEdit::new();
    edit.add_part(KEYSPACE, place(1, 11), low.clone());
    edit.remove_part(KEYSPACE, LevelIndex::FLUSH, RunId(10), &low);
    let applied = apply(&mut state, &edit).unwrap();
    assert_eq!(applied.obsolete_files, []);

    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, LevelIndex::FLUSH, RunId(10), &high);
    let applied = apply(&mut state, &edit).unwrap();
    assert_eq!(applied.obsolete_files, [FileNumber(2)]);
    let version = &state.keyspaces[&KEYSPACE].version;
    assert_eq!(version.run_count(), 1, "an empty run and an empty level go away");
    assert_eq!(version.levels()[0].index, LevelIndex::new(1).unwrap());
}

#[test]
fn a_file_lives_as_long_as_a_slice_of_it() {
    let mut state = state_with_keyspace();
    let whole = part(1, keys("a", "z"));
    let mut edit = VersionEdit::new();
    apply(&mut state, edit.add_part(KEYSPACE, place(0, 10), whole.clone())).unwrap();

    let (before, after) = whole.range.without(&keys("h", "m"));
    let before = Arc::new(whole.slice(PartId(20), &before.unwrap()).unwrap());
    let after = Arc::new(whole.slice(PartId(21), &after.unwrap()).unwrap());
    assert!(before.sliced && before.bytes < whole.bytes);
    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, LevelIndex::FLUSH, RunId(10), &whole)
        .add_part(KEYSPACE, place(0, 10), before.clone())
        .add_part(KEYSPACE, place(0, 10), after.clone());
    assert_eq!(apply(&mut state, &edit).unwrap().obsolete_files, []);
    let run = &state.keyspaces[&KEYSPACE].version.runs_of(LevelIndex::FLUSH)[0];
    assert_eq!(run.part_for(b"g").unwrap().id, before.id);
    assert!(run.part_for(b"h").is_none() && run.part_for(b"m").is_none());
    assert_eq!(run.part_for(b"m\0").unwrap().id, after.id);
    assert_eq!(state.live_files()[&FileNumber(1)].parts, 2);

    for (slice, obsolete) in [(&before, vec![]), (&after, vec![FileNumber(1)])] {
        let mut edit = VersionEdit::new();
        edit.remove_part(KEYSPACE, LevelIndex::FLUSH, RunId(10), slice);
        assert_eq!(apply(&mut state, &edit).unwrap().obsolete_files, obsolete);
    }
}

#[test]
fn edits_that_break_an_invariant_are_refused() {
    let mut state = state_with_keyspace();
    let mut edit = VersionEdit::new();
    edit.add_part(KEYSPACE, place(0, 10), part(1, keys("a", "f")));
    edit.push(EditOp::FlushedSeqno { keyspace: KEYSPACE, seqno: SeqNo::new(5) });
    edit.push(EditOp::MinLogId(LogId(4)));
    apply(&mut state, &edit).unwrap();

    let refused = |ops: Vec<EditOp>, reason: &str| {
        let error = state.clone().apply(&VersionEdit { ops }).unwrap_err();
        assert!(error.0.contains(reason), "{error}");
    };
    let add = |place, part| vec![EditOp::AddPart { keyspace: KEYSPACE, place, part }];
    refused(add(place(0, 10), part(2, keys("f", "g"))), "cannot join run 10");
    refused(add(Place { order: 9, ..place(0, 10) }, part(2, keys("g", "g"))), "has order 10, not 9");
    refused(add(Place { order: 10, ..place(0, 11) }, part(2, keys("g", "g"))), "which run 10 has");
    refused(add(place(0, 10), part(2000, keys("g", "g"))), "newer than the last seqno");
    refused(add(place(0, 10), part(2, KeyRange::from_key(&b"g"[..]))), "impossible range");
    refused(add(place(0, 10), part(2, keys("g", "b"))), "impossible range");
    let absent = part(3, keys("a", "f"));
    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, LevelIndex::FLUSH, RunId(10), &absent);
    refused(edit.ops, "not there");
    refused(vec![EditOp::FlushedSeqno { keyspace: KEYSPACE, seqno: SeqNo::new(4) }], "was flushed up to 5");
    refused(vec![EditOp::MinLogId(LogId(3))], "were released");
    refused(vec![EditOp::DropKeyspace { id: KeyspaceId(9) }], "there is no keyspace");
    let create =
        |id, name: &str| vec![EditOp::CreateKeyspace { id, name: name.into(), options: Arc::default() }];
    refused(create(KEYSPACE, "other"), "used before");
    refused(create(KeyspaceId(1), "default"), "belongs to keyspace 0");
    refused(create(KeyspaceId(1), ""), "0 bytes");
    refused(create(KeyspaceId(1), &"x".repeat(256)), "256 bytes");
    refused(vec![EditOp::MinLogId(LogId(9)), EditOp::Snapshot], "in the middle");
}

#[test]
fn dropped_ids_are_never_used_again() {
    let mut state = state_with_keyspace();
    let mut edit = VersionEdit::new();
    edit.add_part(KEYSPACE, place(0, 10), part(1, keys("a", "f")));
    apply(&mut state, &edit).unwrap();
    let mut edit = VersionEdit::new();
    let applied = apply(&mut state, edit.push(EditOp::DropKeyspace { id: KEYSPACE })).unwrap();
    assert_eq!(applied.dropped, [KEYSPACE]);
    assert_eq!(applied.obsolete_files, [FileNumber(1)]);
    assert!(applied.changed.is_empty());
    let again = EditOp::CreateKeyspace { id: KEYSPACE, name: "default".into(), options: Arc::default() };
    let mut reopened = DatabaseState::new(state.uuid);
    reopened.apply(&state.to_snapshot_edit()).unwrap();
    assert!(reopened.apply(&VersionEdit { ops: vec![again] }).is_err());
}

fn life(last_log_id: u64, last_seqno: u64) -> EditOp {
    EditOp::LogLife(LogLife { last_log_id: LogId(last_log_id), last_seqno: SeqNo::new(last_seqno) })
}

#[test]
fn consumers_move_forward_and_lives_follow_each_other() {
    let mut state = state_with_keyspace();
    let to = |seqno| EditOp::Consumer { name: "audit".into(), seqno: SeqNo::new(seqno) };
    let gone = || EditOp::DropConsumer { name: "audit".into() };
    let apply_one = |state: &mut DatabaseState, op| apply(state, &VersionEdit { ops: vec![op] });
    for op in [to(5), to(9), to(9), life(3, 10), life(4, 10)] {
        apply_one(&mut state, op).unwrap();
    }
    assert_eq!(state.consumers.get("audit"), Some(&SeqNo::new(9)));
    assert_eq!(state.log_lives.len(), 2);
    for op in [to(8), life(4, 11), life(5, 9), EditOp::Consumer { name: "".into(), seqno: SeqNo::ZERO }] {
        assert!(apply_one(&mut state, op.clone()).is_err(), "{op}");
    }
    apply_one(&mut state, gone()).unwrap();
    assert!(apply_one(&mut state, gone()).is_err());
    // Another consumer of the same name may start anywhere.
    apply_one(&mut state, to(2)).unwrap();
}

#[test]
fn a_snapshot_makes_the_same_state() {
    let mut state = state_with_keyspace();
    let mut edit = VersionEdit::new();
    edit.push(EditOp::CreateKeyspace { id: KeyspaceId(3), name: "users".into(), options: Arc::new([1, 2]) })
        .push(EditOp::Cursor { keyspace: KeyspaceId(3), level: LevelIndex::LAST, key: b"k"[..].into() })
        .push(EditOp::DurablePosition(LogId(4), 4096))
        .push(EditOp::Counter { number: 3, value: 9 })
        .push(EditOp::TimeFloor(1234))
        .push(EditOp::Consumer { name: "audit".into(), seqno: SeqNo::new(7) })
        .push(life(5, 90))
        .push(life(9, 90));
    for id in 1..20 {
        let name = format!("k{id:02}");
        let range = KeyRange::half_open(name.as_bytes(), format!("{name}~").as_bytes());
        edit.add_part(KeyspaceId(id as u32 % 2 * 3), place(id as u8 % 3, 30 + id % 3), part(id, range));
    }
    apply(&mut state, &edit).unwrap();
    let snapshot = state.to_snapshot_edit();
    let mut again = DatabaseState::new(state.uuid);
    again.apply(&snapshot).unwrap();
    assert_eq!(again, state);
}

fn blob(number: u64) -> crate::BlobFileMeta {
    let (number, uid) = (FileNumber(number), TableUid(number));
    crate::BlobFileMeta {
        number,
        file_bytes: 1100,
        uid,
        records: 10,
        record_bytes: 1000,
        value_bytes: 2000,
        created_ms: 3,
    }
}

fn pointing(part: &Arc<PartMeta>, to: &[(u64, u64)]) -> Arc<PartMeta> {
    let reference = |&(file, bytes): &(u64, u64)| crate::BlobReference {
        file: FileNumber(file),
        bytes,
        count: bytes / 100,
    };
    Arc::new(PartMeta { blobs: to.iter().map(reference).collect(), ..PartMeta::clone(part) })
}

fn live_blobs(state: &DatabaseState) -> Vec<(u64, u64, u64)> {
    let blobs = state.keyspaces[&KEYSPACE].version.blob_files();
    blobs.iter().map(|blob| (blob.meta.number.get(), blob.referenced_bytes, blob.garbage_bytes())).collect()
}

#[test]
fn a_blob_file_lives_as_long_as_a_part_points_to_it() {
    let mut state = state_with_keyspace();
    let low = pointing(&part(1, keys("a", "f")), &[(50, 300), (51, 400)]);
    let high = pointing(&part(2, keys("g", "m")), &[(51, 500)]);
    let mut edit = VersionEdit::new();
    // The order inside an edit does not matter.
    edit.add_part(KEYSPACE, place(0, 10), low.clone()).add_part(KEYSPACE, place(0, 10), high);
    edit.add_blob_file(KEYSPACE, blob(50))
        .add_blob_file(KEYSPACE, blob(51))
        .add_blob_file(KEYSPACE, blob(52));
    let applied = apply(&mut state, &edit).unwrap();
    assert_eq!(applied.obsolete_blobs, [FileNumber(52)], "nothing ever pointed to it");
    assert_eq!(live_blobs(&state), [(50, 300, 700), (51, 900, 100)]);
    assert_eq!(state.next_file, FileNumber(53));
    assert_eq!(state.live_files()[&FileNumber(51)].kind, FileKind::Blob);

    // A part that moves keeps its files.
    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, LevelIndex::FLUSH, RunId(10), &low).add_part(
        KEYSPACE,
        place(1, 11),
        low.clone(),
    );
    assert_eq!(apply(&mut state, &edit).unwrap().obsolete_blobs, []);

    // Slices divide the references of the whole part, and each keeps the blob file alive.
    let (before, after) = low.range.without(&keys("c", "d"));
    let before = Arc::new(low.slice(PartId(20), &before.unwrap()).unwrap());
    let after = Arc::new(low.slice(PartId(21), &after.unwrap()).unwrap());
    let level = LevelIndex::new(1).unwrap();
    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, level, RunId(11), &low)
        .add_part(KEYSPACE, place(1, 11), before.clone())
        .add_part(KEYSPACE, place(1, 11), after.clone());
    assert_eq!(apply(&mut state, &edit).unwrap().obsolete_blobs, []);
    let referenced = live_blobs(&state)[0].1;
    assert!(referenced > 0 && referenced <= 300, "{referenced}");
    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, level, RunId(11), &before);
    assert_eq!(apply(&mut state, &edit).unwrap().obsolete_blobs, []);
    let mut edit = VersionEdit::new();
    edit.remove_part(KEYSPACE, level, RunId(11), &after);
    assert_eq!(apply(&mut state, &edit).unwrap().obsolete_blobs, [FileNumber(50)]);
    assert_eq!(live_blobs(&state), [(51, 500, 500)]);

    let mut again = DatabaseState::new([7; 16]);
    again.apply(&state.to_snapshot_edit()).unwrap();
    assert_eq!(live_blobs(&again), live_blobs(&state), "a snapshot of the state has them");

    let mut edit = VersionEdit::new();
    edit.push(EditOp::DropKeyspace { id: KEYSPACE });
    assert_eq!(apply(&mut state, &edit).unwrap().obsolete_blobs, [FileNumber(51)]);
}

#[test]
fn a_part_that_points_to_a_missing_blob_file_is_refused() {
    let mut state = state_with_keyspace();
    let mut edit = VersionEdit::new();
    edit.add_part(KEYSPACE, place(0, 10), pointing(&part(1, keys("a", "f")), &[(50, 300)]));
    assert!(apply(&mut state, &edit).unwrap_err().0.contains("blob file 50"));
    let mut edit = VersionEdit::new();
    edit.add_blob_file(KEYSPACE, blob(50)).add_blob_file(KEYSPACE, blob(50));
    assert!(apply(&mut state, &edit).unwrap_err().0.contains("already"));
}
