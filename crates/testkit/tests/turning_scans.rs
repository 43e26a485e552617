//! Scans that change direction within bounds, at snapshots, while threads write, flush and merge.
//!
//! One thread makes all writes: values, values that have expired or will live for a day, operands, deletes of
//! keys and of ranges. Now and then it takes a snapshot and records the content of the keyspace. Readers read
//! what the snapshots show, by cursors and ranges in both directions, and by gets, on real files, with
//! background flushes and compactions, and one more thread that compacts ranges of keys. A snapshot never
//! changes, so every answer is known.
//!
//! `ESKER_SEED=n` repeats one seed, as far as threads repeat anything; `ESKER_PLANS=n` sets the number of
//! seeds.

#![expect(clippy::expect_used, reason = "helpers of tests, outside the test functions")]

use esker::parts::env::{Env, SeededRandom};
use esker::{Database, Expiry, Keyspace, KeyspaceOptions, MergeOperator, Options, Snapshot};
use esker_testkit::TestDir;
use esker_testkit::options::{Chosen, DATABASE, KEYSPACE};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;
type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

const SEEDS: u64 = 24;
const READERS: u64 = 2;
/// Snapshots of one database, and changes between two of them.
const SNAPSHOTS: u64 = 40;
const CHANGES: u64 = 120;
/// Moves of one cursor.
const MOVES: u64 = 300;

const DAY: Duration = Duration::from_secs(86_400);

/// A snapshot and its content.
struct SnapshotContent {
    snapshot: Snapshot,
    content: Content,
}

struct RandomData {
    random: SeededRandom,
    shape: u64,
    keys: u64,
    deletes_ranges: bool,
}

impl RandomData {
    fn percent(&self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn key(&self) -> Vec<u8> {
        self.key_of(self.random.below(self.keys))
    }

    fn key_of(&self, number: u64) -> Vec<u8> {
        match self.shape {
            0 => (number * 3).to_be_bytes().to_vec(),
            1 => format!("group{:02}/{:03}", number % 20, number / 20).into_bytes(),
            _ => format!("{:x}", number * number).into_bytes(),
        }
    }

    fn value(&self) -> Vec<u8> {
        let mut value = self.random.below(u64::MAX).to_string().into_bytes();
        value.resize(value.len() + self.random.below(90) as usize, b'.');
        value
    }

    /// Bounds of any kind: none, a prefix, or two in either order.
    fn range(&self) -> Range {
        let bound = || match self.random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        };
        if self.percent(40) {
            let mut prefix = self.key();
            prefix.truncate(1 + self.random.below(prefix.len() as u64) as usize);
            let mut end = prefix.clone();
            while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
            let Some(last) = end.last_mut() else { return (Bound::Included(prefix), Bound::Unbounded) };
            *last += 1;
            return (Bound::Included(prefix), Bound::Excluded(end));
        }
        (bound(), bound())
    }
}

/// Changes the keyspace, and the model with it.
fn change(chance: &RandomData, space: &Keyspace, content: &mut Content) {
    let (key, value) = (chance.key(), chance.value());
    match chance.random.below(100) {
        0..55 => {
            space.put(&key, &value).expect("a put");
            content.insert(key, value);
        }
        55..62 => {
            space.put_with(&key, &value, Expiry::After(DAY)).expect("a put");
            content.insert(key, value);
        }
        62..68 => {
            space.put_with(&key, &value, Expiry::After(Duration::ZERO)).expect("a put");
            content.remove(&key);
        }
        68..80 => {
            space.merge(&key, b"more").expect("a merge");
            let value = content.entry(key).or_default();
            if !value.is_empty() {
                value.push(b',');
            }
            value.extend_from_slice(b"more");
        }
        80..98 => {
            space.delete(&key).expect("a delete");
            content.remove(&key);
        }
        _ if chance.deletes_ranges => {
            // Mostly short ranges, or little would be left.
            let start = content.range(key..).next().map(|(key, _)| key.clone());
            let Some(start) = start else { return };
            let end = content.range(start.clone()..).nth(chance.random.below(30) as usize);
            let Some(end) = end.map(|(key, _)| key.clone()) else { return };
            space.delete_range(start.clone()..end.clone()).expect("a range delete");
            content.retain(|key, _| *key < start || *key >= end);
        }
        _ => {}
    }
}

