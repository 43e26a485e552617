use super::fields::{MAX_AMOUNT, MAX_FILE_BYTES};
use super::*;
use crate::blob::BlobFileMeta;
use crate::figures::{JobFigures, LevelFigures, WriteFigures};
use crate::part::{BlobReference, PartFlags, PartMeta};
use crate::range::{Key, KeyRange};
use crate::version::LevelIndex;
use esker_base::{FileNumber, LogId, PartId, RunId, SeqNo, TableUid};
use esker_env::SeededRandom;

fn some_key(random: &SeededRandom) -> Key {
    let len = random.below(12) as usize;
    (0..len).map(|_| random.below(4) as u8).collect()
}

fn some_part(random: &SeededRandom) -> PartMeta {
    let (a, b) = (some_key(random), some_key(random));
    let (start, end) = (a.clone().min(b.clone()), a.max(b));
    let range = match random.below(2) {
        0 if start < end => KeyRange::half_open(start, end),
        _ => KeyRange::inclusive(start, end),
    };
    // Numbers of every width.
    let number = || random.below(u64::MAX) >> (1 + random.below(63));
    let amount = || number().min(MAX_AMOUNT);
    let seqno = || SeqNo::new(number()).min(SeqNo::MAX_STORED);
    let file_bytes = number().min(MAX_FILE_BYTES);
    let mut part =
        PartMeta::new(PartId(number()), FileNumber(number()), file_bytes, TableUid(number()), range);
    part.sliced = random.below(2) == 0;
    part.min_seqno = seqno();
    part.max_seqno = part.min_seqno.plus(random.below(1 << 20)).min(SeqNo::MAX_STORED);
    if random.below(4) == 0 {
        part = part.ingested_at(seqno().max(SeqNo::new(1)));
    }
    part.bytes = random.below(file_bytes + 1);
    part.raw_bytes = amount();
    part.entries = amount();
    part.tombstones = amount();
    part.range_tombstones = random.below(2);
    part.oldest_delete_ms = (random.below(2) == 0).then(number);
    part.min_expiry_ms = (random.below(2) == 0).then(number);
    part.max_expiry_ms = (random.below(2) == 0).then(number);
    part.latest_expiry_ms = (random.below(2) == 0).then(number);
    part.expiring = random.below(3);
    part.created_ms = number();
    part.flags = PartFlags(random.below(2));
    part.pinned_by = (random.below(2) == 0).then(seqno);
    let mut files: Vec<u64> = (0..random.below(4)).map(|_| number()).collect();
    files.sort_unstable();
    files.dedup();
    let blob =
        |file| BlobReference { file: FileNumber(file), bytes: amount().max(1), count: amount().max(1) };
    part.blobs = files.into_iter().map(blob).collect();
    part
}

fn some_figures(random: &SeededRandom) -> KeyspaceFigures {
    let levels = (0..random.below(4) as u8).map(|number| LevelFigures {
        written_bytes: random.below(1 << 50),
        filter_probes: random.below(1 << 40),
        ..LevelFigures::new(LevelIndex::new(number * 21).unwrap())
    });
    let job =
        |cause: &str| JobFigures { cause: cause.into(), jobs: random.below(9), ..JobFigures::default() };
    KeyspaceFigures {
        writes: WriteFigures { put_bytes: random.below(1 << 50), ..WriteFigures::default() },
        jobs: ["flush", "zusammenführen"].map(job).to_vec(),
        levels: levels.collect(),
        ..KeyspaceFigures::default()
    }
}

