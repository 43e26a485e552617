use super::*;
use crate::cursor::BoundOrder;
use crate::slice::{Entry, SliceCursor};
use crate::testing::{Fuse, Rng, Strict, deal, random_entries, random_key};
use esker_base::ValueKind;

/// Compares a merge with a cursor over the same entries in one slice.
fn assert_same(merge: &MergingCursor<Strict<'_>>, model: &SliceCursor<'_>, context: &str) {
    assert_eq!(merge.is_valid(), model.is_valid(), "{context}");
    if model.is_valid() {
        let expected = (model.key(), model.tag(), model.value(), model.head(0));
        assert_eq!((merge.key(), merge.tag(), merge.value(), merge.head(0)), expected, "{context}");
    }
}

fn random_move(rng: &mut Rng, space: usize, valid: bool) -> (usize, Vec<u8>, SeqNo) {
    // Mostly steps, often many in one direction, and rarely a seek.
    let action = if valid && !rng.chance(10) { 4 + rng.below(2) } else { rng.below(4) };
    (action, random_key(rng, space), SeqNo::new(rng.next() % 300))
}

fn make_move(cursor: &mut impl Cursor, action: usize, key: &[u8], seqno: SeqNo) -> Result<()> {
    match action {
        0 => cursor.seek_to_first(),
        1 => cursor.seek_to_last(),
        2 => cursor.seek(key, seqno),
        3 => cursor.seek_before(key),
        4 => cursor.next(),
        _ => cursor.prev(),
    }
}

#[test]
fn walks_like_one_sorted_list() {
    for seed in 0..300u64 {
        let rng = &mut Rng::new(seed);
        let space = 1 + rng.below(200);
        let count = rng.below(300);
        let all = random_entries(rng, count, space);
        let source_count = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 40, 130][rng.below(13)];
        let all = if source_count == 0 { Vec::new() } else { all };
        let dealt = deal(rng, &all, source_count);
        let fuse = Fuse::never();
        let mut merge = MergingCursor::new(dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect());
        let mut model = SliceCursor::new(&all);
        assert!(!merge.is_valid());
        let mut repeat = 0;
        let mut action = (0, Vec::new(), SeqNo::ZERO);
        for step in 0..600 {
            if repeat == 0 || (action.0 >= 4 && !model.is_valid()) {
                action = random_move(rng, space, model.is_valid());
                repeat = if action.0 >= 4 { 1 + rng.below(30) } else { 1 };
            }
            repeat -= 1;
            make_move(&mut merge, action.0, &action.1, action.2).unwrap();
            make_move(&mut model, action.0, &action.1, action.2).unwrap();
            assert_same(
                &merge,
                &model,
                &format!("seed {seed} step {step} {action:?} of {source_count} sources"),
            );
        }
    }
}

/// Keys in groups of equal first eight bytes: ties of a dominant source are decided by the next bytes.
#[test]
fn a_source_that_dominates_wins_ties_by_what_follows() {
    for seed in 0..200u64 {
        let rng = &mut Rng::new(seed);
        let put = |number: u64| Entry {
            key: format!("group{:03}{:03}", number / 90, number % 90).into_bytes(),
            tag: Tag::new(SeqNo::new(1 + number), ValueKind::Put),
            value: Vec::new(),
        };
        let all: Vec<Entry> = (0..360).map(put).collect();
        let mut dealt = vec![Vec::new(); 2 + rng.below(3)];
        for entry in &all {
            let source = if rng.chance(93) { 0 } else { rng.below(dealt.len()) };
            dealt[source].push(entry.clone());
        }
        let mut merge = MergingCursor::new(dealt.iter().map(|entries| SliceCursor::new(entries)).collect());
        merge.seek_to_first().unwrap();
        for entry in &all {
            assert_eq!(merge.key(), entry.key, "seed {seed}");
            merge.next().unwrap();
        }
        assert!(!merge.is_valid());
        merge.seek_to_last().unwrap();
        for entry in all.iter().rev() {
            assert_eq!(merge.key(), entry.key, "seed {seed}");
            merge.prev().unwrap();
        }
        assert!(!merge.is_valid());
    }
}