/// The content within bounds.
fn within(content: &Content, range: &Range) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_inside = |key: &[u8]| {
        (match &range.0 {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= &low[..],
            Bound::Excluded(low) => key > &low[..],
        }) && match &range.1 {
            Bound::Unbounded => true,
            Bound::Included(high) => key <= &high[..],
            Bound::Excluded(high) => key < &high[..],
        }
    };
    let entries = content.iter().filter(|(key, _)| is_inside(key));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Moves a cursor within bounds, mostly far in one direction.
fn walk(chance: &RandomData, space: &Keyspace, moment: &SnapshotContent) {
    let range = chance.range();
    let entries = within(&moment.content, &range);
    let mut cursor = space.at(&moment.snapshot).cursor_in(range.clone()).expect("a cursor");
    let (mut at, mut is_forward) = (None::<usize>, true);
    for number in 0..MOVES {
        let step = if at.is_none() { chance.random.below(4) } else { chance.random.below(100) };
        let key = chance.key();
        if (10..16).contains(&step) {
            is_forward = !is_forward;
        }
        // Against the direction, once.
        let goes_forward = is_forward != (4..10).contains(&step);
        let (moved, expected) = match step {
            0 => (cursor.seek_to_first(), Some(0)),
            1 => (cursor.seek_to_last(), entries.len().checked_sub(1)),
            2 => (cursor.seek(&key), Some(entries.partition_point(|(other, _)| *other < key))),
            3 => (
                cursor.seek_for_prev(&key),
                entries.partition_point(|(other, _)| *other <= key).checked_sub(1),
            ),
            _ if goes_forward => (cursor.advance(), at.map(|at| at + 1)),
            _ => (cursor.retreat(), at.and_then(|at| at.checked_sub(1))),
        };
        moved.expect("a move");
        at = expected.filter(|at| *at < entries.len());
        let expected = at.map(|at| (&*entries[at].0, &*entries[at].1));
        assert_eq!(cursor.entry(), expected, "move {number}, {step}, within {range:?}");
    }
}

/// Takes a range from both ends, with values or without.
fn read_from_both_ends(chance: &RandomData, space: &Keyspace, moment: &SnapshotContent) {
    let range = chance.range();
    let entries = within(&moment.content, &range);
    let mut expected = entries.iter();
    let often = [0, 10, 50, 100][chance.random.below(4) as usize];
    let view = space.at(&moment.snapshot);
    if chance.percent(30) {
        let mut keys = view.keys(range.clone());
        loop {
            let (found, expected) = match chance.percent(often) {
                true => (keys.next_back(), expected.next_back()),
                false => (keys.next(), expected.next()),
            };
            let found = found.map(|key| key.expect("a key").to_vec());
            assert_eq!(found.as_ref(), expected.map(|(key, _)| key), "within {range:?}");
            if found.is_none() {
                return;
            }
        }
    }
    let mut found = view.range(range.clone());
    loop {
        let (found, expected) = match chance.percent(often) {
            true => (found.next_back(), expected.next_back()),
            false => (found.next(), expected.next()),
        };
        let found = found.map(|entry| entry.expect("an entry"));
        let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found.as_ref(), expected, "within {range:?}");
        if found.is_none() {
            return;
        }
    }
}