fn some_op(random: &SeededRandom) -> EditOp {
    let id = KeyspaceId(random.below(300) as u32);
    let level = LevelIndex::new(random.below(64) as u8).unwrap();
    let number = random.below(u64::MAX) >> (1 + random.below(63));
    let (seqno, amount) = (SeqNo::new(number).min(SeqNo::MAX_STORED), number.min(MAX_AMOUNT));
    let name: Arc<str> = format!("käse{}", random.below(9)).into();
    match random.below(22) {
        0 => EditOp::Snapshot,
        1 => EditOp::CreateKeyspace { id, name, options: some_key(random) },
        2 => EditOp::DropKeyspace { id },
        3 => EditOp::RenameKeyspace { id, name },
        4 => EditOp::SetKeyspaceOptions { id, options: some_key(random) },
        5 => {
            let place = Place { level, run: RunId(number), order: number / 2 };
            EditOp::AddPart { keyspace: id, place, part: Arc::new(some_part(random)) }
        }
        6 => {
            let (run, part) = (RunId(number), PartId(number / 3));
            EditOp::RemovePart { keyspace: id, level, run, part, start: some_key(random) }
        }
        7 => EditOp::FlushedSeqno { keyspace: id, seqno },
        8 => EditOp::Cursor { keyspace: id, level, key: some_key(random) },
        9 => EditOp::MinLogId(LogId(number)),
        10 => EditOp::NextFile(FileNumber(number)),
        11 => EditOp::LastSeqno(seqno),
        12 => EditOp::NextKeyspace(id),
        13 => EditOp::NextPart(PartId(number)),
        14 => EditOp::DurablePosition(LogId(number), number / 5),
        15 => EditOp::TimeFloor(number),
        16 => EditOp::Consumer { name, seqno },
        17 => EditOp::DropConsumer { name },
        18 => EditOp::LogLife(LogLife { last_log_id: LogId(number), last_seqno: seqno }),
        19 => {
            let file = BlobFileMeta {
                number: FileNumber(number),
                file_bytes: number.min(MAX_FILE_BYTES),
                uid: TableUid(number),
                records: amount / 2,
                record_bytes: amount / 7,
                value_bytes: amount / 3,
                created_ms: number / 5,
            };
            EditOp::AddBlobFile { keyspace: id, file }
        }
        20 => EditOp::Figures { keyspace: id, figures: Arc::new(some_figures(random)) },
        _ => EditOp::Counter { number: id.get(), value: number },
    }
}

