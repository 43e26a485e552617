use super::*;
use crate::boundaries::Boundaries;
use crate::compaction_iter::CompactionIter;
use crate::merge::MergingCursor;
use crate::range_del::RangeTombstone;
use crate::range_del::compaction::InputRangeDels;
use crate::slice::{Entry, SliceCursor};
use crate::testing::Rng;
use crate::visible::Visible;
use esker_base::ValueKind;
use std::collections::BTreeMap;

/// A slice of entries with an upper bound for their sequence numbers; counts the calls.
struct PartSlice<'a> {
    cursor: SliceCursor<'a>,
    newest: SeqNo,
    steps: &'a std::cell::Cell<usize>,
}

impl Cursor for PartSlice<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.cursor.seek(key, seqno)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_before(key)
    }
    fn next(&mut self) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        self.cursor.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        self.cursor.prev()
    }
    fn is_valid(&self) -> bool {
        self.cursor.is_valid()
    }
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }
    fn tag(&self) -> Tag {
        self.cursor.tag()
    }
    fn value(&self) -> &[u8] {
        self.cursor.value()
    }
}

impl PartCursor for PartSlice<'_> {
    fn newest_around(&self) -> SeqNo {
        self.newest
    }
    fn skip_forward(&mut self, target: Option<&[u8]>) -> Result<()> {
        match target {
            Some(target) => self.cursor.seek(target, SeqNo::MAX),
            None => self.cursor.seek_before(b""),
        }
    }
    fn skip_backward(&mut self, target: Option<&[u8]>) -> Result<()> {
        self.cursor.seek_before(target.unwrap_or_default())
    }
}

#[derive(Clone, Default)]
struct TombstoneRun {
    entries: Vec<Entry>,
    deletes: Arc<RangeTombstones>,
}

impl TombstoneRun {
    fn newest(&self) -> SeqNo {
        self.entries.iter().map(|entry| entry.tag.seqno()).max().unwrap_or(SeqNo::ZERO)
    }

    /// Whether an entry or range tombstone below `seqno` may concern these keys, by the hull.
    fn may_hold_older(&self, low: &[u8], high: Option<&[u8]>, seqno: SeqNo) -> bool {
        let oldest = self.entries.iter().map(|entry| entry.tag.seqno());
        let oldest = oldest.chain(self.deletes.seqnos().map(|(oldest, _)| oldest)).min();
        let hull = self.deletes.hull();
        let first = self.entries.first().map(|entry| &entry.key[..]);
        let first = first.into_iter().chain(hull.as_ref().map(|hull| &*hull.start)).min();
        let last = self.entries.last().is_some_and(|last| low <= &last.key[..]);
        let reaches =
            last || hull.as_ref().is_some_and(|hull| hull.end.as_ref().is_none_or(|end| low < &**end));
        let begins = first.is_some_and(|first| high.is_none_or(|high| first < high));
        oldest.is_some_and(|oldest| oldest < seqno) && reaches && begins
    }
}

/// A memtable and runs, newest first, under writes, range deletes, flushes, merges and snapshots.
#[derive(Default)]
struct TombstoneTree {
    runs: Vec<TombstoneRun>,
    memtable: Vec<Entry>,
    ranges: Vec<(Vec<u8>, Option<Vec<u8>>, SeqNo)>,
    last: u64,
    snapshots: BTreeMap<u64, BTreeMap<Vec<u8>, Vec<u8>>>,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    hidden: u64,
    zeroed: u64,
    dropped_ranges: usize,
    steps: std::cell::Cell<usize>,
}

fn key(number: usize) -> Vec<u8> {
    format!("{number:02}").into_bytes()
}

impl TombstoneTree {
    fn write(&mut self, rng: &mut Rng) {
        self.last += 1;
        let (seqno, at) = (SeqNo::new(self.last), rng.below(30));
        match rng.below(10) {
            0 => {
                let end = at + rng.below(20);
                let end = (end < 30).then(|| key(end));
                let covered = |k: &Vec<u8>| *k >= key(at) && end.as_ref().is_none_or(|end| k < end);
                self.now.retain(|key, _| !covered(key));
                self.ranges.push((key(at), end, seqno));
            }
            1 => {
                self.now.remove(&key(at));
                let tag = Tag::new(seqno, ValueKind::Delete);
                self.memtable.push(Entry { key: key(at), tag, value: Vec::new() });
            }
            _ => {
                let value = self.last.to_be_bytes().to_vec();
                self.now.insert(key(at), value.clone());
                self.memtable.push(Entry { key: key(at), tag: Tag::new(seqno, ValueKind::Put), value });
            }
        }
    }

