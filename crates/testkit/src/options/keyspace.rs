//! Rows of the options of keyspaces.

use super::Row;
use crate::operators::{IdentityFilter, Operator};
use esker::KeyspaceOptions;
use esker::options::{
    AccessPattern, AdaptiveIndex, BlockBounds, BlockLayout, Codec, FilterAllocation, FilterPolicy, IndexKind,
    MemtableKind, PerLevel, Strategy,
};
use std::sync::Arc;
use std::time::Duration;

fn allocation(options: KeyspaceOptions, text: &str) -> KeyspaceOptions {
    options.filter_allocation(text.parse::<FilterAllocation>().expect("an allocation of the table"))
}

/// With this option, but where what was chosen before it makes it impossible.
fn where_possible(options: KeyspaceOptions, name: &str, value: &str) -> KeyspaceOptions {
    options.clone().set(name, value).unwrap_or(options)
}

fn strategy(options: KeyspaceOptions, text: &str) -> KeyspaceOptions {
    options.strategy(text.parse::<Strategy>().expect("a strategy of the table"))
}

fn memtable(options: KeyspaceOptions, text: &str) -> KeyspaceOptions {
    options.memtable(text.parse::<MemtableKind>().expect("a kind of the table"))
}

fn filter(options: KeyspaceOptions, text: &str) -> KeyspaceOptions {
    options.filter(text.parse::<FilterPolicy>().expect("a filter of the table"))
}

fn codec(text: &str) -> PerLevel<Codec> {
    PerLevel::all(text.parse().expect("a codec of the table"))
}

/// The default TTLs that a keyspace may have, in milliseconds.
const SHORT_TTL_MS: u32 = 40;
const LONG_TTL_MS: u32 = 3_000;