#[test]
fn edits_read_back_as_written() {
    let random = SeededRandom::new(1);
    for _ in 0..500 {
        let ops = (0..random.below(20)).map(|_| some_op(&random)).collect();
        let edit = VersionEdit { ops };
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        assert_eq!(VersionEdit::decode(&payload), Ok(edit));
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let random = SeededRandom::new(2);
    for _ in 0..300 {
        let edit = VersionEdit { ops: vec![some_op(&random)] };
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        for len in 1..payload.len() {
            assert!(VersionEdit::decode(&payload[..len]).is_err(), "{edit} cut to {len}");
        }
        for _ in 0..50 {
            let mut damaged = payload.clone();
            damaged[random.below(payload.len() as u64) as usize] = random.below(256) as u8;
            // No result but a panic is wrong: the record's checksum detects damage.
            let _ = VersionEdit::decode(&damaged);
        }
        let noise: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
        let _ = VersionEdit::decode(&noise);
    }
}

#[test]
fn unknown_fields_are_skipped_if_even_and_refused_if_odd() {
    let with_field = |tag: u64| {
        let mut payload = Vec::new();
        VersionEdit { ops: vec![EditOp::TimeFloor(5)] }.encode(&mut payload);
        put_varint(&mut payload, tag);
        put_prefixed(&mut payload, b"whatever");
        VersionEdit::decode(&payload)
    };
    assert_eq!(with_field(1000), Ok(VersionEdit { ops: vec![EditOp::TimeFloor(5)] }));
    assert!(matches!(with_field(1001), Err(DecodeError::Unsupported(_))));

    let random = SeededRandom::new(3);
    let part = Arc::new(some_part(&random));
    let op = EditOp::AddPart { keyspace: KeyspaceId(1), place: place(), part };
    let with_figure = |tag: u64| {
        let mut body = Vec::new();
        encode_op(&op, &mut body);
        put_varint(&mut body, tag);
        put_prefixed(&mut body, b"whatever");
        let mut payload = Vec::new();
        put_varint(&mut payload, 7);
        put_prefixed(&mut payload, &body);
        VersionEdit::decode(&payload)
    };
    assert_eq!(with_figure(100), Ok(VersionEdit { ops: vec![op.clone()] }));
    assert!(matches!(with_figure(101), Err(DecodeError::Unsupported(_))));
}

fn place() -> Place {
    Place { level: LevelIndex::LAST, run: RunId(3), order: 3 }
}

#[test]
fn the_bytes_of_a_part_are_fixed() {
    let range = KeyRange::inclusive(&b"a"[..], &b"b"[..]);
    let mut part = PartMeta::new(PartId(5), FileNumber(6), 300, TableUid(0x0102), range);
    (part.min_seqno, part.max_seqno, part.entries) = (SeqNo::new(1), SeqNo::new(2), 7);
    let edit = VersionEdit {
        ops: vec![EditOp::AddPart { keyspace: KeyspaceId(1), place: place(), part: part.into() }],
    };
    let mut payload = Vec::new();
    edit.encode(&mut payload);
    let expected = [
        7, 30, // tag, length
        1, 63, 3, 3, // keyspace, level, run, order
        5, 6, 0xac, 2, // part, file, file bytes
        2, 1, 0, 0, 0, 0, 0, 0, // table uid
        0, 1, b'a', 1, b'b', // form, smallest, largest
        1, 2, // seqnos
        2, 2, 0xac, 2, // bytes
        6, 1, 7, // entries
    ];
    assert_eq!(payload, expected);
}

/// Counting on from these would overflow.
#[test]
fn numbers_that_no_database_reaches_are_damage() {
    let most = u64::MAX / 2;
    for (op, is_accepted) in [
        (EditOp::NextFile(FileNumber(most)), true),
        (EditOp::NextFile(FileNumber(most + 1)), false),
        (EditOp::NextPart(PartId(u64::MAX)), false),
        (EditOp::NextKeyspace(KeyspaceId(u32::MAX)), false),
        (EditOp::MinLogId(LogId(u64::MAX)), false),
        (EditOp::DurablePosition(LogId(u64::MAX), 0), false),
        (EditOp::LogLife(LogLife { last_log_id: LogId(u64::MAX), last_seqno: SeqNo::ZERO }), false),
        (EditOp::LastSeqno(SeqNo::MAX_STORED), true),
        (EditOp::LastSeqno(SeqNo::MAX), false),
        (EditOp::FlushedSeqno { keyspace: KeyspaceId(0), seqno: SeqNo::MAX }, false),
    ] {
        let mut edit = VersionEdit::new();
        edit.push(op);
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        assert_eq!(VersionEdit::decode(&payload).is_ok(), is_accepted, "{edit:?}");
    }
}

/// LF1.
#[test]
fn figures_that_cannot_be_read_are_left_out_and_the_rest_of_the_edit_counts() {
    let figures = EditOp::Figures { keyspace: KeyspaceId(3), figures: Arc::default() };
    let mut body = Vec::new();
    let field = encode_op(&figures, &mut body);
    // Counts beyond every limit, a field that is cut, a level that there is not.
    let mut too_many = body.clone();
    too_many.extend([4, 12, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0, 0, 0]);
    for damaged in [&[3, 2, 9][..], &[3, 10, 1, 200], &[], &[255; 12], &too_many] {
        let mut payload = Vec::new();
        put_varint(&mut payload, field);
        put_prefixed(&mut payload, damaged);
        VersionEdit { ops: vec![EditOp::TimeFloor(9)] }.encode(&mut payload);
        let edit = VersionEdit::decode(&payload).expect("the edit is read");
        assert_eq!(edit.ops, [EditOp::TimeFloor(9)], "{damaged:?}");
    }
}
