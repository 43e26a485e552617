//! Rows of the options of databases.

use super::Row;
use esker::Options;
use esker::options::{AsyncReads, BackgroundRates, CacheKind, ReadMode};
use std::time::Duration;

/// A block cache of a fixed size, on top of the chosen budget.
fn with_cache_of(options: Options, bytes: u64) -> Options {
    let budget = options.memory_budget_bytes.unwrap_or(64 << 20);
    options.memory_budget(budget + bytes).cache_size(bytes)
}

/// Options of a database.
pub const DATABASE: &[Row<Options>] = &[
    Row {
        name: "log",
        choices: &[
            ("mapped", |options| options.mapped_log(true)),
            ("written", |options| options.mapped_log(false)),
        ],
    },
    Row {
        name: "log segment",
        choices: &[
            ("64 KiB", |options| options.wal_segment_bytes(64 << 10)),
            ("16 KiB", |options| options.wal_segment_bytes(16 << 10)),
            ("256 KiB", |options| options.wal_segment_bytes(256 << 10)),
        ],
    },
    Row {
        name: "memory budget",
        choices: &[
            ("64 MiB", |options| options.memory_budget(64 << 20)),
            ("8 MiB", |options| options.memory_budget(8 << 20)),
        ],
    },
    Row {
        name: "background rates",
        choices: &[
            ("unlimited", |options| options),
            ("auto-tuned", |options| {
                let rate = Some(1 << 30);
                options.background_rates(BackgroundRates {
                    read_bytes_per_second: rate,
                    write_bytes_per_second: rate,
                    auto_tuned: true,
                })
            }),
        ],
    },
    Row {
        name: "flush threads",
        choices: &[
            ("1", |options| options.flush_threads(1)),
            ("2", |options| options.flush_threads(2)),
            ("5", |options| options.flush_threads(5)),
        ],
    },
    Row {
        name: "subcompactions",
        choices: &[
            ("auto", |options| options.max_subcompactions(None)),
            ("2", |options| options.max_subcompactions(Some(2))),
            ("7", |options| options.max_subcompactions(Some(7))),
        ],
    },
    Row {
        name: "table reads",
        choices: &[
            ("positioned", |options| options.table_reads(ReadMode::Positioned)),
            ("direct", |options| options.table_reads(ReadMode::Direct)),
            ("mapped", |options| options.table_reads(ReadMode::Mapped)),
        ],
    },
    Row {
        name: "overlapping reads",
        choices: &[
            ("auto", |options| options.async_reads(AsyncReads::Auto)),
            ("threads", |options| options.async_reads(AsyncReads::Threads)),
            ("off", |options| options.async_reads(AsyncReads::Off)),
        ],
    },
    Row {
        name: "open tables",
        choices: &[
            ("unlimited", |options| options),
            ("8", |options| options.max_open_tables(8)),
            ("13", |options| options.max_open_tables(13)),
        ],
    },
    Row {
        name: "cache",
        choices: &[
            ("slots", |options| options.cache_kind(CacheKind::Slots)),
            ("clock", |options| options.cache_kind(CacheKind::Clock)),
            ("lru", |options| options.cache_kind(CacheKind::Lru { ttl: None })),
            ("lru of 20 ms", |options| {
                options.cache_kind(CacheKind::Lru { ttl: Some(Duration::from_millis(20)) })
            }),
            ("lfu", |options| options.cache_kind(CacheKind::Lfu)),
            ("s3-fifo", |options| options.cache_kind(CacheKind::S3Fifo)),
        ],
    },
    Row {
        name: "cache share of scans",
        choices: &[
            ("40 %", |options| options),
            ("none", |options| options.cache_scan_percent(0)),
            ("all", |options| options.cache_scan_percent(100)),
        ],
    },
    Row {
        name: "cache size",
        choices: &[
            ("auto", |options| options),
            ("1 MiB", |options| with_cache_of(options, 1 << 20)),
            ("none", |options| with_cache_of(options, 0)),
        ],
    },
    Row {
        name: "filters in memory",
        choices: &[
            ("with tables", |options| options.cache_filters(false)),
            ("in the cache", |options| options.cache_filters(true)),
        ],
    },
    Row {
        name: "change history",
        choices: &[
            ("1 GiB", |options| options),
            ("100 KB", |options| options.change_history_limit(100_000)),
            ("nothing", |options| options.change_history_limit(0)),
        ],
    },
];