/// `next_key` returns each key's newest version, whatever sources skip, in any direction.
#[test]
fn next_key_misses_no_other_key() {
    for seed in 0..100u64 {
        let rng = &mut Rng::new(seed);
        let (count, space) = (rng.below(300), 1 + rng.below(60));
        let all = random_entries(rng, count, space);
        let sources = 1 + rng.below(5);
        let dealt = deal(rng, &all, sources);
        let fuse = Fuse::never();
        let mut merge = MergingCursor::new(dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect());
        merge.seek_to_first().unwrap();
        for versions in all.chunk_by(|a, b| a.key == b.key) {
            assert_eq!((merge.key(), merge.tag()), (&versions[0].key[..], versions[0].tag), "seed {seed}");
            if rng.chance(10) && versions[0].key != all[0].key {
                merge.prev().unwrap();
                assert!(merge.key() < &versions[0].key[..], "seed {seed}");
                merge.next().unwrap();
                assert_eq!(merge.tag(), versions[0].tag, "seed {seed}");
            }
            let mut met = versions.iter();
            while merge.is_valid() && merge.key() == versions[0].key {
                let tag = merge.tag();
                assert!(met.any(|version| version.tag == tag), "seed {seed}");
                merge.next_key().unwrap();
            }
        }
        assert!(!merge.is_valid(), "seed {seed}");
    }
}

#[test]
fn an_error_is_returned_and_ends_the_walk_until_a_seek() {
    let mut met = 0;
    for seed in 0..400u64 {
        let rng = &mut Rng::new(seed);
        let all = random_entries(rng, 100, 40);
        let source_count = 1 + rng.below(6);
        let dealt = deal(rng, &all, source_count);
        let fuse = Fuse::never();
        let mut merge = MergingCursor::new(dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect());
        let mut model = SliceCursor::new(&all);
        for step in 0..200 {
            if fuse.is_blown() {
                fuse.set(None);
            }
            if rng.chance(5) {
                fuse.set(Some(1 + rng.below(8)));
            }
            let (action, key, seqno) = random_move(rng, 40, merge.is_valid());
            let result = make_move(&mut merge, action, &key, seqno);
            assert_eq!(result.is_err(), fuse.is_blown(), "seed {seed} step {step}");
            if result.is_err() {
                met += 1;
                assert!(!merge.is_valid(), "seed {seed} step {step}");
                model = SliceCursor::new(&all);
            } else {
                make_move(&mut model, action, &key, seqno).unwrap();
                assert_same(&merge, &model, &format!("seed {seed} step {step}"));
            }
        }
    }
    assert!(met > 1000, "the test met only {met} errors");
}

#[test]
fn a_known_prefix_changes_nothing_but_the_cost() {
    let rng = &mut Rng::new(1);
    let mut all = random_entries(rng, 500, 300);
    for entry in &mut all {
        entry.key.splice(0..0, *b"the same for all");
    }
    let dealt = deal(rng, &all, 5);
    for skip in [0, 7, 16] {
        let mut merge = MergingCursor::new(dealt.iter().map(|entries| SliceCursor::new(entries)).collect());
        merge.set_skip(skip);
        merge.seek_to_first().unwrap();
        for entry in &all {
            assert_eq!((merge.key(), merge.tag()), (entry.key.as_slice(), entry.tag), "skip {skip}");
            merge.next().unwrap();
        }
        assert!(!merge.is_valid());
        merge.seek_to_last().unwrap();
        for entry in all.iter().rev() {
            assert_eq!((merge.key(), merge.tag()), (entry.key.as_slice(), entry.tag), "skip {skip}");
            merge.prev().unwrap();
        }
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "keys do not agree in their first 3 bytes")]
fn a_wrong_prefix_panics() {
    let entry = |key: &str| Entry {
        key: key.into(),
        tag: Tag::new(SeqNo::new(1), ValueKind::Put),
        value: Vec::new(),
    };
    let (a, b) = ([entry("abc")], [entry("abd")]);
    let mut merge = MergingCursor::new(vec![SliceCursor::new(&a), SliceCursor::new(&b)]);
    merge.set_skip(3);
    let _ = merge.seek_to_first();
}

