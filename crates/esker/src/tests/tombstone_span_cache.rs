//! Reads through cached tombstone spans compared with point lookups.

use crate::{Database, Expiry, Keyspace, KeyspaceOptions, MergeOperator, Options, Snapshot};
use esker_env::fault::StrictFs;
use esker_env::{Env, ManualClock, SeededRandom};
use esker_iter::TombstoneSpans as _;
use esker_view::time::from_ms;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: u64 = 1_500;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn open(seed: u64) -> Database {
    let options = KeyspaceOptions::default().write_buffer_size(32 << 10).table_size(16 << 10);
    let options = options.merge_operator(MergeOperator::append(b","));
    let env = Env::simulated(Arc::new(StrictFs::new()), seed);
    Database::open_with("/db", Options::default().memory_budget(16 << 20).keyspace_options(options).env(env))
        .expect("opens")
}

/// The first number from `from` on whose key has a value, by point lookups, which use no spans.
fn first_by_gets(keyspace: &Keyspace, snapshot: &Snapshot, from: u64) -> Option<u64> {
    let numbers: Vec<u64> = (from..KEYS).collect();
    numbers.chunks(128).find_map(|numbers| {
        let keys: Vec<[u8; 8]> = numbers.iter().map(|&number| key(number)).collect();
        let found = keyspace.at(snapshot).multi_get(&keys).expect("reads");
        found.iter().position(Option::is_some).map(|at| numbers[at])
    })
}

fn first_by_seek(keyspace: &Keyspace, snapshot: &Snapshot, from: u64) -> Option<u64> {
    let mut cursor = keyspace.at(snapshot).cursor().expect("opens");
    cursor.seek(key(from)).expect("seeks");
    cursor.key().map(|key| u64::from_be_bytes(key.try_into().expect("eight bytes")))
}

#[test]
fn seeks_find_what_gets_find() {
    for seed in 0..4 {
        let db = open(seed);
        let keyspace = db.default_keyspace();
        let random = SeededRandom::new(seed);
        let below = |limit: u64| esker_env::Random::next_u64(&random) % limit;
        let mut snapshots: Vec<Snapshot> = Vec::new();
        (0..KEYS).for_each(|number| keyspace.put(key(number), [1; 20]).expect("puts"));
        let mut leaps = 0;
        for step in 0..800 {
            match below(20) {
                0 => keyspace.put(key(below(KEYS)), [2; 20]).expect("puts"),
                1..3 => keyspace.merge(key(below(KEYS)), b"1").expect("merges"),
                3 => {
                    let mut batch = db.batch();
                    (0..3).for_each(|_| batch.put(keyspace, key(below(KEYS)), [3; 20]));
                    batch.delete(keyspace, key(below(KEYS)));
                    db.write(&batch).expect("writes");
                }
                4 => keyspace
                    .put_with(key(below(KEYS)), b"v", Expiry::At(from_ms(below(3_000))))
                    .expect("puts"),
                5 => {
                    let from = below(KEYS);
                    keyspace.delete_range(key(from)..key(from + below(300))).expect("deletes");
                }
                6..9 => {
                    let from = below(KEYS);
                    (from..from + 90).for_each(|number| keyspace.delete(key(number)).expect("deletes"));
                }
                9 if below(8) == 0 => db.flush().expect("flushes"),
                10 if below(30) == 0 => keyspace.compact(..).expect("compacts"),
                11 => snapshots.push(db.snapshot()),
                12 if snapshots.len() > 3 => drop(snapshots.swap_remove(below(4) as usize)),
                _ => {}
            }
            let now = db.snapshot();
            for snapshot in snapshots.iter().rev().take(2).chain([&now, &now, &now]) {
                let from = if below(3) == 0 { 0 } else { below(KEYS) };
                let expected = first_by_gets(keyspace, snapshot, from);
                assert_eq!(first_by_seek(keyspace, snapshot, from), expected, "seed {seed} step {step}");
            }
            let view = keyspace.state().view.load();
            leaps += u64::from(
                view.semantics.tombstone_spans.span_around(&key(below(KEYS)), now.seqno()).is_some(),
            );
        }
        assert!(leaps > 100, "gaps were there {leaps} times");
    }
}

/// A queue: one thread deletes at its head while another puts anywhere before and behind; seeks at a snapshot
/// find what gets find.
#[test]
fn seeks_find_what_gets_find_with_a_concurrent_writer() {
    let dir = std::env::temp_dir().join(format!("esker-gaps-{}", std::process::id()));
    let db = Database::open_with(&dir, Options::default().memory_budget(16 << 20)).expect("opens");
    let keyspace = db.default_keyspace();
    (0..KEYS).for_each(|number| keyspace.put(key(number), [1; 20]).expect("puts"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let random = SeededRandom::new(7);
            let below = |limit: u64| esker_env::Random::next_u64(&random) % limit;
            for _ in 0..1_000 {
                let from = below(KEYS);
                (from..from + 200).for_each(|number| keyspace.delete(key(number)).expect("deletes"));
                keyspace.put(key(below(KEYS)), [2; 20]).expect("puts");
            }
            done.store(true, Ordering::Release);
        });
        for turn in 0.. {
            let snapshot = db.snapshot();
            let from = turn * 31 % KEYS;
            let found = first_by_seek(keyspace, &snapshot, from);
            assert_eq!(found, first_by_gets(keyspace, &snapshot, from));
            if done.load(Ordering::Acquire) {
                break;
            }
        }
    });
    db.close().expect("closes");
    #[expect(clippy::disallowed_methods, reason = "a test cleans up behind the database")]
    std::fs::remove_dir_all(dir).expect("removes");
}

/// Two snapshots of one sequence number, between which an entry expired that a newer delete hides from both
/// kinds of reads: the later one must not record a span that is wrong for the earlier one.
#[test]
fn a_span_does_not_hide_entries_of_an_earlier_snapshot() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..env };
    let db = Database::open_with("/db", Options::default().memory_budget(64 << 20).env(env)).expect("works");
    for number in 0..200u32 {
        db.default_keyspace().put(format!("q{number:04}"), b"x").expect("works");
        db.default_keyspace().delete(format!("q{number:04}")).expect("works");
    }
    db.default_keyspace()
        .put_with("session", b"token", Expiry::At(from_ms(1_000_000 + 5_000)))
        .expect("works");
    db.default_keyspace().put("tail", b"y").expect("works");
    // Requests watching; the next put begins it.
    assert_eq!(&*db.default_keyspace().iter().next().expect("works").expect("works").0, b"session");
    db.default_keyspace().put("zzz", b"y").expect("works");
    let before = db.snapshot();
    clock.advance(Duration::from_secs(10));
    let after = db.snapshot();
    assert_eq!(before.seqno(), after.seqno());
    db.default_keyspace().delete("session").expect("works");
    let space = db.default_keyspace();
    let first = |snapshot| space.at(snapshot).iter().next().expect("works").expect("works").0.to_vec();
    assert_eq!(first(&after).escape_ascii().to_string(), "tail");
    assert!(space.at(&before).get("session").expect("works").is_some());
    assert_eq!(first(&before).escape_ascii().to_string(), "session", "the gap of the later reader hides it");
}
