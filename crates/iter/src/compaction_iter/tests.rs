use super::role::Role;
use super::*;
use crate::compaction_filter::Decision;
use crate::merge::MergingCursor;
use crate::operator::{Merge as Operator, MergeError, MergeOperator};
use crate::slice::{Entry, SliceCursor};
use crate::testing::{Fuse, Rng, Strict, deal, random_entries};
use crate::visible::Visible;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::{Error, ValueKind};
use std::collections::BTreeMap;
use std::ops::Range;

fn entry(key: &[u8], seqno: u64, kind: ValueKind) -> Entry {
    let value = if kind.has_value() { seqno.to_be_bytes().to_vec() } else { Vec::new() };
    Entry { key: key.to_vec(), tag: Tag::new(SeqNo::new(seqno), kind), value }
}

/// A Put that expires at `expiry_ms`, with the value that [`entry`] gives it.
fn expiring(key: &[u8], seqno: u64, expiry_ms: u64) -> Entry {
    let value = [expiry_ms.to_le_bytes(), seqno.to_be_bytes()].concat();
    let tag = Tag::from_parts(SeqNo::new(seqno), ValueKind::Put as u8 | FLAG_EXPIRY);
    Entry { key: key.to_vec(), tag, value }
}

/// An operand instead of a Put, with the same value and expiry time.
fn operand_of(put: Entry) -> Entry {
    let byte = put.tag.kind_byte() & FLAG_EXPIRY | ValueKind::Merge as u8;
    Entry { tag: Tag::from_parts(put.tag.seqno(), byte), ..put }
}

#[derive(Clone, Copy)]
enum EntrySort {
    Plain(ValueKind),
    Expired,
    Expiring,
    ExpiredOperand,
    ExpiringOperand,
}

/// Appends, and does not combine operands.
#[derive(Debug)]
struct NonCombining;

impl Operator for NonCombining {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn merge(
        &self,
        _: &[u8],
        value: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeError> {
        Ok(value.into_iter().chain(operands.iter().copied()).flatten().copied().collect())
    }
}

#[derive(Debug)]
struct Failing;

impl Operator for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> std::result::Result<Vec<u8>, MergeError> {
        Err("no".into())
    }
}

/// No operator, and operators that [`seen_at`] models or delegates to.
fn operators() -> Vec<Option<MergeOperator>> {
    let own = |operator: Arc<dyn Operator>| Some(MergeOperator::custom(operator));
    vec![None, Some(MergeOperator::append(b"")), own(Arc::new(NonCombining)), own(Arc::new(Failing))]
}

/// Read times of the oldest reader of these tests, and of a later one.
const READ_TIMES_MS: [u64; 2] = [10, 20];

impl EntrySort {
    fn entry(self, seqno: u64) -> Entry {
        match self {
            EntrySort::Plain(kind) => entry(b"k", seqno, kind),
            EntrySort::Expired => expiring(b"k", seqno, 10),
            EntrySort::Expiring => expiring(b"k", seqno, 11),
            EntrySort::ExpiredOperand => operand_of(expiring(b"k", seqno, 10)),
            EntrySort::ExpiringOperand => operand_of(expiring(b"k", seqno, 11)),
        }
    }
}

fn collect<C: Cursor>(
    iter: &mut CompactionIter<C, impl FnMut(&[u8], SeqNo) -> bool>,
) -> Result<(Vec<Entry>, CompactionIterStats)> {
    let mut kept = Vec::new();
    while iter.is_valid() {
        kept.push(Entry { key: iter.key().to_vec(), tag: iter.tag(), value: iter.value().to_vec() });
        iter.next()?;
    }
    Ok((kept, iter.stats()))
}

/// What a reader at `seqno` and `time_ms` sees of one key from versions in any order: the value of the put
/// that ends the history and the operands above it, concatenated oldest first; unknown kinds are returned as
/// they are.
fn seen_at(versions: &[Entry], seqno: u64, time_ms: u64) -> Option<Vec<u8>> {
    let mut visible: Vec<&Entry> = versions.iter().filter(|v| v.tag.seqno().get() <= seqno).collect();
    visible.sort_by_key(|version| std::cmp::Reverse(version.tag));
    let mut seen = Vec::new();
    for version in visible {
        let kind = version.tag.kind();
        let (mut is_past, mut value) = (false, version.value.as_slice());
        if version.tag.kind_byte() & FLAG_EXPIRY != 0 {
            let (expiry_ms, behind) = version.value.split_first_chunk::<8>().unwrap();
            (is_past, value) = (u64::from_le_bytes(*expiry_ms) <= time_ms, behind);
        }
        if matches!(kind, None | Some(ValueKind::Merge | ValueKind::Put)) && !is_past {
            seen.push(value);
        }
        if !matches!(kind, None | Some(ValueKind::Merge)) {
            break;
        }
    }
    seen.reverse();
    (!seen.is_empty()).then(|| seen.concat())
}