/// Versions of one key that differ in their kind only, spread over sources: the direction changes on each.
#[test]
fn turns_on_equal_sequence_numbers() {
    let tag = |kind| Tag::new(SeqNo::new(5), kind);
    let entry = |kind| Entry { key: b"k".to_vec(), tag: tag(kind), value: Vec::new() };
    let a = [entry(ValueKind::RangeDelete), entry(ValueKind::Delete)];
    let b = [entry(ValueKind::SingleDelete)];
    let c = [entry(ValueKind::Merge), entry(ValueKind::Put)];
    let order = [
        tag(ValueKind::Merge),
        tag(ValueKind::RangeDelete),
        tag(ValueKind::SingleDelete),
        tag(ValueKind::Put),
        tag(ValueKind::Delete),
    ];
    let mut merge =
        MergingCursor::new(vec![SliceCursor::new(&a), SliceCursor::new(&b), SliceCursor::new(&c)]);
    merge.seek_to_first().unwrap();
    for pair in order.windows(2) {
        assert_eq!(merge.tag(), pair[0]);
        merge.next().unwrap();
        assert_eq!(merge.tag(), pair[1]);
        merge.prev().unwrap();
        assert_eq!(merge.tag(), pair[0]);
        merge.next().unwrap();
    }
    merge.next().unwrap();
    assert!(!merge.is_valid());
}

/// A source to which entries are added behind the merge's back, as a live memtable does.
struct Growing<'a>(&'a std::cell::RefCell<Vec<Entry>>, Option<Entry>);

impl Growing<'_> {
    fn place(&mut self, find: impl FnOnce(&mut SliceCursor<'_>) -> Result<()>) -> Result<()> {
        let entries = self.0.borrow();
        let mut cursor = SliceCursor::new(&entries);
        if let Some(entry) = &self.1 {
            cursor.seek(&entry.key, entry.tag.seqno())?;
        }
        find(&mut cursor)?;
        self.1 = cursor.is_valid().then(|| Entry {
            key: cursor.key().to_vec(),
            tag: cursor.tag(),
            value: cursor.value().to_vec(),
        });
        Ok(())
    }

    fn entry(&self) -> &Entry {
        self.1.as_ref().expect("only called while valid")
    }
}

impl Cursor for Growing<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.place(|cursor| cursor.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.place(|cursor| cursor.seek_to_last())
    }
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.place(|cursor| cursor.seek(key, seqno))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.place(|cursor| cursor.seek_before(key))
    }
    fn next(&mut self) -> Result<()> {
        self.place(|cursor| cursor.next())
    }
    fn prev(&mut self) -> Result<()> {
        self.place(|cursor| cursor.prev())
    }
    fn is_valid(&self) -> bool {
        self.1.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.entry().key
    }
    fn tag(&self) -> Tag {
        self.entry().tag
    }
    fn value(&self) -> &[u8] {
        &self.entry().value
    }
}

