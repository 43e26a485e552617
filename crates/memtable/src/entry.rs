//! Entries: one version of one key, and the chain of a key's versions.
//!
//! An entry is immutable once published (MT1). It starts at a multiple of 8 bytes and is named by that
//! multiple:
//!
//! | word | field |
//! |---|---|
//! | 0, 1 | tag, low half first |
//! | 2 | the next older version, 0 if none |
//! | 3 | low half: length of the key; high half: offset of the key in the entry, 20 or 28 |
//! | 4 | length of the value |
//! | 5 | only if there is an older version: an express entry, see below; 0 if none |
//! | 6 | only if there is an older version: how many older versions there are |
//!
//! The key follows, then the value.
//!
//! # Chains
//! A structure refers to the newest version only, the *head*. A key that is overwritten a million times while
//! a snapshot is open makes a chain of a million entries; reading at the snapshot, and stepping backwards,
//! must not walk it. So every eighth version is an *express* entry. Others refer to the nearest older express
//! entry; express entries form a list with jump pointers (Myers, "An applicative random-access stack", 1983),
//! which needs one pointer an entry and finds any version in logarithmic time. Chains shorter than eight, the
//! normal case, never touch another entry for it. A plain list was rejected for its quadratic backward scan.

use crate::arena::Allocator;
use crate::memory::{Memory, View};
use esker_base::{Tag, limits};

/// One operation to insert.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The user key, at most [`limits::MAX_KEY_LEN`] bytes.
    pub key: &'a [u8],
    /// Sequence number and kind; greater than every tag inserted before.
    pub tag: Tag,
    /// The value, at most [`limits::MAX_VALUE_LEN`] bytes; empty for tombstones.
    pub value: &'a [u8],
}

/// Names an entry by its offset in units of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u32);

/// Bytes before the key of an entry that has no older version.
const HEADER_BYTES: usize = 20;
/// Bytes before the key of an entry that has one.
const LONG_HEADER_BYTES: usize = 28;
/// Most bytes an entry takes beyond its key and value, alignment included.
pub(crate) const MAX_OVERHEAD_BYTES: usize = LONG_HEADER_BYTES + crate::arena::UNIT_BYTES - 1;

const LINE_BYTES: u32 = 64;
/// Most prefetched lines after the first two: five adjacent reads start the hardware prefetcher.
const MOST_LINES_BEHIND: u32 = 3;

/// Versions between two express entries.
const EXPRESS_EVERY: u32 = 8;

const OLDER: usize = 2;
const KEY: usize = 3;
const VALUE: usize = 4;
const EXPRESS: usize = 5;
const DEPTH: usize = 6;

impl Entry {
    pub(crate) const NONE: Entry = Entry(0);

    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    fn word(self, field: usize) -> usize {
        self.0 as usize * 2 + field
    }

