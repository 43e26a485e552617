//! Block index (fence pointers): finds the block that may hold a key.
//!
//! [`section`] is the stored form, [`tree`] the default form in memory, a search tree; [`form`] gathers those
//! of the other [`IndexKind`]s. A search by heads compares eight bytes of the key after the prefix that all
//! keys of the table share. Only if these equal a separator's are whole keys compared, and not even then if
//! no two separators share a head and none is longer than one.
//!
//! The default is reached without a call: lookups check [`BlockIndex::tree`] first and are compiled around
//! it. The other forms are one call out of line away, in `table_index`, where operations may also read index
//! pages.
//!
//! Internal order matters only if a block continues the versions of a key: then the block to start from
//! depends on the wanted version. Such blocks are listed apart, so that tables without them have no cost.

mod fence;
mod form;
mod kind;
pub(crate) mod locator;
mod open;
pub(crate) mod page_format;
pub(crate) mod page_search;
mod prefix_compressed;
mod reference;
pub(crate) mod section;
pub(crate) mod tree;

use crate::block::raw::bytes_equal;
use crate::simd::{Kernel, prefetch};
use esker_base::Tag;
use esker_base::key::{common_prefix_len, head};
use esker_env::OffHeapSlice;
pub use fence::FenceIndex;
use form::OtherForm;
pub(crate) use kind::TableShape;
pub use kind::{AccessPattern, AdaptiveIndex, IndexKind};
use locator::Locator;
pub(crate) use open::OpenedIndex;
use page_search::PagedIndex;
use section::{Continuation, DecodedIndex, Separators};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;
use tree::SearchTree;

/// The index of a table with at least one block.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    form: Form,
    blocks: usize,
    /// The common prefix of all keys of the table.
    prefix: Vec<u8>,
    /// Whether heads alone decide: see [`heads_decide`].
    heads_decide: bool,
    /// Whether any block continues the key of the one before.
    continues: bool,
    /// Where each block starts and the last one ends; empty if the form stores it.
    starts: OffHeapSlice<u64>,
    /// Empty if the form stores them.
    separators: Separators,
    continuations: Vec<Continuation>,
}

#[derive(Debug)]
enum Form {
    Tree(SearchTree),
    Other(Box<OtherForm>),
}

/// Heads of separators, in order.
///
/// Separators ascend, so heads do; that is enforced if `prefix` is not that of the separators.
fn heads_of(separators: &Separators, prefix: &[u8]) -> Vec<u64> {
    let mut last = 0;
    (0..separators.len())
        .map(|block| {
            let separator = separators.get(block);
            let found = if separator.starts_with(prefix) { head(separator, prefix.len()) } else { 0 };
            last = found.max(last);
            last
        })
        .collect()
}

/// Whether heads alone tell the last separator that is at most a key. They do if they ascend strictly and no
/// separator but the first, which is empty, is longer than prefix and head or ends with a zero byte: then a
/// separator with the head of a key is a prefix of the key, without padding that the key does not have.
fn heads_decide(separators: &Separators, prefix: &[u8], heads: &[u64]) -> bool {
    heads.windows(2).all(|pair| pair[0] < pair[1])
        && (1..separators.len()).all(|block| {
            let separator = separators.get(block);
            let fits = separator.len() <= prefix.len() + size_of::<u64>();
            fits && separator.starts_with(prefix) && separator.last() != Some(&0)
        })
}

impl BlockIndex {
    /// The index of a table with keys from `min_key` to `max_key`, in a non-adaptive form; `None` without
    /// blocks.
    pub(crate) fn new(
        decoded: DecodedIndex,
        min_key: &[u8],
        max_key: &[u8],
        kind: IndexKind,
    ) -> Option<BlockIndex> {
        let DecodedIndex { separators, starts, continuations } = decoded;
        let blocks = separators.len();
        if blocks == 0 {
            return None;
        }
        let prefix = &min_key[..common_prefix_len(min_key, max_key)];
        let heads = heads_of(&separators, prefix);
        let mut index = BlockIndex {
            heads_decide: heads_decide(&separators, prefix, &heads),
            form: match OtherForm::new(kind, &heads, &separators, &starts) {
                Some(form) => Form::Other(Box::new(form)),
                None => Form::Tree(SearchTree::new(&heads)),
            },
            blocks,
            continues: !continuations.is_empty(),
            prefix: prefix.to_vec(),
            starts,
            separators,
            continuations,
        };
        if matches!(&index.form, Form::Other(form) if form.has_separators()) {
            (index.separators, index.starts) = (Separators::default(), OffHeapSlice::default());
        }
        Some(index)
    }

    /// An index of pages, with nothing in memory.
    pub(crate) fn of_pages(pages: PagedIndex) -> BlockIndex {
        BlockIndex {
            blocks: pages.blocks(),
            continues: pages.continues(),
            form: Form::Other(Box::new(OtherForm::Pages(pages))),
            prefix: Vec::new(),
            heads_decide: false,
            starts: OffHeapSlice::default(),
            separators: Separators::default(),
            continuations: Vec::new(),
        }
    }

