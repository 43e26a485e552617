//! The table cache: near its limit, under every kind of reader; a file that a reader has open is never
//! removed, which `WatchFs` refuses; and all answers are right.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::parts::StepBackground;
use esker::parts::env::fault::{StrictFs, StrictOptions};
use esker::parts::env::{Env, SeededRandom, StdFileSystem};
use esker::{Cursor, Database, KeyspaceOptions, Options};
use esker_testkit::{TestDir, WatchFs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LIMIT: usize = 16;
/// Tables that may stay open above the limit until the next eviction: a quarter.
const HEADROOM: usize = 4;
const ENTRIES: u64 = 20_000;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("value {number} of round {round}, and some more of it").into_bytes()
}

fn options(limit: usize) -> Options {
    let tiny = KeyspaceOptions::default().write_buffer_size(64 << 10).table_size(4 << 10).block_size(512);
    Options::default()
        .memory_budget(16 << 20)
        .wal_segment_bytes(256 << 10)
        .keyspace_options(tiny)
        .max_open_tables(limit)
}

/// Overwrites all entries.
fn write(db: &Database, round: u64) {
    for number in 0..ENTRIES {
        db.default_keyspace().put(key(number), value(number, round)).unwrap();
    }
}

fn assert_has(db: &Database, number: u64, round: u64) {
    assert_eq!(
        db.default_keyspace().get(key(number)).unwrap().as_deref(),
        Some(value(number, round).as_slice()),
        "key {number}"
    );
}

fn assert_at(cursor: &Cursor, number: u64, round: u64) {
    let (key_bytes, value_bytes) = (key(number), value(number, round));
    assert_eq!(cursor.entry(), Some((key_bytes.as_slice(), value_bytes.as_slice())), "key {number}");
}

fn run_background(db: &Database) {
    while db.step_background() {}
}

/// A database in memory whose background work the test steps, with its entries in one run of many tables,
/// none of them open.
struct Simulated {
    fs: WatchFs,
    db: Database,
    tables: usize,
}

impl Simulated {
    fn new() -> Simulated {
        let strict =
            StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
        let fs = WatchFs::new(Arc::new(strict));
        let open = || {
            Database::open_with("/db", options(LIMIT).env(Env::simulated(Arc::new(fs.clone()), 1))).unwrap()
        };
        let db = open();
        write(&db, 0);
        db.compact_all().unwrap();
        db.close().unwrap();
        drop(db);
        assert_eq!(fs.open_tables(), 0, "a closed database has no open tables");
        fs.take_most_open();
        let db = open();
        run_background(&db);
        let metrics = &db.metrics().keyspaces[0];
        let (runs, tables) = (metrics.runs, metrics.tables);
        assert_eq!(runs, 1);
        assert!(tables > 10 * LIMIT, "{tables} tables");
        assert_eq!(fs.take_most_open(), 0, "opening the database opens no table");
        Simulated { fs, db, tables }
    }

    /// A distance between entries at which each is in a table of its own, with a table in between.
    fn stride(&self) -> u64 {
        2 * ENTRIES / self.tables as u64 + 2
    }

    /// Opens many tables and runs the table cache's eviction until nothing more can be closed.
    fn evict_tables(&self, round: u64) {
        for _ in 0..3 {
            for number in (0..ENTRIES).step_by(self.stride() as usize) {
                assert_has(&self.db, number, round);
                run_background(&self.db);
            }
        }
    }
}