/// A case: versions of one key, divided into older ones outside, inputs, and newer ones outside.
struct Case<'a> {
    older: &'a [Entry],
    inputs: &'a [Entry],
    newer: &'a [Entry],
    boundaries: &'a [u64],
    /// Whether tables outside seem to hold older versions although they do not.
    is_vague: bool,
    zeroes: bool,
    operator: &'a Option<MergeOperator>,
}

impl Case<'_> {
    fn check(&self, visible: u64) {
        let context = || {
            let kinds = |versions: &[Entry]| -> Vec<_> {
                versions.iter().map(|v| (v.tag.seqno().get(), v.tag.kind_byte())).collect()
            };
            format!(
                "outside {:?}, inputs {:?}, newer {:?}, boundaries {:?}, vague {}, zeroes {}, {:?}",
                kinds(self.older),
                kinds(self.inputs),
                kinds(self.newer),
                self.boundaries,
                self.is_vague,
                self.zeroes,
                self.operator
            )
        };
        let boundaries =
            Boundaries::new(self.boundaries.iter().copied().map(SeqNo::new), SeqNo::new(visible))
                .reading_since(READ_TIMES_MS[0]);
        let outside = |_: &[u8], seqno: SeqNo| {
            self.is_vague || self.older.iter().any(|version| version.tag.seqno() < seqno)
        };
        let operand_merger =
            self.operator.clone().map(|operator| Arc::new(OperandMerger::new(operator, "k".into())));
        let mut iter = CompactionIter::new(SliceCursor::new(self.inputs), boundaries, outside)
            .operand_merger(operand_merger);
        if self.zeroes {
            iter = iter.zeroing_seqnos();
        }
        iter.seek_to_first().unwrap();
        let (kept, stats) = collect(&mut iter).unwrap();

        let before = [self.older, self.inputs, self.newer].concat();
        let after = [self.older, &kept, self.newer].concat();
        for seqno in self.boundaries.iter().copied().chain(visible..visible + 3) {
            for time_ms in READ_TIMES_MS {
                let (after, before) = (seen_at(&after, seqno, time_ms), seen_at(&before, seqno, time_ms));
                assert_eq!(after, before, "at {seqno}, {time_ms} ms: {}", context());
            }
        }
        // Rule 10.
        for &boundary in self.boundaries {
            let has_newer = |versions: &[Entry]| versions.iter().any(|v| v.tag.seqno().get() > boundary);
            assert_eq!(has_newer(&kept), has_newer(self.inputs), "above {boundary}: {}", context());
        }
        let is_plain = |v: &Entry| Role::of(v.tag) != Role::Untouchable;
        let untouchable = |versions: &[Entry]| -> Vec<Entry> {
            versions.iter().filter(|v| !is_plain(v)).cloned().collect()
        };
        assert_eq!(untouchable(self.inputs), untouchable(&kept), "{}", context());
        let order = |w: &[Entry]| w[0].tag > w[1].tag;
        assert!(kept.windows(2).all(order), "{}", context());
        let gone = (self.inputs.len() - kept.len()) as u64;
        let is_operand = |v: &Entry| Role::of(v.tag) == Role::Operand;
        if !self.inputs.iter().any(is_operand) {
            assert_eq!(stats.hidden + stats.tombstones, gone, "{}", context());
            if self.inputs.iter().all(is_plain) {
                self.check_is_least(&kept, visible, &context());
            }
        } else if self.inputs.iter().all(is_plain) {
            self.check_is_folded(&kept, visible, &context());
        }
    }

    /// Where no reader reads below, nothing is older outside and nothing is to expire, at most one Put is
    /// left; and of operands that an operator can combine, no two are left beside each other.
    fn check_is_folded(&self, kept: &[Entry], visible: u64, context: &str) {
        let Some(operator) = self.operator.as_ref().filter(|operator| !operator.text().contains("failing"))
        else {
            return;
        };
        let is_lasting = |v: &Entry| v.tag.kind_byte() & FLAG_EXPIRY == 0;
        let is_operand = |v: &&Entry| Role::of(v.tag) == Role::Operand;
        let reads_below = self.boundaries.iter().any(|&b| b < visible);
        let is_bottom = self.older.is_empty() && !self.is_vague;
        if is_bottom && !reads_below && self.inputs.iter().all(is_lasting) {
            assert!(kept.len() <= 1 && !kept.iter().any(|v| is_operand(&v)), "{context}");
        }
        for pair in kept.windows(2).filter(|_| operator.custom_name().is_none()) {
            let (newer, older) = (pair[0].tag.seqno().get(), pair[1].tag.seqno().get());
            let is_divided = self.boundaries.iter().any(|&b| older <= b && b < newer);
            let are_lasting = pair.iter().all(|v| is_operand(&v) && is_lasting(v));
            assert!(is_divided || !are_lasting, "{context}");
        }
    }

    /// With puts and deletes only, nothing is kept that the rules drop.
    fn check_is_least(&self, kept: &[Entry], visible: u64, context: &str) {
        let all: Vec<u64> = self.boundaries.iter().copied().chain([visible]).collect();
        let oldest = all.iter().copied().min().unwrap_or(visible);
        for pair in kept.windows(2) {
            let (newer, older) = (pair[0].tag.seqno().get(), pair[1].tag.seqno().get());
            assert!(all.iter().any(|&b| older <= b && b < newer), "{context}");
        }
        let is_bottom =
            |seqno: u64| !self.is_vague && self.older.iter().all(|v| v.tag.seqno().get() >= seqno);
        for version in kept {
            let seqno = version.tag.seqno().get();
            assert!(
                version.value != EntrySort::Expired.entry(seqno).value,
                "an expired value is kept: {context}"
            );
            assert!(seqno > 0 || kept.len() == 1, "only a sole survivor is zeroed: {context}");
            let must_go = version.tag.is_tombstone() && seqno <= oldest && is_bottom(seqno);
            assert!(!must_go, "{context}");
            let must_be_zero = self.zeroes && kept.len() == 1 && seqno <= oldest && is_bottom(seqno);
            assert!(!must_be_zero || seqno == 0, "{context}");
        }
    }
}