/// Entries written during a walk may appear, in order and once; all old ones appear, in either direction.
#[test]
fn entries_that_appear_meanwhile_do_not_disturb_the_order() {
    for seed in 0..200u64 {
        let rng = &mut Rng::new(seed);
        let mut pool = random_entries(rng, 120, 60);
        let mut late: Vec<Entry> = Vec::new();
        pool.retain(|entry| {
            let early = rng.chance(50);
            if !early {
                late.push(entry.clone());
            }
            early
        });
        let old = pool;
        let dealt = deal(rng, &old, 4);
        let cells: Vec<_> = dealt.into_iter().map(std::cell::RefCell::new).collect();
        let mut merge = MergingCursor::new(cells.iter().map(|cell| Growing(cell, None)).collect());
        merge.seek_to_first().unwrap();
        let place = |merge: &MergingCursor<Growing<'_>>| {
            merge.is_valid().then(|| (merge.key().to_vec(), std::cmp::Reverse(merge.tag())))
        };
        for step in 0..300 {
            if rng.chance(30) && !late.is_empty() {
                let entry = late.swap_remove(rng.below(late.len()));
                let mut entries = cells[rng.below(4)].borrow_mut();
                entries.push(entry);
                Entry::sort(&mut entries);
            }
            let before = place(&merge);
            let forward = rng.chance(50);
            let Some(before) = before else {
                if forward {
                    merge.seek_to_first().unwrap();
                } else {
                    merge.seek_to_last().unwrap();
                }
                continue;
            };
            if forward {
                merge.next().unwrap();
            } else {
                merge.prev().unwrap();
            }
            let after = place(&merge);
            let context = format!("seed {seed} step {step} forward {forward}: {before:?} {after:?}");
            let position = |e: &Entry| (e.key.clone(), std::cmp::Reverse(e.tag));
            let missed = old.iter().map(position).find(|place| match (&after, forward) {
                (Some(after), true) => *place > before && place < after,
                (Some(after), false) => *place < before && place > after,
                (None, true) => *place > before,
                (None, false) => *place < before,
            });
            assert_eq!(missed, None, "{context}");
            if let Some(after) = after {
                assert!(if forward { after > before } else { after < before }, "{context}");
            }
        }
    }
}

/// The methods that a recording source forwards without recording.
macro_rules! handed_on {
    () => {
        fn seek_to_first(&mut self) -> Result<()> {
            self.0.seek_to_first()
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.0.seek_to_last()
        }
        fn seek_before(&mut self, key: &[u8]) -> Result<()> {
            self.0.seek_before(key)
        }
        fn next(&mut self) -> Result<()> {
            self.0.next()
        }
        fn prev(&mut self) -> Result<()> {
            self.0.prev()
        }
        fn is_valid(&self) -> bool {
            self.0.is_valid()
        }
        fn tag(&self) -> Tag {
            self.0.tag()
        }
        fn value(&self) -> &[u8] {
            self.0.value()
        }
    };
}

/// A source with two rounds of preparation that records the order of calls.
struct Staged<'a>(SliceCursor<'a>, &'a std::cell::RefCell<Vec<String>>);

impl Cursor for Staged<'_> {
    handed_on!();
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.1.borrow_mut().push("seek".into());
        self.0.seek(key, seqno)
    }
    fn key(&self) -> &[u8] {
        self.0.key()
    }
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        self.1.borrow_mut().push(format!("prepare {} round {round}", key.escape_ascii()));
        round < 1
    }
}

#[test]
fn a_seek_prepares_all_sources_before_it_searches_any() {
    let calls = std::cell::RefCell::new(Vec::new());
    let staged = || Staged(SliceCursor::new(&[]), &calls);
    let mut merge = MergingCursor::new(vec![staged(), staged()]);
    merge.seek(b"k", SeqNo::MAX).unwrap();
    let expected =
        ["prepare k round 0", "prepare k round 0", "prepare k round 1", "prepare k round 1", "seek", "seek"];
    assert_eq!(*calls.borrow(), expected);
    calls.borrow_mut().clear();
    // With one source there is nothing to overlap.
    MergingCursor::new(vec![staged()]).seek(b"k", SeqNo::MAX).unwrap();
    assert_eq!(*calls.borrow(), ["seek"]);
}

struct CountingReads<'a>(SliceCursor<'a>, &'a std::cell::Cell<usize>);

impl CountingReads<'_> {
    fn look(&self) {
        self.1.set(self.1.get() + 1);
    }
}

impl Cursor for CountingReads<'_> {
    handed_on!();
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.0.seek(key, seqno)
    }
    fn key(&self) -> &[u8] {
        self.look();
        self.0.key()
    }
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        self.look();
        self.0.bound_order::<BACKWARD>(bound)
    }
    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        self.0.step_towards::<BACKWARD>(bound)
    }
}

