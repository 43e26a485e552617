//! Lists beside a model of a vector: random changes, reopened in between, and nothing left at the end.

#![allow(clippy::disallowed_methods, reason = "tests use files directly")]

use esker::{Database, Result};
use esker_redis_store::layout::Space;
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use esker_redis_store::types::delete_key;
use esker_redis_store::types::list::{self, Side};
use esker_redis_store::{Entry, Store, Txn};

/// SplitMix64: the crates that have a generator lie above.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn side(&mut self) -> Side {
        if self.below(2) == 0 { Side::Head } else { Side::Tail }
    }

    fn value(&mut self) -> Vec<u8> {
        vec![b'a' + self.below(5) as u8; self.below(3) as usize * self.below(40) as usize]
    }
}

type Model = Vec<Vec<u8>>;

fn change(txn: &mut Txn<'_>, entry: &mut Entry, model: &mut Model, random: &mut Random) -> Result<()> {
    let side = random.side();
    match random.below(9) {
        0..3 => {
            let values: Vec<Vec<u8>> = (0..1 + random.below(12)).map(|_| random.value()).collect();
            let borrowed: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            for value in values.clone() {
                model.insert(if side == Side::Head { 0 } else { model.len() }, value);
            }
            assert_eq!(list::push(txn, entry, side, &borrowed)?, model.len() as u64);
        }
        3 => pop(txn, entry, model, side)?,
        4 => {
            let count = random.below(6).min(model.len() as u64);
            let mut popped = Vec::new();
            list::pop_each(txn, entry, side, count, |value| popped.push(value.to_vec()))?;
            let mut expected: Model = match side {
                Side::Head => model.drain(..count as usize).collect(),
                Side::Tail => model.split_off(model.len() - count as usize),
            };
            if side == Side::Tail {
                expected.reverse();
            }
            assert_eq!(popped, expected);
        }
        5 => {
            let (index, value) = (random.below(model.len() as u64 + 2), random.value());
            let is_there = (index as usize) < model.len();
            assert_eq!(list::set(txn, entry, index, &value)?, is_there);
            if is_there {
                model[index as usize] = value;
            }
        }
        6 => insert_at_one_place(txn, entry, model, random)?,
        7 => {
            let (value, most) = (random.value(), 1 + random.below(3));
            let mut removed = 0;
            while removed < most {
                let mut all = model.iter();
                let found = match side {
                    Side::Head => all.position(|item| *item == value),
                    Side::Tail => all.rposition(|item| *item == value),
                };
                let Some(at) = found else { break };
                model.remove(at);
                removed += 1;
            }
            assert_eq!(list::remove(txn, entry, &value, most, side)?, removed);
        }
        _ => {
            let length = model.len() as u64;
            let first = random.below(3).min(length);
            let count = (length - first).saturating_sub(random.below(8));
            list::trim(txn, entry, first, count)?;
            *model = model[first as usize..(first + count) as usize].to_vec();
        }
    }
    Ok(())
}

fn pop(txn: &mut Txn<'_>, entry: &mut Entry, model: &mut Model, side: Side) -> Result<()> {
    let expected = match side {
        _ if model.is_empty() => None,
        Side::Head => Some(model.remove(0)),
        Side::Tail => model.pop(),
    };
    assert_eq!(list::pop(txn, entry, side)?.map(|value| value.to_vec()), expected);
    Ok(())
}

/// More often than positions between two elements can be halved.
fn insert_at_one_place(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    model: &mut Model,
    random: &mut Random,
) -> Result<()> {
    let (pivot, before) = (random.value(), random.below(2) == 0);
    for number in 0..random.below(60) {
        let value = format!("{number}").into_bytes();
        let at = model.iter().position(|item| *item == pivot);
        if let Some(at) = at {
            model.insert(if before { at } else { at + 1 }, value.clone());
        }
        let length = at.map(|_| model.len() as u64);
        assert_eq!(list::insert(txn, entry, before, &pivot, &value)?, length);
    }
    Ok(())
}

