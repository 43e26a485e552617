//! Order on demand, for memtables that keep entries in the order of their insertion.
//!
//! Such a memtable appends each entry to the arena and publishes the end of the log ([`EntryLog`]): the
//! inserter does no work for order. The first ordered read sorts what came since the last one into a *run*,
//! an array of references, and merges runs of similar size as in a binary counter. So an ordered read costs
//! O(t log t) for t new entries, and each entry is moved O(log n) times in all, however reads and writes
//! alternate; there are at most log n runs to search. A memtable without ordered reads is sorted once, by its
//! flush. Sealing itself happens under the commit lock and stays constant; the first reader after it, mostly
//! the flush thread, sorts outside of that lock.
//!
//! # What threads rely on
//! * OD1: the inserter never takes the lock of the runs. It writes an entry, then publishes the end of the
//!   log (release); a reader that loads the end (acquire) may read every entry before it. So insertion does
//!   not wait for readers.
//! * OD2: a run is immutable. A holder of its `Arc` reads it without the lock, whatever becomes of the list
//!   of runs.
//! * OD3: all entries before [`Sorted::upto`] are in exactly one run, none behind it is in one. Entries are
//!   sorted under the write lock, so each is sorted once.
//! * OD4: no other lock is taken under this one. An ordered read waits for a sort in progress: **not
//!   wait-free**.
//! * Visible entries are found (MT2): a reader loads the end of the log after it began, so every entry it
//!   must see lies before that, and it makes sure that all of them are in the runs.
//!
//! # Memory
//! Four bytes an entry outside of the arena, twice that while runs are merged, and what cursors keep of older
//! runs; all of it is counted ([`Order::held_bytes`]). Sorting takes sixteen bytes for each new entry, freed
//! at once.
//!
//! Sorting compares eight bytes behind the prefix that all keys share, then whole keys, then newest first:
//! with the prefix included, keys like `user:0000000001` tie, and each tie is two cache misses.

use crate::arena::{self, Allocator};
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use crate::merged::Part;
use crate::tail::NoSorting;
use esker_base::Tag;
use esker_base::key::{common_prefix_len, head};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Most unsorted entries that a lookup scans one by one: more are sorted first.
const MAX_UNSORTED: usize = 64;

/// The entries of an arena in the order of their insertion, and the word that says where they end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLog {
    end: usize,
}

impl EntryLog {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> EntryLog {
        let end = allocator.node(1) as usize * 2;
        memory.init(end, START);
        EntryLog { end }
    }

    #[inline]
    pub(crate) fn publish(self, memory: &Memory, allocator: &Allocator) {
        memory.publish(Site::Reference, self.end, allocator.next_entry());
    }

    /// The unit behind the last published entry.
    #[inline]
    pub(crate) fn end(self, memory: &Memory) -> u32 {
        memory.load(Site::Reference, self.end)
    }
}

/// Where every log begins.
pub(crate) const START: u32 = arena::FIRST_UNIT;

/// The entries between two places of the log.
pub(crate) fn between(memory: &Memory, start: u32, end: u32) -> impl Iterator<Item = Entry> + '_ {
    let mut at = Entry(start);
    std::iter::from_fn(move || {
        let entry = at;
        (entry.0 < end).then(|| {
            at = entry.following(memory);
            entry
        })
    })
}

/// Sorted entries, whose bytes are counted as long as the run lives.
#[derive(Debug)]
struct Run {
    entries: Box<[Entry]>,
    held: Arc<AtomicU64>,
}

impl Run {
    fn new(entries: Vec<Entry>, held: &Arc<AtomicU64>) -> Run {
        let run = Run { entries: entries.into(), held: Arc::clone(held) };
        run.held.fetch_add(run.bytes(), Relaxed);
        run
    }

    fn bytes(&self) -> u64 {
        size_of_val::<[Entry]>(&self.entries) as u64
    }

    /// The place of the first entry at or after version `limit` of `key`.
    fn place(&self, memory: &Memory, key: &[u8], limit: Tag) -> usize {
        self.entries.partition_point(|entry| {
            entry.key(memory).cmp(key).then_with(|| limit.cmp(&entry.tag(memory))) == Ordering::Less
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes(), Relaxed);
    }
}

#[derive(Debug)]
struct Sorted {
    /// Oldest first, each at least twice as long as the next.
    runs: Vec<Arc<Run>>,
    /// The unit behind the last entry that is in a run.
    upto: u32,
}

#[derive(Debug)]
pub(crate) struct Order {
    log: EntryLog,
    sorted: RwLock<Sorted>,
    held: Arc<AtomicU64>,
}

impl Order {
    pub(crate) fn new(log: EntryLog) -> Order {
        let sorted = Sorted { runs: Vec::new(), upto: START };
        Order { log, sorted: RwLock::new(sorted), held: Arc::default() }
    }

    /// Bytes outside of the arena.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.load(Relaxed)
    }

    #[inline]
    pub(crate) fn end(&self, memory: &Memory) -> u32 {
        self.log.end(memory)
    }

