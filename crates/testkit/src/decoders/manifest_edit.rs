//! Fuzz target for the manifest. The first byte, taken modulo four, says what the rest is:
//!
//! | | |
//! |---|---|
//! | 0 | edits, each behind its length as a varint, which are applied one after the other |
//! | 1 | the file `CURRENT` |
//! | 2 | the header of a manifest file |
//! | 3 | a whole manifest file, which a database is recovered from |

use super::{random_bytes, random_text};
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{Reader, put_prefixed};
use esker_base::{FileNumber, KeyspaceId, LogId, PartId, SeqNo, TableUid};
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, Random, SeededRandom};
use esker_version::frame::{HEADER_LEN, ManifestHeader, RECORD_ALIGN, RECORD_HEADER_LEN};
use esker_version::{
    CURRENT_NAME, Current, DatabaseState, EditOp, JobFigures, KeyRange, KeyspaceFigures, LevelFigures,
    LevelIndex, LogLife, PartFlags, PartMeta, Recovery, VersionEdit, manifest_name, recover,
};
use std::path::Path;
use std::sync::Arc;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are a whole valid piece of the kind that the first byte names.
///
/// # Panics
/// If what was decoded does not come back from its encoding, or a state from its snapshot.
pub fn accepts(bytes: &[u8]) -> bool {
    let Some((&selector, bytes)) = bytes.split_first() else { return false };
    match selector % 4 {
        0 => edits(bytes),
        1 => current(bytes),
        2 => header(bytes),
        _ => manifest(bytes) | manifest(&repaired(bytes)),
    }
}

fn edits(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let mut state = DatabaseState::new([7; 16]);
    while !reader.is_empty() {
        let Some(payload) = reader.prefixed() else { return false };
        let Ok(edit) = VersionEdit::decode(payload) else { return false };
        let mut encoded = Vec::new();
        edit.encode(&mut encoded);
        assert_eq!(VersionEdit::decode(&encoded).as_ref(), Ok(&edit));
        let mut changed = state.clone();
        let prepared = state.prepare(&edit);
        match changed.apply(&edit) {
            Ok(applied) => {
                if let Ok(prepared) = prepared {
                    assert_eq!(state.commit(prepared), applied);
                    assert_eq!(state, changed, "prepared and committed is applied");
                }
                state = changed;
            }
            Err(error) => {
                assert!(prepared.is_err(), "prepared, but not to be applied: {error}");
                assert!(!error.to_string().is_empty());
                return false;
            }
        }
        check_state(&state);
    }
    true
}

/// Reads a state that edits led to, and checks that its snapshot leads to the same state.
fn check_state(state: &DatabaseState) {
    state.problems();
    state.live_files();
    for keyspace in state.keyspaces.values() {
        let version = &keyspace.version;
        assert_eq!(version.parts().count(), version.part_count());
        version.bytes();
        version.max_seqno();
    }
    let mut encoded = Vec::new();
    state.to_snapshot_edit().encode(&mut encoded);
    let snapshot = VersionEdit::decode(&encoded).expect("just encoded");
    let mut again = DatabaseState { uuid: state.uuid, ..DatabaseState::default() };
    again.apply(&snapshot).expect("a snapshot of a state that edits led to");
    assert_eq!(again, *state);
}

fn current(bytes: &[u8]) -> bool {
    let decoded = Current::decode(bytes);
    if let Ok(current) = decoded {
        assert_eq!(current.encode().as_bytes(), bytes);
    }
    // With a correct checksum in the last line.
    if let Some(body) = bytes.strip_suffix(b"\n")
        && let Some(last) = body.iter().rposition(|&byte| byte == b'\n')
    {
        let mut repaired = body[..=last].to_vec();
        repaired.extend_from_slice(format!("{:08x}\n", crc32c(&body[..=last])).as_bytes());
        if let Ok(current) = Current::decode(&repaired) {
            assert_eq!(Current::decode(current.encode().as_bytes()), Ok(current));
        }
    }
    decoded.is_ok()
}

fn header(bytes: &[u8]) -> bool {
    let accepted = ManifestHeader::decode(bytes);
    if bytes.len() >= HEADER_LEN
        && let Ok(header) = ManifestHeader::decode(&repaired(bytes))
    {
        assert_eq!(ManifestHeader::decode(&header.encode()), Ok(header));
    }
    accepted.is_ok()
}

