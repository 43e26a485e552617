//! Shared test helpers: random numbers, random sources, and cursors that fail on purpose.

use crate::cursor::{BoundOrder, Cursor};
use crate::slice::{Entry, SliceCursor};
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use std::cell::Cell;

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Short keys of few letters, with shared prefixes, zero bytes and the empty key, so that heads often tie.
pub(crate) fn random_key(rng: &mut Rng, space: usize) -> Vec<u8> {
    let number = rng.below(space);
    let mut key = match number % 4 {
        0 => b"commonprefix".to_vec(),
        1 => b"\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        2 => b"a".to_vec(),
        _ => Vec::new(),
    };
    let mut rest = number / 4;
    while rest > 0 {
        key.push([0, b'a', b'b', 0xff][rest % 4]);
        rest /= 4;
    }
    key
}

/// `count` operations on random keys, numbered from 1 on, in internal order.
pub(crate) fn random_entries(rng: &mut Rng, count: usize, space: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = (1..=count as u64)
        .map(|seqno| {
            let kind =
                [ValueKind::Put, ValueKind::Put, ValueKind::Delete, ValueKind::SingleDelete][rng.below(4)];
            let value = if kind == ValueKind::Put { format!("v{seqno}").into_bytes() } else { Vec::new() };
            Entry { key: random_key(rng, space), tag: Tag::new(SeqNo::new(seqno), kind), value }
        })
        .collect();
    Entry::sort(&mut entries);
    entries
}

/// Deals `entries`, which are in internal order, to `count` sources.
pub(crate) fn deal(rng: &mut Rng, entries: &[Entry], count: usize) -> Vec<Vec<Entry>> {
    let mut sources = vec![Vec::new(); count];
    // Sometimes one source dominates.
    let share = if rng.chance(30) { 90 } else { 0 };
    for entry in entries {
        let source = if rng.chance(share) { 0 } else { rng.below(count) };
        sources[source].push(entry.clone());
    }
    sources
}

/// Counts down over the calls of several cursors; the call that finds zero fails.
pub(crate) struct Fuse(Cell<Option<usize>>);

impl Fuse {
    pub(crate) fn never() -> Fuse {
        Fuse(Cell::new(None))
    }

    pub(crate) fn set(&self, calls: Option<usize>) {
        self.0.set(calls);
    }

    fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn is_blown(&self) -> bool {
        self.0.get() == Some(0)
    }

    fn burn(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(0) => panic!("called again after an error without a new seek of everything"),
            Some(1) => {
                self.0.set(Some(0));
                Err(Error::corruption("/t/1.sst", 0, "injected"))
            }
            Some(calls) => {
                self.0.set(Some(calls - 1));
                Ok(())
            }
        }
    }
}

/// A [`SliceCursor`] that checks the contract: fails by its fuse, and panics when used while invalid.
pub(crate) struct Strict<'a> {
    inner: SliceCursor<'a>,
    fuse: &'a Fuse,
    broken: bool,
    /// Calls that moved the cursor.
    pub(crate) calls: usize,
    /// Those of them that searched for a key.
    pub(crate) searches: usize,
}

impl<'a> Strict<'a> {
    pub(crate) fn new(entries: &'a [Entry], fuse: &'a Fuse) -> Strict<'a> {
        Strict { inner: SliceCursor::new(entries), fuse, broken: false, calls: 0, searches: 0 }
    }

    fn call(&mut self, action: impl FnOnce(&mut SliceCursor<'a>) -> Result<()>) -> Result<()> {
        self.calls += 1;
        self.broken = true;
        self.fuse.burn()?;
        self.broken = false;
        action(&mut self.inner)
    }
}

impl Cursor for Strict<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.call(Cursor::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.call(Cursor::seek_to_last)
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.searches += 1;
        self.call(|inner| inner.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.searches += 1;
        self.call(|inner| inner.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        assert!(self.is_valid());
        self.call(Cursor::next)
    }

    /// Skips all other versions of the key at every second call, and none at the others.
    fn next_key(&mut self) -> Result<()> {
        assert!(self.is_valid());
        let key = self.calls.is_multiple_of(2).then(|| self.key().to_vec());
        self.call(|inner| {
            inner.next()?;
            while inner.is_valid() && key.as_deref() == Some(inner.key()) {
                inner.next()?;
            }
            Ok(())
        })
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.is_valid());
        self.call(Cursor::prev)
    }

    /// Skips all versions hidden from the reader at every second call, and none at the others.
    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        assert!(self.is_valid());
        let passes = self.calls.is_multiple_of(2);
        self.call(|inner| {
            inner.prev()?;
            while passes && inner.is_hidden_at(seqno) {
                inner.prev()?;
            }
            Ok(())
        })
    }

    /// Unknown where steps are to fail, because a step towards a bound cannot.
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        assert!(self.is_valid());
        if self.fuse.is_set() { (BoundOrder::Unknown, 0) } else { self.inner.bound_order::<BACKWARD>(bound) }
    }

    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        assert!(self.is_valid());
        if self.fuse.is_set() {
            return BoundOrder::Unknown;
        }
        self.calls += 1;
        self.inner.step_towards::<BACKWARD>(bound)
    }

    fn is_valid(&self) -> bool {
        !self.broken && self.inner.is_valid()
    }

    fn key(&self) -> &[u8] {
        assert!(self.is_valid());
        self.inner.key()
    }

    fn tag(&self) -> Tag {
        assert!(self.is_valid());
        self.inner.tag()
    }

    fn value(&self) -> &[u8] {
        assert!(self.is_valid());
        self.inner.value()
    }
}
