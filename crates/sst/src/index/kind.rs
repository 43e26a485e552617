//! Index kinds: the form that the block index of a table takes in memory.
//!
//! All forms have the same interface over the same stored section ([`super::section`]) and are built from it
//! when a table is opened, so another choice rewrites no file.
//! `cargo run --release -p esker-sst --example index_bench` shows their memory for a block and their search
//! times.
//!
//! [`IndexKind::SortedArray`], [`IndexKind::Eytzinger`] and [`IndexKind::FastLane`] are for comparison
//! ([`super::reference`]).

use super::section::Separators;
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The form of a table's block index in memory ("fence pointers"): how the block that may hold a key is
/// found.
///
/// ```
/// use esker_sst::{AdaptiveIndex, IndexKind};
///
/// assert_eq!("eytzinger".parse::<IndexKind>()?, IndexKind::Eytzinger);
/// let adaptive = IndexKind::Adaptive(AdaptiveIndex { small_entries: 100, ..AdaptiveIndex::DEFAULT });
/// assert_eq!(adaptive.to_string().parse::<IndexKind>()?, adaptive);
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// A static search tree of key heads, sixteen to a node, ranked by vector instructions: the fastest.
    #[default]
    STree,
    /// For comparison: whole separators in order, found by binary search.
    SortedArray,
    /// Separators as differences from the one before, with restart points: the smallest in memory.
    PrefixCompressed,
    /// For comparison: key heads in the breadth-first order of a binary search tree.
    Eytzinger,
    /// For comparison: key heads in lanes, with all, every fourth, every sixteenth, and so on.
    FastLane,
    /// A B-tree of pages in the file that are searched through the block cache, so that no index is in
    /// memory. Tables written for another kind have no pages and get the search tree.
    BTreePages,
    /// A hash table from keys to blocks that replaces filter and index for lookups, beside the search tree
    /// for ranges. Tables written for another kind have none and get filter and search tree.
    HashLocator,
    /// One of the others for each table, by its size, its level and a limit of memory.
    Adaptive(AdaptiveIndex),
}

/// What [`IndexKind::Adaptive`] decides by (the selection that the CS265 report describes in its section
/// 2.3.2, with the fastest form of this crate in the place of its fastest).
///
/// In this order: a search tree that would exceed `memory_bytes` is replaced by prefix-compressed separators;
/// where keys are looked up, a table written with a hash locator uses it; a table with at least
/// `small_entries` blocks, or written for `tree_level` or a deeper one, gets the search tree; any other a
/// sorted array, which for so few is as good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveIndex {
    /// Number of blocks from which a table is no longer small.
    pub small_entries: u32,
    /// First level with search trees for all tables; 0 is the uppermost, [`AdaptiveIndex::NO_LEVEL`] none.
    pub tree_level: u8,
    /// Most bytes that the index of one table should take; 0 for no limit.
    pub memory_bytes: u64,
    /// The pattern of reads.
    pub pattern: AccessPattern,
}

/// The pattern of a keyspace's reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccessPattern {
    /// Ranges and keys.
    #[default]
    Mixed,
    /// Keys, rarely ranges: tables are written with hash locators, as for [`IndexKind::HashLocator`].
    Point,
}

impl AccessPattern {
    const fn name(self) -> &'static str {
        match self {
            AccessPattern::Mixed => "mixed",
            AccessPattern::Point => "point",
        }
    }
}

impl AdaptiveIndex {
    /// Deeper than every level.
    pub const NO_LEVEL: u8 = 64;
    /// Small below 5,000 entries, as in the CS265 report; level and memory do not matter.
    pub const DEFAULT: AdaptiveIndex = AdaptiveIndex {
        small_entries: 5_000,
        tree_level: AdaptiveIndex::NO_LEVEL,
        memory_bytes: 0,
        pattern: AccessPattern::Mixed,
    };

