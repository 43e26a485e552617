//! Which kind of block index suits a usage: the time of its searches against the memory that it takes from
//! the block cache.
//!
//! CS265 (2.3.2) chooses among its fence pointers by size, pattern of reads, memory and level, by fixed
//! limits. Here the kinds have prices, as designs have: a search costs what it was measured to cost with so
//! many blocks ([`SEARCH_NS`]), and each byte of an index is one that the block cache lacks. So small tables
//! and tables that fit the memory get the fastest kind, and one that saves memory is proposed where blocks
//! are read from a device for want of cache.

use super::figures::{Figures, Prediction};
use super::prices::{Calibration, Prices};
use super::usage::Usage;

/// A kind of block index that can be proposed; those that are for comparison only are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexForm {
    /// A static search tree of key heads: the fastest.
    SearchTree,
    /// Separators as differences: a fifth of the memory.
    PrefixCompressed,
    /// A B-tree of pages that are read through the block cache: no memory but that.
    BTreePages,
    /// A hash table from keys to blocks, in place of filter and index for lookups, beside a search tree for
    /// scans.
    HashLocator,
}

impl IndexForm {
    /// All of them.
    pub const ALL: [IndexForm; 4] =
        [IndexForm::SearchTree, IndexForm::PrefixCompressed, IndexForm::BTreePages, IndexForm::HashLocator];

    /// The value of the option `index_type`.
    pub const fn name(self) -> &'static str {
        match self {
            IndexForm::SearchTree => "s-tree",
            IndexForm::PrefixCompressed => "prefix-compressed",
            IndexForm::BTreePages => "b-tree-pages",
            IndexForm::HashLocator => "hash-locator",
        }
    }
}

/// The prediction for one kind of index, with the proposed design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexPrediction {
    /// The kind.
    pub form: IndexForm,
    /// Bytes of memory that it takes, in place of filters where it needs none.
    pub memory_bytes: f64,
    /// The share of block reads that hit what is left of the block cache.
    pub cached_share: f64,
    /// Nanoseconds of an average operation, searches of the index among them.
    pub cost_ns: f64,
}

/// The proposed kind of index, and the others.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexAdvice {
    /// All kinds that fit the memory, cheapest first; never empty.
    pub forms: Vec<IndexPrediction>,
    /// The reason in plain words.
    pub reason: String,
}

impl IndexAdvice {
    /// The cheapest kind.
    pub fn best(&self) -> &IndexPrediction {
        &self.forms[0]
    }
}

/// Nanoseconds of a search that waits for the one before, among 10^4, 10^5, 10^6 and 10^7 blocks with random
/// keys of 16 bytes (docs/experiments/results/indexes.md). The hash locator's is that of its tree.
const SEARCH_NS: [(IndexForm, [f64; 4]); 4] = [
    (IndexForm::SearchTree, [49.0, 71.0, 198.0, 500.0]),
    (IndexForm::PrefixCompressed, [457.0, 777.0, 1021.0, 3450.0]),
    (IndexForm::BTreePages, [264.0, 587.0, 922.0, 1759.0]),
    (IndexForm::HashLocator, [49.0, 71.0, 198.0, 500.0]),
];
/// The largest share of scans among reads with which a hash locator is compared: it is for keys that are
/// looked up.
const MOST_SCANS: f64 = 0.01;
/// Absent keys of which a locator's fingerprint of 12 bits sends one to a block.
const LOCATOR_ABSENT_PER_BLOCK: f64 = 250.0;
/// Bytes of a locator for a key.
const LOCATOR_KEY_BYTES: f64 = 5.3;
/// Bytes of a separator at most: enough of a key to tell it from its neighbour.
const MOST_SEPARATOR_BYTES: f64 = 12.0;
/// Bytes of a search tree for a block beside the separator.
const TREE_BLOCK_BYTES: f64 = 17.0;
/// Bytes of prefix-compressed separators for a block.
const COMPRESSED_BLOCK_BYTES: f64 = 6.0;
/// Bytes of a B-tree's pages for a block beside the separator.
const PAGES_BLOCK_BYTES: f64 = 8.0;
/// The largest part of the cache that pages of indexes can take from data.
const PAGES_SHARE: f64 = 0.5;

/// Compares the kinds of index for a usage, with the tree and the memory of a predicted design.
pub(super) fn advise_index(
    usage: &Usage,
    design: &Prediction,
    prices: &Prices,
    known: &Calibration,
) -> IndexAdvice {
    let tables = IndexedTables { usage, design, prices, known };
    let mut forms: Vec<IndexPrediction> =
        IndexForm::ALL.into_iter().filter_map(|form| tables.predict(form)).collect();
    forms.sort_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns));
    let reason = reason(&forms, tables.blocks());
    IndexAdvice { forms, reason }
}

/// The tables of a design, whose index is to be chosen.
struct IndexedTables<'a> {
    usage: &'a Usage,
    design: &'a Prediction,
    prices: &'a Prices,
    known: &'a Calibration,
}