    fn memtable(&self) -> TombstoneRun {
        let mut entries = self.memtable.clone();
        Entry::sort(&mut entries);
        let stored = |(start, end, seqno): &'_ (Vec<u8>, Option<Vec<u8>>, SeqNo)| {
            (start.clone(), end.clone().unwrap_or_default(), *seqno)
        };
        let owned: Vec<_> = self.ranges.iter().map(stored).collect();
        let deletes = owned.iter().map(|(start, end, seqno)| RangeTombstone::stored(start, end, *seqno));
        TombstoneRun { entries, deletes: Arc::new(RangeTombstones::new(deletes)) }
    }

    fn job(
        &mut self,
        inputs: &[TombstoneRun],
        replaced: std::ops::Range<usize>,
        is_last: bool,
    ) -> TombstoneRun {
        let boundaries =
            Boundaries::new(self.snapshots.keys().copied().map(SeqNo::new), SeqNo::new(self.last));
        let staying: Vec<&TombstoneRun> = self
            .runs
            .iter()
            .enumerate()
            .filter(|(at, _)| !replaced.contains(at))
            .map(|(_, run)| run)
            .collect();
        let outside = |low: &[u8], high: Option<&[u8]>, seqno: SeqNo| {
            staying.iter().any(|run| run.may_hold_older(low, high, seqno))
        };
        let deletes =
            InputRangeDels::new(inputs.iter().flat_map(|run| run.deletes.deletes()), &boundaries, outside);
        let before: u64 = inputs.iter().map(|run| run.deletes.len()).sum();
        self.dropped_ranges += (before - deletes.kept().len().min(before)) as usize;
        let kept_deletes = Arc::new(deletes.kept().clone());
        let merge = MergingCursor::new(inputs.iter().map(|run| SliceCursor::new(&run.entries)).collect());
        let above = |key: &[u8], seqno: SeqNo| outside(key, Some(&[key, b"\0"].concat()), seqno);
        let mut iter = CompactionIter::new(merge, boundaries, above).under(deletes);
        if is_last {
            iter = iter.zeroing_seqnos();
        }
        iter.seek_to_first().unwrap();
        let mut entries = Vec::new();
        while iter.is_valid() {
            let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
            entries.push(Entry { key, tag: iter.tag(), value });
            iter.next().unwrap();
        }
        self.hidden += iter.stats().hidden;
        self.zeroed += iter.stats().zeroed;
        TombstoneRun { entries, deletes: kept_deletes }
    }

    fn flush(&mut self) {
        let memtable = self.memtable();
        (self.memtable, self.ranges) = Default::default();
        let run = self.job(&[memtable], 0..0, self.runs.is_empty());
        self.runs.insert(0, run);
    }

    fn compact(&mut self, rng: &mut Rng) {
        let begin = rng.below(self.runs.len());
        let end = begin + 1 + rng.below(self.runs.len() - begin);
        let inputs = self.runs[begin..end].to_vec();
        let run = self.job(&inputs, begin..end, end == self.runs.len());
        self.runs.splice(begin..end, [run]);
    }

    fn check(&self, context: &str) {
        let sources: Vec<TombstoneRun> =
            std::iter::once(self.memtable()).chain(self.runs.iter().cloned()).collect();
        let all = self.snapshots.iter().map(|(&seqno, model)| (seqno, model));
        for (seqno, model) in all.chain([(self.last, &self.now)]) {
            let seqno = SeqNo::new(seqno);
            let deletes =
                sources.iter().map(|run| Box::new(Arc::clone(&run.deletes)) as Box<dyn RangeDelSource>);
            let range_dels = RangeDelAggregate::new(deletes.collect(), seqno);
            let open = || {
                let cursors = sources.iter().map(|run| {
                    let cursor = SliceCursor::new(&run.entries);
                    SkipDeleted::new(
                        PartSlice { cursor, newest: run.newest(), steps: &self.steps },
                        range_dels.clone(),
                    )
                });
                Visible::new(MergingCursor::new(cursors.collect()), seqno).under(range_dels.clone())
            };
            let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let mut visible = open();
            let mut seen = Vec::new();
            visible.seek_to_first().unwrap();
            while let Some((key, value)) = visible.entry() {
                seen.push((key.to_vec(), value.to_vec()));
                visible.next().unwrap();
            }
            assert_eq!(seen, expected, "{context}, reader at {seqno}");
            let mut seen = Vec::new();
            visible.seek_to_last().unwrap();
            while let Some((key, value)) = visible.entry() {
                seen.push((key.to_vec(), value.to_vec()));
                visible.prev().unwrap();
            }
            seen.reverse();
            assert_eq!(seen, expected, "{context}, reader at {seqno}, backwards");
            for number in 0..31 {
                let at = key(number);
                visible.seek(&at).unwrap();
                let next = model.range(at.clone()..).next().map(|(key, value)| (&key[..], &value[..]));
                assert_eq!(visible.entry(), next, "{context}, reader at {seqno} seeks {number}");
                visible.seek_for_prev(&at).unwrap();
                let before = model.range(..=at).next_back().map(|(key, value)| (&key[..], &value[..]));
                assert_eq!(visible.entry(), before, "{context}, reader at {seqno} seeks back {number}");
            }
        }
    }
}

