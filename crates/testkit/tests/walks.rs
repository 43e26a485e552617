//! Long walks of cursors over trees of one large run, many small ones and a live memtable: with seeks,
//! changes of direction, concurrent writes, and reads that fail.
//!
//! The scripts of the model test mix everything and keep each tree small. Here runs hold one version of each
//! key, mostly without range deletes, and cursors go far: only then do galloping, changes of direction and
//! prepared seeks come into play.
//!
//! `ESKER_SEED=n` repeats one seed; `ESKER_PLANS=n` sets the number of seeds in each test.

#![expect(clippy::print_stdout, reason = "the seed of a failure is for people")]

use esker::parts::env::fault::{Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker::parts::env::{Env, SeededRandom};
use esker::{Cursor, Database, Keyspace, KeyspaceOptions, Options, Snapshot};
use esker_testkit::options::{Chosen, DATABASE, KEYSPACE};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// What a reader must see.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Seeds of each test.
const SEEDS: u64 = 40;

/// Moves of one cursor, and cursors of one tree.
const MOVES: u64 = 600;
const CURSORS: usize = 6;

fn for_each_seed(run: impl Fn(u64)) {
    let variable = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().expect("a number"));
    let seeds = match variable("ESKER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("ESKER_PLANS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let said = SeedOnPanic(seed);
        run(seed);
        std::mem::forget(said);
    }
}

/// Prints the seed of a failure.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        println!("reproduce: ESKER_SEED={} cargo test -p esker-testkit --test walks", self.0);
    }
}

/// A database with a tree as described above, and its content.
struct WalkedDatabase {
    random: SeededRandom,
    fs: FaultFs,
    options: Options,
    db: Option<Database>,
    shape: u64,
    keys: u64,
    written: u64,
    content: Content,
    snapshots: Vec<(Snapshot, Content)>,
}

impl WalkedDatabase {
    /// With random options, except those by which the tree changes on its own, or answers depend on the
    /// clock: the model test covers these.
    fn new(seed: u64, deletes_ranges: bool) -> WalkedDatabase {
        let random = SeededRandom::new(seed ^ 0x77_616c_6b73);
        let fs = FaultFs::over_strict(StrictFs::new());
        let mut space = Chosen::random(KEYSPACE, &random)
            .with(KEYSPACE, "strategy", "none")
            .with(KEYSPACE, "default ttl", "none")
            .with(KEYSPACE, "delete target", "none")
            .with(KEYSPACE, "space target", "none")
            .with(KEYSPACE, "adaptive compaction", "off")
            .with(KEYSPACE, "write buffer entries", "unlimited");
        if random.below(3) > 0 {
            // What galloping needs.
            space = space.with(KEYSPACE, "layout", "flat").with(KEYSPACE, "large values", "in tables");
        }
        if random.below(2) > 0 {
            space = space.with(KEYSPACE, "memtable", "art");
        }
        let database = Chosen::random(DATABASE, &random).with(DATABASE, "memory budget", "8 MiB");
        let env = Env::simulated(Arc::new(fs.clone()), seed);
        let space = space.apply(KEYSPACE, KeyspaceOptions::default());
        let options = database.apply(DATABASE, Options::default()).keyspace_options(space).env(env);
        let db = Database::open_with("/db", options.clone()).expect("a database");
        let (shape, keys) = (random.below(5), 50 + random.below(3_000));
        let mut database = WalkedDatabase {
            random,
            fs,
            options,
            db: Some(db),
            shape,
            keys,
            written: 0,
            content: Content::new(),
            snapshots: Vec::new(),
        };
        database.grow(deletes_ranges);
        database
    }

    fn space(&self) -> Keyspace {
        self.db.as_ref().expect("it is open").default_keyspace().clone()
    }