    fn read(&self) -> RwLockReadGuard<'_, Sorted> {
        // A sort that panicked has not changed the list: see `extend`.
        self.sorted.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs with everything before `end`, which was published, and the end of what they contain.
    fn up_to(&self, memory: &Memory, end: u32) -> RwLockReadGuard<'_, Sorted> {
        loop {
            let sorted = self.read();
            if sorted.upto >= end {
                return sorted;
            }
            drop(sorted);
            self.extend(memory, end);
        }
    }

    #[cold]
    fn extend(&self, memory: &Memory, end: u32) {
        let mut sorted = self.sorted.write().unwrap_or_else(PoisonError::into_inner);
        if sorted.upto >= end {
            return;
        }
        debug_assert!(NoSorting::may_sort(), "{} units are sorted under a lock (OD6)", end - sorted.upto);
        // Where versions are chained, newer ones are found from the older one: the first one stands for all.
        let new = between(memory, sorted.upto, end).filter(|entry| entry.older(memory).is_none()).collect();
        let mut run = sort(memory, new);
        let is_kept = |last: &&Arc<Run>, run: &[Entry]| last.entries.len() >= 2 * run.len();
        let mut kept = sorted.runs.len();
        while let Some(last) = sorted.runs[..kept].last().filter(|last| !is_kept(last, &run)) {
            run = join(memory, &last.entries, &run);
            kept -= 1;
        }
        sorted.runs.truncate(kept);
        if !run.is_empty() {
            sorted.runs.push(Arc::new(Run::new(run, &self.held)));
        }
        sorted.upto = end;
    }

    /// The newest version of `key` at or below `limit`, where each version is an entry of its own. O(log² n),
    /// and O(t log t) more after t insertions without an ordered read.
    pub(crate) fn find(&self, memory: &Memory, key: &[u8], limit: Tag) -> Entry {
        let end = self.log.end(memory);
        let mut sorted = self.read();
        let mut newest = Entry::NONE;
        for (number, entry) in between(memory, sorted.upto, end).enumerate() {
            if number == MAX_UNSORTED {
                drop(sorted);
                sorted = self.up_to(memory, end);
                newest = Entry::NONE;
                break;
            }
            if entry.has_key(memory, key) && entry.tag(memory) <= limit {
                newest = entry;
            }
        }
        if !newest.is_none() {
            return newest;
        }
        // Runs follow each other in time, so the first with a match has the newest.
        let found = sorted.runs.iter().rev().find_map(|run| {
            let entry = *run.entries.get(run.place(memory, key, limit))?;
            entry.has_key(memory, key).then_some(entry)
        });
        found.unwrap_or(Entry::NONE)
    }

    pub(crate) fn first(&self, memory: &Memory) -> Entry {
        let sorted = self.up_to(memory, self.log.end(memory));
        let firsts = sorted.runs.iter().filter_map(|run| run.entries.first());
        firsts.min_by_key(|entry| entry.key(memory)).copied().unwrap_or(Entry::NONE)
    }

    pub(crate) fn last(&self, memory: &Memory) -> Entry {
        let sorted = self.up_to(memory, self.log.end(memory));
        let lasts = sorted.runs.iter().filter_map(|run| run.entries.last());
        lasts.max_by_key(|entry| entry.key(memory)).copied().unwrap_or(Entry::NONE)
    }

    /// Positions in runs of everything inserted, unless `known` covers it; also the runs' end.
    pub(crate) fn positions(&self, memory: &Memory, known: u32) -> Option<(Vec<RunPosition>, u32)> {
        let end = self.log.end(memory);
        if known >= end {
            return None;
        }
        let sorted = self.up_to(memory, end);
        let position = |run: &Arc<Run>| RunPosition { run: Arc::clone(run), at: 0 };
        // Newest first, as the merge requires.
        Some((sorted.runs.iter().rev().map(position).collect(), sorted.upto))
    }
}

/// The internal order: by key, newest first.
fn compare(memory: &Memory, a: Entry, b: Entry) -> Ordering {
    a.key(memory).cmp(b.key(memory)).then_with(|| b.tag(memory).cmp(&a.tag(memory)))
}

fn sort(memory: &Memory, mut entries: Vec<Entry>) -> Vec<Entry> {
    let Some(first) = entries.first().map(|entry| entry.key(memory)) else {
        return entries;
    };
    let shared = entries
        .iter()
        .fold(first.len(), |shared, entry| common_prefix_len(&first[..shared], entry.key(memory)));
    let with_head = |entry: &Entry| (head(entry.key(memory), shared), *entry);
    let mut heads: Vec<(u64, Entry)> = entries.iter().map(with_head).collect();
    heads.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| compare(memory, a.1, b.1)));
    for (entry, (_, sorted)) in entries.iter_mut().zip(heads) {
        *entry = sorted;
    }
    entries
}

