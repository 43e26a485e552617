//! The change stream: what it yields, when it waits, what history is kept for each consumer, and the error
//! when history is gone.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::changes::{Change, ChangeBatch, Changes};
use esker::metrics::ReaderKind;
use esker::parts::StepBackground;
use esker::parts::env::Env;
use esker::parts::env::fault::{Crash, StrictFs};
use esker::{Database, Durability, Error, Options, SeqNo};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// A batch as text, one change each.
fn as_text(batch: &ChangeBatch) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let tell = |change: Change<'_>| {
        let space = change.keyspace().name.unwrap_or("-").to_owned();
        match change {
            Change::Put { key, value, expiry_ms: None, .. } => {
                format!("{space}: put {} {}", text(key), text(value))
            }
            Change::Put { key, expiry_ms: Some(at), .. } => format!("{space}: put {} until {at}", text(key)),
            Change::Delete { key, .. } => format!("{space}: delete {}", text(key)),
            Change::DeleteRange { start, end, .. } => {
                format!("{space}: delete {}..{}", text(start), end.map(text).unwrap_or_default())
            }
            other => format!("{other:?}"),
        }
    };
    batch.iter().map(tell).collect()
}

fn all(changes: &mut Changes) -> Vec<Vec<String>> {
    std::iter::from_fn(|| changes.try_next().unwrap()).map(|batch| as_text(&batch)).collect()
}

fn seqnos(changes: &mut Changes) -> Vec<u64> {
    let batches = std::iter::from_fn(|| changes.try_next().unwrap());
    batches.flat_map(|batch| batch.first_seqno().get()..=batch.last_seqno().get()).collect()
}

fn small() -> Options {
    Options::default().memory_budget(8 << 20).wal_segment_bytes(16 << 10).keyspace_options(tiny())
}

#[test]
fn every_kind_of_change_comes_in_order_and_batches_are_whole() {
    let dir = TestDir::new("changes-kinds");
    let db = Database::open(dir.path()).unwrap();
    let users = db.keyspace("users").unwrap();
    let mut changes = db.changes_since(SeqNo::ZERO).unwrap();
    assert!(changes.try_next().unwrap().is_none());
    db.default_keyspace().put(b"a", b"1").unwrap();
    users.put_with(b"b", b"2", esker::Expiry::At(UNIX_EPOCH + Duration::from_millis(u64::MAX / 2))).unwrap();
    db.default_keyspace().delete(b"a").unwrap();
    let mut batch = db.batch();
    batch.put(&users, b"c", b"3");
    batch.delete_range(&users, b"x".as_slice()..b"z");
    batch.delete_range(&users, b"x".as_slice()..);
    batch.delete(db.default_keyspace(), b"d");
    db.write(&batch).unwrap();
    db.transact(|tx| {
        tx.put(&users, b"e", b"4")?;
        tx.put(&users, b"f", b"5")
    })
    .unwrap();
    let expected = [
        vec!["default: put a 1".to_owned()],
        vec![format!("users: put b until {}", u64::MAX / 2)],
        vec!["default: delete a".to_owned()],
        vec![
            "users: put c 3".to_owned(),
            "users: delete x..z".to_owned(),
            "users: delete x..".to_owned(),
            "default: delete d".to_owned(),
        ],
        vec!["users: put e 4".to_owned(), "users: put f 5".to_owned()],
    ];
    assert_eq!(all(&mut changes), expected);
    assert_eq!(changes.seqno().get(), 9);
    // Again from every position; from inside a batch, at its beginning.
    for (after, skipped) in [(0, 0), (1, 1), (3, 3), (5, 3), (7, 4), (9, 5)] {
        let mut again = db.changes_since(SeqNo::new(after)).unwrap();
        assert_eq!(all(&mut again), expected[skipped..], "after {after}");
    }
    let mut again = db.changes_since(SeqNo::new(3)).unwrap();
    let batch = again.try_next().unwrap().unwrap();
    assert_eq!((batch.first_seqno().get(), batch.last_seqno().get(), batch.len()), (4, 7, 4));
    assert!(matches!(db.changes_since(SeqNo::new(10)), Err(Error::InvalidArgument(_))));
}