/// Options of a keyspace.
pub const KEYSPACE: &[Row<KeyspaceOptions>] = &[
    Row {
        name: "memtable",
        choices: &[
            ("art", |options| options.memtable(MemtableKind::Art)),
            ("skiplist", |options| options.memtable(MemtableKind::Skiplist)),
            ("b-tree", |options| options.memtable(MemtableKind::BTree)),
            ("sharded", |options| memtable(options, "sharded")),
            ("sharded:3:5", |options| memtable(options, "sharded:3:5")),
            ("sharded:4:2:1,30,7,2", |options| memtable(options, "sharded:4:2:1,30,7,2")),
            ("locked-tree", |options| memtable(options, "locked-tree")),
            ("vector", |options| memtable(options, "vector")),
            ("hash", |options| memtable(options, "hash")),
            ("hashed-art", |options| memtable(options, "hashed-art")),
        ],
    },
    Row {
        name: "write buffer",
        choices: &[
            ("64 KiB", |options| options.write_buffer_size(64 << 10)),
            ("4 KiB", |options| options.write_buffer_size(4 << 10)),
            ("12 KiB", |options| options.write_buffer_size(12 << 10)),
            ("30 KiB", |options| options.write_buffer_size(30 << 10)),
        ],
    },
    Row {
        name: "write buffer entries",
        choices: &[
            ("unlimited", |options| options),
            ("1", |options| options.write_buffer_entries(1)),
            ("7", |options| options.write_buffer_entries(7)),
            ("50", |options| options.write_buffer_entries(50)),
            ("200", |options| options.write_buffer_entries(200)),
        ],
    },
    Row {
        name: "block size",
        choices: &[
            ("4096", |options| options.block_size(4096)),
            ("512", |options| options.block_size(512)),
            ("700", |options| options.block_size(700)),
            ("16384", |options| options.block_size(16_384)),
            ("65536", |options| options.block_size(65_536)),
        ],
    },
    Row {
        name: "layout",
        choices: &[
            ("flat", |options| options.block_layout(PerLevel::all(BlockLayout::Flat))),
            ("delta", |options| options.block_layout(PerLevel::all(BlockLayout::Delta))),
            ("flat over delta", |options| {
                options.block_layout(PerLevel::split(BlockLayout::Flat, BlockLayout::Delta))
            }),
            ("alternating", |options| {
                let layouts = [BlockLayout::Delta, BlockLayout::Flat, BlockLayout::Delta];
                options.block_layout(PerLevel::levels(layouts))
            }),
        ],
    },
    Row {
        name: "restart interval",
        choices: &[
            ("16", |options| options),
            ("1", |options| options.block_restart_interval(1)),
            ("10", |options| options.block_restart_interval(10)),
        ],
    },
    Row {
        name: "hash slots",
        choices: &[
            ("100 %", |options| options),
            ("none", |options| options.block_hash_slots_percent(0)),
            ("75 %", |options| options.block_hash_slots_percent(75)),
        ],
    },
    Row {
        name: "block index",
        choices: &[
            ("s-tree", |options| options.block_index(IndexKind::STree)),
            ("sorted-array", |options| options.block_index(IndexKind::SortedArray)),
            ("prefix-compressed", |options| options.block_index(IndexKind::PrefixCompressed)),
            ("eytzinger", |options| options.block_index(IndexKind::Eytzinger)),
            ("fast-lane", |options| options.block_index(IndexKind::FastLane)),
            ("adaptive", |options| {
                let default = AdaptiveIndex::DEFAULT;
                let adaptive =
                    AdaptiveIndex { small_entries: 3, tree_level: 2, memory_bytes: 2_000, ..default };
                options.block_index(IndexKind::Adaptive(adaptive))
            }),
            ("b-tree-pages", |options| options.block_index(IndexKind::BTreePages)),
            ("hash-locator", |options| options.block_index(IndexKind::HashLocator)),
            ("adaptive for keys", |options| {
                let (default, pattern) = (AdaptiveIndex::DEFAULT, AccessPattern::Point);
                options.block_index(IndexKind::Adaptive(AdaptiveIndex { pattern, ..default }))
            }),
        ],
    },
    Row {
        name: "page alignment",
        choices: &[
            ("none", |options| options.align_blocks(false)),
            ("aligned", |options| options.align_blocks(true)),
            ("aligned, of all sizes", |options| options.align_blocks(true).block_size(2000)),
        ],
    },
    Row {
        name: "block bounds",
        choices: &[
            ("unfiltered", |options| options.block_bounds(BlockBounds::Unfiltered)),
            ("never", |options| options.block_bounds(BlockBounds::Never)),
            ("always", |options| options.block_bounds(BlockBounds::Always)),
        ],
    },
    Row {
        name: "compression under pressure",
        choices: &[
            ("eased", |options| options.compression_under_pressure(true)),
            ("as chosen", |options| options.compression_under_pressure(false)),
        ],
    },
    Row {
        name: "compression",
        choices: &[
            ("none", |options| options.compression(PerLevel::all(Codec::None))),
            ("lz4", |options| options.compression(PerLevel::all(Codec::Lz4))),
            ("zstd", |options| options.compression(PerLevel::all(Codec::Zstd { level: 3 }))),
            ("none over lz4", |options| options.compression(PerLevel::split(Codec::None, Codec::Lz4))),
            ("lz4hc", |options| options.compression(codec("lz4hc:5"))),
            ("snappy", |options| options.compression(codec("snappy"))),
            ("zstd with dictionaries", |options| options.compression(codec("zstd:3+dict"))),
            ("lzma", |options| options.compression(codec("lzma:0"))),
            ("bit-packing", |options| options.compression(codec("bit-packing"))),
            ("delta", |options| options.compression(codec("delta"))),
            ("dictionary", |options| options.compression(codec("dictionary"))),
            ("adaptive", |options| options.compression(codec("adaptive:least=100"))),
            ("adaptive, small", |options| options.compression(codec("adaptive:mode=ratio"))),
            ("by level", |options| {
                let codecs = PerLevel::levels([Codec::Lz4, Codec::None, Codec::Zstd { level: 1 }]);
                options.compression(codecs.with_last(Codec::Zstd { level: 3 }))
            }),
        ],
    },
    Row {
        name: "filter",
        choices: &[
            ("none", |options| options.filter(FilterPolicy::None)),
            ("bloom", |options| options.filter(FilterPolicy::DEFAULT)),
            ("weak bloom", |options| options.filter(FilterPolicy::blocked_bloom(1.0))),
            ("standard bloom", |options| filter(options, "bloom:4")),
            ("local bloom", |options| filter(options, "local-bloom:6")),
            ("double-probe bloom", |options| filter(options, "double-probe-bloom:5")),
            ("ribbon", |options| filter(options, "ribbon:7")),
            ("weak ribbon", |options| filter(options, "ribbon:1.3")),
            ("binary fuse", |options| filter(options, "binary-fuse:8")),
        ],
    },
    Row {
        name: "filter allocation",
        choices: &[
            ("uniform", |options| options.filter_allocation(FilterAllocation::Uniform)),
            ("monkey", |options| options.filter_allocation(FilterAllocation::Monkey)),
            ("monkey:0.1", |options| allocation(options, "monkey:0.1")),
            ("proportional", |options| options.filter_allocation(FilterAllocation::Proportional)),
            ("fixed:300", |options| allocation(options, "fixed:300")),
            ("dynamic", |options| allocation(options, "dynamic:0.02,0.2")),
        ],
    },
    Row {
        name: "adaptive compaction",
        choices: &[
            ("off", |options| options),
            ("10 s", |options| options.adaptive_compaction(Duration::from_secs(10))),
        ],
    },
    Row {
        name: "strategy",
        choices: &[
            ("partitioned", |options| strategy(options, "partitioned")),
            ("none", |options| strategy(options, "none").level0_stop_runs(10_000)),
            ("leveled:10", |options| strategy(options, "leveled:10")),
            ("leveled:1.5", |options| strategy(options, "leveled:1.5")),
            ("leveled:2", |options| strategy(options, "leveled:2")),
            ("tiered:2", |options| strategy(options, "tiered:2")),
            ("tiered:4", |options| strategy(options, "tiered:4")),
            ("lazy-leveled:2", |options| strategy(options, "lazy-leveled:2")),
            ("lazy-leveled:4", |options| strategy(options, "lazy-leveled:4")),
            ("fluid:3,2,2", |options| strategy(options, "fluid:3,2,2")),
            ("fluid:2,4/2,1", |options| strategy(options, "fluid:2,4/2,1")),
            ("tiered-leveled:3", |options| strategy(options, "tiered-leveled:3")),
            ("partial, round robin", |options| {
                strategy(options, "partial:2,round-robin").compaction_job_size(16 << 10)
            }),
            ("partial, least overlap", |options| {
                strategy(options, "partial:3,least-overlap").level0_trigger_runs(2)
            }),
            ("partial, oldest", |options| {
                strategy(options, "partial:1.5,oldest").compaction_job_size(8 << 10)
            }),
            ("partial, most tombstones", |options| {
                strategy(options, "partial:4,most-tombstones").compaction_job_runs(2)
            }),
            ("partial, hottest", |options| strategy(options, "partial:2,hottest").level0_trigger_runs(1)),
            ("golden-ratio", |options| strategy(options, "golden-ratio").compaction_job_size(20 << 10)),
            // Nothing may be dropped where everything is compared.
            ("fifo", |options| strategy(options, "fifo:1TiB,merge").level0_stop_runs(10_000)),
        ],
    },
    Row {
        name: "table size",
        choices: &[
            ("1 MiB", |options| options.table_size(1 << 20)),
            ("4 KiB", |options| options.table_size(4 << 10)),
            ("10 KiB", |options| options.table_size(10 << 10)),
        ],
    },
    Row {
        name: "large values",
        choices: &[
            ("in tables", |options| options),
            ("from 64", |options| options.blob_threshold(64).blob_file_size(4 << 10)),
            ("from 100, packed", |options| {
                options.blob_threshold(100).blob_file_size(16 << 10).blob_space_amp(1.1)
            }),
            ("from 1500", |options| {
                options.blob_threshold(1500).blob_file_size(64 << 10).blob_space_amp(3.0)
            }),
        ],
    },
    // Behind strategy and large values, because some of these cannot promise anything.
    Row {
        name: "space target",
        choices: &[
            ("none", |options| options),
            ("3 times", |options| where_possible(options, "max_space_amp", "3")),
            ("1.5 times", |options| where_possible(options, "max_space_amp", "1.5")),
        ],
    },
    Row {
        name: "delete target",
        choices: &[
            ("none", |options| options),
            ("2 minutes", |options| where_possible(options, "delete_within", "120s")),
        ],
    },
    Row {
        name: "default ttl",
        choices: &[
            ("none", |options| options),
            ("no ttl", |options| options),
            ("40 ms", |options| options.default_ttl(Duration::from_millis(SHORT_TTL_MS.into()))),
            ("3 s", |options| options.default_ttl(Duration::from_millis(LONG_TTL_MS.into()))),
        ],
    },
    Row {
        name: "merge operator",
        choices: &[
            ("none", |options| options),
            ("append", |options| options.merge_operator(Operator::Append.make())),
            ("max", |options| options.merge_operator(Operator::Max.make())),
            ("chain", |options| options.merge_operator(Operator::Chain.make())),
        ],
    },
    Row {
        name: "compaction filter",
        choices: &[
            ("none", |options| options),
            ("unnoticed", |options| options.compaction_filter(Arc::new(IdentityFilter))),
        ],
    },
];
