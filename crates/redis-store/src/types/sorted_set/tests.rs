//! Random changes of sorted sets against a model, packed, split and with ranks, over reopenings.

use super::*;
use crate::layout::Space;
use crate::notifications::Interest;
use crate::store::Store;
use crate::txn::Stalls;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A store in a directory that is removed at the end.
struct TestStore {
    directory: PathBuf,
    store: Option<Store>,
}

impl TestStore {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("esker-sorted-set-{name}-{}", std::process::id()));
        remove(&directory);
        let mut store = Self { directory, store: None };
        store.reopen();
        store
    }

    fn reopen(&mut self) {
        self.store = None;
        let database = esker::Database::open(&self.directory).expect("the database opens");
        self.store = Some(Store::open(database, 1).expect("the store opens"));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn txn(&self) -> Txn<'_> {
        Txn::new(self.store(), Interest::default())
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        self.store = None;
        remove(&self.directory);
    }
}

#[expect(clippy::disallowed_methods, reason = "tests use files directly")]
fn remove(directory: &std::path::Path) {
    std::fs::remove_dir_all(directory).ok();
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const KEY: &[u8] = b"key";

/// The members of the model in order.
fn sorted(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut members: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
    members.sort_by_key(|(member, score)| place::place(*score, member));
    members
}

/// Compares all that can be read, and the counts of the index.
fn check(txn: &mut Txn<'_>, model: &BTreeMap<Vec<u8>, f64>, numbers: &mut Numbers) {
    let entry = txn.entry(0, KEY).expect("readable");
    let Some(set) = SortedSet::of(&entry).expect("readable") else {
        assert!(model.is_empty());
        return;
    };
    let sorted = sorted(model);
    assert_eq!(set.len(), sorted.len() as u64);
    for from_end in [false, true] {
        let mut walked = Vec::new();
        set.walk(txn, &Span::all(), from_end, |member, score| {
            walked.push((member.to_vec(), score));
            true
        })
        .expect("readable");
        if from_end {
            walked.reverse();
        }
        assert_eq!(walked, sorted);
    }
    for _ in 0..20 {
        let rank = numbers.below(sorted.len() as u64);
        let (member, score) = &sorted[rank as usize];
        assert_eq!(set.score(txn, member).expect("readable"), Some(*score));
        assert_eq!(set.rank(txn, member, *score).expect("readable"), rank);
        let last = rank + numbers.below(sorted.len() as u64 - rank);
        let span = set.span_of_ranks(txn, rank, last, false).expect("readable");
        assert_eq!(set.count(txn, &span).expect("readable"), last - rank + 1);
        let mut first = None;
        set.walk(txn, &span, false, |member, _| {
            first = Some(member.to_vec());
            false
        })
        .expect("readable");
        assert_eq!(first.as_ref(), Some(member));
        let skipped = set.without_first(txn, &Span::all(), true, rank).expect("readable").expect("members");
        assert_eq!(set.count(txn, &skipped).expect("readable"), sorted.len() as u64 - rank);
    }
    if let Form::Split(split) = &set.form {
        assert_eq!(ranks::check(txn, split.ranks, split.object), set.len());
        assert_eq!(split.ranks.levels > 0, split.ranks.top_nodes > 0);
    }
}

/// One change of some members.
fn change(txn: &mut Txn<'_>, model: &mut BTreeMap<Vec<u8>, f64>, numbers: &mut Numbers, names: u64) {
    let mut entry = txn.entry(0, KEY).expect("readable");
    let mut set = SortedSet::of(&entry).expect("readable").unwrap_or_default();
    let limits = EncodingLimits::default();
    let name = |numbers: &mut Numbers| format!("member {}", numbers.below(names)).into_bytes();
    match numbers.below(12) {
        0..6 => {
            for _ in 0..numbers.below(40) {
                let member = name(numbers);
                let score = (numbers.below(200) as f64 - 100.0) / 4.0;
                let before = set.score(txn, &member).expect("readable");
                assert_eq!(before, model.get(&member).copied());
                set.set(txn, entry.physical(), &member, before, score, &limits).expect("written");
                model.insert(member, score);
            }
        }
        6..8 => {
            for _ in 0..numbers.below(40) {
                let member = name(numbers);
                assert_eq!(set.remove(txn, &member).expect("written"), model.remove(&member));
            }
        }
        8..10 => {
            let (from_end, count) = (numbers.below(2) == 1, numbers.below(30));
            let mut expected = sorted(model);
            if from_end {
                expected.reverse();
            }
            expected.truncate(count as usize);
            assert_eq!(set.pop(txn, &entry, from_end, count).expect("written"), expected);
            for (member, _) in expected {
                model.remove(&member);
            }
        }
        10 => {
            let min = (numbers.below(220) as f64 - 110.0) / 4.0;
            let bound = |score, is_exclusive| ScoreBound { score, is_exclusive };
            let span = Span::of_scores(bound(min, true), bound(min + 3.0, false));
            let before = model.len();
            model.retain(|_, score| !(*score > min && *score <= min + 3.0));
            assert_eq!(set.remove_span(txn, &span).expect("written"), (before - model.len()) as u64);
        }
        _ if !model.is_empty() && names > 10_000 => {}
        _ if !set.is_empty() => {
            // From the first on, so that the ends of the order move.
            let last = numbers.below(set.len());
            let span = set.span_of_ranks(txn, 0, last, false).expect("readable");
            let removed = set.remove_span(txn, &span).expect("written");
            assert_eq!(removed, last + 1);
            for (member, _) in sorted(model).into_iter().take(removed as usize) {
                model.remove(&member);
            }
        }
        _ => {}
    }
    let was_there = entry.record().is_some();
    let is_deleted = set.write(txn, &mut entry).expect("written");
    assert_eq!(is_deleted, was_there && model.is_empty());
}

#[test]
fn changes_in_any_order_leave_what_the_model_has() {
    for (seed, names, rounds) in [(1, 30, 400), (2, 200, 400), (3, 2_000, 400), (4, 20_000, 400)] {
        let mut test = TestStore::new(&format!("model-{seed}"));
        let (mut numbers, mut model) = (Numbers(seed), BTreeMap::new());
        if names > 10_000 {
            // Enough for the index from the beginning.
            let mut txn = test.txn();
            let mut entry = txn.entry(0, KEY).expect("readable");
            let mut members = esker_redis_data::value::SortedSet::default();
            for at in 0..1_500 {
                let score = f64::from(at % 100) / 4.0;
                members.push(format!("member {at}").as_bytes(), score);
                model.insert(format!("member {at}").into_bytes(), score);
            }
            save(&mut txn, &mut entry, &members, None, &EncodingLimits::default()).expect("written");
            txn.commit(Stalls::Wait).expect("written");
        }
        for round in 0..rounds {
            let mut txn = test.txn();
            let before = model.clone();
            for _ in 0..=numbers.below(3) {
                change(&mut txn, &mut model, &mut numbers, names);
            }
            if numbers.below(10) == 0 {
                txn.roll_back();
                model = before;
            }
            if round % 20 == 0 {
                check(&mut txn, &model, &mut numbers);
            }
            txn.commit(Stalls::Wait).expect("written");
            drop(txn);
            if round % 100 == 99 {
                test.reopen();
                check(&mut test.txn(), &model, &mut numbers);
            }
        }
        check(&mut test.txn(), &model, &mut numbers);
        let mut txn = test.txn();
        let mut entry = txn.entry(0, KEY).expect("readable");
        delete_key(&mut txn, &mut entry).expect("written");
        txn.commit(Stalls::Wait).expect("written");
        while test.store().collect_garbage().expect("collected") {}
        for space in [Space::Keys, Space::Elements, Space::Orders, Space::Expiries] {
            assert_eq!(test.store().space(space).keys(..).count(), 0, "{space:?}");
        }
        assert_eq!(test.store().keys(0), 0);
    }
}

#[test]
fn pops_meet_what_other_transactions_changed() {
    let test = TestStore::new("pops");
    let (mut first, mut second) = (test.txn(), test.txn());
    let limits = EncodingLimits::default();
    let set_of = |txn: &mut Txn<'_>| {
        let entry = txn.entry(0, KEY).expect("readable");
        let set = SortedSet::of(&entry).expect("readable").unwrap_or_default();
        (entry, set)
    };
    let put = |txn: &mut Txn<'_>, name: &str, score: f64| {
        let (mut entry, mut set) = set_of(txn);
        let before = set.score(txn, name.as_bytes()).expect("readable");
        set.set(txn, entry.physical(), name.as_bytes(), before, score, &limits).expect("written");
        set.write(txn, &mut entry).expect("written");
        txn.commit(Stalls::Wait).expect("written");
    };
    let pop = |txn: &mut Txn<'_>, from_end: bool, count: u64| {
        let (mut entry, mut set) = set_of(txn);
        let popped = set.pop(txn, &entry, from_end, count).expect("written");
        if !popped.is_empty() {
            set.write(txn, &mut entry).expect("written");
        }
        txn.commit(Stalls::Wait).expect("written");
        popped.into_iter().map(|(member, _)| String::from_utf8(member).expect("a name")).collect::<Vec<_>>()
    };
    for at in 0..300 {
        put(&mut first, &format!("member {at:03}"), f64::from(at));
    }
    // The second pop reads ahead.
    assert_eq!(pop(&mut first, false, 1), ["member 000"]);
    assert_eq!(pop(&mut first, false, 1), ["member 001"]);
    // A pop of nothing changes nothing, and must not keep what it looked at.
    assert!(pop(&mut first, false, 0).is_empty());
    put(&mut second, "early", -1.0);
    assert_eq!(pop(&mut first, false, 2), ["early", "member 002"]);
    // One that is rolled back has popped nothing.
    let (entry, mut set) = set_of(&mut second);
    set.pop(&mut second, &entry, false, 3).expect("written");
    second.roll_back();
    assert_eq!(pop(&mut second, false, 1), ["member 003"]);
    // A member that is read ahead moves away, and one that is behind moves to the end.
    put(&mut first, "member 005", 400.0);
    assert_eq!(pop(&mut second, true, 1), ["member 005"]);
    put(&mut first, "member 200", 500.0);
    assert_eq!(pop(&mut second, true, 2), ["member 200", "member 299"]);
    assert_eq!(pop(&mut second, false, 2), ["member 004", "member 006"]);
    // From both ends, until the members that are read ahead are the same ones.
    let mut left = 300 + 1 - 10;
    while left > 0 {
        for (txn, from_end) in [(&mut first, false), (&mut second, true)] {
            left -= pop(txn, from_end, 3).len();
            let (_, set) = set_of(txn);
            assert_eq!(set.len(), left as u64);
        }
    }
    assert_eq!(test.store().space(Space::Keys).keys(..).count(), 0);
    assert_eq!(test.store().space(Space::Elements).keys(..).count(), 0);
}