#[test]
fn keyspaces_are_named_as_they_are_now() {
    let dir = TestDir::new("changes-names");
    let db = Database::open(dir.path()).unwrap();
    for name in ["one", "two"] {
        db.keyspace(name).unwrap().put(b"k", b"v").unwrap();
    }
    let id = db.open_keyspace("one").unwrap().id();
    db.drop_keyspace("two").unwrap();
    db.rename_keyspace("one", "first").unwrap();
    let mut changes = db.changes_since(SeqNo::ZERO).unwrap();
    let first = changes.try_next().unwrap().unwrap();
    let keyspace = first.iter().next().unwrap().keyspace();
    assert_eq!((keyspace.id, keyspace.name), (id, Some("first")));
    assert_eq!(all(&mut changes), [["-: put k v"]]);
}

/// By default the stream syncs the log itself; what it yields is on the device.
#[test]
fn yielded_batches_survive_a_power_cut() {
    let fs = StrictFs::new();
    let open = |fs: &StrictFs| {
        Database::open_with(
            "/db",
            Options::default().flush_on_close(false).env(Env::simulated(Arc::new(fs.clone()), 1)),
        )
        .unwrap()
    };
    let db = open(&fs);
    db.default_keyspace().put(b"a", b"1").unwrap();
    let mut at_once = db.changes_since(SeqNo::ZERO).unwrap().with_durability(Durability::Process);
    assert_eq!(all(&mut at_once), [["default: put a 1"]]);
    let lost = fs.crash(Crash::PowerAllLost);
    assert_eq!(open(&lost).default_keyspace().get(b"a").unwrap().as_deref(), None, "no sync was requested");
    let mut durable = db.changes_since(SeqNo::ZERO).unwrap();
    assert_eq!(all(&mut durable), [["default: put a 1"]]);
    let kept = fs.crash(Crash::PowerAllLost);
    assert_eq!(open(&kept).default_keyspace().get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
}

#[test]
fn a_stream_waits_for_batches_and_ends_when_the_database_closes() {
    let dir = TestDir::new("changes-wait");
    let db = Database::open(dir.path()).unwrap();
    for durability in [Durability::Power, Durability::Process] {
        let after = db.metrics().visible_seqno;
        let changes = db.changes_since(after).unwrap().with_durability(durability);
        let (told, heard) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for batch in changes.take(20) {
                    told.send(batch.unwrap().last_seqno()).unwrap();
                }
            });
            // Each is written only after its predecessor was received: the stream is idle or about to be.
            for number in 1..=20 {
                db.default_keyspace().put(key(number), b"v").unwrap();
                assert_eq!(heard.recv().unwrap().get(), after.get() + number);
            }
        });
    }
    let mut changes = db.changes_since(SeqNo::new(40)).unwrap();
    assert!(changes.next_timeout(Duration::from_millis(3)).unwrap().is_none());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || (changes.next(), changes.next()));
        db.close().unwrap();
        let (last, after) = waiting.join().unwrap();
        assert!(matches!(last, Some(Err(Error::Closed))) && after.is_none(), "{last:?}");
    });
    assert!(matches!(db.changes_since(SeqNo::new(40)), Err(Error::Closed)));
}

/// Writes so much that segments are released: several memtables full.
fn churn(db: &Database, from: u64, to: u64) {
    for number in from..to {
        db.default_keyspace().put(key(number), [value(number, 0), vec![b'x'; 100]].concat()).unwrap();
    }
    db.flush().unwrap();
    db.drain().unwrap();
}

#[test]
fn history_without_a_consumer_is_released_and_reported_gone() {
    let dir = TestDir::new("changes-gone");
    let db = Database::open_with(dir.path(), small()).unwrap();
    churn(&db, 0, 2_000);
    db.default_keyspace().put(b"last", b"v").unwrap();
    assert_eq!(db.metrics().log.history_bytes, 0);
    let Err(Error::HistoryGone(gone)) = db.changes_since(SeqNo::ZERO) else {
        panic!("history is still there")
    };
    assert_eq!((gone.requested.get(), gone.limit_bytes, gone.consumer), (0, 1 << 30, None));
    assert!(gone.oldest.get() > 1_000, "{}", gone.oldest);
    let mut changes = db.changes_since(gone.oldest).unwrap();
    assert_eq!(seqnos(&mut changes), (gone.oldest.get() + 1..=2_001).collect::<Vec<_>>());
    let before = SeqNo::new(gone.oldest.get() - 1);
    assert!(matches!(db.changes_since(before), Err(Error::HistoryGone(_))), "one less is gone");
}