/// A source beside sparse others is galloped over with few reads of its keys.
#[test]
fn a_dominant_source_is_galloped_over() {
    let entry = |number: u64| Entry {
        key: number.to_be_bytes().to_vec(),
        tag: Tag::new(SeqNo::new(1 + number), ValueKind::Put),
        value: Vec::new(),
    };
    let large: Vec<Entry> = (0..3_000).filter(|number| number % 50 != 7).map(entry).collect();
    let small: Vec<Entry> = (0..3_000).filter(|number| number % 50 == 7).map(entry).collect();
    let looks = std::cell::Cell::new(0);
    let mut merge = MergingCursor::new(
        [&small, &large].map(|entries| CountingReads(SliceCursor::new(entries), &looks)).into(),
    );
    let mut passed = 0;
    merge.seek_to_first().unwrap();
    while merge.is_valid() {
        assert_eq!(merge.tag().seqno(), SeqNo::new(1 + passed));
        passed += 1;
        merge.next().unwrap();
    }
    merge.seek_to_last().unwrap();
    while merge.is_valid() {
        assert_eq!(merge.tag().seqno(), SeqNo::new(passed));
        passed -= 1;
        merge.prev().unwrap();
    }
    assert_eq!(passed, 0);
    // Sixty gallops in either direction, interrupted once or twice at the end of a block.
    assert!(looks.get() < 2_000, "{} looks at 6,000 entries", looks.get());
}

/// A large source of one version of each even number, and a small one of newer and older versions.
fn large_and_small(rng: &mut Rng) -> [Vec<Entry>; 2] {
    let prefix = ["", "group", "all of them"][rng.below(3)].as_bytes();
    let digits = |number: usize| {
        if prefix.is_empty() { (number as u64).to_be_bytes().to_vec() } else { format!("{number:05}").into() }
    };
    let entry = |number: usize, seqno: u64| Entry {
        key: [prefix, &digits(number)].concat(),
        tag: Tag::new(SeqNo::new(seqno), ValueKind::Put),
        value: Vec::new(),
    };
    let count = 1 + rng.below(400);
    let large = (0..count).map(|number| entry(2 * number, 500)).collect();
    let mut small = Vec::new();
    for number in 0..2 * count + 20 {
        if rng.chance(6) {
            let versions = 1 + rng.below(4);
            small.extend((0..versions).map(|version| entry(number, 10 + 300 * version as u64)));
        }
    }
    Entry::sort(&mut small);
    [small, large]
}

/// Whichever steps are taken, forwards and back, none skips a version that is needed.
#[test]
fn galloping_skips_only_hidden_versions() {
    for seed in 0..300u64 {
        let rng = &mut Rng::new(seed);
        let [small, large] = large_and_small(rng);
        let mut all: Vec<Entry> = small.iter().chain(&large).cloned().collect();
        Entry::sort(&mut all);
        let fuse = Fuse::never();
        let others = 1 + rng.below(4);
        let dealt = deal(rng, &small, others);
        let mut sources: Vec<_> = dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect();
        sources.insert(rng.below(sources.len() + 1), Strict::new(&large, &fuse));
        let mut merge = MergingCursor::new(sources);
        let newest = [SeqNo::new(5), SeqNo::new(400), SeqNo::new(500), SeqNo::MAX][rng.below(4)];
        let is_seen = |at: usize| {
            let seen = |at: usize| all[at].tag <= Tag::visible_at(newest);
            seen(at) && !(at > 0 && all[at - 1].key == all[at].key && seen(at - 1))
        };
        merge.seek_to_first().unwrap();
        let (mut at, mut step, mut repeat) = (0, 0, 0);
        for _ in 0..1_000 {
            if repeat == 0 {
                let last = step;
                (step, repeat) = (rng.below(4), 1 + rng.below(60));
                // Skipped entries do not appear before the direction changes.
                step = if [(1, 0), (3, 2)].contains(&(last, step)) { last } else { step };
            }
            repeat -= 1;
            let context = format!("seed {seed} step {step} from {at}");
            match step {
                0 => merge.next().unwrap(),
                1 => merge.next_key().unwrap(),
                2 => merge.prev().unwrap(),
                _ => merge.prev_key(newest).unwrap(),
            }
            if !merge.is_valid() {
                match step {
                    0 => assert_eq!(at + 1, all.len(), "{context}"),
                    1 => assert!(all[at..].iter().all(|entry| entry.key == all[at].key), "{context}"),
                    2 => assert_eq!(at, 0, "{context}"),
                    _ => assert!(!(0..at).any(is_seen), "{context}"),
                }
                merge.seek_to_first().unwrap();
                at = 0;
                continue;
            }
            let place = |entry: &Entry| (entry.key.clone(), std::cmp::Reverse(entry.tag));
            let present = (merge.key().to_vec(), std::cmp::Reverse(merge.tag()));
            let now = all.binary_search_by_key(&present, place).expect("an entry that is there");
            match step {
                0 => assert_eq!(now, at + 1, "{context}"),
                1 => assert!(
                    now > at && all[at + 1..now].iter().all(|entry| entry.key == all[at].key),
                    "{context}"
                ),
                2 => assert_eq!(now + 1, at, "{context}"),
                _ => assert!(now < at && !(now + 1..at).any(is_seen), "{context}"),
            }
            at = now;
        }
    }
}

