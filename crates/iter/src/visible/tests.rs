use super::backward::MAX_HELD_LEN;
use super::*;
use crate::full_merge::OperandMerger;
use crate::large_values::LargePolicy;
use crate::large_values::LargeValues;
use crate::meaning::is_large;
use crate::merge::MergingCursor;
use crate::operator::MergeOperator;
use crate::slice::{Entry, SliceCursor};
use crate::testing::{Fuse, Rng, Strict, deal, random_entries, random_key};
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, ValueKind};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;

/// The model: what a reader at `seqno` must see of entries in internal order, within bounds.
fn model_of(entries: &[Entry], seqno: SeqNo, bounds: &Bounds) -> Model {
    let mut versions: BTreeMap<Vec<u8>, Vec<&Entry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.tag.seqno() <= seqno && bounds.contains(&entry.key)) {
        versions.entry(entry.key.clone()).or_default().push(entry);
    }
    let mut model = Model::new();
    for (key, mut versions) in versions {
        versions.sort_by_key(|entry| std::cmp::Reverse(entry.tag));
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for entry in &versions {
            let is_piece = entry.tag.kind().is_some_and(ValueKind::has_value) && !is_expired(entry);
            if is_piece {
                let stored = &entry.value[if expires(entry) { 8 } else { 0 }..];
                let mut value = Vec::new();
                if is_large(entry.tag) {
                    Reversed.fetch(&key, stored, &mut value).unwrap();
                } else {
                    value.extend_from_slice(stored);
                }
                pieces.push(value);
            }
            if entry.tag.kind() != Some(ValueKind::Merge) {
                break;
            }
        }
        pieces.reverse();
        if !pieces.is_empty() {
            model.insert(key, (versions[0].tag, pieces.concat()));
        }
    }
    model
}

/// A reader of these tests, which appends operands.
fn reader() -> Reader {
    let operand_merger = OperandMerger::new(MergeOperator::append(b""), "k".into());
    let large = LargePolicy::Fetched(Arc::new(Reversed));
    Reader::at(READ_TIME_MS).operand_merger(Some(Arc::new(operand_merger))).with_large(large)
}

/// Large values that are the key and their pointers reversed.
#[derive(Debug)]
struct Reversed;

impl LargeValues for Reversed {
    fn fetch(&self, key: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()> {
        value.clear();
        value.extend(key.iter().chain(pointer.iter().rev()));
        Ok(())
    }
}

/// Lets some of the puts point to their values.
fn let_some_be_large(rng: &mut Rng, entries: &mut [Entry]) {
    let is_put = |entry: &&mut Entry| entry.tag.kind() == Some(ValueKind::Put);
    for entry in entries.iter_mut().filter(is_put) {
        if rng.chance(30) {
            entry.tag = Tag::from_parts(entry.tag.seqno(), entry.tag.kind_byte() | FLAG_BLOB);
        }
    }
}

/// Makes operands of some of the puts.
fn let_some_merge(rng: &mut Rng, entries: &mut [Entry]) {
    let percent = [20, 70, 100][rng.below(3)];
    for entry in entries.iter_mut().filter(|entry| entry.tag.kind() == Some(ValueKind::Put)) {
        if rng.chance(percent) {
            let flags = entry.tag.kind_byte() & FLAG_EXPIRY;
            entry.tag = Tag::from_parts(entry.tag.seqno(), ValueKind::Merge as u8 | flags);
        }
    }
}

const READ_TIME_MS: u64 = 50;

fn expires(entry: &Entry) -> bool {
    entry.tag.kind_byte() & FLAG_EXPIRY != 0
}

fn is_expired(entry: &Entry) -> bool {
    expires(entry) && u64::from_le_bytes(entry.value[..8].try_into().unwrap()) <= READ_TIME_MS
}

/// Lets some of the puts expire, around the time of reading.
fn let_some_expire(rng: &mut Rng, entries: &mut [Entry]) {
    for entry in entries.iter_mut().filter(|entry| entry.tag.is_plain_put()) {
        if rng.chance(40) {
            let expiry_ms = READ_TIME_MS - 2 + rng.next() % 5;
            entry.value.splice(..0, expiry_ms.to_le_bytes());
            if rng.chance(3) {
                entry.value.resize(MAX_HELD_LEN + 9, b'l');
            }
            entry.tag = Tag::from_parts(entry.tag.seqno(), entry.tag.kind_byte() | FLAG_EXPIRY);
        }
    }
}

fn random_bounds(rng: &mut Rng, space: usize) -> Bounds {
    let bound = |rng: &mut Rng| match rng.below(4) {
        0 => Bound::Included(random_key(rng, space)),
        1 => Bound::Excluded(random_key(rng, space)),
        _ => Bound::Unbounded,
    };
    let (lower, upper) = (bound(rng), bound(rng));
    Bounds::new(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice))
}