    pub(crate) fn with_locator(mut self, locator: Locator) -> BlockIndex {
        if let Form::Tree(tree) = self.form {
            self.form = Form::Other(Box::new(OtherForm::Located { locator, tree }));
        }
        self
    }

    #[inline]
    pub(crate) fn locator(&self) -> Option<&Locator> {
        match &self.form {
            Form::Other(form) => match &**form {
                OtherForm::Located { locator, .. } => Some(locator),
                _ => None,
            },
            Form::Tree(_) => None,
        }
    }

    #[inline]
    pub(crate) fn pages(&self) -> Option<&PagedIndex> {
        match &self.form {
            Form::Other(form) => match &**form {
                OtherForm::Pages(pages) => Some(pages),
                _ => None,
            },
            Form::Tree(_) => None,
        }
    }

    pub(crate) fn kind(&self) -> IndexKind {
        match &self.form {
            Form::Tree(_) => IndexKind::STree,
            Form::Other(form) => form.kind(),
        }
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    #[inline]
    pub(crate) fn place(&self, block: usize) -> Range<u64> {
        match self.starts.get(block..block + 2) {
            Some(borders) => borders[0]..borders[1],
            None => self.place_in_form(block),
        }
    }

    /// Prefetches what [`BlockIndex::place`] reads, if the form does not store it.
    pub(crate) fn prefetch_place(&self, block: usize) {
        prefetch(self.starts.as_ptr().wrapping_add(block).cast());
    }

    #[cold]
    fn place_in_form(&self, block: usize) -> Range<u64> {
        match &self.form {
            Form::Other(form) => form.place(block),
            // A tree has all starts beside it.
            Form::Tree(_) => 0..0,
        }
    }

    /// The separator of a block, which bounds its keys from below.
    pub(crate) fn separator(&self, block: usize) -> Cow<'_, [u8]> {
        match &self.form {
            Form::Other(form) if form.has_separators() => Cow::Owned(form.separator(block)),
            _ => Cow::Borrowed(self.separators.get(block)),
        }
    }

    fn compare_separator(&self, block: usize, key: &[u8]) -> std::cmp::Ordering {
        match &self.form {
            Form::Other(form) if form.has_separators() => form.compare_separator(block, key),
            _ => self.separators.get(block).cmp(key),
        }
    }

    /// The search tree, if that is the form: for searches compiled around it, of one key or several at once.
    #[inline(always)]
    pub(crate) fn tree(&self) -> Option<&SearchTree> {
        match &self.form {
            Form::Tree(tree) => Some(tree),
            Form::Other(_) => None,
        }
    }

    /// The head to search for; keys outside of the table's prefix get the least or the greatest.
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

