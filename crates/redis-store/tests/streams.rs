//! Streams beside a model of ordered maps: random changes, reopened in between, and nothing left at the end.

#![allow(clippy::disallowed_methods, reason = "tests use files directly")]

use esker::{Database, Result};
use esker_redis_data::Value;
use esker_redis_store::layout::Space;
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::stream::{
    MAX_ID, MIN_ID, NodeLimits, Pending, Stream, StreamId, Trim, TrimTo, convert,
};
use esker_redis_store::types::{self, delete_key};
use esker_redis_store::{Store, Txn};
use std::collections::BTreeMap;

/// SplitMix64: the crates that have a generator lie above.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<StreamId, Vec<Vec<u8>>>,
    last_id: StreamId,
    /// By group and id: the consumer and how often the entry was delivered.
    pending: BTreeMap<(u64, StreamId), (u64, u64)>,
    groups: BTreeMap<u64, BTreeMap<u64, u64>>,
}

const LIMITS: NodeLimits = NodeLimits { max_bytes: 300, max_entries: 7 };

fn id(number: u64) -> StreamId {
    StreamId { milliseconds: number / 4, sequence: number % 4 }
}

fn name(number: u64) -> Vec<u8> {
    format!("name {number}").into_bytes()
}

fn change(txn: &mut Txn<'_>, model: &mut Model, random: &mut Random) -> Result<()> {
    let mut entry = txn.entry(0, b"stream")?;
    let mut stream = match Stream::find(&entry)? {
        Some(stream) => stream,
        None => Stream::new(txn, &entry)?,
    };
    let last = model.last_id.milliseconds * 4 + model.last_id.sequence;
    let some = id(last.saturating_sub(random.below(60)));
    match random.below(12) {
        0..5 => {
            let id = id(last + 1 + random.below(3));
            let count = 1 + random.below(3);
            let strings: Vec<Vec<u8>> =
                (0..2 * count).map(|_| vec![b'x'; random.below(60) as usize]).collect();
            let borrowed: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            stream.append(txn, id, &borrowed, LIMITS)?;
            model.last_id = id;
            model.entries.insert(id, strings);
        }
        5..7 => assert_eq!(stream.delete(txn, some)?, model.entries.remove(&some).is_some()),
        7 => {
            let to = match random.below(2) {
                0 => TrimTo::Length(random.below(60)),
                _ => TrimTo::Id(some),
            };
            let before = model.entries.len();
            match to {
                TrimTo::Id(id) => model.entries = model.entries.split_off(&id),
                TrimTo::Length(length) => {
                    while model.entries.len() as u64 > length {
                        model.entries.pop_first();
                    }
                }
            }
            let removed = stream.trim(txn, Trim { to, is_approximate: false, limit: 0 })?;
            assert_eq!(removed, (before - model.entries.len()) as u64);
        }
        _ => change_group(txn, &mut stream, model, random, some)?,
    }
    stream.store(txn, &mut entry)
}

fn change_group(
    txn: &mut Txn<'_>,
    stream: &mut Stream,
    model: &mut Model,
    random: &mut Random,
    id: StreamId,
) -> Result<()> {
    let (number, consumer) = (random.below(3), random.below(4));
    let mut group = match stream.group(txn, &name(number))? {
        Some(group) => group,
        None => {
            model.groups.insert(number, BTreeMap::new());
            stream.create_group(txn, &name(number), MIN_ID, -1)?
        }
    };
    let consumers = model.groups.get_mut(&number).expect("it was created");
    let place = match group.find_consumer(txn, &name(consumer))? {
        Some(place) => place,
        None => {
            consumers.insert(consumer, 0);
            group.create_consumer(txn, &name(consumer), 1)?
        }
    };
    match random.below(16) {
        0 => {
            stream.destroy_group(txn, &group)?;
            model.groups.remove(&number);
            model.pending.retain(|(group, _), _| *group != number);
            return Ok(());
        }
        1 => {
            let count = group.delete_consumer(txn, place)?;
            let of = |key: &(u64, StreamId), owner: &(u64, u64)| key.0 == number && owner.0 == consumer;
            assert_eq!(count, model.pending.iter().filter(|(key, owner)| of(key, owner)).count() as u64);
            model.pending.retain(|key, owner| !of(key, owner));
            consumers.remove(&consumer);
        }
        2..8 => {
            let known = model.pending.remove(&(number, id)).is_some();
            assert_eq!(group.acknowledge(txn, id)?, known);
        }
        _ => {
            let before = group.pending(txn, id)?;
            let deliveries = before.map_or(1, |before| before.deliveries + 1);
            group.set_pending(txn, id, before, Pending { consumer: place, delivered_ms: 5, deliveries })?;
            let count = model.pending.get(&(number, id)).map_or(1, |(_, count)| count + 1);
            assert_eq!(count, deliveries);
            model.pending.insert((number, id), (consumer, count));
        }
    }
    group.store(txn)
}