/// One random call on the cursor, and where it must lead. `None`: a step from an invalid cursor.
fn random_move<C: Cursor>(
    rng: &mut Rng,
    visible: &mut Visible<C>,
    model: &Model,
    space: usize,
) -> (Result<()>, Option<Vec<u8>>) {
    let steps = visible.is_valid() && !rng.chance(15);
    if !steps {
        let key = random_key(rng, space);
        return match rng.below(4) {
            0 => (visible.seek_to_first(), model.keys().next().cloned()),
            1 => (visible.seek_to_last(), model.keys().next_back().cloned()),
            2 => {
                // Bounds may be inverted, which a BTreeMap refuses: filter by hand.
                let expected = model.keys().find(|k| **k >= key).cloned();
                (visible.seek(&key), expected)
            }
            _ => (visible.seek_for_prev(&key), model.keys().rfind(|k| **k <= key).cloned()),
        };
    }
    let at = visible.key().to_vec();
    if rng.chance(50) {
        (visible.next(), model.keys().find(|k| **k > at).cloned())
    } else {
        (visible.prev(), model.keys().rfind(|k| **k < at).cloned())
    }
}

fn assert_at<C: Cursor>(visible: &Visible<C>, model: &Model, expected: Option<Vec<u8>>, context: &str) {
    let found = visible.entry().map(|(key, value)| (key.to_vec(), (visible.tag(), value.to_vec())));
    let expected = expected.map(|key| (key.clone(), model[&key].clone()));
    assert_eq!(found, expected, "{context}");
    if let Some((key, (_, value))) = found {
        assert_eq!((visible.key(), visible.value()), (&key[..], &value[..]));
    }
}

#[test]
fn agrees_with_the_model() {
    for seed in 0..600u64 {
        let rng = &mut Rng::new(seed);
        // Few keys make chains longer than MAX_STEPS.
        let space = [1, 2, 5, 40, 150][rng.below(5)];
        let count = rng.below(300);
        let mut all = random_entries(rng, count, space);
        if rng.chance(60) {
            let_some_expire(rng, &mut all);
            let_some_be_large(rng, &mut all);
        }
        if rng.chance(40) {
            let_some_merge(rng, &mut all);
        }
        if rng.chance(20) {
            // A table whose oldest versions had their sequence number set to zero.
            for at in 0..all.len() {
                let is_last_of_key = all.get(at + 1).is_none_or(|next| next.key != all[at].key);
                if is_last_of_key {
                    all[at].tag = Tag::from_parts(SeqNo::ZERO, all[at].tag.kind_byte());
                }
            }
        }
        let seqno = SeqNo::new(rng.next() % 320);
        let bounds = if rng.chance(50) { Bounds::all() } else { random_bounds(rng, space) };
        let model = model_of(&all, seqno, &bounds);
        let source_count = 1 + rng.below(5);
        let dealt = deal(rng, &all, source_count);
        let fuse = Fuse::never();
        let merge = MergingCursor::new(dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect());
        let reader = reader();
        let mut visible = Visible::of(merge, seqno, reader, bounds.clone(), None);
        assert!(visible.entry().is_none());
        for step in 0..150 {
            let (result, expected) = random_move(rng, &mut visible, &model, space);
            result.unwrap();
            assert_at(&visible, &model, expected, &format!("seed {seed} step {step} {bounds:?} at {seqno}"));
        }
    }
}

