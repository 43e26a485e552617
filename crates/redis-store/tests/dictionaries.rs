//! Hashes and sets do what maps and sets of the standard library do, packed and not, over reopenings and
//! commits that fail; counts are exact and nothing is left at the end.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "tests use directories directly")]

use esker_redis_data::{Strings, Value};
use esker_redis_store::layout::Space;
use esker_redis_store::notifications::Interest;
use esker_redis_store::record::FIRST_OBJECT_LAYOUT;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::{delete_key, hash, set};
use esker_redis_store::{Entry, Kind, Store, Txn};
use esker_redis_testkit::Random;
use std::collections::BTreeMap;
use std::path::PathBuf;

type Bytes = Vec<u8>;
type Model = BTreeMap<Bytes, (Kind, BTreeMap<Bytes, Bytes>)>;

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("esker-dictionaries-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        Self(path)
    }

    fn open(&self) -> Store {
        let database = esker::Database::open(&self.0).expect("the database opens");
        Store::open(database, 2).expect("the store opens")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A field or member: often an integer, sometimes long, of few enough that they meet.
fn field(random: &mut Random) -> Bytes {
    match random.below(8) {
        0 => vec![b'x'; random.below(300)],
        1 => (random.integer() >> 40).to_string().into_bytes(),
        2..=4 => random.below(900).to_string().into_bytes(),
        _ => format!("field:{}", random.below(400)).into_bytes(),
    }
}

/// How many fields a step has.
fn many(random: &mut Random) -> usize {
    1 + if random.once_in(6) { random.below(400) } else { random.below(6) }
}

fn kind_of(model: &Model, key: &[u8], random: &mut Random) -> Kind {
    let absent = if random.once_in(2) { Kind::Hash } else { Kind::Set };
    model.get(key).map_or(absent, |(kind, _)| *kind)
}

/// One random change of a key, in the transaction and in the model.
fn change(txn: &mut Txn<'_>, model: &mut Model, key: &[u8], random: &mut Random) {
    let kind = kind_of(model, key, random);
    let mut entry = txn.entry(0, key).expect("the key is read");
    let count = many(random);
    let integers_only = random.once_in(3);
    let mut fields: Vec<Bytes> = (0..count).map(|_| field(random)).collect();
    if integers_only {
        fields = (0..count).map(|_| random.below(2000).to_string().into_bytes()).collect();
    }
    let values: Vec<Bytes> =
        fields.iter().map(|_| if kind == Kind::Hash { random.string(90) } else { Vec::new() }).collect();
    match random.below(12) {
        0 => {
            let was_there = delete_key(txn, &mut entry).expect("it is deleted");
            assert_eq!(was_there, model.remove(key).is_some());
        }
        1 => {
            let mut wanted = BTreeMap::new();
            fields.into_iter().zip(values).for_each(|(field, value)| drop(wanted.insert(field, value)));
            let expiry_ms = random.once_in(2).then_some(u64::MAX / 2);
            save(txn, &mut entry, kind, &wanted, expiry_ms);
            model.insert(key.to_vec(), (kind, wanted));
        }
        2..=6 => {
            let pairs: Vec<(&[u8], &[u8])> =
                fields.iter().zip(&values).map(|(field, value)| (&field[..], &value[..])).collect();
            let expiry_ms = entry.expiry_ms();
            let mut edit = match kind {
                Kind::Hash => hash::edit(txn, &entry),
                _ => set::edit(txn, &entry),
            }
            .expect("it is read");
            let added = edit.put_all(txn, &pairs).expect("they are put");
            assert!(edit.save(txn, &mut entry).expect("it is saved"));
            assert_eq!(entry.expiry_ms(), expiry_ms, "a change in place keeps the expiry");
            let (_, wanted) = model.entry(key.to_vec()).or_insert((kind, BTreeMap::new()));
            let before = wanted.len();
            fields.into_iter().zip(values).for_each(|(field, value)| drop(wanted.insert(field, value)));
            assert_eq!(added as usize, wanted.len() - before);
        }
        _ => {
            let Some((_, wanted)) = model.get_mut(key) else { return };
            // Mostly fields that are there.
            for field in &mut fields {
                if !random.once_in(3) && !wanted.is_empty() {
                    *field = wanted.keys().nth(random.below(wanted.len())).expect("it is below").clone();
                }
            }
            let mut edit = match kind {
                Kind::Hash => hash::edit(txn, &entry),
                _ => set::edit(txn, &entry),
            }
            .expect("it is read");
            let removed = edit.remove_all(txn, &fields).expect("they are removed");
            let is_left = edit.save(txn, &mut entry).expect("it is saved");
            let before = wanted.len();
            fields.iter().for_each(|field| drop(wanted.remove(field)));
            assert_eq!((removed as usize, is_left), (before - wanted.len(), !wanted.is_empty()));
            if wanted.is_empty() {
                model.remove(key);
            }
        }
    }
}

fn save(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    kind: Kind,
    wanted: &BTreeMap<Bytes, Bytes>,
    expiry_ms: Option<u64>,
) {
    let mut strings = Strings::new();
    for (field, value) in wanted {
        strings.push(field);
        if kind == Kind::Hash {
            strings.push(value);
        }
    }
    match kind {
        Kind::Hash => hash::save(txn, entry, &strings, expiry_ms),
        _ => set::save(txn, entry, &strings, expiry_ms),
    }
    .expect("it is saved");
    assert_eq!(entry.expiry_ms(), expiry_ms);
}

/// Compares a key with the model by every kind of read.
fn check(txn: &mut Txn<'_>, model: &Model, key: &[u8], random: &mut Random) {
    let entry = txn.entry(0, key).expect("the key is read");
    let Some((kind, wanted)) = model.get(key) else {
        assert!(entry.record().is_none(), "{} is deleted", key.escape_ascii());
        return;
    };
    let record = entry.record().expect("the key is there");
    assert_eq!(record.kind(), *kind);
    let found = match kind {
        Kind::Hash => hash::read(&entry),
        _ => set::read(&entry),
    }
    .expect("it is read");
    assert_eq!(found.len() as usize, wanted.len(), "KD1");
    assert!(!wanted.is_empty(), "KD2");
    let loaded = match kind {
        Kind::Hash => hash::load(txn, &entry),
        _ => set::load(txn, &entry),
    };
    let mut loaded_pairs = BTreeMap::new();
    match loaded.expect("it is loaded") {
        Value::Hash(strings) => {
            let strings: Vec<_> = strings.iter().map(<[u8]>::to_vec).collect();
            loaded_pairs.extend(strings.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())));
            assert_eq!(strings.len(), 2 * wanted.len());
        }
        Value::Set(strings) => {
            assert_eq!(strings.len(), wanted.len());
            loaded_pairs.extend(strings.iter().map(|member| (member.to_vec(), Vec::new())));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(loaded_pairs, *wanted);
    let asked: Vec<Bytes> = (0..20).map(|_| field(random)).collect();
    let mut answers = Vec::new();
    found.get_each(txn, &asked, |value| answers.push(value.map(<[u8]>::to_vec))).expect("they are read");
    for (field, answer) in asked.iter().zip(answers) {
        assert_eq!(answer.as_ref(), wanted.get(field));
        let one = found.get(txn, field).expect("it is read");
        assert_eq!(one.as_deref(), wanted.get(field).map(Vec::as_slice));
        assert_eq!(found.contains(txn, field).expect("it is read"), wanted.contains_key(field));
    }
    let (mut cursor, mut scanned) = (0, BTreeMap::new());
    loop {
        cursor = found
            .scan(txn, cursor, 1 + random.below(50) as u64, |field, value| {
                assert!(scanned.insert(field.to_vec(), value.to_vec()).is_none(), "no field comes twice");
            })
            .expect("it is scanned");
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, *wanted);
}

#[test]
fn hashes_and_sets_are_maps_and_sets() {
    let mut random = Random::new(1);
    let directory = Directory::new("model");
    let mut model = Model::new();
    let (mut packed, mut split) = (0, 0);
    for _ in 0..6 {
        let store = directory.open();
        for _ in 0..150 {
            let mut txn = Txn::new(&store, Interest::default());
            let mut changed = model.clone();
            for _ in 0..1 + random.below(4) {
                let key = vec![b'a' + random.below(5) as u8];
                change(&mut txn, &mut changed, &key, &mut random);
                // What the transaction sees of its own changes.
                check(&mut txn, &changed, &key, &mut random);
            }
            if random.once_in(5) {
                txn.roll_back();
            } else {
                txn.commit(Stalls::Wait).expect("it is committed");
                model = changed;
            }
            let key = vec![b'a' + random.below(5) as u8];
            check(&mut txn, &model, &key, &mut random);
            let entry = txn.entry(0, &key).expect("it is read");
            match entry.record() {
                Some(record) if record.layout() < FIRST_OBJECT_LAYOUT => packed += 1,
                Some(_) => split += 1,
                None => {}
            }
            assert_eq!(store.keys(0), model.len() as i64);
            if random.once_in(20) {
                while store.collect_garbage().expect("garbage is collected") {}
            }
        }
    }
    assert!(packed > 50 && split > 50, "both layouts are met: {packed}, {split}");
    let store = directory.open();
    let mut txn = Txn::new(&store, Interest::default());
    for key in model.keys() {
        check(&mut txn, &model, key, &mut random);
        let mut entry = txn.entry(0, key).expect("it is read");
        assert!(delete_key(&mut txn, &mut entry).expect("it is deleted"));
    }
    txn.commit(Stalls::Wait).expect("it is committed");
    while store.collect_garbage().expect("garbage is collected") {}
    assert_eq!(store.keys(0), 0);
    for space in [Space::Keys, Space::Elements, Space::Orders, Space::Expiries] {
        assert_eq!(store.space(space).iter().count(), 0, "{space:?}");
    }
}