fn check(txn: &mut Txn<'_>, model: &Model) -> Result<()> {
    let entry = txn.entry(0, b"stream")?;
    let Some(stream) = Stream::find(&entry)? else { return Ok(()) };
    let found: BTreeMap<_, Vec<Vec<u8>>> = stream
        .range(txn, MIN_ID, MAX_ID)
        .map(|item| item.map(|(id, strings)| (id, strings.iter().map(<[u8]>::to_vec).collect())))
        .collect::<Result<_>>()?;
    assert_eq!(found, model.entries);
    assert_eq!(stream.len(), found.len() as u64);
    assert_eq!(stream.first_id(), found.keys().next().copied().unwrap_or_default());
    let groups: Vec<_> = stream.groups(txn).collect::<Result<_>>()?;
    assert_eq!(groups.len(), model.groups.len());
    assert_eq!(stream.group_count() as usize, groups.len());
    for (mut group, (number, consumers)) in groups.into_iter().zip(&model.groups) {
        let owned = |consumer| {
            let of = |(key, owner): &(&(u64, StreamId), &(u64, u64))| key.0 == *number && owner.0 == consumer;
            model.pending.iter().filter(of).map(|(key, _)| key.1).collect::<Vec<_>>()
        };
        assert_eq!(group.name(), name(*number));
        assert_eq!(group.consumer_count() as usize, consumers.len());
        let places: Vec<u32> = group.consumers(txn).collect::<Result<_>>()?;
        let mut sum = 0;
        for (place, consumer) in places.into_iter().zip(consumers.keys()) {
            let ids: Vec<_> = group.pending_ids(txn, place).collect::<Result<_>>()?;
            assert_eq!(ids, owned(*consumer));
            let stored = group.consumer(txn, place)?;
            assert_eq!((&stored.name, stored.pending()), (&name(*consumer), ids.len() as u64));
            sum += stored.pending();
        }
        assert_eq!(group.pending_count(), sum);
        assert_eq!(group.pending_range(txn, MIN_ID, MAX_ID).count() as u64, sum);
    }
    Ok(())
}

fn elements(store: &Store) -> usize {
    store.space(Space::Elements).prefix([]).count()
}

#[test]
fn streams_are_as_the_model_and_leave_nothing() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("esker-redis-streams-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let mut model = Model::default();
    let mut random = Random(11);
    for _ in 0..6 {
        let store = Store::open(Database::open(&directory)?, 1)?;
        let mut txn = Txn::new(&store, Interest::default());
        for round in 0..400 {
            change(&mut txn, &mut model, &mut random)?;
            if round % 7 == 0 {
                txn.commit(Stalls::Wait)?;
            }
            if round % 20 == 0 {
                check(&mut txn, &model)?;
            }
        }
        check(&mut txn, &model)?;
        copy_is_the_same(&mut txn)?;
        txn.commit(Stalls::Wait)?;
    }
    let store = Store::open(Database::open(&directory)?, 1)?;
    let mut txn = Txn::new(&store, Interest::default());
    // With all its groups gone, a stream has its entries and full nodes alone.
    let mut entry = txn.entry(0, b"stream")?;
    let mut stream = Stream::find(&entry)?.expect("it is there");
    let groups: Vec<_> = stream.groups(&txn).collect::<Result<_>>()?;
    groups.iter().try_for_each(|group| stream.destroy_group(&mut txn, group))?;
    stream.store(&mut txn, &mut entry)?;
    txn.commit(Stalls::Wait)?;
    while store.collect_garbage()? {}
    let nodes = stream.node_ids(&txn)?.len();
    assert_eq!(elements(&store), model.entries.len() + nodes.saturating_sub(1));
    assert!(delete_key(&mut txn, &mut entry)?);
    txn.commit(Stalls::Wait)?;
    while store.collect_garbage()? {}
    assert_eq!((elements(&store), store.keys(0)), (0, 0));
    drop(txn);
    drop(store);
    std::fs::remove_dir_all(&directory).ok();
    Ok(())
}

/// Copies the stream and deletes the copy.
fn copy_is_the_same(txn: &mut Txn<'_>) -> Result<()> {
    let entry = txn.entry(0, b"stream")?;
    let mut copy = txn.entry(0, b"copy")?;
    let value = types::load(txn, &entry)?;
    assert!(matches!(value, Value::Stream(_)));
    types::save(txn, &mut copy, &value, Some(u64::MAX))?;
    assert_eq!(types::load(txn, &copy)?, value);
    assert_eq!(copy.expiry_ms(), Some(u64::MAX));
    assert!(convert::memory_bytes(txn, &copy)? > 0);
    delete_key(txn, &mut copy)?;
    Ok(())
}