#[test]
fn walks_whole_ranges_both_ways() {
    for seed in 0..200u64 {
        let rng = &mut Rng::new(seed);
        let mut all = random_entries(rng, 200, 60);
        let_some_expire(rng, &mut all);
        let_some_be_large(rng, &mut all);
        let seqno = SeqNo::new(rng.next() % 220);
        let bounds = random_bounds(rng, 60);
        let model = model_of(&all, seqno, &bounds);
        let dealt = deal(rng, &all, 3);
        let merge = MergingCursor::new(dealt.iter().map(|entries| SliceCursor::new(entries)).collect());
        let mut visible = Visible::of(merge, seqno, reader(), bounds, None);
        let mut keys = Vec::new();
        visible.seek_to_first().unwrap();
        while visible.is_valid() {
            keys.push(visible.key().to_vec());
            visible.next().unwrap();
        }
        assert_eq!(keys, model.keys().cloned().collect::<Vec<_>>(), "seed {seed}");
        keys.clear();
        visible.seek_to_last().unwrap();
        while visible.is_valid() {
            keys.push(visible.key().to_vec());
            visible.prev().unwrap();
        }
        assert_eq!(keys, model.keys().rev().cloned().collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn single_version_sources_show_the_same() {
    for seed in 0..200u64 {
        let rng = &mut Rng::new(seed);
        let mut all = random_entries(rng, 150, 100);
        all.dedup_by(|older, newer| older.key == newer.key);
        let bounds = random_bounds(rng, 100);
        let model = model_of(&all, SeqNo::MAX, &bounds);
        let fuse = Fuse::never();
        let cursor = Strict::new(&all, &fuse);
        let mut visible =
            Visible::of(cursor, SeqNo::MAX, Reader::default(), bounds.clone(), None).assume_single_version();
        for step in 0..150 {
            let (result, expected) = random_move(rng, &mut visible, &model, 100);
            result.unwrap();
            assert_at(&visible, &model, expected, &format!("seed {seed} step {step} {bounds:?}"));
        }
    }
}

/// Single versions between those of other sources are borrowed, in both directions.
#[test]
fn single_versions_are_borrowed_backwards_as_well() {
    let entry = |number: u64, seqno: u64| Entry {
        key: number.to_be_bytes().to_vec(),
        tag: Tag::new(SeqNo::new(seqno), ValueKind::Put),
        value: format!("{number} at {seqno}").into_bytes(),
    };
    let run: Vec<Entry> = (0..200).map(|number| entry(number, 1)).collect();
    let newer: Vec<Entry> = (0..200).step_by(20).map(|number| entry(number, 2)).collect();
    let mut visible = Visible::new(
        MergingCursor::new([&newer, &run].map(|entries| SliceCursor::new(entries)).into()),
        SeqNo::MAX,
    );
    let is_lent = |value: &[u8]| run.iter().any(|entry| std::ptr::eq(entry.value.as_ptr(), value.as_ptr()));
    for seek in [Visible::seek_to_last, Visible::seek_to_first] {
        seek(&mut visible).unwrap();
        let forward = visible.key() == 0u64.to_be_bytes();
        let (mut met, mut lent) = (0, 0);
        while visible.is_valid() {
            let number = if forward { met } else { 199 - met };
            let seqno = if number % 20 == 0 { 2 } else { 1 };
            let expected = entry(number, seqno);
            assert_eq!(
                (visible.key(), visible.tag(), visible.value()),
                (&expected.key[..], expected.tag, &expected.value[..])
            );
            (met, lent) = (met + 1, lent + u64::from(is_lent(visible.value())));
            if forward { visible.next().unwrap() } else { visible.prev().unwrap() }
        }
        assert_eq!(met, 200);
        assert!(lent > 150, "{lent} of 190 are lent");
    }
}

#[test]
fn an_error_is_returned_and_never_looks_like_the_end() {
    let mut met = 0;
    for seed in 0..300u64 {
        let rng = &mut Rng::new(seed);
        let space = [1, 3, 30][rng.below(3)];
        let all = random_entries(rng, 150, space);
        let seqno = SeqNo::new(rng.next() % 170);
        let model = model_of(&all, seqno, &Bounds::all());
        let dealt = deal(rng, &all, 3);
        let fuse = Fuse::never();
        let merge = MergingCursor::new(dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect());
        let mut visible = Visible::new(merge, seqno);
        for step in 0..100 {
            fuse.set(rng.chance(30).then(|| 1 + rng.below(20)));
            let (result, expected) = random_move(rng, &mut visible, &model, space);
            assert_eq!(result.is_err(), fuse.is_blown(), "seed {seed} step {step}");
            let expected = if result.is_ok() { expected } else { None };
            assert_at(&visible, &model, expected, &format!("seed {seed} step {step}"));
            met += usize::from(result.is_err());
        }
    }
    assert!(met > 1000, "the test met only {met} errors");
}

fn put(key: &[u8], seqno: u64, value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), tag: Tag::new(SeqNo::new(seqno), ValueKind::Put), value: value.to_vec() }
}

#[test]
fn long_version_chains_are_skipped_by_a_seek() {
    let mut all: Vec<Entry> = (1..=100_000).map(|seqno| put(b"k", seqno, b"")).collect();
    all.push(put(b"a", 1, b""));
    all.push(put(b"z", 1, b""));
    Entry::sort(&mut all);
    let fuse = Fuse::never();
    let calls = |visible: &Visible<Strict<'_>>| visible.cursor.calls;
    for at in [1u64, 50_000, 100_000] {
        let seqno = SeqNo::new(at);
        let mut visible = Visible::new(Strict::new(&all, &fuse), seqno);
        visible.seek(b"a").unwrap();
        visible.next().unwrap();
        assert_eq!((visible.key(), visible.tag().seqno()), (&b"k"[..], seqno));
        visible.next().unwrap();
        assert_eq!(visible.key(), b"z");
        visible.prev().unwrap();
        assert_eq!((visible.key(), visible.tag().seqno()), (&b"k"[..], seqno));
        visible.prev().unwrap();
        assert_eq!(visible.key(), b"a");
        assert!(calls(&visible) < 5 * MAX_STEPS as usize, "{} calls at {at}", calls(&visible));
    }
}

#[test]
fn tombstones_outside_the_bounds_are_not_walked() {
    let mut all: Vec<Entry> = (0..10_000u64)
        .map(|n| Entry {
            key: format!("k{n:05}").into_bytes(),
            tag: Tag::new(SeqNo::new(n + 1), ValueKind::Delete),
            value: Vec::new(),
        })
        .collect();
    all.push(put(b"k05000", 20_000, b"v"));
    Entry::sort(&mut all);
    let fuse = Fuse::never();
    let bounds = Bounds::of(&("k04998".."k05003"));
    let mut visible = Visible::of(Strict::new(&all, &fuse), SeqNo::MAX, Reader::default(), bounds, None);
    visible.seek_to_first().unwrap();
    assert_eq!(visible.key(), b"k05000");
    visible.next().unwrap();
    assert!(!visible.is_valid());
    visible.seek_to_last().unwrap();
    assert_eq!(visible.key(), b"k05000");
    visible.prev().unwrap();
    assert!(!visible.is_valid());
    assert!(visible.cursor.calls < 30, "{} calls", visible.cursor.calls);
}

#[test]
fn many_keys_that_are_not_shown_are_stepped_over() {
    let mut all: Vec<Entry> = Vec::new();
    for n in 0..1000u64 {
        let key = format!("k{n:05}").into_bytes();
        let kind = if n % 2 == 0 { ValueKind::Delete } else { ValueKind::Put };
        // Deleted, or too new.
        let seqno = if n % 2 == 0 { 1 } else { 9 };
        all.push(Entry { key, tag: Tag::new(SeqNo::new(seqno), kind), value: Vec::new() });
    }
    let fuse = Fuse::never();
    let mut visible = Visible::new(Strict::new(&all, &fuse), SeqNo::new(5));
    visible.seek_to_first().unwrap();
    assert!(!visible.is_valid());
    visible.seek_to_last().unwrap();
    assert!(!visible.is_valid());
    assert_eq!((visible.cursor.calls, visible.cursor.searches), (2002, 0));
}

#[test]
fn long_values_are_shown_but_not_copied() {
    let long = vec![7u8; MAX_HELD_LEN + 1];
    let mut all = vec![put(b"a", 1, b"short"), put(b"b", 2, &long), put(b"b", 3, &long), put(b"c", 1, b"s")];
    all.push(Entry {
        key: b"b".to_vec(),
        tag: Tag::new(SeqNo::new(4), ValueKind::Delete),
        value: Vec::new(),
    });
    Entry::sort(&mut all);
    for (seqno, shown) in [(2, Some(2)), (3, Some(3)), (4, None)] {
        let mut visible = Visible::new(SliceCursor::new(&all), SeqNo::new(seqno));
        visible.seek_to_last().unwrap();
        assert_eq!(visible.key(), b"c");
        visible.prev().unwrap();
        if let Some(shown) = shown {
            assert_eq!((visible.key(), visible.tag().seqno()), (&b"b"[..], SeqNo::new(shown)));
            assert!(visible.value() == long && visible.value.capacity() <= MAX_HELD_LEN);
            visible.next().unwrap();
            assert_eq!(visible.key(), b"c");
            visible.prev().unwrap();
            visible.prev().unwrap();
        }
        assert_eq!(visible.entry(), Some((&b"a"[..], &b"short"[..])));
    }
}

#[test]
fn an_unreadable_kind_is_an_error_where_it_would_be_shown() {
    let odd_bytes = [
        ValueKind::Merge as u8,
        ValueKind::RangeDelete as u8,
        ValueKind::Put as u8 | FLAG_BLOB,
        ValueKind::Delete as u8 | FLAG_EXPIRY,
        0x0f,
        0x21,
    ];
    for byte in odd_bytes {
        let mut all = vec![put(b"a", 1, b"1"), put(b"b", 1, b"1"), put(b"c", 1, b"1")];
        all.push(Entry {
            key: b"b".to_vec(),
            tag: Tag::from_parts(SeqNo::new(5), byte),
            value: b"x".to_vec(),
        });
        Entry::sort(&mut all);
        let at = |seqno| Visible::new(SliceCursor::new(&all), SeqNo::new(seqno));
        // Not visible yet: irrelevant to this reader.
        let mut early = at(4);
        early.seek(b"b").unwrap();
        assert_eq!(early.entry(), Some((&b"b"[..], &b"1"[..])));
        for single_version in [false, true] {
            let mut late = if single_version { at(5).assume_single_version() } else { at(5) };
            late.seek_to_first().unwrap();
            let error = late.next().unwrap_err();
            assert!(matches!(error, Error::Unsupported(_)), "{error}");
            assert!(error.to_string().contains("key b has"), "{error}");
            assert!(!late.is_valid());
            assert!(matches!(late.seek(b"b"), Err(Error::Unsupported(_))));
            assert!(matches!(late.seek_for_prev(b"b"), Err(Error::Unsupported(_))));
            late.seek_to_last().unwrap();
            if !single_version {
                assert!(matches!(late.prev(), Err(Error::Unsupported(_))));
            }
            late.seek_to_last().unwrap();
            assert_eq!(late.key(), b"c");
        }
    }
}

#[test]
fn a_range_delete_is_noticed_under_a_newer_version() {
    let range_delete = Tag::new(SeqNo::new(2), ValueKind::RangeDelete);
    let mut all = vec![put(b"a", 5, b"1"), put(b"b", 1, b"1"), put(b"c", 6, b"1")];
    all.push(Entry { key: b"a".to_vec(), tag: range_delete, value: b"c".to_vec() });
    Entry::sort(&mut all);
    let mut visible = Visible::new(SliceCursor::new(&all), SeqNo::MAX);
    visible.seek_to_first().unwrap();
    assert!(matches!(visible.next(), Err(Error::Unsupported(_))));
    visible.seek_to_last().unwrap();
    visible.prev().unwrap();
    assert!(matches!(visible.prev(), Err(Error::Unsupported(_))));
}

#[test]
fn a_keys_only_reader_fetches_nothing() {
    let large = |key: &[u8], expiry: &[u8]| Entry {
        key: key.to_vec(),
        tag: Tag::from_parts(SeqNo::new(1), 1 | FLAG_BLOB | if expiry.is_empty() { 0 } else { FLAG_EXPIRY }),
        value: [expiry, b"pointer"].concat(),
    };
    let gone = READ_TIME_MS.to_le_bytes();
    let stays = (READ_TIME_MS + 1).to_le_bytes();
    let all = [large(b"a", b""), large(b"b", &gone), large(b"c", &stays), put(b"d", 1, b"small")];
    let at = |large| {
        let reader = Reader::at(READ_TIME_MS).with_large(large);
        Visible::of(SliceCursor::new(&all), SeqNo::new(1), reader, Bounds::all(), None)
    };
    let mut keys = at(LargePolicy::Skipped);
    keys.seek_to_first().unwrap();
    assert_eq!(keys.entry(), Some((&b"a"[..], &b""[..])));
    keys.next().unwrap();
    assert_eq!((keys.key(), keys.expiry_ms()), (&b"c"[..], Some(READ_TIME_MS + 1)));
    keys.seek_to_last().unwrap();
    keys.prev().unwrap();
    assert_eq!((keys.entry(), keys.expiry_ms()), (Some((&b"c"[..], &b""[..])), Some(READ_TIME_MS + 1)));
    let mut unexpected = at(LargePolicy::Unexpected);
    assert!(matches!(unexpected.seek_to_first(), Err(Error::Unsupported(_))));
    assert!(!unexpected.is_valid());
}