/// OE1, where a group of commands reads ahead what all of it will pop.
#[test]
fn groups_of_pops_take_the_outermost_members() {
    let test = TestStore::new("groups");
    let (mut txn, mut numbers, mut model) = (test.txn(), Numbers(7), BTreeMap::new());
    let limits = EncodingLimits::default();
    let put = |txn: &mut Txn<'_>, model: &mut BTreeMap<Vec<u8>, f64>, numbers: &mut Numbers| {
        let mut entry = txn.entry(0, KEY).expect("readable");
        let mut set = SortedSet::of(&entry).expect("readable").unwrap_or_default();
        let member = format!("member {}", numbers.below(3000)).into_bytes();
        let (before, score) = (set.score(txn, &member).expect("readable"), numbers.below(500) as f64);
        set.set(txn, entry.physical(), &member, before, score, &limits).expect("written");
        set.write(txn, &mut entry).expect("written");
        model.insert(member, score);
    };
    for _ in 0..120 {
        while model.len() < 600 {
            put(&mut txn, &mut model, &mut numbers);
        }
        txn.commit(Stalls::Wait).expect("written");
        let (commands, from_end) = (1 + numbers.below(40), numbers.below(3) == 0);
        txn.look_ahead(0, std::iter::repeat_n(KEY, commands as usize)).expect("readable");
        for _ in 0..commands {
            if numbers.below(10) == 0 {
                put(&mut txn, &mut model, &mut numbers);
                continue;
            }
            let mut entry = txn.entry(0, KEY).expect("readable");
            let mut set = SortedSet::of(&entry).expect("readable").expect("it has members");
            let popped = set.pop(&mut txn, &entry, from_end, 1).expect("written");
            set.write(&mut txn, &mut entry).expect("written");
            let sorted = sorted(&model);
            let expected = if from_end { sorted.last() } else { sorted.first() };
            assert_eq!(popped.first(), expected);
            model.remove(&popped[0].0);
        }
        match numbers.below(6) {
            0 => {
                // What was popped is there again.
                txn.roll_back();
                let entry = txn.entry(0, KEY).expect("readable");
                let set = SortedSet::of(&entry).expect("readable").expect("it has members");
                model.clear();
                set.walk(&txn, &Span::all(), false, |member, score| {
                    model.insert(member.to_vec(), score);
                    true
                })
                .expect("readable");
            }
            _ => drop(txn.commit(Stalls::Wait).expect("written")),
        }
        check(&mut txn, &model, &mut numbers);
    }
}