#[test]
fn open_tables_stay_near_the_limit_under_every_reader() {
    let Simulated { fs, db, .. } = &Simulated::new();
    let check = |what: &str| {
        let most = fs.take_most_open();
        assert!(most > LIMIT / 2 && most <= LIMIT + HEADROOM + 1, "{what}: {most} tables were open at once");
        run_background(db);
        assert!(fs.open_tables() <= LIMIT + HEADROOM, "{what}: {} tables stay open", fs.open_tables());
        let metrics = db.metrics().open_tables;
        assert_eq!((metrics.tables, metrics.max_tables), (fs.open_tables(), LIMIT));
        fs.take_most_open();
    };
    let random = SeededRandom::new(1);
    (0..ENTRIES).for_each(|number| assert_has(db, number, 0));
    check("gets in order");
    (0..2_000).for_each(|_| assert_has(db, random.below(ENTRIES), 0));
    check("gets at random");
    for _ in 0..100 {
        let numbers: Vec<u64> = (0..64).map(|_| random.below(ENTRIES)).collect();
        let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| key(number)).collect();
        for (found, number) in db.default_keyspace().multi_get(&keys).unwrap().iter().zip(numbers) {
            assert_eq!(found.as_deref(), Some(value(number, 0).as_slice()));
        }
    }
    check("multi-gets");
    let mut cursor = db.default_keyspace().cursor().unwrap();
    cursor.seek_to_first().unwrap();
    for number in 0..ENTRIES {
        assert_at(&cursor, number, 0);
        cursor.advance().unwrap();
    }
    check("a scan forwards");
    cursor.seek_to_last().unwrap();
    for number in (0..ENTRIES).rev() {
        assert_at(&cursor, number, 0);
        cursor.retreat().unwrap();
    }
    check("a scan backwards");
    for _ in 0..1_000 {
        let number = random.below(ENTRIES);
        cursor.seek(key(number)).unwrap();
        assert_at(&cursor, number, 0);
    }
    drop(cursor);
    check("seeks of one cursor");
    assert!(db.verify().unwrap().is_clean());
    assert!(fs.take_most_open() <= LIMIT + HEADROOM + 1);
    write(db, 1);
    db.compact_all().unwrap();
    run_background(db);
    // The old run and the new data together.
    assert!(fs.take_most_open() <= LIMIT + HEADROOM + 40, "compactions hold one table for each run");
    (0..ENTRIES).for_each(|number| assert_has(db, number, 1));
    check("gets after a compaction");
}

#[test]
fn tables_that_are_used_stay_open() {
    let simulated = Simulated::new();
    let (fs, db, stride) = (&simulated.fs, &simulated.db, simulated.stride());
    let hot: Vec<u64> = (0..LIMIT as u64 / 4).map(|at| at * stride).collect();
    hot.iter().for_each(|&number| assert_has(db, number, 0));
    let mut reopened = 0;
    for cold in (0..ENTRIES).skip(5_000).step_by(stride as usize) {
        let before = fs.opened();
        hot.iter().for_each(|&number| assert_has(db, number, 0));
        reopened += fs.opened() - before;
        assert_has(db, cold, 0);
        run_background(db);
    }
    let closed = db.metrics().open_tables.closed;
    assert!(closed > 2 * LIMIT as u64, "{closed} closed");
    assert_eq!(reopened, 0, "what was used all the time was closed all the same");
}

/// OT1: a reader of an old view continues, at the cost of one handle.
#[test]
fn an_old_cursor_goes_on_across_a_close() {
    let simulated = Simulated::new();
    let (fs, db) = (&simulated.fs, &simulated.db);
    let middle = ENTRIES / 2 + 1;
    assert_has(db, middle, 0);
    let mut cursor = db.default_keyspace().cursor().unwrap();
    cursor.seek(key(middle)).unwrap();
    simulated.evict_tables(0);
    assert!(db.metrics().open_tables.closed > LIMIT as u64);
    let before = fs.opened();
    assert_at(&cursor, middle, 0);
    assert_has(db, middle, 0);
    assert_eq!(fs.opened(), before, "the table that the cursor has is shared");
    // Its table is closed and opened again more than once; the cursor walks on over closed tables.
    for number in middle..ENTRIES {
        assert_at(&cursor, number, 0);
        cursor.advance().unwrap();
        if number.is_multiple_of(1_000) {
            simulated.evict_tables(0);
        }
    }
    assert!(cursor.entry().is_none());
    cursor.seek(key(middle)).unwrap();
    for number in (0..=middle).rev() {
        assert_at(&cursor, number, 0);
        cursor.retreat().unwrap();
    }
}