fn read(chance: &RandomData, space: &Keyspace, moments: &Mutex<Receiver<Arc<SnapshotContent>>>) {
    let next = || moments.lock().expect("no reader panics with it").recv().ok();
    let mut old: Option<Arc<SnapshotContent>> = None;
    while let Some(moment) = next() {
        // An old snapshot shows the same after the tree was rebuilt.
        for moment in old.iter().chain([&moment]) {
            walk(chance, space, moment);
            read_from_both_ends(chance, space, moment);
        }
        if chance.percent(50) {
            old = Some(moment);
        }
    }
}

fn write(chance: &RandomData, db: &Database, space: &Keyspace, moments: &SyncSender<Arc<SnapshotContent>>) {
    let mut content = Content::new();
    if chance.percent(70) {
        // One large run, over which scans gallop.
        for number in 0..chance.keys {
            let (key, value) = (chance.key_of(number), chance.value());
            space.put(&key, &value).expect("a put");
            content.insert(key, value);
        }
        space.compact(..).expect("a compaction");
    }
    for _ in 0..SNAPSHOTS {
        (0..CHANGES).for_each(|_| change(chance, space, &mut content));
        if chance.percent(30) {
            space.flush().expect("a flush");
        }
        let moment = SnapshotContent { snapshot: db.snapshot(), content: content.clone() };
        if moments.send(Arc::new(moment)).is_err() {
            return;
        }
    }
}

fn run(seed: u64) {
    let chance = |thread: u64| RandomData {
        random: SeededRandom::new(seed << 8 | thread),
        shape: seed % 3,
        keys: [60, 400, 3_000][(seed / 3 % 3) as usize],
        // Without range tombstones readers take other paths.
        deletes_ranges: seed.is_multiple_of(4),
    };
    let random = SeededRandom::new(seed ^ 0x7475_726e);
    let mut space = Chosen::random(KEYSPACE, &random)
        .with(KEYSPACE, "default ttl", "none")
        .with(KEYSPACE, "delete target", "none")
        .with(KEYSPACE, "space target", "none")
        .with(KEYSPACE, "write buffer entries", "unlimited");
    if random.below(3) > 0 {
        space = space.with(KEYSPACE, "layout", "flat").with(KEYSPACE, "large values", "in tables");
    }
    let space = space.apply(KEYSPACE, KeyspaceOptions::default()).merge_operator(MergeOperator::append(","));
    let database = Chosen::random(DATABASE, &random).apply(DATABASE, Options::default());
    let dir = TestDir::new("turning-scans");
    let db = Database::open_with(dir.path(), database.keyspace_options(space)).expect("a database");
    let space = db.default_keyspace().clone();
    let (sender, receiver) = sync_channel(2);
    let receiver = Arc::new(Mutex::new(receiver));
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (chance, space, receiver) = (chance(1 + reader), space.clone(), Arc::clone(&receiver));
            let work = move || read(&chance, &space, &receiver);
            Env::real().spawn(&format!("reader-{reader}"), work).expect("a thread")
        })
        .collect();
    let merger = {
        let (chance, space, is_over) = (chance(100), space.clone(), Arc::clone(&is_over));
        let work = move || {
            while !is_over.load(Ordering::Acquire) {
                space.compact(chance.range()).expect("a compaction");
            }
        };
        Env::real().spawn("merger", work).expect("a thread")
    };
    // Only the readers keep it: when no reader is left the writer ends, too.
    drop(receiver);
    write(&chance(0), &db, &space, &sender);
    drop(sender);
    let failed = readers.into_iter().map(|thread| thread.join()).filter(Result::is_err).count();
    is_over.store(true, Ordering::Release);
    merger.join().expect("no merge fails");
    assert_eq!(failed, 0, "readers failed");
    assert!(db.verify().expect("it can be read").is_clean());
    drop(space);
    db.close().expect("a close");
}

#[test]
fn scans_turn_round_over_a_tree_that_changes() {
    let variable = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().expect("a number"));
    let seeds = match variable("ESKER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("ESKER_PLANS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        println!("reproduce: ESKER_SEED={seed} cargo test -p esker-testkit --test turning_scans");
        run(seed);
    }
}
