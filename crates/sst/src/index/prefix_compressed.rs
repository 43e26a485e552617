//! Prefix-compressed index: separators as differences from their predecessors, with block offsets among them.
//!
//! Source: the prefix compression of LevelDB's blocks, used for fence pointers as the CS265 report proposes
//! (its 2.3.2, which names a saving of 30 to 70 % of the memory). Every sixteenth separator is a *restart
//! point*: whole, with its position and block offset in an array. A search is a binary search over restart
//! points and a walk over up to sixteen entries, which compares each without assembling its key. A block's
//! offset is the sum of spans from the restart point on, computed only when the block is read.
//!
//! Cost: 12 bytes for sixteen blocks, and for each block its separator's own bytes and three varints, mostly
//! of a byte.

use esker_base::coding::{get_varint, put_varint};
use esker_base::key::common_prefix_len;
use std::cmp::Ordering;
use std::ops::Range;

/// Entries from one restart point to the next.
const INTERVAL: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct PrefixCompressed {
    /// For each block: shared bytes with the previous separator, number of other bytes, these, span.
    entries: Vec<u8>,
    restarts: Vec<Restart>,
    /// Where the last block ends.
    end: u64,
}

/// Twelve bytes: the start is stored in two halves to avoid padding.
#[derive(Clone, Copy, Debug)]
struct Restart {
    at: u32,
    start_low: u32,
    start_high: u32,
}

impl Restart {
    fn start(self) -> u64 {
        u64::from(self.start_high) << 32 | u64::from(self.start_low)
    }
}

struct SeparatorEntry<'a> {
    shared: usize,
    own: &'a [u8],
    span: u64,
}

impl PrefixCompressed {
    /// Compresses the separators that `separator` returns, for blocks that start at `starts`, whose last
    /// element is the end of the last block. `None` if they take more than 4 GiB.
    pub(crate) fn new<'a>(separator: impl Fn(usize) -> &'a [u8], starts: &[u64]) -> Option<PrefixCompressed> {
        let blocks = starts.len() - 1;
        let mut compressed = PrefixCompressed { end: starts[blocks], ..PrefixCompressed::default() };
        compressed.restarts.reserve_exact(blocks.div_ceil(INTERVAL));
        let mut before: &[u8] = &[];
        for block in 0..blocks {
            let this = separator(block);
            if block % INTERVAL == 0 {
                let (at, start) = (u32::try_from(compressed.entries.len()).ok()?, starts[block]);
                let (start_low, start_high) = (start as u32, (start >> 32) as u32);
                compressed.restarts.push(Restart { at, start_low, start_high });
                before = &[];
            }
            let shared = common_prefix_len(before, this);
            put_varint(&mut compressed.entries, shared as u64);
            put_varint(&mut compressed.entries, (this.len() - shared) as u64);
            compressed.entries.extend_from_slice(&this[shared..]);
            put_varint(&mut compressed.entries, starts[block + 1] - starts[block]);
            before = this;
        }
        compressed.entries.shrink_to_fit();
        Some(compressed)
    }

    /// The entries from restart point `group` on, to the next one or the end.
    fn group(&self, group: usize) -> SeparatorEntries<'_> {
        let from = self.restarts.get(group).map_or(self.entries.len(), |restart| restart.at as usize);
        let to = self.restarts.get(group + 1).map_or(self.entries.len(), |restart| restart.at as usize);
        SeparatorEntries { bytes: &self.entries[from..to] }
    }

    /// The last block whose separator is at most `key`; 0 if none is.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        let whole = |group: usize| self.group(group).next().map_or(&[][..], |entry| entry.own);
        let (mut from, mut to) = (0, self.restarts.len());
        while to - from > 1 {
            let middle = (from + to) / 2;
            if whole(middle) <= key { from = middle } else { to = middle }
        }
        let mut comparison = Comparison::new(key);
        let not_greater = |entry: &SeparatorEntry<'_>| comparison.next(entry) != Ordering::Greater;
        let passed = self.group(from).take_while(not_greater).count();
        from * INTERVAL + passed.saturating_sub(1)
    }

    /// How the separator of a block compares with `key`.
    pub(crate) fn compare(&self, block: usize, key: &[u8]) -> Ordering {
        let mut comparison = Comparison::new(key);
        let entries = self.group(block / INTERVAL).take(block % INTERVAL + 1);
        entries.fold(Ordering::Less, |_, entry| comparison.next(&entry))
    }

    pub(crate) fn separator(&self, block: usize) -> Vec<u8> {
        let mut separator = Vec::new();
        for entry in self.group(block / INTERVAL).take(block % INTERVAL + 1) {
            separator.truncate(entry.shared);
            separator.extend_from_slice(entry.own);
        }
        separator
    }

    pub(crate) fn place(&self, block: usize) -> Range<u64> {
        let Some(restart) = self.restarts.get(block / INTERVAL) else { return self.end..self.end };
        let mut entries = self.group(block / INTERVAL);
        let start =
            restart.start() + entries.by_ref().take(block % INTERVAL).map(|entry| entry.span).sum::<u64>();
        start..start + entries.next().map_or(0, |entry| entry.span)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() + self.restarts.capacity() * size_of::<Restart>()
    }
}

struct SeparatorEntries<'a> {
    bytes: &'a [u8],
}

impl SeparatorEntries<'_> {
    #[inline(always)]
    fn varint(&mut self) -> Option<u64> {
        let (&first, rest) = self.bytes.split_first()?;
        if first < 0x80 {
            self.bytes = rest;
            return Some(u64::from(first));
        }
        let (value, len) = get_varint(self.bytes)?;
        self.bytes = self.bytes.get(len..)?;
        Some(value)
    }
}

impl<'a> Iterator for SeparatorEntries<'a> {
    type Item = SeparatorEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<SeparatorEntry<'a>> {
        // The entries were encoded here: they always decode.
        let shared = self.varint()? as usize;
        let own_len = self.varint()? as usize;
        let (own, rest) = self.bytes.split_at_checked(own_len)?;
        self.bytes = rest;
        Some(SeparatorEntry { shared, own, span: self.varint()? })
    }
}

/// Compares successive entries of a group with a key, each by what it does not share with the one before.
struct Comparison<'a> {
    key: &'a [u8],
    /// Length of the common prefix of the entry before and the key, and how the two compare.
    matched: usize,
    order: Ordering,
}

impl<'a> Comparison<'a> {
    fn new(key: &'a [u8]) -> Comparison<'a> {
        Comparison { key, matched: 0, order: Ordering::Less }
    }

    #[inline]
    fn next(&mut self, entry: &SeparatorEntry<'_>) -> Ordering {
        // The byte that decided the previous comparison is shared, so it decides again.
        if entry.shared <= self.matched {
            let rest = &self.key[entry.shared..];
            let matched = common_prefix_len(entry.own, rest);
            self.order = entry.own[matched..].cmp(&rest[matched..]);
            self.matched = entry.shared + matched;
        }
        self.order
    }
}