    fn percent(&self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn key(&self, number: u64) -> Vec<u8> {
        match self.shape {
            0 => (number * 3).to_be_bytes().to_vec(),
            1 => format!("group{:03}{:03}", number / 90, number % 90).into_bytes(),
            2 => format!("{:x}", number * number).into_bytes(),
            3 => format!("{number:016}").into_bytes(),
            _ => vec![b'a'; number as usize % 300 + 1],
        }
    }

    fn any_key(&self) -> Vec<u8> {
        self.key(self.random.below(self.keys + 2))
    }

    fn put(&mut self, key: Vec<u8>) {
        self.written += 1;
        let mut value = self.written.to_string().into_bytes();
        value.resize(value.len() + self.random.below(90) as usize, b'.');
        self.space().put(&key, &value).expect("a put");
        self.content.insert(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.space().delete(key).expect("a delete");
        self.content.remove(key);
    }

    /// Changes about this many of a hundred keys.
    fn change(&mut self, percent: u64, percent_deleted: u64) {
        for number in 0..self.keys {
            if self.percent(percent) {
                let key = self.key(number);
                if self.percent(percent_deleted) { self.delete(&key) } else { self.put(key) }
            }
        }
    }

    fn take_snapshot(&mut self) {
        let snapshot = self.db.as_ref().expect("it is open").snapshot();
        self.snapshots.push((snapshot, self.content.clone()));
    }

    fn grow(&mut self, deletes_ranges: bool) {
        self.change(80, 0);
        if self.percent(40) {
            // Then the large run has several versions of a key.
            self.take_snapshot();
            self.change(20, 10);
        }
        self.db.as_ref().expect("it is open").compact_all().expect("a compaction");
        for _ in 0..self.random.below(9) {
            let percent = [0, 1, 5, 30][self.random.below(4) as usize];
            self.change(percent, [0, 20][self.random.below(2) as usize]);
            if self.percent(30) {
                self.take_snapshot();
                self.change(percent, 20);
            }
            if deletes_ranges && self.percent(30) {
                let (a, b) = (self.any_key(), self.any_key());
                let (low, high) = if a <= b { (a, b) } else { (b, a) };
                self.space().delete_range(low.clone()..high.clone()).expect("a range delete");
                self.content.retain(|key, _| *key < low || *key >= high);
            }
            if self.percent(80) {
                self.space().flush().expect("a flush");
            }
        }
    }

    /// A write that open readers must not see.
    fn write_beside(&mut self) {
        let key = self.any_key();
        if self.percent(25) { self.delete(&key) } else { self.put(key) }
    }

    /// The same, and now and then a flush, which replaces the memtable of open readers.
    fn write_or_flush(&mut self) {
        self.write_beside();
        if self.percent(2) {
            self.space().flush().expect("a flush");
        }
    }

    /// A cursor at the present or at a snapshot, and its expected content.
    fn cursor(&self) -> esker::Result<(Cursor, Content)> {
        let which = self.random.below(2 * self.snapshots.len() as u64 + 1) as usize;
        match self.snapshots.get(which) {
            Some((snapshot, content)) => Ok((self.space().at(snapshot).cursor()?, content.clone())),
            None => Ok((self.space().cursor()?, self.content.clone())),
        }
    }
}

/// A cursor beside its model.
struct Walker {
    cursor: Cursor,
    content: Content,
    /// The key that the cursor is on.
    at: Option<Vec<u8>>,
}

impl Walker {
    fn new((cursor, content): (Cursor, Content)) -> Walker {
        Walker { cursor, content, at: None }
    }

    fn after(&self, key: Bound<&[u8]>) -> Option<Vec<u8>> {
        self.content.range::<[u8], _>((key, Bound::Unbounded)).next().map(|(key, _)| key.clone())
    }

    fn before(&self, key: Bound<&[u8]>) -> Option<Vec<u8>> {
        self.content.range::<[u8], _>((Bound::Unbounded, key)).next_back().map(|(key, _)| key.clone())
    }

    /// Makes a move; after an error the cursor is on no entry.
    fn make(&mut self, number: u64, key: &[u8]) -> esker::Result<()> {
        let at = self.at.take();
        let (moved, expected) = match (number, &at) {
            (0, _) => (self.cursor.seek_to_first(), self.after(Bound::Unbounded)),
            (1, _) => (self.cursor.seek_to_last(), self.before(Bound::Unbounded)),
            (2, _) => (self.cursor.seek(key), self.after(Bound::Included(key))),
            (3, _) => (self.cursor.seek_for_prev(key), self.before(Bound::Included(key))),
            (4, Some(at)) => (self.cursor.advance(), self.after(Bound::Excluded(at))),
            (_, Some(at)) => (self.cursor.retreat(), self.before(Bound::Excluded(at))),
            (4, None) => (self.cursor.advance(), None),
            (_, None) => (self.cursor.retreat(), None),
        };
        if moved.is_err() {
            assert_eq!(self.cursor.entry(), None, "an error leaves a cursor nowhere");
            return moved;
        }
        self.at = expected;
        let expected = self.at.as_ref().map(|key| (&key[..], &self.content[key][..]));
        let found = self.cursor.entry();
        let shown = |entry: Option<(&[u8], &[u8])>| {
            entry.map(|(key, value)| format!("{} = {}", key.escape_ascii(), value.escape_ascii()))
        };
        assert_eq!(shown(found), shown(expected), "after move {number} with {}", key.escape_ascii());
        Ok(())
    }

    /// Walks mostly far in one direction, with some steps against it. Returns the number of errors.
    fn walk(&mut self, database: &mut WalkedDatabase, mut beside: impl FnMut(&mut WalkedDatabase)) -> u64 {
        let (mut direction, mut errors) = (4, 0);
        for _ in 0..MOVES {
            let number = match database.random.below(100) {
                _ if self.at.is_none() => database.random.below(4),
                0..4 => database.random.below(4),
                4..10 => 9 - direction,
                10..14 => {
                    direction = 9 - direction;
                    direction
                }
                _ => direction,
            };
            let near = self.at.clone().filter(|_| database.percent(30));
            let key = near.unwrap_or_else(|| database.any_key());
            errors += u64::from(self.make(number, &key).is_err());
            beside(database);
        }
        errors
    }
}

fn walk_randomly(seed: u64, deletes_ranges: bool) {
    let mut database = WalkedDatabase::new(seed, deletes_ranges);
    for _ in 0..CURSORS {
        let mut walker = Walker::new(database.cursor().expect("a cursor"));
        let chance = [0, 3, 30][database.random.below(3) as usize];
        let errors = walker.walk(&mut database, |database| {
            if database.percent(chance) {
                database.write_or_flush();
            }
        });
        assert_eq!(errors, 0);
    }
    for _ in 0..CURSORS {
        read_from_both_ends(&mut database);
    }
    database.snapshots.clear();
    database.db.take().expect("it is open").close().expect("a close");
}

/// Takes a range from both ends, at random.
fn read_from_both_ends(database: &mut WalkedDatabase) {
    let bound = |database: &WalkedDatabase| match database.random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(database.any_key()),
        _ => Bound::Excluded(database.any_key()),
    };
    let (low, high) = (bound(database), bound(database));
    let is_inside = |key: &[u8]| {
        let is_above = match &low {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= &low[..],
            Bound::Excluded(low) => key > &low[..],
        };
        is_above
            && match &high {
                Bound::Unbounded => true,
                Bound::Included(high) => key <= &high[..],
                Bound::Excluded(high) => key < &high[..],
            }
    };
    let content: Vec<_> = database.content.clone().into_iter().filter(|(key, _)| is_inside(key)).collect();
    let mut expected = content.iter();
    let mut range = database.space().range((low.clone(), high.clone()));
    let chance = [0, 10, 50, 100][database.random.below(4) as usize];
    loop {
        let is_back = database.percent(chance);
        let found = if is_back { range.next_back() } else { range.next() };
        let expected = if is_back { expected.next_back() } else { expected.next() };
        let found =
            found.map(|entry| entry.expect("an entry")).map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found.as_ref(), expected.map(|(key, value)| (key.clone(), value.clone())).as_ref());
        if found.is_none() {
            return;
        }
        if database.percent(10) {
            database.write_or_flush();
        }
    }
}