/// AH1, where the scores that a group will ask for are looked up together.
#[test]
fn scores_that_were_looked_up_together_are_those_of_the_set() {
    let test = TestStore::new("scores");
    let (mut txn, mut numbers, mut model) = (test.txn(), Numbers(9), BTreeMap::new());
    let limits = EncodingLimits::default();
    for round in 0..150 {
        let count = 1 + numbers.below(40);
        let members: Vec<Vec<u8>> =
            (0..count).map(|_| format!("member {}", numbers.below(900)).into_bytes()).collect();
        let names: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
        txn.look_ahead(0, std::iter::repeat_n(KEY, members.len())).expect("readable");
        look_at_scores(&mut txn, 0, KEY, &names).expect("readable");
        for member in &members {
            if numbers.below(12) == 0 {
                change(&mut txn, &mut model, &mut numbers, 900);
            }
            let mut entry = txn.entry(0, KEY).expect("readable");
            let mut set = SortedSet::of(&entry).expect("readable").unwrap_or_default();
            let before = set.score_ahead(&mut txn, member).expect("readable");
            assert_eq!(before, model.get(member).copied());
            if numbers.below(4) > 0 {
                let score = numbers.below(500) as f64;
                set.set(&mut txn, entry.physical(), member, before, score, &limits).expect("written");
                set.write(&mut txn, &mut entry).expect("written");
                model.insert(member.clone(), score);
            }
        }
        txn.commit(Stalls::Wait).expect("written");
        if round % 10 == 9 {
            check(&mut txn, &model, &mut numbers);
        }
    }
}