/// Range tombstones where errors are likely: between snapshots, over runs and under newer writes; each job is
/// right only if the ones before it kept what it relies on.
#[test]
fn no_chain_of_jobs_changes_what_a_reader_sees_under_range_deletes() {
    let (mut hidden, mut zeroed, mut dropped) = (0, 0, 0);
    for seed in 0..40u64 {
        let rng = &mut Rng::new(seed);
        let mut tree = TombstoneTree::default();
        for step in 0..150 {
            match rng.below(20) {
                0..=13 => tree.write(rng),
                14 => tree.flush(),
                15..=16 if !tree.runs.is_empty() => tree.compact(rng),
                17 => drop(tree.snapshots.insert(tree.last, tree.now.clone())),
                _ => drop(tree.snapshots.pop_first().filter(|_| rng.chance(80))),
            }
            tree.check(&format!("seed {seed} step {step}"));
        }
        hidden += tree.hidden;
        zeroed += tree.zeroed;
        dropped += tree.dropped_ranges;
    }
    assert!(hidden > 500 && zeroed > 50 && dropped > 100, "{hidden} {zeroed} {dropped}");
}

/// A thousand hidden entries cost a seek, not a thousand steps.
#[test]
fn wide_deletes_are_sought_over() {
    let entries: Vec<Entry> = (0..1000u64)
        .map(|n| Entry {
            key: format!("{n:04}").into_bytes(),
            tag: Tag::new(SeqNo::new(n + 1), ValueKind::Put),
            value: b"v".to_vec(),
        })
        .collect();
    let delete = RangeTombstone { start: b"0010", end: Some(b"0990"), seqno: SeqNo::new(2000) };
    let deletes = Arc::new(RangeTombstones::new([delete]));
    let steps = std::cell::Cell::new(0);
    for seqno in [1999u64, 2000] {
        let sources: Arc<[Box<dyn RangeDelSource>]> = Arc::new([Box::new(Arc::clone(&deletes))]);
        let range_dels = RangeDelAggregate::new(sources, SeqNo::new(seqno));
        let slice = PartSlice { cursor: SliceCursor::new(&entries), newest: SeqNo::new(1000), steps: &steps };
        let covered = SkipDeleted::new(slice, range_dels.clone());
        let mut visible = Visible::new(covered, SeqNo::new(seqno)).under(range_dels);
        let mut count = [0, 0];
        steps.set(0);
        visible.seek_to_first().unwrap();
        while visible.is_valid() {
            count[0] += 1;
            visible.next().unwrap();
        }
        visible.seek_to_last().unwrap();
        while visible.is_valid() {
            count[1] += 1;
            visible.prev().unwrap();
        }
        let (shown, most) = if seqno == 2000 { (20, 50) } else { (1000, 2010) };
        assert_eq!(count, [shown; 2]);
        assert!(steps.get() <= most, "{} steps", steps.get());
    }
}
