//! The block index: which block may hold a key.
//!
//! [`section`] is how it is stored, [`tree`] how it is searched in memory. A search compares eight bytes of the key
//! behind what all keys of the table have in common; only if these equal a separator's are whole keys compared.
//!
//! Internal order matters in one case only: if a block continues the versions of a key, the block to start from
//! depends on the version wanted. Such blocks are listed apart, so that tables without them pay nothing.

pub(crate) mod section;
pub(crate) mod tree;

use crate::block::raw::bytes_equal;
use crate::isa::Kernel;
use esker_base::Tag;
use esker_base::key::{common_prefix_len, head};
use section::{Continuation, DecodedIndex, Separators};
use std::cmp::Reverse;
use std::ops::Range;
use tree::HeadTree;

/// The index of one table with at least one block.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    tree: HeadTree,
    /// What all keys of the table start with.
    prefix: Vec<u8>,
    starts: Vec<u64>,
    separators: Separators,
    continuations: Vec<Continuation>,
}

impl BlockIndex {
    /// The index of a table whose keys lie between `min_key` and `max_key`; `None` without blocks.
    pub(crate) fn new(decoded: DecodedIndex, min_key: &[u8], max_key: &[u8]) -> Option<BlockIndex> {
        let DecodedIndex { separators, starts, continuations } = decoded;
        if separators.len() == 0 {
            return None;
        }
        let prefix = &min_key[..common_prefix_len(min_key, max_key)];
        let mut last = 0;
        let heads: Vec<u64> = (0..separators.len())
            .map(|block| {
                let separator = separators.get(block);
                let found = if separator.starts_with(prefix) { head(separator, prefix.len()) } else { 0 };
                // Separators ascend, so heads do; this keeps it so if the prefix is not that of the separators.
                last = found.max(last);
                last
            })
            .collect();
        let tree = HeadTree::new(&heads);
        Some(BlockIndex { tree, prefix: prefix.to_vec(), starts, separators, continuations })
    }