/// OT3: old views hold no more tables open than the limit, however many they are.
#[test]
fn old_views_hold_no_more_open_than_the_limit() {
    let simulated = Simulated::new();
    let (fs, db, stride) = (&simulated.fs, &simulated.db, simulated.stride());
    let random = SeededRandom::new(3);
    let mut cursors = Vec::new();
    for _ in 0..30 {
        // Another generation of open tables, pinned by a cursor that is itself positioned in none.
        for _ in 0..LIMIT {
            assert_has(db, random.below(ENTRIES / stride) * stride, 0);
        }
        cursors.push(db.default_keyspace().cursor().unwrap());
        run_background(db);
    }
    let open = fs.open_tables();
    assert!(open <= LIMIT + HEADROOM, "{open} tables are kept open by {} old views", cursors.len());
    // Current readers have a share of their own: tables in constant use are not opened repeatedly, once what
    // was open before is closed.
    let hot: Vec<u64> = (0..LIMIT as u64 / 8).map(|at| at * stride).collect();
    let mut others = (LIMIT as u64..ENTRIES / stride).map(|at| at * stride).cycle();
    let mut reopened = 0;
    for round in 0..70 {
        let before = fs.opened();
        hot.iter().chain(&hot).for_each(|&number| assert_has(db, number, 0));
        reopened += if round < 20 { 0 } else { fs.opened() - before };
        assert_has(db, others.next().unwrap(), 0);
        run_background(db);
    }
    assert_eq!(reopened, 0, "what is used all the time was closed, although old views cannot be");
    drop(cursors);
    simulated.evict_tables(0);
    assert!(fs.open_tables() <= LIMIT);
}

/// IN3 and OT2: a table that was closed, opened again and became obsolete is removed once, after its last
/// reader.
#[test]
fn a_reopened_table_is_removed_once_and_after_its_last_reader() {
    let simulated = Simulated::new();
    let (fs, db) = (&simulated.fs, &simulated.db);
    let tables: Vec<_> = db.levels()[0].levels[0].runs[0].tables.iter().map(|table| table.file).collect();
    let path = |number| Path::new("/db/tables").join(format!("{number:06}.sst"));
    // Two cursors with a close between them: each has a file handle of its own for the same table.
    let middle = ENTRIES / 2 + 1;
    assert_has(db, middle, 0);
    let mut first = db.default_keyspace().cursor().unwrap();
    first.seek(key(middle)).unwrap();
    simulated.evict_tables(0);
    let mut second = db.default_keyspace().cursor().unwrap();
    second.seek(key(middle)).unwrap();
    simulated.evict_tables(0);
    assert_has(db, middle, 0);

    write(db, 1);
    db.compact_all().unwrap();
    run_background(db);
    simulated.evict_tables(1);
    assert!(tables.iter().all(|&number| !fs.removed().contains(&path(number))), "two cursors need them");
    drop(first);
    run_background(db);
    assert!(tables.iter().all(|&number| !fs.removed().contains(&path(number))), "a cursor needs them");
    for number in middle..ENTRIES {
        assert_at(&second, number, 0);
        second.advance().unwrap();
    }
    drop(second);
    run_background(db);
    assert!(tables.iter().all(|&number| fs.removed().contains(&path(number))), "no reader needs them");
    simulated.evict_tables(1);
    let Simulated { fs, db, .. } = simulated;
    drop(db);
    assert_eq!(fs.open_tables(), 0);
}

/// Tables that only a cursor reads take no share from current ones.
#[test]
fn tables_of_a_dropped_keyspace_are_closed() {
    let simulated = Simulated::new();
    let (fs, db) = (&simulated.fs, &simulated.db);
    let gone = db.keyspace("gone").unwrap();
    for number in 0..ENTRIES / 2 {
        gone.put(key(number), value(number, 0)).unwrap();
    }
    db.compact_all().unwrap();
    let mut cursor = gone.cursor().unwrap();
    db.drop_keyspace("gone").unwrap();
    cursor.seek_to_first().unwrap();
    for number in 0..ENTRIES / 2 {
        assert_at(&cursor, number, 0);
        cursor.advance().unwrap();
    }
    assert!(fs.open_tables() >= LIMIT, "the cursor's tables stay open as long as there is room");
    simulated.evict_tables(0);
    assert!(fs.open_tables() <= LIMIT, "{} tables stay open", fs.open_tables());
    drop(cursor);
    run_background(db);
}