    /// The form for one table, and the reason.
    pub(crate) fn choose(&self, table: &TableShape) -> (IndexKind, &'static str) {
        if self.memory_bytes > 0 && table.tree_bytes > self.memory_bytes {
            return (IndexKind::PrefixCompressed, "the search tree would exceed the limit of memory");
        }
        if self.pattern == AccessPattern::Point && table.has_locator {
            return (IndexKind::HashLocator, "keys are looked up, and the table has a locator");
        }
        if table.entries >= u64::from(self.small_entries) {
            return (IndexKind::STree, "the table is not small");
        }
        if table.level >= u64::from(self.tree_level) {
            return (IndexKind::STree, "the table is of a deep level");
        }
        (IndexKind::SortedArray, "the table is small")
    }
}

impl Default for AdaptiveIndex {
    fn default() -> AdaptiveIndex {
        AdaptiveIndex::DEFAULT
    }
}

/// What an adaptive index decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableShape {
    /// Entries of the index.
    pub(crate) entries: u64,
    /// The level that the table was written for.
    pub(crate) level: u64,
    /// Bytes of memory that the index takes as [`IndexKind::STree`].
    pub(crate) tree_bytes: u64,
    pub(crate) has_locator: bool,
}

impl TableShape {
    pub(crate) fn of(separators: &Separators, level: u64, has_locator: bool) -> TableShape {
        let entries = separators.len() as u64;
        let tree_bytes = separators.memory_bytes() as u64 + entries * TREE_ENTRY_BYTES;
        TableShape { entries, level, tree_bytes, has_locator }
    }
}

/// Bytes of memory of the search tree for a block beside its separator: head and place, and a fifteenth of a
/// head in the levels above, rounded up.
const TREE_ENTRY_BYTES: u64 = 17;

impl IndexKind {
    /// All kinds, those with parameters with their defaults.
    pub const ALL: [IndexKind; 8] = [
        IndexKind::STree,
        IndexKind::SortedArray,
        IndexKind::PrefixCompressed,
        IndexKind::Eytzinger,
        IndexKind::FastLane,
        IndexKind::BTreePages,
        IndexKind::HashLocator,
        IndexKind::Adaptive(AdaptiveIndex::DEFAULT),
    ];

    /// The kinds that need nothing but the separators of blocks.
    pub const IN_MEMORY: [IndexKind; 5] = [
        IndexKind::STree,
        IndexKind::SortedArray,
        IndexKind::PrefixCompressed,
        IndexKind::Eytzinger,
        IndexKind::FastLane,
    ];