/// Recovers a database whose manifest is these bytes.
fn manifest(bytes: &[u8]) -> bool {
    let Ok(header) = ManifestHeader::decode(bytes) else { return false };
    let (fs, dir) = (StrictFs::new(), Path::new("db"));
    let write =
        |name: &str, content: &[u8]| fs.open(&dir.join(name), OpenMode::CreateNew)?.write_at(content, 0);
    fs.create_dir_all(dir).expect("memory");
    write(&manifest_name(header.number), bytes).expect("memory");
    let current = Current { manifest: header.number, uuid: header.uuid };
    write(CURRENT_NAME, current.encode().as_bytes()).expect("memory");
    match recover(&fs, dir) {
        Ok(Recovery::Database(recovered)) => {
            assert_eq!(recovered.state.uuid, header.uuid);
            assert!(recovered.torn_bytes < bytes.len() as u64);
            check_state(&recovered.state);
            recovered.torn_bytes == 0
        }
        Ok(other) => panic!("there is a database, not {other:?}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// The same file with correct magic, checksums and edit numbers, as far as its lengths are valid.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < HEADER_LEN {
        return bytes;
    }
    bytes[..8].copy_from_slice(b"ESKRMAN1");
    let crc = crc32c(&bytes[..HEADER_LEN - 4]);
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    let salt: [u8; 8] = bytes[40..48].try_into().expect("eight bytes");
    let (mut at, mut edit_no) = (HEADER_LEN, 1u64);
    while let Some(record) = bytes.get_mut(at..).filter(|rest| rest.len() > RECORD_HEADER_LEN) {
        let len = u32::from_le_bytes(record[4..8].try_into().expect("four bytes")) as usize;
        let end = RECORD_HEADER_LEN.saturating_add(len);
        let Some(record) = record.get_mut(..end) else { break };
        record[8..16].copy_from_slice(&edit_no.to_le_bytes());
        let crc = crc32c_append(crc32c(&salt), &record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        at = (at + end).next_multiple_of(RECORD_ALIGN);
        edit_no += 1;
    }
    bytes
}

/// A piece of a manifest.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let selector = random.below(4) as u8;
    let mut bytes = vec![selector];
    match selector {
        0 => {
            for edit in valid_edits(random, DatabaseState::new([7; 16])) {
                let mut payload = Vec::new();
                edit.encode(&mut payload);
                put_prefixed(&mut bytes, &payload);
            }
        }
        1 => {
            let manifest = FileNumber(random.next_u64() >> random.below(64));
            bytes.extend_from_slice(Current { manifest, uuid: uuid(random) }.encode().as_bytes());
        }
        2 => bytes.extend_from_slice(&valid_header(random).encode()),
        _ => bytes.extend_from_slice(&valid_manifest(random)),
    }
    bytes
}

fn uuid(random: &SeededRandom) -> [u8; 16] {
    std::array::from_fn(|_| random.below(256) as u8)
}

fn valid_header(random: &SeededRandom) -> ManifestHeader {
    let (number, salt) = (FileNumber(random.below(1 << 40)), random.next_u64());
    ManifestHeader { format: 1, uuid: uuid(random), number, salt }
}

/// A snapshot, then some edits, framed by hand: the manifest writer needs a database.
fn valid_manifest(random: &SeededRandom) -> Vec<u8> {
    let mut bytes = valid_header(random).encode().to_vec();
    let state = DatabaseState::new([0; 16]);
    let mut edits = vec![state.to_snapshot_edit()];
    edits.extend(valid_edits(random, state));
    for edit in edits {
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&payload);
        bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGN), 0);
    }
    repaired(&bytes)
}

/// Edits as a database makes them: keyspaces are created and dropped, tables join runs and leave them.
fn valid_edits(random: &SeededRandom, mut state: DatabaseState) -> Vec<VersionEdit> {
    let mut edits = Vec::new();
    for _ in 0..1 + random.below(14) {
        let mut edit = VersionEdit::new();
        edit.push(EditOp::LastSeqno(SeqNo::new(1 << 20)));
        let keyspace = KeyspaceId(random.below(2) as u32);
        if state.keyspace(keyspace).is_none() && keyspace >= state.next_keyspace {
            let name: Arc<str> = format!("keyspace {keyspace}").into();
            edit.push(EditOp::CreateKeyspace {
                id: keyspace,
                name,
                options: random_bytes(random, 20).into(),
            });
        }
        if state.keyspace(keyspace).is_some() {
            keyspace_edit(&mut edit, random, &mut state, keyspace);
        }
        consumer_edit(&mut edit, random, &state);
        match random.below(5) {
            0 => edit.push(EditOp::TimeFloor(random.below(1 << 50))),
            1 => edit.push(EditOp::Counter { number: random.below(9) as u32, value: random.next_u64() }),
            // Also of a keyspace that is gone, or was never there.
            2 => edit.push(EditOp::Figures { keyspace, figures: Arc::new(figures(random)) }),
            3 => edit.push(EditOp::DurablePosition(LogId(random.below(99)), random.below(1 << 30))),
            _ => &mut edit,
        };
        state.apply(&edit).expect("it was made for this state");
        edits.push(edit);
    }
    edits
}