#[test]
fn indexes_and_filters_stay_within_their_share_of_the_memory() {
    // Long keys that differ at their ends, in small blocks: half of the data is index.
    let long_key = |number: u64| format!("{:0300} {number:06}", 0).into_bytes();
    let strict = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let keyspace = KeyspaceOptions::default().table_size(64 << 10).block_size(512);
    let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace).max_open_tables(700);
    let db = Database::open_with("/db", options.env(Env::simulated(Arc::new(strict), 1))).unwrap();
    for number in 0..30_000 {
        db.default_keyspace().put(long_key(number), value(number, 0)).unwrap();
    }
    db.compact_all().unwrap();
    let mut most = 0;
    for number in 0..30_000 {
        assert_eq!(
            db.default_keyspace().get(long_key(number)).unwrap().as_deref(),
            Some(value(number, 0).as_slice())
        );
        run_background(&db);
        most = most.max(db.metrics().open_tables.metadata_bytes);
    }
    let metrics = db.metrics();
    let (open, tables) = (metrics.open_tables, metrics.keyspaces[0].tables);
    assert!(open.closed > 0 && open.tables < tables, "{open:?} of {tables} tables");
    let table_bytes = open.metadata_bytes / open.tables as u64;
    assert!(
        most > open.max_metadata_bytes / 2 && most <= open.max_metadata_bytes + 2 * table_bytes,
        "{most}: {open:?}"
    );
    assert!(
        metrics.memory.used_bytes() <= metrics.memory.budget_bytes + 2 * table_bytes,
        "{:?}",
        metrics.memory
    );
}

#[test]
fn a_limit_that_cannot_be_kept_is_refused() {
    for limit in [0, 7, usize::MAX] {
        let error =
            Database::open_with("/db", options(limit).env(Env::simulated(Arc::new(StrictFs::new()), 1)))
                .unwrap_err();
        assert!(error.to_string().contains("max_open_tables"), "{error}");
    }
}

/// A read-only database closes tables as well.
#[test]
fn a_read_only_database_closes_tables() {
    let dir = TestDir::new("open-tables");
    let db = Database::open_with(dir.path(), options(LIMIT)).unwrap();
    write(&db, 0);
    db.compact_all().unwrap();
    db.close().unwrap();
    drop(db);
    let db = Database::open_with(dir.path(), options(LIMIT).read_only(true)).unwrap();
    let mut rounds = 0;
    while db.metrics().open_tables.closed < 3 * LIMIT as u64 {
        (0..ENTRIES).step_by(7).for_each(|number| assert_has(&db, number, 0));
        rounds += 1;
        assert!(rounds < 300, "{:?}", db.metrics().open_tables);
    }
    assert!(db.metrics().open_tables.tables <= LIMIT + HEADROOM);
}

/// The round that a value was written in; it must be whole.
fn round_of(number: u64, found: &[u8]) -> u64 {
    let text = std::str::from_utf8(found).unwrap();
    let round = text.split(' ').nth(4).unwrap().trim_end_matches(',').parse().unwrap();
    assert_eq!(found, value(number, round));
    round
}

/// The last round seen of each entry: none goes back.
struct LastRounds(Vec<u64>);

impl LastRounds {
    fn new() -> LastRounds {
        LastRounds(vec![0; ENTRIES as usize])
    }

    fn note(&mut self, number: u64, found: Option<&[u8]>) {
        let round = round_of(number, found.unwrap());
        let last = std::mem::replace(&mut self.0[number as usize], round);
        assert!(round >= last, "key {number} went back from round {last} to {round}");
    }
}

