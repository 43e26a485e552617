use super::*;
use crate::bounds::Bounds;
use crate::merge::MergingCursor;
use crate::reader::Reader;
use crate::slice::Entry;
use crate::testing::{Fuse, Rng, Strict, deal, random_entries};
use esker_base::{SeqNo, ValueKind};
use std::collections::{BTreeMap, VecDeque};

struct TestView<'a> {
    sources: &'a [Vec<Entry>],
    fuse: &'a Fuse,
    seqno: SeqNo,
    bounds: Bounds,
}

impl<'a> ReaderFactory for TestView<'a> {
    type Cursor = MergingCursor<Strict<'a>>;

    fn open(&self) -> Result<Visible<Self::Cursor>> {
        let sources = self.sources.iter().map(|entries| Strict::new(entries, self.fuse)).collect();
        Ok(Visible::of(MergingCursor::new(sources), self.seqno, Reader::default(), self.bounds.clone(), None))
    }
}

/// The visible entries, oldest writes first into the map.
fn model_of(entries: &[Entry], seqno: SeqNo, bounds: &Bounds) -> VecDeque<(Vec<u8>, Vec<u8>)> {
    let mut by_age: Vec<&Entry> = entries.iter().filter(|e| e.tag.seqno() <= seqno).collect();
    by_age.sort_by_key(|entry| entry.tag);
    let mut map = BTreeMap::new();
    for entry in by_age.into_iter().filter(|entry| bounds.contains(&entry.key)) {
        if entry.tag.kind() == Some(ValueKind::Put) {
            map.insert(entry.key.clone(), entry.value.clone());
        } else {
            map.remove(&entry.key);
        }
    }
    map.into_iter().collect()
}

fn owned(entry: Option<(&[u8], &[u8])>) -> Option<(Vec<u8>, Vec<u8>)> {
    entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

#[test]
fn each_key_is_returned_once_from_either_end() {
    for seed in 0..400u64 {
        let rng = &mut Rng::new(seed);
        let (count, space) = (rng.below(150), 1 + rng.below(60));
        let all = random_entries(rng, count, space);
        let dealt = deal(rng, &all, 1 + seed as usize % 4);
        let fuse = Fuse::never();
        let seqno = SeqNo::new(rng.next() % 160);
        let bounds = if rng.chance(50) { Bounds::all() } else { Bounds::prefix(&[b'a'][..rng.below(2)]) };
        let mut model = model_of(&all, seqno, &bounds);
        let mut walk = DoubleEnded::new(TestView { sources: &dealt, fuse: &fuse, seqno, bounds });
        let backward = [0, 20, 50, 100][rng.below(4)];
        // A few calls more than there are keys: it stays finished.
        for call in 0..model.len() + 4 {
            let context = format!("seed {seed} call {call}");
            if rng.chance(backward) {
                assert_eq!(owned(walk.next_back().unwrap()), model.pop_back(), "{context}");
            } else {
                assert_eq!(owned(walk.next_front().unwrap()), model.pop_front(), "{context}");
            }
        }
    }
}

#[test]
fn only_needed_ends_are_opened() {
    let all = random_entries(&mut Rng::new(1), 50, 30);
    let (sources, fuse) = ([all], Fuse::never());
    let view = TestView { sources: &sources, fuse: &fuse, seqno: SeqNo::MAX, bounds: Bounds::all() };
    let mut walk = DoubleEnded::new(view);
    assert!(walk.front.is_none() && walk.back.is_none());
    while walk.next_front().unwrap().is_some() {}
    assert!(walk.back.is_none());
    assert!(walk.next_back().unwrap().is_none() && walk.back.is_none());
}

#[test]
fn an_error_is_given_once_and_finishes_the_walk() {
    for seed in 0..200u64 {
        let rng = &mut Rng::new(seed);
        let all = random_entries(rng, 100, 60);
        let dealt = deal(rng, &all, 2);
        let fuse = Fuse::never();
        fuse.set(Some(1 + rng.below(120)));
        let seqno = SeqNo::MAX;
        let mut model = model_of(&all, seqno, &Bounds::all());
        let mut walk =
            DoubleEnded::new(TestView { sources: &dealt, fuse: &fuse, seqno, bounds: Bounds::all() });
        loop {
            let front = rng.chance(50);
            let expected = if front { model.pop_front() } else { model.pop_back() };
            let given = if front { walk.next_front() } else { walk.next_back() }.map(owned);
            assert_eq!(given.is_err(), fuse.is_blown(), "seed {seed}");
            match given {
                Ok(given) => assert_eq!(given, expected, "seed {seed}"),
                Err(_) => break,
            }
            if expected.is_none() {
                break;
            }
        }
        assert!(walk.next_front().unwrap().is_none() && walk.next_back().unwrap().is_none());
    }
}
