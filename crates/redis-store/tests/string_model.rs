//! Strings against a map: random changes, whole and in chunks, over reopenings; counts are exact and nothing
//! is left behind.

#![allow(clippy::disallowed_methods, reason = "tests use files directly")]

use esker::Database;
use esker_redis_data::Value;
use esker_redis_store::layout::Space;
use esker_redis_store::locks::Held;
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::string::{self, CHUNK_BYTES, Editor, WHOLE_BYTES};
use esker_redis_store::types::{copy, delete_key};
use esker_redis_store::{Entry, Store, Txn};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

const ROUNDS: usize = 12;
const STEPS: usize = 250;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// Around the sizes at which layouts and chunks end.
    fn size(&mut self) -> usize {
        match self.below(5) {
            0 => WHOLE_BYTES - 2 + self.below(5),
            1 => CHUNK_BYTES * (1 + self.below(4)) - 2 + self.below(5),
            2 => self.below(100_000),
            _ => self.below(60),
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.below(256);
        (0..len).map(|at| (first + at * 7) as u8).collect()
    }
}

fn open(directory: &Path) -> Store {
    Store::open(Database::open(directory).expect("the database opens"), 4).expect("the store opens")
}

fn change(txn: &mut Txn<'_>, entry: &mut Entry, model: &mut Model, random: &mut Random) {
    let key = entry.key().to_vec();
    let old = model.get(&key).cloned();
    let size = random.size();
    let bytes = random.bytes(size);
    let edit = |txn: &mut Txn<'_>, entry: &mut Entry, offset: usize| {
        let mut editor = Editor::open(entry).expect("a string");
        editor.write(txn, offset as u64, &bytes).expect("it is written");
        let mut back = vec![0; bytes.len()];
        editor.read(txn, offset as u64, &mut back).expect("it is read");
        assert_eq!(back, bytes, "an editor shows what it wrote");
        editor.save(txn, entry).expect("it is stored");
        let mut new = old.clone().unwrap_or_default();
        new.resize(new.len().max(offset + bytes.len()), 0);
        new[offset..offset + bytes.len()].copy_from_slice(&bytes);
        new
    };
    let new = match random.below(6) {
        0 => {
            assert_eq!(delete_key(txn, entry).expect("it is deleted"), old.is_some());
            model.remove(&key);
            return;
        }
        1 => {
            string::set(txn, entry, &bytes, None).expect("it is set");
            bytes
        }
        2 => edit(txn, entry, old.as_ref().map_or(0, Vec::len)),
        3 => {
            let len = size + 1;
            let make = &mut |_: &Txn<'_>, range: std::ops::Range<u64>| {
                Ok(vec![9; (range.end - range.start) as usize])
            };
            string::set_by_chunks(txn, entry, len as u64, make).expect("it is set");
            vec![9; len]
        }
        _ => edit(txn, entry, random.size()),
    };
    model.insert(key, new);
}

fn check(store: &Store, model: &Model, random: &mut Random) {
    let mut txn = Txn::new(store, Interest::default());
    assert_eq!(store.keys(0), model.len() as i64, "the count is exact");
    for key in 0..8u8 {
        let entry = txn.entry(0, &[key]).expect("it is read");
        let Some(record) = entry.record() else {
            assert!(!model.contains_key(&[key][..]));
            continue;
        };
        let expected = &model[&[key][..]];
        assert_eq!(string::len(record).expect("a length"), expected.len() as u64);
        assert!(*string::whole(&txn, record).expect("it is read") == **expected, "key {key}");
        let (start, end) = (random.below(expected.len() + 2), random.below(expected.len() + 2));
        let mut part = Vec::new();
        string::read(&txn, record, start as u64..end as u64, &mut |piece| {
            assert!(!piece.is_empty());
            part.extend_from_slice(piece);
            ControlFlow::Continue(())
        })
        .expect("it is read");
        let end = end.min(expected.len());
        assert!(part == expected.get(start..end).unwrap_or_default(), "{start}..{end} of key {key}");
        let Value::String(loaded) = string::load(&txn, record).expect("it is read") else {
            panic!("a string")
        };
        assert!(loaded == *expected);
    }
}

