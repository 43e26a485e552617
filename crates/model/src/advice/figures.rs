//! The predicted behaviour of a design and its cost.

use super::design::{Design, form};
use super::prices::{Calibration, Prices};
use super::usage::Usage;
use crate::cost::{Costs, RunClass};
use esker_strategy::{Strategy, StrategyOptions};

/// The behaviour of a tree: by formula, by simulation or measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Bytes written to tables over bytes of keys and values.
    pub write_amplification: f64,
    /// Runs that may hold a key, on average.
    pub runs: f64,
    /// Bytes of tables over live bytes, on average.
    pub space: f64,
    /// The maximum of that ratio, before a merge.
    pub space_worst: f64,
    /// Blocks that a lookup of an absent key searches.
    pub absent_blocks: f64,
    /// Blocks that a lookup of a present key searches.
    pub present_blocks: f64,
}

/// The cost of one average operation in nanoseconds, by kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Background work caused by writes.
    pub writes_ns: f64,
    /// Lookups.
    pub lookups_ns: f64,
    /// Scans.
    pub scans_ns: f64,
}

impl Parts {
    /// The sum.
    pub fn total_ns(&self) -> f64 {
        self.writes_ns + self.lookups_ns + self.scans_ns
    }
}

/// The prediction for a design at a usage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The design.
    pub design: Design,
    /// The behaviour of the tree.
    pub figures: Figures,
    /// Bytes of filters.
    pub filter_bytes: f64,
    /// Bytes left for the block cache.
    pub cache_bytes: f64,
    /// The share of block reads that hit the cache.
    pub cached_share: f64,
    /// Bytes written to tables for each write.
    pub bytes_per_write: f64,
    /// Blocks that a short scan touches.
    pub short_scan_blocks: f64,
    /// Blocks that a long scan touches.
    pub long_scan_blocks: f64,
    /// The cost of an average operation.
    pub parts: Parts,
}

impl Prediction {
    /// Nanoseconds for an average operation, by which designs are ranked.
    pub fn cost_ns(&self) -> f64 {
        self.parts.total_ns()
    }
}

/// Two write buffers: the active one and one being flushed.
const WRITE_BUFFERS: f64 = 2.0;

/// The least share of the memory that the block cache keeps.
const CACHE_FLOOR: f64 = 1.0 / 16.0;

/// The costs of the same tree when it has converged to a single run.
fn rest(costs: &mut Costs) {
    let largest = costs.shape.iter().map(|class| class.size).fold(1.0, f64::max);
    costs.shape = vec![RunClass { size: largest, count: 1.0 }];
    (costs.runs, costs.space) = (1.0, 1.0);
}

/// The costs common to all filters of a strategy with a write buffer.
pub(super) struct DesignCosts {
    strategy: Strategy,
    write_buffer_bytes: f64,
    costs: Costs,
}

impl DesignCosts {
    /// `None` if there is no formula, or no memory for the buffers.
    pub(super) fn of(design: &Design, usage: &Usage, options: &StrategyOptions) -> Option<DesignCosts> {
        let data_bytes = usage.data_bytes();
        let options = StrategyOptions { memtable_bytes: design.write_buffer_bytes as u64, ..options.clone() };
        let form = form(&design.strategy, &options, data_bytes)?;
        let mut costs = Costs::of(&form, data_bytes / design.write_buffer_bytes.max(1.0));
        if usage.operations.writes() == 0.0 && design.strategy.converges() {
            rest(&mut costs);
        }
        let (strategy, write_buffer_bytes) = (design.strategy, design.write_buffer_bytes);
        Some(DesignCosts { strategy, write_buffer_bytes, costs })
    }

    pub(super) fn keeps_promise(&self, usage: &Usage) -> bool {
        usage.max_space_amplification.is_none_or(|most| self.costs.space_worst <= most)
    }