    /// The block in which a search for the version `newest` of `key` starts: the first entry that is not
    /// before it is in this block, or is the first one of the next.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn locate<K: Kernel>(&self, key: &[u8], newest: Tag) -> usize {
        // SAFETY: the caller has the instructions.
        unsafe { self.locate_near::<K>(key, newest, |_| ()) }
    }

    /// As [`BlockIndex::locate`]. A tree calls `near` before the last step, which waits for memory, with the
    /// first of the [`NODE_KEYS`](crate::simd::NODE_KEYS) candidate blocks.
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
        let Form::Tree(tree) = &self.form else { return self.locate_general(key, newest) };
        let head = self.head_of(key);
        // SAFETY: the caller has the instructions.
        unsafe {
            let place = tree.find_near::<K>(head, near);
            self.place_to_block::<K>(tree, place, head, key, newest)
        }
    }

    /// [`BlockIndex::locate`] for all forms in memory but the tree.
    #[inline(never)]
    fn locate_general(&self, key: &[u8], newest: Tag) -> usize {
        let Form::Other(form) = &self.form else { return 0 };
        let head = self.head_of(key);
        let block = match form.find_head(head) {
            Some((place, found)) if !self.heads_decide && found == Some(head) => {
                let less = || head.checked_sub(1).and_then(|less| form.find_head(less));
                self.break_tie(place, key, || less().map_or(0, |(place, _)| place))
            }
            // A head that decides, or is less than the key's, is that of the block.
            Some((place, _)) => place,
            None => form.find_key(&self.separators, key),
        };
        if self.continuations.is_empty() { block } else { self.before_versions(block, key, newest) }
    }

    /// The head of a key, if it alone decides in which block a seek to any version of the key starts.
    #[inline(always)]
    pub(crate) fn deciding_head(&self, key: &[u8]) -> Option<u64> {
        (self.heads_decide && self.continuations.is_empty()).then(|| self.head_of(key))
    }

    /// The block for the place that the tree found for `head`, by whole keys and versions where needed.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn place_to_block<K: Kernel>(
        &self,
        tree: &SearchTree,
        place: usize,
        head: u64,
        key: &[u8],
        newest: Tag,
    ) -> usize {
        let mut block = place;
        if !self.heads_decide && tree.head(place) == head {
            // SAFETY: the caller has the instructions.
            let first = || if head == 0 { 0 } else { unsafe { tree.find::<K>(head - 1) } };
            block = self.break_tie(place, key, first);
        }
        if !self.continuations.is_empty() {
            block = self.before_versions(block, key, newest);
        }
        block
    }

    /// The last block up to `to` whose separator is at most `key`; that of block `from()` is, or it is the
    /// first block.
    #[inline(never)]
    fn break_tie(&self, to: usize, key: &[u8], from: impl FnOnce() -> usize) -> usize {
        if self.separators.get(to) <= key {
            return to;
        }
        let (mut from, mut to) = (from(), to);
        while to > from + 1 {
            let middle = (from + to) / 2;
            if self.separators.get(middle) <= key { from = middle } else { to = middle }
        }
        from
    }

    /// `block` is the last one whose separator is at most `key`. If it continues the key with versions older
    /// than the wanted one, the search starts in an earlier block.
    #[inline(never)]
    fn before_versions(&self, block: usize, key: &[u8], newest: Tag) -> usize {
        let at = self.continuations.partition_point(|continuation| {
            let order = self.compare_separator(continuation.block as usize, key);
            order.then(Reverse(continuation.tag).cmp(&Reverse(newest))).is_lt()
        });
        match self.continuations.get(at) {
            Some(next) if self.compare_separator(next.block as usize, key).is_eq() => next.block as usize - 1,
            _ => block,
        }
    }

    /// Whether the block behind `block` starts with an older version of `key`.
    #[inline(always)]
    pub(crate) fn continues_after(&self, block: usize, key: &[u8]) -> bool {
        !self.continuations.is_empty() && self.is_continuation(block + 1, key)
    }

    #[inline(always)]
    pub(crate) fn continues(&self) -> bool {
        self.continues
    }

    #[inline(never)]
    fn is_continuation(&self, block: usize, key: &[u8]) -> bool {
        self.continued_at(block).is_some() && self.compare_separator(block, key).is_eq()
    }

    /// The tag of the first entry of a block that continues the key of the one before.
    pub(crate) fn continued_at(&self, block: usize) -> Option<Tag> {
        let at = self
            .continuations
            .binary_search_by_key(&block, |continuation| continuation.block as usize)
            .ok()?;
        Some(self.continuations[at].tag)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let form = match &self.form {
            Form::Tree(tree) => tree.memory_bytes(),
            Form::Other(form) => size_of::<OtherForm>() + form.memory_bytes(),
        };
        form + self.prefix.capacity()
            + self.starts.len() * size_of::<u64>()
            + self.separators.memory_bytes()
            + self.continuations.capacity() * size_of::<Continuation>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{InstructionSet, Portable};
    use crate::testing::{SHAPES, Shape, TestEntry, entries, key_of};
    use esker_base::SeqNo;
    use esker_env::SeededRandom;
    use section::IndexEncoder;

    /// Cuts entries into blocks of one to eight; returns the index and where blocks start.
    fn cut(entries: &[TestEntry], random: &SeededRandom) -> (Vec<u8>, Vec<usize>) {
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
        (encoder.finish(), starts)
    }

    fn forms(section: &[u8], entries: &[TestEntry]) -> Vec<BlockIndex> {
        let blocks = DecodedIndex::count(section).unwrap();
        let (first, last) = (&entries[0].key, &entries[entries.len() - 1].key);
        let form = |kind| {
            let decoded = DecodedIndex::decode(section, 0, blocks).unwrap();
            BlockIndex::new(decoded, first, last, kind).unwrap()
        };
        let fixed = IndexKind::IN_MEMORY.into_iter();
        let forms: Vec<BlockIndex> = fixed.clone().map(form).collect();
        assert!(forms.iter().map(BlockIndex::kind).eq(fixed), "each kind is used where it is requested");
        forms
    }

    fn check<K: Kernel>(
        index: &BlockIndex,
        starts: &[usize],
        entries: &[TestEntry],
        key: &[u8],
        newest: Tag,
    ) {
        // SAFETY: the callers ask for kernels of this machine only.
        let block = unsafe { index.locate::<K>(key, newest) };
        let wanted = entries.partition_point(|entry| entry.order() < (key, Reverse(newest)));
        let end = starts.get(block + 1).copied().unwrap_or(entries.len());
        assert!(
            (starts[block]..=end).contains(&wanted),
            "key {} is entry {wanted}, not in block {block}",
            key.escape_ascii()
        );
        // If it starts the next block and has this key, that block must be marked as a continuation.
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
                let (section, starts) = cut(&entries, &random);
                let forms = forms(&section, &entries);
                for index in &forms {
                    assert_eq!(index.blocks(), starts.len());
                    assert!(
                        (0..starts.len()).all(|block| index.place(block) == (block as u64..block as u64 + 1))
                    );
                    assert!(
                        (0..starts.len()).all(|block| index.separator(block) == forms[0].separator(block))
                    );
                }
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
                    for index in &forms {
                        check::<Portable>(index, &starts, &entries, &key, newest);
                        #[cfg(target_arch = "x86_64")]
                        if InstructionSet::detect() == InstructionSet::Avx512 {
                            check::<crate::simd::Avx512>(index, &starts, &entries, &key, newest);
                        }
                    }
                }
            }
        }
    }
}