#[test]
fn an_open_stream_keeps_what_it_has_not_read() {
    let dir = TestDir::new("changes-lease");
    let db = Database::open_with(dir.path(), small()).unwrap();
    let mut changes = db.changes_since(SeqNo::ZERO).unwrap();
    churn(&db, 0, 2_000);
    let kept = db.metrics().log.history_bytes;
    assert!(kept > 200_000, "{kept}");
    let reader = db.open_readers().into_iter().find(|reader| reader.kind == ReaderKind::Changes).unwrap();
    assert_eq!((reader.log_bytes, reader.newer_operations, reader.seqno.get()), (kept, 2_000, 0));
    assert_eq!(seqnos(&mut changes), (1..=2_000).collect::<Vec<_>>());
    churn(&db, 2_000, 2_500);
    assert_eq!(seqnos(&mut changes), (2_001..=2_500).collect::<Vec<_>>());
    drop(changes);
    churn(&db, 2_500, 3_000);
    // The log pool deletes; one flush after another triggers it.
    let done = (0..1_000).any(|_| {
        churn(&db, 0, 50);
        db.metrics().log.history_bytes == 0
    });
    assert!(done, "{} bytes are still kept", db.metrics().log.history_bytes);
    assert!(db.open_readers().is_empty());
}

#[test]
fn past_the_limit_a_consumer_loses_its_history() {
    let dir = TestDir::new("changes-limit");
    let db = Database::open_with(dir.path(), small().change_history_limit(100_000)).unwrap();
    let mut slow = db.changes_since(SeqNo::ZERO).unwrap();
    let consumer = db.create_consumer("slow").unwrap();
    let mut most = 0;
    for round in 0..40 {
        churn(&db, round * 100, round * 100 + 100);
        most = most.max(db.metrics().log.history_bytes);
    }
    assert!((50_000..=100_000).contains(&most), "{most} bytes were kept");
    let told = slow.try_next();
    assert!(matches!(&told, Err(Error::HistoryGone(gone)) if gone.requested == SeqNo::ZERO), "{told:?}");
    let Err(Error::HistoryGone(gone)) = consumer.changes() else { panic!("history is still there") };
    assert_eq!(gone.consumer.as_deref(), Some("slow"));
    let info = db.consumers().remove(0);
    assert!(info.is_cut_off && info.kept_bytes == 0, "{info:?}");
    drop(slow);
    // The consumer continues from a copy.
    let copied = db.snapshot().seqno();
    consumer.acknowledge(copied).unwrap();
    churn(&db, 0, 100);
    assert_eq!(seqnos(&mut consumer.changes().unwrap()).len(), 100);
    assert!(!db.consumers().remove(0).is_cut_off);
}

#[test]
fn a_consumer_continues_after_reopening() {
    for (is_mapped, flush_on_close) in [(true, true), (true, false), (false, true), (false, false)] {
        let dir = TestDir::new("changes-consumer");
        let open = || {
            Database::open_with(dir.path(), small().mapped_log(is_mapped).flush_on_close(flush_on_close))
                .unwrap()
        };
        let db = open();
        churn(&db, 0, 100);
        let consumer = db.create_consumer("audit").unwrap();
        assert!(matches!(db.create_consumer("audit"), Err(Error::InvalidArgument(_))));
        assert_eq!(consumer.acknowledged().unwrap().get(), 100);
        let mut expected: Vec<u64> = Vec::new();
        drop((db, consumer));
        for life in 0..6 {
            let db = open();
            let consumer = db.consumer("audit").unwrap();
            assert_eq!(seqnos(&mut consumer.changes().unwrap()), expected, "open {life}");
            churn(&db, life * 300, life * 300 + 300);
            db.default_keyspace().put(b"k", b"v").unwrap();
            let last = db.metrics().visible_seqno.get();
            expected.extend(last - 300..=last);
            assert_eq!(seqnos(&mut consumer.changes().unwrap()), expected, "open {life}");
            if life % 3 == 2 {
                // Not at a border of segments.
                let done = expected[expected.len() / 2];
                consumer.acknowledge(SeqNo::new(done)).unwrap();
                consumer.acknowledge(SeqNo::new(done - 1)).unwrap();
                expected.retain(|seqno| *seqno > done);
                assert!(consumer.acknowledge(SeqNo::new(last + 1)).is_err());
            }
        }
        // A read-only open shows the same.
        let reading = Database::open_with(dir.path(), small().read_only(true)).unwrap();
        let mut changes = reading.consumer("audit").unwrap().changes().unwrap();
        assert_eq!(seqnos(&mut changes), expected);
        assert!(changes.next().is_none(), "nothing will come");
        assert!(matches!(reading.changes_since(SeqNo::ZERO), Err(Error::HistoryGone(_))));
        reading.close().unwrap();
        let db = open();
        let kept = db.metrics().log.history_bytes;
        assert!(kept > 0 && db.consumers()[0].kept_bytes == kept);
        db.drop_consumer("audit").unwrap();
        assert!(matches!(db.consumer("audit"), Err(Error::NotFound(_))));
        assert!((0..1_000).any(|_| {
            churn(&db, 0, 50);
            db.metrics().log.history_bytes == 0
        }));
    }
}