    #[inline(always)]
    fn header(self, memory: &Memory) -> View<'_, 5> {
        memory.view(self.word(0))
    }

    /// Writes an unpublished entry in front of the chain that starts at `older`.
    #[inline]
    pub(crate) fn write(
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
        older: Entry,
    ) -> Entry {
        let (key, value) = (operation.key, operation.value);
        assert!(key.len() <= limits::MAX_KEY_LEN, "a key of {} bytes", key.len());
        assert!(value.len() <= limits::MAX_VALUE_LEN, "a value of {} bytes", value.len());
        let key_at = if older.is_none() { HEADER_BYTES } else { LONG_HEADER_BYTES };
        let entry = Entry(allocator.entry(key_at + key.len() + value.len()));
        let tag = operation.tag.raw();
        let lengths = [key.len() as u32 | (key_at as u32) << 16, value.len() as u32];
        memory.view(entry.word(0)).init([tag as u32, (tag >> 32) as u32, older.0, lengths[0], lengths[1]]);
        if !older.is_none() {
            let depth = older.depth(memory).saturating_add(1);
            memory.view(entry.word(EXPRESS)).init([express_for(memory, depth, older).0, depth]);
        }
        let at = entry.0 as usize * crate::arena::UNIT_BYTES + key_at;
        // SAFETY: the allocation above covers header, key and value, and the entry is not published.
        unsafe {
            memory.write_bytes(at, key);
            memory.write_bytes(at + key.len(), value);
        }
        entry
    }

    #[inline(always)]
    pub(crate) fn tag(self, memory: &Memory) -> Tag {
        let header = self.header(memory);
        Tag::from_raw(u64::from(header.peek(1)) << 32 | u64::from(header.peek(0)))
    }

    #[inline(always)]
    pub(crate) fn key(self, memory: &Memory) -> &[u8] {
        let (at, len) = self.key_range(memory);
        // SAFETY: `write` wrote these bytes before this entry was published, and entries are immutable.
        unsafe { memory.bytes(at, len) }
    }

    #[inline(always)]
    pub(crate) fn value(self, memory: &Memory) -> &[u8] {
        let (key_at, key_len) = self.key_range(memory);
        let len = self.header(memory).peek(VALUE) as usize;
        // SAFETY: `write` wrote these bytes before this entry was published, and entries are immutable.
        unsafe { memory.bytes(key_at + key_len, len) }
    }

    #[inline(always)]
    pub(crate) fn parts(self, memory: &Memory) -> (&[u8], Tag, &[u8]) {
        (self.key(memory), self.tag(memory), self.value(memory))
    }

    #[inline(always)]
    fn key_range(self, memory: &Memory) -> (usize, usize) {
        let packed = self.header(memory).peek(KEY);
        (self.0 as usize * crate::arena::UNIT_BYTES + (packed >> 16) as usize, (packed & 0xffff) as usize)
    }

    /// The entry that was written after this one.
    #[inline]
    pub(crate) fn following(self, memory: &Memory) -> Entry {
        let (key_at, key_len) = self.key_range(memory);
        let end = key_at + key_len + self.header(memory).peek(VALUE) as usize;
        Entry(end.div_ceil(crate::arena::UNIT_BYTES) as u32)
    }

    /// Prefetches the entry's header and key, and the beginning of its value: two lines.
    #[inline(always)]
    pub(crate) fn prefetch(self, memory: &Memory) {
        memory.prefetch(self.word(0));
    }

    /// Cache lines of such an entry beyond those that [`Entry::prefetch`] loads; a few at most.
    #[inline(always)]
    pub(crate) fn lines_behind(self, memory: &Memory) -> u32 {
        let header = self.header(memory);
        let packed = header.peek(KEY);
        let bytes = (packed >> 16) + (packed & 0xffff) + header.peek(VALUE);
        (bytes / LINE_BYTES).saturating_sub(1).min(MOST_LINES_BEHIND)
    }

    /// Prefetches so many lines behind those that [`Entry::prefetch`] loads.
    #[inline(always)]
    pub(crate) fn prefetch_behind(self, memory: &Memory, lines: u32) {
        for line in 0..lines as usize {
            memory.prefetch_line(self.word(0) + (2 + line) * LINE_BYTES as usize / 4);
        }
    }

    #[inline(always)]
    pub(crate) fn has_key(self, memory: &Memory, key: &[u8]) -> bool {
        equal(self.key(memory), key)
    }

    #[inline(always)]
    pub(crate) fn older(self, memory: &Memory) -> Entry {
        Entry(self.header(memory).peek(OLDER))
    }

    fn depth(self, memory: &Memory) -> u32 {
        if self.older(memory).is_none() { 0 } else { memory.peek(self.word(DEPTH)) }
    }

    /// Some express entry older than this one.
    fn express(self, memory: &Memory) -> Entry {
        if self.older(memory).is_none() { Entry::NONE } else { Entry(memory.peek(self.word(EXPRESS))) }
    }

    fn is_express(self, memory: &Memory) -> bool {
        is_express(self.depth(memory))
    }

    /// The newest version with a tag of at most `limit`, from the head `self` on. O(log versions).
    #[inline]
    pub(crate) fn visible(self, memory: &Memory, limit: Tag) -> Entry {
        if self.is_none() || self.tag(memory) <= limit { self } else { self.visible_in_chain(memory, limit) }
    }

    #[inline(never)]
    fn visible_in_chain(self, memory: &Memory, limit: Tag) -> Entry {
        let mut at = self;
        while !at.is_none() && at.tag(memory) > limit {
            let express = at.express(memory);
            let skips = !express.is_none() && express.tag(memory) > limit;
            at = if skips { express } else { at.older(memory) };
        }
        at
    }

    /// The oldest version of the chain with the head `self`. Logarithmic.
    pub(crate) fn oldest(self, memory: &Memory) -> Entry {
        let mut at = self;
        loop {
            let older = at.older(memory);
            if older.is_none() {
                return at;
            }
            let express = at.express(memory);
            at = if express.is_none() { older } else { express };
        }
    }

    /// The version just newer than `entry` in the chain of head `self`. O(log versions).
    pub(crate) fn just_newer(self, memory: &Memory, entry: Entry) -> Entry {
        let tag = entry.tag(memory);
        let mut at = self;
        loop {
            let express = at.express(memory);
            if !express.is_none() && express.tag(memory) > tag {
                at = express;
                continue;
            }
            let older = at.older(memory);
            if older == entry || older.is_none() {
                return at;
            }
            at = older;
        }
    }
}