fn figures(random: &SeededRandom) -> KeyspaceFigures {
    let number = || random.below(1 << 48) >> random.below(48);
    let mut figures = KeyspaceFigures::default();
    (figures.writes.put_bytes, figures.lookups.lookups, figures.scans.long) = (number(), number(), number());
    if random.below(2) == 0 {
        figures.jobs.push(JobFigures { cause: "flush".into(), jobs: number(), ..JobFigures::default() });
    }
    for level in [0, 2, 63].into_iter().filter_map(LevelIndex::new) {
        figures.levels.push(LevelFigures { written_bytes: number(), ..LevelFigures::new(level) });
    }
    figures
}

/// Consumers of changes are created, moved and removed, and log ids end.
fn consumer_edit(edit: &mut VersionEdit, random: &SeededRandom, state: &DatabaseState) {
    let name: Arc<str> = format!("consumer {}", random.below(2)).into();
    let has = state.consumers.get(&name).copied();
    match random.below(8) {
        0 | 1 => {
            let seqno = has.unwrap_or_default().plus(random.below(50));
            edit.push(EditOp::Consumer { name, seqno });
        }
        2 if has.is_some() => {
            edit.push(EditOp::DropConsumer { name });
        }
        3 => {
            let before = state.log_lives.last();
            let last_log_id = LogId(before.map_or(0, |life| life.last_log_id.get()) + 1 + random.below(9));
            let last_seqno = before.map_or(SeqNo::ZERO, |life| life.last_seqno).plus(random.below(99));
            edit.push(EditOp::LogLife(LogLife { last_log_id, last_seqno }));
        }
        _ => {}
    }
}

fn keyspace_edit(
    edit: &mut VersionEdit,
    random: &SeededRandom,
    state: &mut DatabaseState,
    keyspace: KeyspaceId,
) {
    let living = state.keyspaces[&keyspace].clone();
    match random.below(8) {
        0 => edit.push(EditOp::DropKeyspace { id: keyspace }),
        1 => {
            let name = format!("renamed {}", random.next_u64()).into();
            edit.push(EditOp::RenameKeyspace { id: keyspace, name })
        }
        2 => {
            let options = random_bytes(random, 30).into();
            edit.push(EditOp::SetKeyspaceOptions { id: keyspace, options })
        }
        3 => {
            let key = random_text(random, 12).into();
            edit.push(EditOp::Cursor { keyspace, level: LevelIndex::LAST, key })
        }
        4 if living.version.part_count() > 0 => {
            let (level, run, part) = living.version.parts().next().expect("there is one");
            let (run, start) = (run.id, part.range.start.clone());
            edit.push(EditOp::RemovePart { keyspace, level, run, part: part.id, start })
        }
        _ => {
            let level = LevelIndex::new(random.below(4) as u8).expect("a low number");
            let place = living.version.front(level, state.take_run_id());
            let part = Arc::new(valid_part(random, state.take_part_id(), state.take_file_number()));
            edit.push(EditOp::FlushedSeqno { keyspace, seqno: living.flushed_seqno.max(part.max_seqno) });
            edit.add_part(keyspace, place, part)
        }
    };
}

fn valid_part(random: &SeededRandom, id: PartId, file: FileNumber) -> PartMeta {
    let start = random_text(random, 12);
    let mut last = start.clone();
    last.extend(random_text(random, 8));
    last.push(b'z');
    let range = if random.below(3) == 0 {
        KeyRange::half_open(start.as_slice(), last.as_slice())
    } else {
        KeyRange::inclusive(start.as_slice(), last.as_slice())
    };
    let mut part = PartMeta::new(id, file, 1 + random.below(1 << 30), TableUid(random.next_u64()), range);
    part.min_seqno = SeqNo::new(random.below(1000));
    part.max_seqno = SeqNo::new(part.min_seqno.get() + random.below(1000));
    if random.below(4) == 0 {
        part = part.ingested_at(SeqNo::new(1 + random.below(1000)));
    }
    part.entries = random.below(1 << 20);
    part.raw_bytes = random.below(1 << 32);
    part.sliced = random.below(4) == 0;
    part.oldest_delete_ms = (random.below(2) == 0).then(|| random.below(1 << 45));
    part.pinned_by = (random.below(5) == 0).then(|| SeqNo::new(random.below(1 << 50)));
    part.flags = if random.below(2) == 0 { PartFlags::SINGLE_VERSION } else { PartFlags::default() };
    part
}