impl IndexedTables<'_> {
    fn stored_bytes(&self) -> f64 {
        self.usage.data_bytes() * self.design.figures.space
    }

    fn blocks(&self) -> f64 {
        (self.stored_bytes() / self.usage.block_bytes).max(1.0)
    }

    /// Bytes of all pages of B-trees.
    fn page_bytes(&self) -> f64 {
        self.blocks() * (self.usage.key_bytes.min(MOST_SEPARATOR_BYTES) + PAGES_BLOCK_BYTES)
    }

    /// Bytes of memory that a kind takes, less those of filters that it makes unnecessary.
    fn memory_bytes(&self, form: IndexForm) -> f64 {
        let tree = self.blocks() * (self.usage.key_bytes.min(MOST_SEPARATOR_BYTES) + TREE_BLOCK_BYTES);
        match form {
            IndexForm::SearchTree => tree,
            IndexForm::PrefixCompressed => self.blocks() * COMPRESSED_BLOCK_BYTES,
            IndexForm::BTreePages => self.page_bytes().min(PAGES_SHARE * self.design.cache_bytes),
            IndexForm::HashLocator => {
                let locator = LOCATOR_KEY_BYTES * self.usage.entries * self.design.figures.space;
                tree + locator - self.design.filter_bytes
            }
        }
    }

    /// `None` for an index that leaves nothing of the cache, and for a locator where keys are scanned. Pages
    /// always fit.
    fn predict(&self, form: IndexForm) -> Option<IndexPrediction> {
        let [lookups, scans, _] = self.usage.operations.shares();
        if form == IndexForm::HashLocator && scans > MOST_SCANS * (lookups + scans) {
            return None;
        }
        let memory_bytes = self.memory_bytes(form);
        let cache_bytes = self.design.cache_bytes - memory_bytes;
        if cache_bytes <= 0.0 && form != IndexForm::BTreePages {
            return None;
        }
        let share = (cache_bytes.max(0.0) / self.stored_bytes()).min(1.0);
        let cached_share = share.powf(self.known.cache_skew);
        let figures = self.figures(form);
        // A locator's probe is one cache line, as that of a filter.
        let cost_ns = figures.cost(self.usage, self.prices, cached_share).total_ns();
        let searches_ns = self.searches_ns(form, &figures);
        Some(IndexPrediction { form, memory_bytes, cached_share, cost_ns: cost_ns + searches_ns })
    }

    /// The design's figures; with a locator in place of filters, its false positives.
    fn figures(&self, form: IndexForm) -> Figures {
        let figures = self.design.figures;
        if form != IndexForm::HashLocator {
            return figures;
        }
        Figures {
            absent_blocks: figures.runs / LOCATOR_ABSENT_PER_BLOCK,
            present_blocks: 1.0 + (figures.runs - 1.0).max(0.0) / 2.0 / LOCATOR_ABSENT_PER_BLOCK,
            ..figures
        }
    }

    /// Nanoseconds of an average operation for searches of the index: of each block that a lookup reads,
    /// unless a locator names it, and of each run that a scan begins in.
    fn searches_ns(&self, form: IndexForm, figures: &Figures) -> f64 {
        let operations = &self.usage.operations;
        let lookups = match form {
            IndexForm::HashLocator => 0.0,
            _ => {
                operations.absent_reads * figures.absent_blocks
                    + operations.present_reads * figures.present_blocks
            }
        };
        let scans = (operations.short_scans + operations.long_scans) * figures.runs;
        let page_reads = match form {
            IndexForm::BTreePages => 1.0 - self.memory_bytes(form) / self.page_bytes(),
            _ => 0.0,
        };
        let search_ns = search_ns(form, self.blocks()) + page_reads * self.prices.block_read_ns;
        (lookups + scans) * search_ns / operations.total().max(f64::MIN_POSITIVE)
    }
}

/// The measured time among so many blocks, between the measured sizes by the logarithm of their number.
fn search_ns(form: IndexForm, blocks: f64) -> f64 {
    let times = SEARCH_NS.iter().find(|(of, _)| *of == form).map_or([0.0; 4], |(_, times)| *times);
    let place = (blocks.log10() - 4.0).clamp(0.0, 3.0);
    let below = (place as usize).min(2);
    times[below] + (times[below + 1] - times[below]) * (place - below as f64)
}

fn reason(forms: &[IndexPrediction], blocks: f64) -> String {
    let Some(best) = forms.first() else { return String::new() };
    let why = match best.form {
        IndexForm::SearchTree => "searches cost more here than the memory of the fastest kind",
        IndexForm::PrefixCompressed => "memory for blocks is worth more than time of searches",
        IndexForm::BTreePages => {
            "an index of all blocks is large beside the cache, so parts of it are read when they are needed"
        }
        IndexForm::HashLocator => "lookups take one probe in each run where filter and index take several",
    };
    let second = forms.get(1).map_or_else(String::new, |second| {
        let more = 100.0 * (second.cost_ns / best.cost_ns.max(f64::MIN_POSITIVE) - 1.0);
        format!("; {} would cost {more:.1} % more", second.form.name())
    });
    format!("Index of {blocks:.0} blocks: {}, because {why}{second}.", best.form.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_measured_sizes_lie_between_the_measured_times() {
        assert_eq!(search_ns(IndexForm::SearchTree, 1.0), 49.0);
        assert_eq!(search_ns(IndexForm::SearchTree, 1e5), 71.0);
        assert_eq!(search_ns(IndexForm::SearchTree, 1e9), 500.0);
        let between = search_ns(IndexForm::BTreePages, 3e6);
        assert!((922.0..1759.0).contains(&between), "{between}");
    }
}