    /// The prediction for this many filter bits. Designs that exceed the memory get a cache of zero bytes.
    pub(super) fn predict(
        &self,
        filter_bits_per_key: f64,
        usage: &Usage,
        prices: &Prices,
        known: &Calibration,
    ) -> Prediction {
        let costs = &self.costs;
        let filter_bytes = filter_bits_per_key / 8.0 * usage.entries * costs.space;
        let buffers = (WRITE_BUFFERS * self.write_buffer_bytes).max(usage.reserved_bytes);
        let cache_bytes = (usage.memory_bytes - buffers - filter_bytes).max(0.0);
        let cached_share = (cache_bytes / (usage.data_bytes() * costs.space)).min(1.0).powf(known.cache_skew);
        let in_vain = costs.reads_in_vain(filter_bits_per_key) * known.in_vain;
        let above = (costs.reads_found(filter_bits_per_key) - 1.0).max(0.0) * known.in_vain;
        let figures = Figures {
            write_amplification: costs.write_amplification * known.writes,
            runs: costs.runs,
            space: costs.space,
            space_worst: costs.space_worst,
            // Calibrated or not, a run is searched once.
            absent_blocks: in_vain.min(costs.runs),
            present_blocks: 1.0 + above.min(costs.runs - 1.0).max(0.0),
        };
        let design = Design {
            strategy: self.strategy,
            write_buffer_bytes: self.write_buffer_bytes,
            filter_bits_per_key,
        };
        figures.priced(design, usage, prices, filter_bytes, cache_bytes, cached_share)
    }
}

impl Prediction {
    /// Whether filters and buffers leave the block cache its share of the memory.
    pub(super) fn fits(&self, usage: &Usage) -> bool {
        self.cache_bytes >= usage.memory_bytes * CACHE_FLOOR
    }
}

impl Figures {
    /// The cost of a tree with these figures and this cache hit rate.
    pub fn cost(&self, usage: &Usage, prices: &Prices, cached_share: f64) -> Parts {
        let operations = &usage.operations;
        let total = operations.total().max(f64::MIN_POSITIVE);
        let missed = 1.0 - cached_share;
        let block_ns = prices.block_search_ns + missed * prices.block_read_ns;
        let filters_ns = self.runs * prices.filter_ns;
        let lookups_ns = operations.absent_reads * (filters_ns + self.absent_blocks * block_ns)
            + operations.present_reads * (filters_ns + self.present_blocks * block_ns);
        let scans = operations.short_scans + operations.long_scans;
        let entries = operations.short_scan_entries + operations.long_scan_entries;
        let comparisons = (1.0 + self.runs).log2();
        let entry_ns = self.space
            * (prices.comparison_ns * comparisons + missed * usage.entry_bytes * prices.byte_read_ns);
        let scans_ns = scans * self.runs * block_ns + entries * entry_ns;
        let writes_ns = usage.written_bytes() * self.write_amplification * prices.byte_merged_ns;
        Parts { writes_ns: writes_ns / total, lookups_ns: lookups_ns / total, scans_ns: scans_ns / total }
    }

    /// Blocks that a scan of `entries` entries touches.
    pub fn scan_blocks(&self, entries: f64, usage: &Usage) -> f64 {
        self.runs + entries * usage.entry_bytes / usage.block_bytes * self.space
    }

    fn priced(
        self,
        design: Design,
        usage: &Usage,
        prices: &Prices,
        filter_bytes: f64,
        cache_bytes: f64,
        cached_share: f64,
    ) -> Prediction {
        let operations = &usage.operations;
        let mean = |entries: f64, scans: f64| if scans > 0.0 { entries / scans } else { 0.0 };
        let short = mean(operations.short_scan_entries, operations.short_scans);
        let long = mean(operations.long_scan_entries, operations.long_scans);
        let each_bytes = mean(usage.written_bytes(), operations.writes());
        let each_bytes = if each_bytes > 0.0 { each_bytes } else { usage.entry_bytes };
        Prediction {
            design,
            figures: self,
            filter_bytes,
            cache_bytes,
            cached_share,
            bytes_per_write: each_bytes * self.write_amplification,
            short_scan_blocks: self.scan_blocks(short, usage),
            long_scan_blocks: self.scan_blocks(long, usage),
            parts: self.cost(usage, prices, cached_share),
        }
    }
}