#[test]
fn strings_are_what_a_map_holds() {
    let directory = std::env::temp_dir().join(format!("esker-string-model-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let seed = std::env::var("ESKER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut random, mut model) = (Random(seed), Model::new());
    for _ in 0..ROUNDS {
        let store = open(&directory);
        check(&store, &model, &mut random);
        for _ in 0..STEPS {
            let mut held = Held::new(&store.stripes);
            held.wait_for_all();
            let mut txn = Txn::new(&store, Interest::default());
            // Some changes of one batch see those before them.
            for _ in 0..=random.below(3) {
                let mut entry = txn.entry(0, &[random.below(8) as u8]).expect("it is read");
                change(&mut txn, &mut entry, &mut model, &mut random);
            }
            txn.commit(Stalls::Wait).expect("it is written");
        }
        check(&store, &model, &mut random);
        while store.collect_garbage().expect("it is collected") {}
        check(&store, &model, &mut random);
    }
    let store = open(&directory);
    let mut txn = Txn::new(&store, Interest::default());
    for key in 0..8u8 {
        let mut entry = txn.entry(0, &[key]).expect("it is read");
        delete_key(&mut txn, &mut entry).expect("it is deleted");
    }
    txn.commit(Stalls::Wait).expect("it is written");
    while store.collect_garbage().expect("it is collected") {}
    for space in [Space::Keys, Space::Elements, Space::Orders, Space::Expiries] {
        assert_eq!(store.space(space).keys(..).count(), 0, "nothing is left in {space:?}");
    }
    assert_eq!((store.keys(0), store.garbage_objects()), (0, 0));
    drop(store);
    std::fs::remove_dir_all(&directory).ok();
}

/// A string of 512 MiB of which two chunks are stored: a copy stores no more, and what it holds in memory
/// until it is written is as large as they are. Chunks that are stored and zero are left out.
#[test]
fn a_copy_of_a_sparse_string_is_as_sparse() {
    let directory = std::env::temp_dir().join(format!("esker-redis-sparse-copy-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let store = open(&directory);
    let last = (512 << 20) - 1;
    let mut txn = Txn::new(&store, Interest::default());
    let mut entry = txn.entry(0, b"from").expect("a read");
    let mut editor = Editor::open(&entry).expect("an editor");
    for (at, bytes) in [(0, &b"first"[..]), (last, b"z"), (100_000_000, b"\0\0")] {
        editor.write(&txn, at, bytes).expect("a change");
    }
    editor.save(&mut txn, &mut entry).expect("a change");
    txn.commit(Stalls::Wait).expect("a commit");
    for (db, key) in [(0, &b"to"[..]), (1, b"from")] {
        let from = txn.entry(0, b"from").expect("a read");
        let mut to = txn.entry(db, key).expect("a read");
        copy(&mut txn, &from, &mut to, Some(u64::MAX)).expect("a copy");
        assert!(txn.memory_bytes() < 256 << 10, "{} bytes of changes", txn.memory_bytes());
        txn.commit(Stalls::Wait).expect("a commit");
        let to = txn.entry(db, key).expect("a read");
        let record = to.record().expect("it is there");
        assert_eq!((string::len(record).expect("a length"), record.expiry_ms()), (last + 1, Some(u64::MAX)));
        for (range, bytes) in [(0..7, &b"first\0\0"[..]), (last - 1..last + 1, b"\0z"), (5_000..5_001, b"\0")]
        {
            let mut found = Vec::new();
            string::read_into(&txn, record, range, &mut found).expect("a read");
            assert_eq!(found, bytes);
        }
    }
    // The chunk of zeros is stored of the first string alone, if it is.
    let chunks = store.space(Space::Elements).range(..).count();
    assert!((6..=7).contains(&chunks), "{chunks} chunks");
    assert_eq!(store.check().expect("a check"), [""; 0]);
    drop(txn);
    drop(store);
    std::fs::remove_dir_all(&directory).ok();
}