/// An interruption of a dominant source costs a few key reads, with the version that it hides.
#[test]
fn galloping_reads_few_keys() {
    let entry = |number: u64, seqno: u64| Entry {
        key: number.to_be_bytes().to_vec(),
        tag: Tag::new(SeqNo::new(seqno), ValueKind::Put),
        value: Vec::new(),
    };
    let large: Vec<Entry> = (0..3_000).map(|number| entry(number, 1)).collect();
    let small: Vec<Entry> = (0..3_000).step_by(10).map(|number| entry(number, 2)).collect();
    let rng = &mut Rng::new(1);
    for (others, max_reads) in [(1, 6), (4, 11)] {
        let mut sources = deal(rng, &small, others);
        sources.push(large.clone());
        check_key_reads(&sources, max_reads);
    }
}

/// A key with versions in several sources is returned once by `next_key`.
#[test]
fn a_key_of_many_sources_is_met_once() {
    let entry = |number: u64, seqno: u64| Entry {
        key: number.to_be_bytes().to_vec(),
        tag: Tag::new(SeqNo::new(seqno), ValueKind::Put),
        value: Vec::new(),
    };
    let large: Vec<Entry> = (0..3_000).map(|number| entry(number, 1)).collect();
    let small = |seqno| (0..3_000).step_by(10).map(|number| entry(number, seqno)).collect();
    let sources = [small(4), small(3), small(2), large];
    let mut merge = MergingCursor::new(sources.iter().map(|entries| SliceCursor::new(entries)).collect());
    merge.seek_to_first().unwrap();
    let mut met = 0;
    while merge.is_valid() {
        let newest = if met % 10 == 0 { 4 } else { 1 };
        assert_eq!((merge.key(), merge.tag().seqno().get()), (&u64::to_be_bytes(met)[..], newest));
        met += 1;
        merge.next_key().unwrap();
    }
    assert_eq!(met, 3_000);
}

/// Walks over a large source interrupted by three hundred entries, with at most this many key reads each.
fn check_key_reads(sources: &[Vec<Entry>], max_reads: usize) {
    let looks = std::cell::Cell::new(0);
    let sources = sources.iter().map(|entries| CountingReads(SliceCursor::new(entries), &looks));
    let mut merge = MergingCursor::new(sources.collect());
    for forwards in [true, false] {
        looks.set(0);
        let mut met = 0;
        let sought = if forwards { merge.seek_to_first() } else { merge.seek_to_last() };
        sought.unwrap();
        while merge.is_valid() {
            met += 1;
            let moved = if forwards { merge.next_key() } else { merge.prev_key(SeqNo::MAX) };
            moved.unwrap();
        }
        // Before galloping begins, one is met.
        assert!(met <= 3_001, "{} versions that are hidden have been met", met - 3_000);
        assert!(looks.get() < 300 * max_reads, "{} looks at 300 turns", looks.get());
    }
}