fn join(memory: &Memory, left: &[Entry], right: &[Entry]) -> Vec<Entry> {
    let comes_first = |a: &[Entry], b: &[Entry]| {
        a.last().zip(b.first()).is_none_or(|(a, b)| compare(memory, *a, *b).is_lt())
    };
    if comes_first(left, right) {
        return [left, right].concat();
    }
    if comes_first(right, left) {
        return [right, left].concat();
    }
    let mut joined = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left, right);
    while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
        if compare(memory, *a, *b).is_lt() {
            joined.push(*a);
            left = left_rest;
        } else {
            joined.push(*b);
            right = right_rest;
        }
    }
    joined.extend_from_slice(left);
    joined.extend_from_slice(right);
    joined
}

#[derive(Debug)]
pub(crate) struct RunPosition {
    run: Arc<Run>,
    at: usize,
}

impl RunPosition {
    #[inline]
    fn stand_at(&mut self, at: usize) -> Entry {
        self.at = at;
        self.run.entries.get(at).copied().unwrap_or(Entry::NONE)
    }
}

impl Part for RunPosition {
    fn seek_to_first(&mut self, _memory: &Memory) -> Entry {
        self.stand_at(0)
    }

    fn seek_to_last(&mut self, _memory: &Memory) -> Entry {
        // Runs are not empty.
        self.stand_at(self.run.entries.len().saturating_sub(1))
    }

    fn seek(&mut self, memory: &Memory, key: &[u8], limit: Tag) -> Entry {
        self.stand_at(self.run.place(memory, key, limit))
    }

    #[inline]
    fn next(&mut self, _memory: &Memory) -> Entry {
        self.stand_at(self.at + 1)
    }

    #[inline]
    fn prev(&mut self, _memory: &Memory) -> Entry {
        match self.at.checked_sub(1) {
            Some(at) => self.stand_at(at),
            None => Entry::NONE,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, ExpectedUse};
    use crate::entry::Operation;
    use esker_base::{SeqNo, ValueKind};

    /// Appends so many entries at a time, with keys in a fixed disorder, and calls `look` after each time.
    fn append(steps: &[u64], mut look: impl FnMut(&Order, &Memory, u64)) {
        let (memory, _) = ArenaPool::new(0).acquire(8 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let log = EntryLog::create(&memory, &mut allocator);
        let order = Order::new(log);
        let mut count = 0u64;
        for step in steps {
            for _ in 0..*step {
                count += 1;
                let key = (count * 7919 % 10_007).to_be_bytes();
                let tag = Tag::new(SeqNo::new(count), ValueKind::Put);
                Entry::write(&memory, &mut allocator, &Operation { key: &key, tag, value: b"" }, Entry::NONE);
            }
            log.publish(&memory, &allocator);
            look(&order, &memory, count);
        }
    }

    #[test]
    fn runs_stay_few_with_alternating_insertions_and_reads() {
        // Each step looks at all entries, so interpreted steps are a twentieth.
        let share = if cfg!(miri) { 20 } else { 1 };
        let ones = vec![1; 2_000 / share];
        let falling: Vec<u64> = (1..100 / share as u64).rev().collect();
        let mixed: Vec<u64> = (0..200 / share as u64).map(|at| 1 + at * at % 37).collect();
        for steps in [ones, falling, mixed] {
            append(&steps, |order, memory, count| {
                let sorted = order.up_to(memory, order.log.end(memory));
                let lengths: Vec<usize> = sorted.runs.iter().map(|run| run.entries.len()).collect();
                assert_eq!(lengths.iter().sum::<usize>() as u64, count, "each entry is in one run");
                assert!(lengths.windows(2).all(|pair| pair[0] >= 2 * pair[1]), "{lengths:?}");
                for run in &sorted.runs {
                    let is_sorted = |pair: &[Entry]| compare(memory, pair[0], pair[1]).is_lt();
                    assert!(run.entries.windows(2).all(is_sorted));
                }
            });
        }
    }

    #[test]
    fn a_few_new_entries_are_scanned_without_sorting() {
        append(&[100, MAX_UNSORTED as u64, 1], |order, memory, count| {
            let key = (count * 7919 % 10_007).to_be_bytes();
            let found = order.find(memory, &key, Tag::NEWEST);
            assert_eq!(found.tag(memory).seqno(), SeqNo::new(count));
            let sorted: usize = order.read().runs.iter().map(|run| run.entries.len()).sum();
            let expected = if count == 100 + MAX_UNSORTED as u64 { 100 } else { count };
            assert_eq!(sorted as u64, expected);
        });
    }

    #[test]
    fn runs_are_counted_until_their_last_handle_is_dropped() {
        let mut kept = Vec::new();
        append(&[100, 200, 300], |order, memory, count| {
            let all = 4 * count;
            kept.push(order.positions(memory, 0).expect("new entries"));
            let replaced = if kept.len() > 1 { order.held_bytes() - all } else { 0 };
            assert_eq!(order.held_bytes(), all + replaced);
            assert_eq!(replaced > 0, kept.len() > 1, "a cursor keeps the runs that it walks over");
            if count == 600 {
                kept.clear();
                assert_eq!(order.held_bytes(), all);
            }
        });
    }
}