/// Whether two keys are equal; short ones without a call.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) =
        (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>())
        && a.len() <= 16
    {
        let first = u64::from_ne_bytes(*a_first) ^ u64::from_ne_bytes(*b_first);
        let last = u64::from_ne_bytes(*a_last) ^ u64::from_ne_bytes(*b_last);
        return first | last == 0;
    }
    a == b
}

fn is_express(depth: u32) -> bool {
    depth > 0 && depth.is_multiple_of(EXPRESS_EVERY)
}

/// The express pointer of a new entry of this depth in front of `older`.
fn express_for(memory: &Memory, depth: u32, older: Entry) -> Entry {
    let last = if older.is_express(memory) { older } else { older.express(memory) };
    if last.is_none() || !is_express(depth) {
        return last;
    }
    // Myers' rule on the list of express entries: two jumps of equal length are joined into one.
    let jump = last.express(memory);
    let second = if jump.is_none() { Entry::NONE } else { jump.express(memory) };
    let rank = |entry: Entry| if entry.is_none() { 0 } else { entry.depth(memory) };
    if rank(last) - rank(jump) == rank(jump) - rank(second) { second } else { last }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, ExpectedUse};
    use esker_base::{SeqNo, ValueKind};

    fn chain(versions: u64) -> (Memory, Entry, Vec<Entry>) {
        let (memory, _) = ArenaPool::new(0).acquire(8 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let mut head = Entry::NONE;
        let mut all = Vec::new();
        for number in 0..versions {
            let tag = Tag::new(SeqNo::new(number * 2 + 1), ValueKind::Put);
            let operation = Operation { key: b"key", tag, value: &number.to_le_bytes() };
            head = Entry::write(&memory, &mut allocator, &operation, head);
            all.push(head);
        }
        (memory, head, all)
    }

    #[test]
    fn every_version_is_found_from_the_head() {
        for versions in [1, 2, 7, 8, 9, 16, 17, 64, 65, if cfg!(miri) { 200 } else { 1000 }] {
            let (memory, head, all) = chain(versions);
            assert_eq!(head.oldest(&memory), all[0]);
            for (number, &entry) in all.iter().enumerate() {
                let number = number as u64;
                for seqno in [number * 2 + 1, number * 2 + 2] {
                    assert_eq!(head.visible(&memory, Tag::visible_at(SeqNo::new(seqno))), entry);
                }
                if entry != head {
                    assert_eq!(head.just_newer(&memory, entry), all[number as usize + 1]);
                }
                assert_eq!(entry.key(&memory), b"key");
                assert_eq!(entry.value(&memory), number.to_le_bytes());
            }
            assert_eq!(head.visible(&memory, Tag::visible_at(SeqNo::ZERO)), Entry::NONE);
        }
    }

    #[test]
    fn a_long_chain_is_searched_in_few_steps() {
        let (memory, head, all) = chain(if cfg!(miri) { 2_500 } else { 50_000 });
        for (number, &entry) in all.iter().enumerate().step_by(997) {
            let limit = Tag::visible_at(SeqNo::new(number as u64 * 2 + 1));
            let (mut at, mut steps) = (head, 0);
            while at.tag(&memory) > limit {
                let express = at.express(&memory);
                let skips = !express.is_none() && express.tag(&memory) > limit;
                at = if skips { express } else { at.older(&memory) };
                steps += 1;
            }
            assert_eq!(at, entry);
            assert!(steps < 100, "{steps} steps to version {number} of {}", all.len());
        }
    }
}