#[test]
fn the_index_grows_and_shrinks_by_levels() {
    // More nodes than one level has are many members; the check is that of every change.
    let test = TestStore::new("levels");
    let mut txn = test.txn();
    let object = txn.store().new_object(PhysicalDb(0)).expect("a number");
    let members = 6_000_u32;
    for at in 0..members {
        let place = ranks::key(object, 0, &at.to_be_bytes());
        txn.put(Space::Orders, &place, &[]).expect("written");
    }
    let mut ranks = ranks::build(&mut txn, object).expect("built");
    assert!(ranks.levels >= 4);
    assert_eq!(ranks::check(&txn, ranks, object), u64::from(members));
    for at in (0..members).step_by(97) {
        assert_eq!(ranks::rank(&txn, ranks, object, &at.to_be_bytes()).expect("read"), u64::from(at));
        let place = ranks::place_at(&txn, ranks, object, u64::from(at)).expect("read");
        assert_eq!(place, at.to_be_bytes());
    }
    // A whole part of the order goes, so that nodes of both levels become empty.
    for at in 1_000..members {
        let place = at.to_be_bytes();
        txn.delete(Space::Orders, &ranks::key(object, 0, &place)).expect("written");
        ranks::adjust(&mut txn, &mut ranks, object, &place, false).expect("written");
        if at % 499 == 0 {
            ranks::check(&txn, ranks, object);
        }
    }
    assert_eq!(ranks::check(&txn, ranks, object), 1_000);
    // One place is filled until its nodes split.
    for at in 0..3_000_u32 {
        let place = [&7_u32.to_be_bytes()[..], &at.to_be_bytes()].concat();
        txn.put(Space::Orders, &ranks::key(object, 0, &place), &[]).expect("written");
        ranks::adjust(&mut txn, &mut ranks, object, &place, true).expect("written");
    }
    assert_eq!(ranks::check(&txn, ranks, object), 4_000);
}

#[test]
fn random_members_are_equally_probable() {
    let test = TestStore::new("random");
    let mut txn = test.txn();
    let mut entry = txn.entry(0, KEY).expect("readable");
    let mut members = esker_redis_data::value::SortedSet::default();
    (0..200).for_each(|at| members.push(format!("{at}").as_bytes(), 0.0));
    save(&mut txn, &mut entry, &members, None, &EncodingLimits::default()).expect("written");
    let set = SortedSet::of(&entry).expect("readable").expect("there");
    let (mut chance, mut counts) = (Chance::default(), BTreeMap::<Vec<u8>, f64>::new());
    for _ in 0..20_000 {
        set.random(&txn, &mut chance, |member, _| *counts.entry(member.to_vec()).or_default() += 1.0)
            .expect("readable");
    }
    // Chi-square with 199 degrees of freedom: 300 is exceeded once in half a million.
    let chi: f64 = counts.values().map(|count| (count - 100.0) * (count - 100.0) / 100.0).sum();
    assert!(counts.len() == 200 && chi < 300.0, "{chi}");
    let mut chosen = Vec::new();
    set.random_choice(&txn, &mut chance, 150, |member, _| chosen.push(member.to_vec())).expect("readable");
    chosen.sort_unstable();
    chosen.dedup();
    assert_eq!(chosen.len(), 150);
    let (mut cursor, mut scanned) = (0, Vec::new());
    loop {
        cursor = set.scan(&txn, cursor, 7, |member, _| scanned.push(member.to_vec())).expect("readable");
        if cursor == 0 {
            break;
        }
    }
    scanned.sort_unstable();
    scanned.dedup();
    assert_eq!(scanned.len(), 200);
}