#[test]
fn cursors_walk_as_the_model_does() {
    for_each_seed(|seed| walk_randomly(seed, false));
}

#[test]
fn cursors_walk_over_range_deletes_as_the_model_does() {
    for_each_seed(|seed| walk_randomly(seed, true));
}

/// Reads of tables fail now and then: the call returns the error, and the next seek works.
#[test]
fn a_failed_read_harms_no_later_seek() {
    let met = std::cell::Cell::new(0);
    for_each_seed(|seed| {
        let mut database = WalkedDatabase::new(seed, seed % 3 == 0);
        database.snapshots.clear();
        for _ in 0..CURSORS {
            // With an empty cache and no table open.
            database.db.take().expect("it is open").close().expect("a close");
            database.db = Some(Database::open_with("/db", database.options.clone()).expect("it opens again"));
            let mut walker = Walker::new(database.cursor().expect("a cursor"));
            let errors = walker.walk(&mut database, |database| {
                if database.percent(20) {
                    database.write_beside();
                }
                database.fs.heal();
                if database.percent(10) {
                    let nth = When::Nth(1 + database.random.below(3));
                    database
                        .fs
                        .add(Rule::new(Fault::Io, nth).on(Operation::Read).on(Operation::Open).path(".sst"));
                }
            });
            met.set(met.get() + errors);
            database.fs.heal();
        }
    });
    assert!(met.get() > 0, "no read failed");
}