fn check(txn: &Txn<'_>, entry: &Entry, model: &Model, random: &mut Random) -> Result<()> {
    let loaded: Model = list::load(txn, entry)?.iter().map(<[u8]>::to_vec).collect();
    assert_eq!(loaded, *model);
    assert_eq!((list::len(entry)?, entry.record().is_none()), (model.len() as u64, model.is_empty()));
    let index = random.below(model.len() as u64 + 1);
    let value = list::get(txn, entry, index)?.map(|value| value.to_vec());
    assert_eq!(value.as_ref(), model.get(index as usize));
    let mut downward = Vec::new();
    list::for_each(txn, entry, index, 5, Side::Tail, |index, value| {
        downward.push((index as usize, value.to_vec()));
        true
    })?;
    let part = model.iter().cloned().enumerate().skip(index as usize).take(5);
    assert_eq!(downward, part.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_list_equals_its_model_over_openings_and_leaves_nothing() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("esker-redis-lists-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    for seed in 0..12 {
        let (mut random, mut model) = (Random(seed), Model::new());
        for _ in 0..4 {
            let store = Store::open(Database::open(&directory)?, 1)?;
            for _ in 0..60 {
                let mut txn = Txn::new(&store, Interest::default());
                let mut entry = txn.entry(0, b"list")?;
                change(&mut txn, &mut entry, &mut model, &mut random)?;
                check(&txn, &entry, &model, &mut random)?;
                txn.commit(Stalls::Wait)?;
                let entry = txn.entry(0, b"list")?;
                check(&txn, &entry, &model, &mut random)?;
            }
            assert_eq!(store.keys(0), i64::from(!model.is_empty()));
        }
        let store = Store::open(Database::open(&directory)?, 1)?;
        let mut txn = Txn::new(&store, Interest::default());
        let mut entry = txn.entry(0, b"list")?;
        assert_eq!(delete_key(&mut txn, &mut entry)?, !model.is_empty());
        txn.commit(Stalls::Wait)?;
        while store.collect_garbage()? {}
        assert_eq!(store.space(Space::Elements).keys(..).count(), 0, "elements of deleted lists are left");
        assert_eq!(store.keys(0), 0);
    }
    std::fs::remove_dir_all(&directory).ok();
    Ok(())
}

/// LE1: elements that are read ahead are those that the commands of a group would have read.
#[test]
fn groups_of_commands_on_a_list_equal_its_model() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("esker-redis-list-groups-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    for seed in 0..12 {
        let (mut random, mut model) = (Random(100 + seed), Model::new());
        let store = Store::open(Database::open(&directory)?, 1)?;
        for _ in 0..150 {
            let mut txn = Txn::new(&store, Interest::default());
            let mut entry = txn.entry(0, b"list")?;
            if model.len() < 40 {
                let values: Vec<Vec<u8>> = (0..200).map(|_| random.value()).collect();
                model.extend_from_slice(&values);
                list::push(
                    &mut txn,
                    &mut entry,
                    Side::Tail,
                    &values.iter().map(Vec::as_slice).collect::<Vec<_>>(),
                )?;
                txn.commit(Stalls::Wait)?;
            }
            let (commands, side, before) = (1 + random.below(40), random.side(), model.clone());
            txn.look_ahead(0, std::iter::repeat_n(&b"list"[..], commands as usize))?;
            for _ in 0..commands {
                let mut entry = txn.entry(0, b"list")?;
                match random.below(12) {
                    0 => change(&mut txn, &mut entry, &mut model, &mut random)?,
                    1 => pop(&mut txn, &mut entry, &mut model, random.side())?,
                    _ => pop(&mut txn, &mut entry, &mut model, side)?,
                }
            }
            if random.below(8) == 0 {
                let entry = txn.entry(0, b"list")?;
                check(&txn, &entry, &model, &mut random)?;
            }
            if random.below(8) == 0 {
                // What was popped is there again.
                txn.roll_back();
                model = before;
            }
            txn.commit(Stalls::Wait)?;
            let entry = txn.entry(0, b"list")?;
            check(&txn, &entry, &model, &mut random)?;
        }
        drop(store);
        std::fs::remove_dir_all(&directory).ok();
    }
    Ok(())
}
