//! A block index without a table: for experiments and benchmarks of its forms.

use super::section::{DecodedIndex, Separators};
use super::{BlockIndex, IndexKind, TableShape};
use crate::isa::{Isa, with_kernel};
use esker_base::{Error, Result, Tag};

/// An index over sorted keys, as tables have over their blocks: the keys are the *fences*, the least keys of successive
/// blocks, and a search answers the block that a key falls into.
///
/// ```
/// use esker_sst::{FenceIndex, IndexKind};
///
/// for kind in IndexKind::ALL {
///     let index = FenceIndex::new(kind, [&b"apple"[..], b"kiwi", b"plum"])?;
///     assert_eq!((index.find(b"lemon"), index.find(b"kiwi"), index.find(b"a")), (1, 1, 0));
/// }
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Debug)]
pub struct FenceIndex {
    index: BlockIndex,
    isa: Isa,
}

impl FenceIndex {
    /// An index of this kind over `fences`, which must ascend. An adaptive kind chooses as for a table of level 0.
    ///
    /// Takes memory for the fences and for the form, in one pass: O(n).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are no fences, if they do not ascend, or if they have more than 4 GiB.
    pub fn new<'a>(kind: IndexKind, fences: impl IntoIterator<Item = &'a [u8]>) -> Result<FenceIndex> {
        let mut separators = Separators::default();
        for fence in fences {
            let last = separators.len().checked_sub(1).map(|last| separators.get(last));
            if last.is_some_and(|last| last >= fence) {
                return Err(Error::invalid(format!("fence {} does not ascend", fence.escape_ascii())));
            }
            let added = separators.push(0, fence);
            added.ok_or_else(|| Error::invalid("the fences have more than 4 GiB"))?;
        }
        // Every block as large as blocks are by default; where it would lie is of interest for its size alone.
        let starts = (0..=separators.len() as u64).map(|block| block * 4096).collect();
        let (first, last) = match separators.len() {
            0 => return Err(Error::invalid("an index needs a fence")),
            count => (separators.get(0).to_vec(), separators.get(count - 1).to_vec()),
        };
        let shape = TableShape::of(&separators, 0);
        let decoded = DecodedIndex { separators, starts, continuations: Vec::new() };
        let index = BlockIndex::new(decoded, &first, &last, kind.for_table(&shape).0);
        let index = index.ok_or_else(|| Error::internal("an index of fences has blocks"))?;
        Ok(FenceIndex { index, isa: Isa::detect() })
    }

    /// The number of the last fence that is at most `key`; 0 if none is. O(log n), without an allocation.
    #[inline]
    pub fn find(&self, key: &[u8]) -> usize {
        with_kernel!(
            self.isa,
            |K| (index: &BlockIndex, key: &[u8]) -> usize {
                // SAFETY: compiled once for each kernel, and called for the one that exists.
                unsafe { index.locate::<K>(key, Tag::NEWEST) }
            }
            (&self.index, key)
        )
    }

    /// The numbers of the blocks that keys from `from` on and below `to` may lie in; at least one.
    #[inline]
    pub fn find_range(&self, from: &[u8], to: &[u8]) -> std::ops::RangeInclusive<usize> {
        let first = self.find(from);
        first..=self.find(to).max(first)
    }

    /// Number of fences; at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is always a fence")]
    pub fn len(&self) -> usize {
        self.index.blocks()
    }

    /// The kind that is used: what an adaptive one chose.
    pub fn kind(&self) -> IndexKind {
        self.index.kind()
    }

    /// Bytes of memory that the index takes, fences and the places of blocks included.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
    }
}