#[test]
fn a_copy_has_no_consumers() {
    let (dir, copy) = (TestDir::new("changes-copied"), TestDir::new("changes-copy"));
    let db = Database::open_with(dir.path(), small()).unwrap();
    db.create_consumer("audit").unwrap();
    churn(&db, 0, 500);
    db.checkpoint(copy.path()).unwrap();
    let copied = Database::open_with(copy.path(), small()).unwrap();
    assert!(copied.consumers().is_empty() && copied.default_keyspace().get(key(7)).unwrap().is_some());
    assert_eq!(seqnos(&mut copied.changes_since(SeqNo::new(500)).unwrap()), [] as [u64; 0]);
}

/// A consumer takes nothing from the log's capacity: kept segments do not delay rotations, and are not
/// mapped.
#[test]
fn kept_segments_count_against_their_own_limit() {
    let dir = TestDir::new("changes-room");
    let db = Database::open_with(dir.path(), small()).unwrap();
    db.create_consumer("asleep").unwrap();
    churn(&db, 0, 60_000);
    let metrics = db.metrics();
    assert!(metrics.log.history_bytes > 8 << 20, "{:?}", metrics.log);
    assert!(metrics.memory.log_mapped_bytes < 4 << 20, "{:?}", metrics.memory);
    assert!(metrics.log.live_bytes < 4 << 20, "{:?}", metrics.log);
}