    /// The name in options and reports, without parameters. Names are stored with keyspaces and never change.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::STree => "s-tree",
            IndexKind::SortedArray => "sorted-array",
            IndexKind::PrefixCompressed => "prefix-compressed",
            IndexKind::Eytzinger => "eytzinger",
            IndexKind::FastLane => "fast-lane",
            IndexKind::BTreePages => "b-tree-pages",
            IndexKind::HashLocator => "hash-locator",
            IndexKind::Adaptive(_) => "adaptive",
        }
    }

    /// Whether a table serves this kind only if it was written for it; otherwise another kind is used.
    pub fn is_stored(self) -> bool {
        self.needs_pages() || self.needs_locator()
    }

    pub(crate) fn needs_pages(self) -> bool {
        self == IndexKind::BTreePages
    }

    pub(crate) fn needs_locator(self) -> bool {
        match self {
            IndexKind::HashLocator => true,
            IndexKind::Adaptive(adaptive) => adaptive.pattern == AccessPattern::Point,
            _ => false,
        }
    }

    /// The kind to use for a table, which is not adaptive, and the reason.
    pub(crate) fn for_table(self, table: &TableShape) -> (IndexKind, &'static str) {
        match self {
            IndexKind::Adaptive(adaptive) => adaptive.choose(table),
            kind => (kind, "it was requested"),
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            IndexKind::Adaptive(adaptive) if *adaptive != AdaptiveIndex::DEFAULT => {
                let AdaptiveIndex { small_entries, tree_level, memory_bytes, pattern } = adaptive;
                write!(f, ":entries={small_entries},level={tree_level},memory={memory_bytes}")?;
                write!(f, ",pattern={}", pattern.name())
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<IndexKind> {
        let (name, parameters) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let kind = IndexKind::ALL.into_iter().find(|kind| kind.name() == name);
        match (kind, parameters) {
            (Some(kind), None) => Ok(kind),
            (Some(IndexKind::Adaptive(_)), Some(parameters)) => parse_adaptive(parameters).ok_or_else(|| {
                Error::invalid(format!(
                    "unknown parameters {parameters:?} of an adaptive index: \
                     some of entries=N,level=0..64,memory=BYTES,pattern=mixed|point"
                ))
            }),
            _ => {
                let names: Vec<&str> = IndexKind::ALL.into_iter().map(IndexKind::name).collect();
                Err(Error::invalid(format!("unknown block index {text:?}: one of {}", names.join(", "))))
            }
        }
    }
}

fn parse_adaptive(parameters: &str) -> Option<IndexKind> {
    let mut adaptive = AdaptiveIndex::DEFAULT;
    for parameter in parameters.split(',') {
        match parameter.split_once('=')? {
            ("entries", entries) => adaptive.small_entries = entries.parse().ok()?,
            ("level", level) => {
                let level = level.parse().ok().filter(|&level| level <= AdaptiveIndex::NO_LEVEL);
                adaptive.tree_level = level?;
            }
            ("memory", bytes) => adaptive.memory_bytes = bytes.parse().ok()?,
            ("pattern", name) => {
                let all = [AccessPattern::Mixed, AccessPattern::Point];
                adaptive.pattern = all.into_iter().find(|pattern| pattern.name() == name)?;
            }
            _ => return None,
        }
    }
    Some(IndexKind::Adaptive(adaptive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_round_trip() {
        for kind in IndexKind::ALL {
            assert_eq!(kind.to_string(), kind.name());
            assert_eq!(kind.to_string().parse::<IndexKind>().unwrap(), kind);
        }
        let (memory_bytes, pattern) = (1 << 40, AccessPattern::Point);
        let adaptive = AdaptiveIndex { small_entries: 7, tree_level: 3, memory_bytes, pattern };
        let adaptive = IndexKind::Adaptive(adaptive);
        assert_eq!(adaptive.to_string(), "adaptive:entries=7,level=3,memory=1099511627776,pattern=point");
        assert_eq!(adaptive.to_string().parse::<IndexKind>().unwrap(), adaptive);
        let partly = "adaptive:memory=5".parse::<IndexKind>().unwrap();
        assert_eq!(partly, IndexKind::Adaptive(AdaptiveIndex { memory_bytes: 5, ..AdaptiveIndex::DEFAULT }));
        for wrong in [
            "",
            "s-tree:3",
            "b",
            "adaptive:",
            "adaptive:level=65",
            "adaptive:entries",
            "adaptive:x=1",
            "adaptive:pattern=?",
        ] {
            let error = wrong.parse::<IndexKind>().unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{wrong}: {error}");
        }
    }

    #[test]
    fn adaptive_goes_by_size_level_and_memory() {
        let adaptive = AdaptiveIndex { tree_level: 6, memory_bytes: 1 << 20, ..AdaptiveIndex::DEFAULT };
        let shape = |entries, level, tree_bytes| TableShape { entries, level, tree_bytes, has_locator: true };
        let chosen = |entries, level, tree_bytes| adaptive.choose(&shape(entries, level, tree_bytes)).0;
        assert_eq!(chosen(4_999, 5, 1 << 20), IndexKind::SortedArray);
        assert_eq!(chosen(5_000, 5, 1 << 20), IndexKind::STree);
        assert_eq!(chosen(1, 6, 100), IndexKind::STree);
        assert_eq!(chosen(1, 6, (1 << 20) + 1), IndexKind::PrefixCompressed);
        let unlimited = AdaptiveIndex::DEFAULT.choose(&shape(9, 63, 1 << 40));
        assert_eq!(unlimited.0, IndexKind::SortedArray);
        let points = AdaptiveIndex { pattern: AccessPattern::Point, ..adaptive };
        assert_eq!(points.choose(&shape(9, 0, 100)).0, IndexKind::HashLocator);
        let without = TableShape { has_locator: false, ..shape(9, 0, 100) };
        assert_eq!(points.choose(&without).0, IndexKind::SortedArray);
    }
}