    /// Number of blocks.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        self.tree.len()
    }

    /// Where a block lies in the file.
    #[inline(always)]
    pub(crate) fn place(&self, block: usize) -> Range<u64> {
        self.starts[block]..self.starts[block + 1]
    }

    /// Where a block starts in the file.
    #[inline(always)]
    pub(crate) fn start(&self, block: usize) -> u64 {
        self.starts[block]
    }

    /// Where a block starts in the file, or where the last one ends.
    pub(crate) fn start_or_end(&self, block: usize) -> u64 {
        self.starts[block]
    }

    /// Number of blocks that end at `offset` or before.
    pub(crate) fn blocks_before(&self, offset: u64) -> usize {
        self.starts.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    /// The key that bounds a block from below.
    pub(crate) fn separator(&self, block: usize) -> &[u8] {
        self.separators.get(block)
    }

    /// The tree, for descents of several keys at once.
    #[inline(always)]
    pub(crate) fn tree(&self) -> &HeadTree {
        &self.tree
    }

    /// The head to search the tree for; keys outside of the table's prefix get the least or the greatest.
    #[inline(always)]
    pub(crate) fn head_of(&self, key: &[u8]) -> u64 {
        match key.get(..self.prefix.len()) {
            Some(front) if bytes_equal(front, &self.prefix) => head(key, self.prefix.len()),
            _ => self.head_outside(key),
        }
    }

    #[cold]
    fn head_outside(&self, key: &[u8]) -> u64 {
        if key < &self.prefix[..] { 0 } else { u64::MAX }
    }

    /// The block in which a search for the version `newest` of `key` starts: the first entry that is not before it is
    /// in this block, or is the first one of the next.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn locate<K: Kernel>(&self, key: &[u8], newest: Tag) -> usize {
        // SAFETY: the caller has the instructions.
        unsafe { self.locate_near::<K>(key, newest, |_| ()) }
    }

    /// As [`BlockIndex::locate`]. Before the last step, which waits for memory, calls `near` with the first of the
    /// [`NODE_KEYS`](crate::isa::NODE_KEYS) blocks that come into question.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn locate_near<K: Kernel>(
        &self,
        key: &[u8],
        newest: Tag,
        near: impl FnOnce(usize),
    ) -> usize {
        let head = self.head_of(key);
        // SAFETY: the caller has the instructions.
        unsafe {
            let place = self.tree.find_near::<K>(head, near);
            self.settle::<K>(place, head, key, newest)
        }
    }

    /// Turns the place that the tree found for `head` into the block, by whole keys and versions where needed.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn settle<K: Kernel>(&self, place: usize, head: u64, key: &[u8], newest: Tag) -> usize {
        let mut block = place;
        if self.tree.head(place) == head {
            // SAFETY: the caller has the instructions.
            let from = if head == 0 { 0 } else { unsafe { self.tree.find::<K>(head - 1) } };
            block = self.break_tie(from, place, key);
        }
        if !self.continuations.is_empty() {
            block = self.before_versions(block, key, newest);
        }
        block
    }

    /// The last block in `from..=to` whose separator is at most `key`; that of `from` is, or it is the first block.
    #[inline(never)]
    fn break_tie(&self, from: usize, to: usize, key: &[u8]) -> usize {
        let (mut from, mut to) = (from, to + 1);
        while to - from > 1 {
            let middle = (from + to) / 2;
            if self.separators.get(middle) <= key { from = middle } else { to = middle }
        }
        from
    }

    /// `block` is the last one whose separator is at most `key`. If it continues the key with versions older than the
    /// one wanted, an earlier block is the one to start from.
    #[inline(never)]
    fn before_versions(&self, block: usize, key: &[u8], newest: Tag) -> usize {
        let at = self.continuations.partition_point(|continuation| {
            let separator = self.separators.get(continuation.block as usize);
            (separator, Reverse(continuation.tag)) < (key, Reverse(newest))
        });
        match self.continuations.get(at) {
            Some(next) if self.separators.get(next.block as usize) == key => next.block as usize - 1,
            _ => block,
        }
    }

    /// Whether the block behind `block` starts with an older version of `key`.
    #[inline(always)]
    pub(crate) fn continues_after(&self, block: usize, key: &[u8]) -> bool {
        !self.continuations.is_empty() && self.is_continuation(block + 1, key)
    }

    #[inline(never)]
    fn is_continuation(&self, block: usize, key: &[u8]) -> bool {
        self.continuations.binary_search_by_key(&block, |continuation| continuation.block as usize).is_ok()
            && self.separators.get(block) == key
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes()
            + self.prefix.capacity()
            + self.starts.capacity() * size_of::<u64>()
            + self.separators.memory_bytes()
            + self.continuations.capacity() * size_of::<Continuation>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Isa, Portable};
    use crate::testing::{Entry, SHAPES, Shape, entries, key_of};
    use esker_base::SeqNo;
    use esker_env::SeededRandom;
    use section::IndexEncoder;

    /// Cuts entries into blocks of one to eight and gives the index and where blocks start.
    fn cut(entries: &[Entry], random: &SeededRandom) -> (BlockIndex, Vec<usize>) {
        let mut encoder = IndexEncoder::default();
        let mut starts = vec![0];
        encoder.add(b"", None, 1);
        for (at, pair) in entries.windows(2).enumerate() {
            if random.below(8) == 0 || at - starts[starts.len() - 1] == 7 {
                starts.push(at + 1);
                let same = pair[0].key == pair[1].key;
                let key =
                    if same { &pair[1].key[..] } else { section::separator(&pair[0].key, &pair[1].key) };
                encoder.add(key, same.then_some(pair[1].tag), 1);
            }
        }
        let blocks = u64::from(encoder.blocks());
        let decoded = DecodedIndex::decode(&encoder.finish(), 0, blocks).unwrap();
        let (first, last) = (&entries[0].key, &entries[entries.len() - 1].key);
        (BlockIndex::new(decoded, first, last).unwrap(), starts)
    }

    fn check<K: Kernel>(index: &BlockIndex, starts: &[usize], entries: &[Entry], key: &[u8], newest: Tag) {
        // SAFETY: the callers ask for kernels of this machine only.
        let block = unsafe { index.locate::<K>(key, newest) };
        let wanted = entries.partition_point(|entry| entry.order() < (key, Reverse(newest)));
        let end = starts.get(block + 1).copied().unwrap_or(entries.len());
        assert!(
            (starts[block]..=end).contains(&wanted),
            "key {} is entry {wanted}, not in block {block}",
            key.escape_ascii()
        );
        // If it is the first entry of the next block and has this key, that block must be marked as a continuation.
        if wanted == end && entries.get(end).is_some_and(|entry| entry.key == key) {
            assert!(index.continues_after(block, key));
        }
    }

    #[test]
    fn blocks_are_where_the_index_says() {
        for (number, shape) in SHAPES.into_iter().enumerate() {
            for (count, seqnos) in [(1, 0), (30, 40), (3_000, 100)] {
                let count = if shape == Shape::Giant { count.min(60) } else { count };
                let seed = 31 * number as u64 + count as u64;
                println!("{shape:?}, {count} entries, seed {seed}");
                let random = SeededRandom::new(seed);
                let entries = entries(shape, count, seqnos, &random);
                let (index, starts) = cut(&entries, &random);
                assert_eq!(index.blocks(), starts.len());
                for round in 0..2_000u64 {
                    let entry = &entries[random.below(entries.len() as u64) as usize];
                    let key = match round % 4 {
                        0 => key_of(shape, count as u64, &random),
                        1 => [vec![], vec![0xff; 20], b"user".to_vec()][random.below(3) as usize].clone(),
                        _ => entry.key.clone(),
                    };
                    let newest = match round % 3 {
                        0 => Tag::visible_at(SeqNo::MAX),
                        1 => entry.tag,
                        _ => Tag::visible_at(SeqNo::new(random.below(110))),
                    };
                    check::<Portable>(&index, &starts, &entries, &key, newest);
                    #[cfg(target_arch = "x86_64")]
                    if Isa::detect() == Isa::Avx512 {
                        check::<crate::isa::Avx512>(&index, &starts, &entries, &key, newest);
                    }
                }
            }
        }
    }
}