/// Readers that lag, catch up and come and go, while a writer's segments are flushed, released and recycled
/// continuously.
#[test]
fn readers_beside_a_writer_miss_nothing_and_see_nothing_twice() {
    const WRITES: u64 = 30_000;
    for is_mapped in [true, false] {
        let dir = TestDir::new("changes-stress");
        let db = Database::open_with(dir.path(), small().mapped_log(is_mapped)).unwrap();
        let consumer = db.create_consumer("stress").unwrap();
        std::thread::scope(|scope| {
            for (pace, durability) in
                [(1, Durability::Process), (97, Durability::Process), (500, Durability::Power)]
            {
                let db = &db;
                scope.spawn(move || {
                    let mut changes = db.changes_since(SeqNo::ZERO).unwrap().with_durability(durability);
                    let mut seen = 0;
                    while seen < WRITES {
                        // Slow readers read in bursts, and lag far behind in between.
                        for _ in 0..pace {
                            match changes.next_timeout(Duration::from_secs(30)) {
                                Ok(Some(batch)) => {
                                    assert_eq!(batch.first_seqno().get(), seen + 1);
                                    seen = batch.last_seqno().get();
                                    check(&batch);
                                }
                                Ok(None) => panic!("nothing came after {seen}"),
                                Err(error) => panic!("after {seen}: {error}"),
                            }
                            if seen == WRITES {
                                break;
                            }
                        }
                        for _ in 0..pace {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let consumer = &consumer;
            scope.spawn(move || {
                let mut seen = 0;
                while seen < WRITES {
                    // A new stream each time, from the acknowledged position.
                    for batch in consumer.changes().unwrap().take(2_000) {
                        let batch = batch.unwrap();
                        assert_eq!(batch.first_seqno().get(), seen + 1);
                        seen = batch.last_seqno().get();
                        check(&batch);
                        if seen == WRITES {
                            break;
                        }
                    }
                    consumer.acknowledge(SeqNo::new(seen)).unwrap();
                }
            });
            let mut written = 0;
            while written < WRITES {
                if written % 7 == 0 && written + 3 <= WRITES {
                    let mut batch = db.batch();
                    for number in written + 1..=written + 3 {
                        batch.put(db.default_keyspace(), key(number), value(number, number));
                    }
                    db.write(&batch).unwrap();
                    written += 3;
                } else {
                    written += 1;
                    db.default_keyspace().put(key(written), value(written, written)).unwrap();
                }
            }
        });
        assert_eq!(consumer.acknowledged().unwrap().get(), WRITES);
    }
}

/// The entries of the stress test contain their own sequence numbers.
fn check(batch: &ChangeBatch) {
    for (number, change) in (batch.first_seqno().get()..).zip(batch) {
        let Change::Put { key: found, value: bytes, .. } = change else { panic!("{change:?}") };
        assert_eq!((found, bytes), (key(number).as_slice(), value(number, number).as_slice()));
    }
}

fn keys(mut changes: Changes) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some(batch) = changes.next_timeout(Duration::from_millis(50)).unwrap() {
        for change in &batch {
            if let Change::Put { key, .. } = change {
                keys.push(key.escape_ascii().to_string());
            }
        }
    }
    keys
}

/// A segment is full of durable records, the next one is begun, and the power fails before any of it is on
/// the device. The database was opened and closed `lives` times before.
fn power_cut_at_a_rotation(lives: u32) {
    let mut fs = StrictFs::new();
    let open = |fs: &StrictFs| {
        Database::open_with(
            "/db",
            Options::default()
                .memory_budget(64 << 20)
                .wal_segment_bytes(16 << 10)
                .flush_on_close(false)
                .keyspace_options(esker::KeyspaceOptions::default().write_buffer_entries(1))
                .env(Env::simulated(Arc::new(fs.clone()), 1)),
        )
        .unwrap()
    };
    let mut expected = Vec::new();
    for life in 0..lives {
        let db = open(&fs);
        if life == 0 {
            db.create_consumer_at("audit", SeqNo::ZERO).unwrap();
        }
        let key = format!("life{life}");
        db.default_keyspace().put_with(&key, vec![b'v'; 9_000], Durability::Power).unwrap();
        expected.push(key);
        db.close().unwrap();
    }
    let db = open(&fs);
    if lives == 0 {
        db.create_consumer_at("audit", SeqNo::ZERO).unwrap();
    }
    while db.step_background() {}
    // Durable, and the segment is nearly full.
    db.default_keyspace().put_with("durable", vec![b'v'; 9_000], Durability::Power).unwrap();
    expected.push("durable".into());
    // Rotates and seals; the write did not require a sync.
    db.default_keyspace().put_with("lost", vec![b'v'; 9_000], Durability::Process).unwrap();
    while db.step_background() {}
    let cut = fs.crash(Crash::PowerAllLost);
    drop(db);
    fs = cut;
    let db = open(&fs);
    assert!(db.default_keyspace().get("durable").unwrap().is_some());
    assert!(db.default_keyspace().get("lost").unwrap().is_none());
    db.default_keyspace().put("afterwards", b"v").unwrap();
    expected.push("afterwards".into());
    let changes = db.consumer("audit").unwrap().changes();
    assert_eq!(keys(changes.unwrap()), expected);
}

#[test]
fn a_consumer_gets_what_survived_a_power_cut_first_open() {
    power_cut_at_a_rotation(0);
}

#[test]
fn a_consumer_gets_what_survived_a_power_cut_second_open() {
    power_cut_at_a_rotation(1);
}

#[test]
fn try_next_skips_unused_sequence_numbers() {
    let fs = StrictFs::new();
    let open = |fs: &StrictFs| {
        let keyspace = esker::KeyspaceOptions::default().write_buffer_entries(1);
        let options = Options::default().flush_on_close(false).keyspace_options(keyspace);
        Database::open_with("/db", options.env(Env::simulated(Arc::new(fs.clone()), 1))).unwrap()
    };
    let db = open(&fs);
    db.create_consumer_at("audit", SeqNo::ZERO).unwrap();
    db.default_keyspace().put_with("a", "1", Durability::Power).unwrap();
    db.default_keyspace().put("lost", "2").unwrap();
    while db.step_background() {}
    let fs = fs.crash(Crash::PowerAllLost);
    let db = open(&fs);
    assert!(db.default_keyspace().get("lost").unwrap().is_none());
    db.default_keyspace().put("b", "2").unwrap();
    let mut changes = db.consumer("audit").unwrap().changes().unwrap();
    assert!(changes.try_next().unwrap().is_some());
    assert!(
        changes.try_next().unwrap().is_some(),
        "at {} of {}",
        changes.seqno(),
        db.metrics().visible_seqno
    );
}