fn get_some(db: &Database, random: &SeededRandom, seen: &mut LastRounds) {
    for _ in 0..500 {
        let number = random.below(ENTRIES);
        seen.note(number, db.default_keyspace().get(key(number)).unwrap().as_deref());
    }
}

fn get_many(db: &Database, random: &SeededRandom, seen: &mut LastRounds) {
    let numbers: Vec<u64> = (0..100).map(|_| random.below(ENTRIES)).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| key(number)).collect();
    let found = db.default_keyspace().multi_get(&keys).unwrap();
    found.iter().zip(numbers).for_each(|(found, number)| seen.note(number, found.as_deref()));
}

/// The rounds of all entries, in key order.
fn rounds(mut cursor: Cursor, backwards: bool) -> Vec<u64> {
    let mut rounds = Vec::new();
    if backwards { cursor.seek_to_last() } else { cursor.seek_to_first() }.unwrap();
    while let Some((_, found)) = cursor.entry() {
        let at = rounds.len() as u64;
        rounds.push(round_of(if backwards { ENTRIES - 1 - at } else { at }, found));
        if backwards { cursor.retreat() } else { cursor.advance() }.unwrap();
    }
    if backwards {
        rounds.reverse();
    }
    rounds
}

/// A snapshot shows one moment, from both directions and key by key: the writer overwrites the entries in key
/// order.
fn scan_moment(db: &Database, random: &SeededRandom, seen: &mut LastRounds) {
    let snapshot = db.snapshot();
    let view = db.default_keyspace().at(&snapshot);
    let forwards = rounds(view.cursor().unwrap(), false);
    assert_eq!(forwards.len() as u64, ENTRIES);
    assert!(forwards.is_sorted_by(|before, after| before >= after), "not one moment");
    assert_eq!(forwards, rounds(view.cursor().unwrap(), true), "a snapshot changed");
    let number = random.below(ENTRIES);
    let found = view.get(key(number)).unwrap();
    seen.note(number, found.as_deref());
    assert_eq!(seen.0[number as usize], forwards[number as usize]);
}

/// All kinds of readers at once, on threads and real files.
#[test]
fn threads_read_right_answers_while_tables_are_closed_and_removed() {
    /// Ends the readers however the writer ends.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let dir = TestDir::new("open-tables");
    let fs = WatchFs::new(Arc::new(StdFileSystem));
    let db =
        Database::open_with(dir.path(), options(LIMIT).env(Env { fs: Arc::new(fs.clone()), ..Env::real() }))
            .unwrap();
    write(&db, 0);
    db.compact_all().unwrap();
    let tables = db.metrics().keyspaces[0].tables;
    assert!(tables > 10 * LIMIT, "{tables} tables");
    fs.take_most_open();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, done) = (&db, &done);
        for (seed, read) in [get_some, get_many, scan_moment].into_iter().enumerate() {
            scope.spawn(move || {
                let (random, mut seen) = (SeededRandom::new(seed as u64), LastRounds::new());
                loop {
                    read(db, &random, &mut seen);
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                }
            });
        }
        let _ends = Ends(done);
        for round in 1..=4 {
            write(db, round);
            db.default_keyspace().compact(key(round * 1_000)..key(round * 1_000 + 6_000)).unwrap();
        }
        db.compact_all().unwrap();
    });
    // Beside limit and headroom: three readers and a compaction, each with a table for each run.
    const MOST_RUNS: usize = 24;
    let most = fs.take_most_open();
    assert!(most <= LIMIT + HEADROOM + 4 * MOST_RUNS, "{most} tables were open at once");
    let metrics = db.metrics().open_tables;
    assert!(metrics.closed > 10 * LIMIT as u64 && metrics.tables <= LIMIT + HEADROOM, "{metrics:?}");
    assert!(db.verify().unwrap().is_clean());
    (0..ENTRIES).for_each(|number| assert_has(&db, number, 4));
    db.close().unwrap();
    drop(db);
    assert_eq!(fs.open_tables(), 0);
    assert!(fs.removed().len() > tables, "tables were removed behind the readers");
}
