//! The forms of the block index other than the default search tree, behind one enum.

use super::prefix_compressed::PrefixCompressed;

use super::kind::IndexKind;
use super::locator::Locator;
use super::page_search::PagedIndex;
use super::reference::eytzinger::Eytzinger;
use super::reference::fast_lane::FastLane;
use super::reference::sorted_array;
use super::section::Separators;
use super::tree::SearchTree;
use std::cmp::Ordering;
use std::ops::Range;

/// An index form that is no plain search tree.
#[derive(Debug)]
pub(crate) enum OtherForm {
    /// See [`super::reference::sorted_array`].
    SortedArray,
    /// See [`super::prefix_compressed`].
    PrefixCompressed(PrefixCompressed),
    /// See [`super::reference::eytzinger`].
    Eytzinger(Eytzinger),
    /// See [`super::reference::fast_lane`].
    FastLane(FastLane),
    /// See [`super::page_format`]. Its operations are in [`crate::table_index`], because they may read pages.
    Pages(PagedIndex),
    /// See [`super::locator`]; the tree serves everything but lookups of keys.
    Located { locator: Locator, tree: SearchTree },
}

impl OtherForm {
    /// The form over separators with these heads, for blocks at `starts`. `None` for the search tree.
    pub(crate) fn new(
        kind: IndexKind,
        heads: &[u64],
        separators: &Separators,
        starts: &[u64],
    ) -> Option<OtherForm> {
        match kind {
            // Pages and locators are added from their own sections.
            IndexKind::STree | IndexKind::Adaptive(_) | IndexKind::BTreePages | IndexKind::HashLocator => {
                None
            }
            IndexKind::SortedArray => Some(OtherForm::SortedArray),
            IndexKind::PrefixCompressed => {
                // Separators that exceed its 32-bit offsets stay uncompressed.
                let compressed = PrefixCompressed::new(|block| separators.get(block), starts);
                Some(compressed.map_or(OtherForm::SortedArray, OtherForm::PrefixCompressed))
            }
            IndexKind::Eytzinger => Some(OtherForm::Eytzinger(Eytzinger::new(heads))),
            IndexKind::FastLane => Some(OtherForm::FastLane(FastLane::new(heads))),
        }
    }

    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            OtherForm::SortedArray => IndexKind::SortedArray,
            OtherForm::PrefixCompressed(_) => IndexKind::PrefixCompressed,
            OtherForm::Eytzinger(_) => IndexKind::Eytzinger,
            OtherForm::FastLane(_) => IndexKind::FastLane,
            OtherForm::Pages(_) => IndexKind::BTreePages,
            OtherForm::Located { .. } => IndexKind::HashLocator,
        }
    }

    /// The place of the last head at most `wanted`, and that head; else place 0. `None` without heads.
    #[inline]
    pub(crate) fn find_head(&self, wanted: u64) -> Option<(usize, Option<u64>)> {
        match self {
            OtherForm::Eytzinger(eytzinger) => Some(eytzinger.find(wanted)),
            OtherForm::FastLane(lanes) => Some(lanes.find(wanted)),
            OtherForm::Located { tree, .. } => {
                let place = tree.find_detected(wanted);
                Some((place, Some(tree.head(place)).filter(|&head| head <= wanted)))
            }
            OtherForm::SortedArray | OtherForm::PrefixCompressed(_) | OtherForm::Pages(_) => None,
        }
    }

    /// The last block whose separator is at most `key`; 0 if none is. For forms without heads.
    pub(crate) fn find_key(&self, separators: &Separators, key: &[u8]) -> usize {
        match self {
            OtherForm::PrefixCompressed(compressed) => compressed.find(key),
            _ => sorted_array::find(separators, key),
        }
    }

    pub(crate) fn has_separators(&self) -> bool {
        matches!(self, OtherForm::PrefixCompressed(_))
    }

    /// The separator of a block, if the form stores it.
    pub(crate) fn separator(&self, block: usize) -> Vec<u8> {
        match self {
            OtherForm::PrefixCompressed(compressed) => compressed.separator(block),
            _ => Vec::new(),
        }
    }

    /// How the separator of a block compares with `key`, if the form stores it.
    pub(crate) fn compare_separator(&self, block: usize, key: &[u8]) -> Ordering {
        match self {
            OtherForm::PrefixCompressed(compressed) => compressed.compare(block, key),
            _ => Ordering::Less,
        }
    }

    /// Where a block lies in the file, if the form stores it.
    pub(crate) fn place(&self, block: usize) -> Range<u64> {
        match self {
            OtherForm::PrefixCompressed(compressed) => compressed.place(block),
            _ => 0..0,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            OtherForm::SortedArray => 0,
            OtherForm::PrefixCompressed(compressed) => compressed.memory_bytes(),
            OtherForm::Eytzinger(eytzinger) => eytzinger.memory_bytes(),
            OtherForm::FastLane(lanes) => lanes.memory_bytes(),
            OtherForm::Pages(_) => 0,
            OtherForm::Located { locator, tree } => locator.memory_bytes() + tree.memory_bytes(),
        }
    }
}