/// All versions with numbers 1 to `count`, each absent or of one of `kinds`, all cuts, all snapshots.
fn exhaust(count: u64, kinds: &[ValueKind], may_zero: bool) -> usize {
    let sorts: Vec<EntrySort> = kinds.iter().copied().map(EntrySort::Plain).collect();
    exhaust_sorts(count, &sorts, may_zero, &[None])
}

fn exhaust_sorts(
    count: u64,
    kinds: &[EntrySort],
    may_zero: bool,
    operators: &[Option<MergeOperator>],
) -> usize {
    let mut cases = 0;
    let choices = kinds.len() as u64 + 1;
    for code in 0..choices.pow(count as u32) {
        let versions: Vec<Entry> = (1..=count)
            .rev()
            .filter_map(|seqno| {
                let choice = code / choices.pow(seqno as u32 - 1) % choices;
                (choice > 0).then(|| kinds[choice as usize - 1].entry(seqno))
            })
            .collect();
        for inputs_begin in 0..=versions.len() {
            for inputs_end in inputs_begin..=versions.len() {
                for snapshots in 0..1u64 << (count + 1) {
                    let boundaries: Vec<u64> = (0..=count).filter(|bit| snapshots >> bit & 1 == 1).collect();
                    for flags in 0..if may_zero { 4 } else { 2 } {
                        for operator in operators {
                            let case = Case {
                                newer: &versions[..inputs_begin],
                                inputs: &versions[inputs_begin..inputs_end],
                                older: &versions[inputs_end..],
                                boundaries: &boundaries,
                                is_vague: flags & 1 == 1,
                                zeroes: flags & 2 == 2,
                                operator,
                            };
                            case.check(count);
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn every_reader_sees_the_same_and_nothing_needless_is_kept() {
    assert!(exhaust(5, &[ValueKind::Put, ValueKind::Delete], true) > 100_000);
    assert!(exhaust(3, &[ValueKind::Put, ValueKind::Delete, ValueKind::SingleDelete], true) > 1000);
}

#[test]
fn a_put_expired_for_all_readers_is_a_delete_and_one_that_will_expire_is_a_put() {
    let (put, delete) = (EntrySort::Plain(ValueKind::Put), EntrySort::Plain(ValueKind::Delete));
    assert!(exhaust_sorts(4, &[put, EntrySort::Expired, EntrySort::Expiring], true, &[None]) > 10_000);
    assert!(exhaust_sorts(3, &[put, delete, EntrySort::Expired, EntrySort::Expiring], true, &[None]) > 1000);
}

#[test]
fn operands_are_merged_where_the_history_allows_it() {
    let plain = [ValueKind::Put, ValueKind::Delete, ValueKind::Merge].map(EntrySort::Plain);
    let [put, delete, operand] = plain;
    let expiring = [EntrySort::ExpiredOperand, EntrySort::ExpiringOperand];
    assert!(exhaust_sorts(4, &plain, true, &operators()) > 100_000);
    let [expired, ending] = expiring;
    assert!(exhaust_sorts(4, &[put, operand, expired, ending], true, &operators()[1..2]) > 50_000);
    let all = [put, delete, operand, EntrySort::Expired, EntrySort::Expiring, expired, ending];
    assert!(exhaust_sorts(3, &all, true, &operators()) > 100_000);
}

/// An operand that no reader sees any more goes with its number if nothing else needs that it stays.
#[test]
fn an_operand_expired_for_all_readers_goes_even_if_it_is_alone() {
    let operator = MergeOperator::append(b"");
    for (boundaries, gone) in [(vec![], 1), (vec![1], 1), (vec![0], 0)] {
        let inputs = [EntrySort::ExpiredOperand.entry(1)];
        let boundaries =
            Boundaries::new(boundaries.into_iter().map(SeqNo::new), SeqNo::new(2)).reading_since(10);
        let merger = Arc::new(OperandMerger::new(operator.clone(), "k".into()));
        let mut iter = CompactionIter::new(SliceCursor::new(&inputs), boundaries, |_, _| true)
            .operand_merger(Some(merger));
        iter.seek_to_first().unwrap();
        let (kept, stats) = collect(&mut iter).unwrap();
        assert_eq!((kept.len(), stats.expired), (1 - gone, gone as u64));
    }
}

/// Only a range tombstone over the key ends the history of its operands: with another one among the inputs,
/// what lies outside of them still counts.
#[test]
fn operands_beside_a_range_tombstone_keep_what_is_below_them() {
    use crate::range_del::RangeTombstone;
    let operator = MergeOperator::append(b"");
    let inputs = [entry(b"k", 5, ValueKind::Merge), entry(b"k", 4, ValueKind::Merge)];
    for (start, end, seqno, ends_history) in
        [(b"a", b"b", 1, false), (b"x", b"z", 1, false), (b"k", b"l", 6, true), (b"k", b"l", 3, true)]
    {
        let boundaries = Boundaries::new([], SeqNo::new(9));
        let delete = RangeTombstone { start, end: Some(end), seqno: SeqNo::new(seqno) };
        let deletes = InputRangeDels::new([delete], &boundaries, |_, _, _| true);
        let merger = Arc::new(OperandMerger::new(operator.clone(), "k".into()));
        let mut iter = CompactionIter::new(SliceCursor::new(&inputs), boundaries, |_, _| true)
            .under(deletes)
            .operand_merger(Some(merger));
        iter.seek_to_first().unwrap();
        let (kept, _) = collect(&mut iter).unwrap();
        let kinds: Vec<_> = kept.iter().map(|version| version.tag.kind()).collect();
        let expected = match (ends_history, seqno > 5) {
            (true, true) => vec![],
            (true, false) => vec![Some(ValueKind::Put)],
            (false, _) => vec![Some(ValueKind::Merge)],
        };
        assert_eq!(kinds, expected, "a range tombstone over {start:?} up to {end:?} at {seqno}");
    }
}

#[test]
fn unknown_kinds_are_kept_with_everything_below() {
    use ValueKind::{Delete, Merge, Put, RangeDelete};
    assert!(exhaust(4, &[Put, Delete, RangeDelete], false) > 10_000);
    assert!(exhaust(3, &[Put, Delete, Merge, RangeDelete], false) > 1000);
}

#[test]
fn an_unknown_kind_brings_a_withheld_tombstone_back() {
    let unknown =
        Entry { key: b"b".to_vec(), tag: Tag::from_parts(SeqNo::new(2), 0x0c), value: b"?".to_vec() };
    let all = [
        entry(b"a", 4, ValueKind::Delete),
        entry(b"a", 1, ValueKind::Put),
        entry(b"b", 5, ValueKind::Delete),
        entry(b"b", 3, ValueKind::Put),
        unknown.clone(),
        entry(b"b", 1, ValueKind::Put),
        entry(b"c", 6, ValueKind::SingleDelete),
    ];
    let boundaries = Boundaries::new([], SeqNo::new(9));
    let mut iter = CompactionIter::new(SliceCursor::new(&all), boundaries, |_, _| false);
    iter.seek_to_first().unwrap();
    let (kept, stats) = collect(&mut iter).unwrap();
    assert_eq!(kept, [all[2].clone(), unknown, all[5].clone()]);
    assert_eq!(stats, CompactionIterStats { hidden: 2, tombstones: 2, ..CompactionIterStats::default() });
}

#[test]
fn an_unknown_kind_keeps_the_tombstone_under_it() {
    let kind = ValueKind::RangeDelete;
    let all = [entry(b"k", 5, kind), entry(b"k", 3, ValueKind::Delete), entry(b"k", 1, ValueKind::Put)];
    let boundaries = Boundaries::new([], SeqNo::new(9));
    let mut iter = CompactionIter::new(SliceCursor::new(&all), boundaries, |_, _| false);
    iter.seek_to_first().unwrap();
    assert_eq!(collect(&mut iter).unwrap().0, all[..2]);
}

#[test]
fn zeroing_over_an_untouchable_version_fails_loudly() {
    let all = [entry(b"k", 5, ValueKind::Put), entry(b"k", 3, ValueKind::RangeDelete)];
    let boundaries = Boundaries::new([], SeqNo::new(9));
    let mut iter = CompactionIter::new(SliceCursor::new(&all), boundaries, |_, _| false).zeroing_seqnos();
    iter.seek_to_first().unwrap();
    assert_eq!(iter.tag().seqno(), SeqNo::ZERO);
    assert!(matches!(iter.next(), Err(Error::Unsupported(_))));
    assert!(!iter.is_valid());
}

#[test]
fn versions_newer_than_the_sample_are_kept() {
    let all: Vec<Entry> = (1..=6).rev().map(|seqno| entry(b"k", seqno, ValueKind::Put)).collect();
    let boundaries = Boundaries::new([SeqNo::new(2)], SeqNo::new(4));
    let mut iter = CompactionIter::new(SliceCursor::new(&all), boundaries, |_, _| false);
    iter.seek_to_first().unwrap();
    let (kept, _) = collect(&mut iter).unwrap();
    let seqnos: Vec<u64> = kept.iter().map(|e| e.tag.seqno().get()).collect();
    assert_eq!(seqnos, [6, 5, 4, 2]);
}

#[test]
fn older_outside_is_called_rarely_and_in_order() {
    let mut all = random_entries(&mut Rng::new(3), 500, 100);
    all.push(entry(b"zz", 501, ValueKind::Put));
    Entry::sort(&mut all);
    let (oldest, visible) = (SeqNo::new(250), SeqNo::new(501));
    let mut asked: Vec<Vec<u8>> = Vec::new();
    let mut iter = CompactionIter::new(
        SliceCursor::new(&all),
        Boundaries::new([oldest], visible),
        |key: &[u8], seqno| {
            assert!(seqno <= oldest);
            asked.push(key.to_vec());
            true
        },
    );
    iter.seek_to_first().unwrap();
    collect(&mut iter).unwrap();
    assert!(asked.windows(2).all(|w| w[0] < w[1]) && asked.len() > 10, "{asked:?}");
}

#[test]
fn parts_of_a_job_add_up_to_the_whole() {
    let rng = &mut Rng::new(5);
    let all = random_entries(rng, 400, 80);
    let boundaries = || Boundaries::new([SeqNo::new(100), SeqNo::new(300)], SeqNo::new(400));
    let mut whole = CompactionIter::new(SliceCursor::new(&all), boundaries(), |_, _| false);
    whole.seek_to_first().unwrap();
    let (whole, stats) = collect(&mut whole).unwrap();
    assert!(stats.hidden > 50 && stats.tombstones > 5);
    for target in all.iter().step_by(7).map(|entry| &entry.key) {
        let mut first = CompactionIter::new(SliceCursor::new(&all), boundaries(), |_, _| false);
        first.seek_to_first().unwrap();
        let mut second = CompactionIter::new(SliceCursor::new(&all), boundaries(), |_, _| false);
        second.seek(target).unwrap();
        let (mut parts, _) = collect(&mut first).unwrap();
        parts.retain(|entry| entry.key < *target);
        parts.extend(collect(&mut second).unwrap().0);
        assert_eq!(parts, whole);
    }
}

#[test]
fn an_error_is_returned_and_never_looks_like_the_end() {
    for seed in 0..100u64 {
        let rng = &mut Rng::new(seed);
        let all = random_entries(rng, 100, 40);
        let dealt = deal(rng, &all, 3);
        let fuse = Fuse::never();
        fuse.set(Some(1 + rng.below(103)));
        let merge = MergingCursor::new(dealt.iter().map(|entries| Strict::new(entries, &fuse)).collect());
        let mut iter = CompactionIter::new(merge, Boundaries::new([], SeqNo::new(100)), |_, _| false);
        let result = iter.seek_to_first().and_then(|()| collect(&mut iter).map(|_| ()));
        // Three seeks and one step for each entry: the fuse always blows.
        assert!(result.is_err() && !iter.is_valid(), "seed {seed}");
    }
}

/// A run with the metadata that a version of the tree has.
struct Run {
    entries: Vec<Entry>,
}

impl Run {
    fn may_hold_older(&self, key: &[u8], seqno: SeqNo) -> bool {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else { return false };
        let in_range = first.key.as_slice() <= key && key <= last.key.as_slice();
        in_range && self.entries.iter().any(|entry| entry.tag.seqno() < seqno)
    }
}

/// A tree of runs, newest first, under random writes, flushes, merges of neighbouring runs, and snapshots.
struct Tree {
    runs: Vec<Run>,
    memtable: Vec<Entry>,
    last: u64,
    /// The result that each registered snapshot must see for ever.
    snapshots: BTreeMap<u64, BTreeMap<Vec<u8>, Vec<u8>>>,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    stats: CompactionIterStats,
}

impl Tree {
    fn write(&mut self, rng: &mut Rng) {
        self.last += 1;
        let key = vec![b'a' + rng.below(12) as u8];
        // A SingleDelete follows exactly one put; a Delete comes at any time, a second put only without the
        // former.
        let uses_single_delete = key[0] % 2 == 0;
        let exists = self.now.contains_key(&key);
        let kind = match (uses_single_delete, exists) {
            (true, true) if rng.chance(60) => ValueKind::SingleDelete,
            (true, true) => ValueKind::Delete,
            (false, _) if rng.chance(40) => ValueKind::Delete,
            _ => ValueKind::Put,
        };
        let entry = entry(&key, self.last, kind);
        if kind == ValueKind::Put {
            self.now.insert(key, entry.value.clone());
        } else {
            self.now.remove(&key);
        }
        self.memtable.push(entry);
    }

    /// The output of a job that merges `inputs`, which replaces the runs `replaced`.
    fn job(&mut self, inputs: &[Vec<Entry>], replaced: Range<usize>, is_last: bool) -> Vec<Entry> {
        let boundaries =
            Boundaries::new(self.snapshots.keys().copied().map(SeqNo::new), SeqNo::new(self.last));
        let outside = |key: &[u8], seqno: SeqNo| {
            let mut staying = self.runs.iter().enumerate().filter(|(at, _)| !replaced.contains(at));
            staying.any(|(_, run)| run.may_hold_older(key, seqno))
        };
        let merge = MergingCursor::new(inputs.iter().map(|entries| SliceCursor::new(entries)).collect());
        let mut iter = CompactionIter::new(merge, boundaries, outside);
        if is_last {
            iter = iter.zeroing_seqnos();
        }
        iter.seek_to_first().unwrap();
        let (kept, stats) = collect(&mut iter).unwrap();
        self.stats.hidden += stats.hidden;
        self.stats.tombstones += stats.tombstones;
        self.stats.zeroed += stats.zeroed;
        kept
    }

    fn flush(&mut self) {
        let mut entries = std::mem::take(&mut self.memtable);
        Entry::sort(&mut entries);
        let entries = self.job(&[entries], 0..0, self.runs.is_empty());
        self.runs.insert(0, Run { entries });
    }

    fn compact(&mut self, rng: &mut Rng) {
        let begin = rng.below(self.runs.len());
        let end = begin + 1 + rng.below(self.runs.len() - begin);
        let inputs: Vec<Vec<Entry>> = self.runs[begin..end].iter().map(|run| run.entries.clone()).collect();
        let is_last = end == self.runs.len();
        let entries = self.job(&inputs, begin..end, is_last);
        self.runs.splice(begin..end, [Run { entries }]);
    }

    fn check(&self, context: &str) {
        let mut memtable = self.memtable.clone();
        Entry::sort(&mut memtable);
        let all = self.snapshots.iter().map(|(&seqno, model)| (seqno, model));
        for (seqno, model) in all.chain([(self.last, &self.now)]) {
            let sources = std::iter::once(&memtable).chain(self.runs.iter().map(|run| &run.entries));
            let merge = MergingCursor::new(sources.map(|entries| SliceCursor::new(entries)).collect());
            let mut visible = Visible::new(merge, SeqNo::new(seqno));
            let mut seen = BTreeMap::new();
            visible.seek_to_first().unwrap();
            while let Some((key, value)) = visible.entry() {
                seen.insert(key.to_vec(), value.to_vec());
                visible.next().unwrap();
            }
            assert_eq!(seen, *model, "{context}, reader at {seqno}");
        }
    }
}

/// Many jobs in sequence over the same data, each relying on what the earlier ones kept.
#[test]
fn no_sequence_of_jobs_changes_a_readers_result() {
    let mut total = CompactionIterStats::default();
    for seed in 0..60u64 {
        let rng = &mut Rng::new(seed);
        let mut tree = Tree {
            runs: Vec::new(),
            memtable: Vec::new(),
            last: 0,
            snapshots: BTreeMap::new(),
            now: BTreeMap::new(),
            stats: CompactionIterStats::default(),
        };
        for step in 0..250 {
            match rng.below(20) {
                0..=11 => tree.write(rng),
                12..=14 => tree.flush(),
                15..=17 if !tree.runs.is_empty() => tree.compact(rng),
                18 => drop(tree.snapshots.insert(tree.last, tree.now.clone())),
                _ => drop(tree.snapshots.pop_first().filter(|_| rng.chance(80))),
            }
            tree.check(&format!("seed {seed} step {step}"));
        }
        total.hidden += tree.stats.hidden;
        total.tombstones += tree.stats.tombstones;
        total.zeroed += tree.stats.zeroed;
    }
    assert!(total.hidden > 1000 && total.tombstones > 300 && total.zeroed > 300, "{total:?}");
}

/// The history in the module's head: a Delete dropped under a Put must not be missed by a SingleDelete later.
#[test]
fn a_single_delete_does_not_uncover_what_a_dropped_delete_hid() {
    let boundaries = || Boundaries::new([], SeqNo::new(4));
    let below = [entry(b"k", 1, ValueKind::Put)];
    let middle = [entry(b"k", 3, ValueKind::Put), entry(b"k", 2, ValueKind::Delete)];
    let outside = |_: &[u8], seqno: SeqNo| seqno > SeqNo::new(1);
    let mut job = CompactionIter::new(SliceCursor::new(&middle), boundaries(), outside);
    job.seek_to_first().unwrap();
    let (middle, _) = collect(&mut job).unwrap();
    assert_eq!(middle.len(), 1);
    let top = [entry(b"k", 4, ValueKind::SingleDelete)];
    let merge = MergingCursor::new(vec![SliceCursor::new(&top), SliceCursor::new(&middle)]);
    let mut job = CompactionIter::new(merge, boundaries(), outside);
    job.seek_to_first().unwrap();
    let (upper, _) = collect(&mut job).unwrap();
    let mut visible = Visible::new(
        MergingCursor::new(vec![SliceCursor::new(&upper), SliceCursor::new(&below)]),
        SeqNo::MAX,
    );
    visible.seek_to_first().unwrap();
    assert_eq!(visible.entry(), None);
}

/// Removes some values and changes others, by their last byte, and records its calls.
#[derive(Debug, Default)]
struct RemovingAndChanging {
    shown: std::sync::Mutex<Vec<Vec<u8>>>,
}

impl CompactionFilter for RemovingAndChanging {
    fn name(&self) -> &str {
        "picky"
    }

    fn filter(&self, _: &[u8], value: &[u8]) -> Decision {
        self.shown.lock().unwrap().push(value.to_vec());
        picked(value)
    }
}

fn picked(value: &[u8]) -> Decision {
    match value.last().map_or(0, |last| last % 3) {
        0 => Decision::Keep,
        1 => Decision::Remove,
        _ => Decision::Change([value, b"!"].concat()),
    }
}

/// CF1: a snapshot sees the same as before; the present sees the same or the filter's result.
#[test]
fn filters_affect_only_the_present() {
    let sorts = [
        EntrySort::Plain(ValueKind::Put),
        EntrySort::Plain(ValueKind::Delete),
        EntrySort::Plain(ValueKind::Merge),
        EntrySort::Expiring,
        EntrySort::ExpiringOperand,
    ];
    let (count, choices) = (4u64, sorts.len() as u64 + 1);
    let mut filtered = 0;
    for code in 0..choices.pow(count as u32) {
        let chosen = |seqno: u64| (code / choices.pow(seqno as u32 - 1) % choices) as usize;
        let versions: Vec<Entry> = (1..=count)
            .rev()
            .filter(|seqno| chosen(*seqno) > 0)
            .map(|seqno| sorts[chosen(seqno) - 1].entry(seqno))
            .collect();
        for cut in 0..=versions.len() {
            let (inputs, older) = versions.split_at(cut);
            for set in 0..1u64 << count {
                let snapshots: Vec<u64> = (0..count).filter(|bit| set >> bit & 1 == 1).collect();
                filtered += check_filtered(inputs, older, &snapshots, count);
            }
        }
    }
    assert!(filtered > 1000);
}

fn check_filtered(inputs: &[Entry], older: &[Entry], snapshots: &[u64], visible: u64) -> u64 {
    let boundaries = Boundaries::new(snapshots.iter().copied().map(SeqNo::new), SeqNo::new(visible));
    let picky = Arc::new(RemovingAndChanging::default());
    let outside = |_: &[u8], seqno: SeqNo| older.iter().any(|version| version.tag.seqno() < seqno);
    let operand_merger = Arc::new(OperandMerger::new(MergeOperator::append(b""), "k".into()));
    let mut iter = CompactionIter::new(SliceCursor::new(inputs), boundaries, outside)
        .operand_merger(Some(operand_merger))
        .filtering(Some(Arc::<RemovingAndChanging>::clone(&picky)), None)
        .zeroing_seqnos();
    iter.seek_to_first().unwrap();
    let (kept, stats) = collect(&mut iter).unwrap();
    let (before, after) = ([inputs, older].concat(), [kept.as_slice(), older].concat());
    let context = format!("{inputs:?} over {older:?}, snapshots {snapshots:?}");
    for &seqno in snapshots {
        assert_eq!(seen_at(&after, seqno, 10), seen_at(&before, seqno, 10), "at {seqno}: {context}");
    }
    let (was, is) = (seen_at(&before, visible, 10), seen_at(&after, visible, 10));
    let shown = picky.shown.lock().unwrap();
    match shown.as_slice() {
        [] => assert_eq!(is, was, "{context}"),
        [value] => {
            // The filter gets the visible value, or a value under operands that stay.
            assert_eq!(was.as_ref(), Some(value), "{context}");
            let expected = match picked(value) {
                Decision::Keep => Some(value.clone()),
                Decision::Remove => None,
                Decision::Change(value) => Some(value),
            };
            assert_eq!(is, expected, "{context}");
        }
        more => panic!("one key was shown {} times: {context}", more.len()),
    }
    assert_eq!(stats.filtered > 0, stats.oldest_filtered.is_some());
    let newest = snapshots.iter().max().copied();
    assert!(stats.oldest_filtered.is_none_or(|oldest| newest.is_none_or(|newest| oldest.get() > newest)));
    stats.filtered
}
