//! The floor of each crate, its third-party crates, and its modules with unsafe code. ARCHITECTURE.md
//! explains why.

/// Position of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A part of the product; dependencies between floors point down.
    Floor(u32),
    /// For tests: may use everything, and only tests use it.
    Tests,
    /// For developers: uses no crate of the store.
    Tools,
}

/// A crate of the workspace.
#[derive(Debug)]
pub(super) struct Crate {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// Files and folders of the crate that may contain unsafe code. None: the whole crate forbids it.
    pub(super) unsafe_modules: &'static [&'static str],
}

/// The floor of the facade: crates above it use it and nothing below.
pub(super) const FACADE_FLOOR: u32 = 9;

pub(super) const CRATES: &[Crate] = &[
    Crate { name: "esker-base", place: Place::Floor(0), unsafe_modules: &[] },
    Crate {
        name: "esker-env",
        place: Place::Floor(1),
        // Memory maps and reserved memory; their simulation keeps the same contract.
        unsafe_modules: &[
            "src/reads/uring.rs",
            "src/memory.rs",
            "src/memory/heap.rs",
            "src/memory/mapped.rs",
            "src/slabs.rs",
            "src/slabs/class.rs",
            "src/slabs/slab.rs",
            "src/off_heap_slice.rs",
            "src/huge_page_heap.rs",
            "src/published",
            "src/fork.rs",
            "src/c_heap.rs",
            "src/fs.rs",
            "src/std_fs/mapping.rs",
            "src/std_fs/write_back.rs",
            "src/fault/strict/mapping.rs",
        ],
    },
    Crate { name: "esker-iter", place: Place::Floor(1), unsafe_modules: &[] },
    Crate { name: "esker-codec", place: Place::Floor(2), unsafe_modules: &[] },
    // One module prefetches cache lines; a test installs an allocator that counts.
    Crate {
        name: "esker-filter",
        place: Place::Floor(2),
        unsafe_modules: &["src/probe.rs", "tests/memory.rs"],
    },
    Crate { name: "esker-cache", place: Place::Floor(2), unsafe_modules: &[] },
    Crate {
        name: "esker-memtable",
        place: Place::Floor(2),
        // Entries and the arena below them, and SIMD searches in nodes.
        unsafe_modules: &[
            "src/entry.rs",
            "src/memory",
            "src/art/bytes16.rs",
            "src/btree/node.rs",
            "src/btree/search.rs",
        ],
    },
    Crate { name: "esker-wal", place: Place::Floor(3), unsafe_modules: &[] },
    Crate { name: "esker-blob", place: Place::Floor(3), unsafe_modules: &[] },
    Crate {
        name: "esker-sst",
        place: Place::Floor(3),
        // Decoders of validated blocks, SIMD searches, and slots that own reference counts.
        unsafe_modules: &[
            "src/mapped.rs",
            "src/block.rs",
            "src/block",
            "src/cursor.rs",
            "src/cursor/enter.rs",
            "src/index.rs",
            "src/index",
            "src/simd.rs",
            "src/simd",
            "src/inspect.rs",
            "src/lookup.rs",
            "src/multi_get.rs",
            "src/salvage.rs",
            "src/table_index.rs",
            "src/slots.rs",
            "src/slots",
            "src/verify.rs",
            "src/waiting_block.rs",
        ],
    },
    Crate { name: "esker-version", place: Place::Floor(3), unsafe_modules: &[] },
    Crate { name: "esker-strategy", place: Place::Floor(4), unsafe_modules: &[] },
    Crate { name: "esker-model", place: Place::Floor(5), unsafe_modules: &[] },
    Crate { name: "esker-options", place: Place::Floor(6), unsafe_modules: &[] },
    Crate { name: "esker-view", place: Place::Floor(5), unsafe_modules: &[] },
    Crate { name: "esker-build", place: Place::Floor(7), unsafe_modules: &[] },
    Crate { name: "esker-engine", place: Place::Floor(8), unsafe_modules: &[] },
    // A test installs an allocator that counts, another registers a handler with the C library.
    Crate {
        name: "esker",
        place: Place::Floor(FACADE_FLOOR),
        unsafe_modules: &[
            "tests/calls_from_anywhere.rs",
            "tests/fork.rs",
            "tests/idle_blocks.rs",
            "tests/merge_allocations.rs",
        ],
    },
    Crate { name: "esker-resp", place: Place::Floor(9), unsafe_modules: &[] },
    Crate { name: "esker-protocol", place: Place::Floor(10), unsafe_modules: &[] },
    // The functions of C, and a host that is lent to closures of Lua.
    Crate { name: "esker-lua", place: Place::Floor(10), unsafe_modules: &["src/bridge.rs"] },
    Crate { name: "esker-redis-commands", place: Place::Floor(10), unsafe_modules: &[] },
    Crate { name: "esker-redis-data", place: Place::Floor(10), unsafe_modules: &[] },
    Crate { name: "esker-redis-store", place: Place::Floor(11), unsafe_modules: &[] },
    Crate { name: "esker-redis-server", place: Place::Floor(12), unsafe_modules: &[] },
    Crate { name: "esker-tls", place: Place::Floor(10), unsafe_modules: &[] },
    Crate { name: "esker-server", place: Place::Floor(11), unsafe_modules: &[] },
    Crate { name: "esker-grpc", place: Place::Floor(11), unsafe_modules: &[] },
    Crate { name: "esker-bench", place: Place::Floor(11), unsafe_modules: &[] },
    Crate { name: "esker-experiments", place: Place::Floor(12), unsafe_modules: &[] },
    Crate { name: "esker-admin", place: Place::Floor(13), unsafe_modules: &[] },
    Crate { name: "esker-cli", place: Place::Floor(14), unsafe_modules: &[] },
    // Its tests install an allocator that records the largest allocation.
    Crate { name: "esker-testkit", place: Place::Tests, unsafe_modules: &["tests/decoders.rs"] },
    Crate { name: "esker-redis-testkit", place: Place::Tests, unsafe_modules: &[] },
    Crate { name: "xtask", place: Place::Tools, unsafe_modules: &[] },
];

/// A third-party crate and the crates it was chosen for.
#[derive(Debug)]
pub(super) struct ThirdParty {
    pub(super) name: &'static str,
    pub(super) users: &'static [&'static str],
}

pub(super) const THIRD_PARTY: &[ThirdParty] = &[
    ThirdParty { name: "ahash", users: &["esker-experiments"] },
    ThirdParty { name: "base64", users: &["esker-grpc", "esker-admin"] },
    ThirdParty { name: "bytes", users: &["esker-grpc"] },
    ThirdParty { name: "cargo_metadata", users: &["xtask"] },
    ThirdParty { name: "cc", users: &["esker-lua"] },
    ThirdParty { name: "clap", users: &["esker-cli"] },
    ThirdParty { name: "clap_complete", users: &["esker-cli"] },
    ThirdParty { name: "clap_mangen", users: &["esker-cli"] },
    ThirdParty { name: "crc", users: &["esker-redis-data"] },
    ThirdParty { name: "crc32c", users: &["esker-base"] },
    // What memtables are compared with; no product code.
    ThirdParty { name: "crossbeam-skiplist", users: &["esker-memtable", "esker-experiments"] },
    ThirdParty { name: "fastbloom", users: &["esker-experiments"] },
    ThirdParty { name: "fastmurmur3", users: &["esker-experiments"] },
    ThirdParty { name: "fnv", users: &["esker-experiments"] },
    ThirdParty {
        name: "foldhash",
        users: &[
            "esker-cache",
            "esker-memtable",
            "esker-view",
            "esker-engine",
            "esker",
            "esker-experiments",
            "esker-redis-server",
        ],
    },
    ThirdParty { name: "getrandom", users: &["esker-env", "esker-redis-store"] },
    ThirdParty { name: "hdrhistogram", users: &["esker-bench"] },
    ThirdParty { name: "http", users: &["esker-grpc"] },
    ThirdParty { name: "http-body", users: &["esker-grpc"] },
    ThirdParty { name: "http-body-util", users: &["esker-admin", "esker-cli"] },
    ThirdParty { name: "hyper", users: &["esker-grpc", "esker-admin", "esker-cli"] },
    ThirdParty { name: "hyper-util", users: &["esker-grpc", "esker-admin", "esker-cli"] },
    ThirdParty { name: "indicatif", users: &["esker-cli"] },
    ThirdParty { name: "io-uring", users: &["esker-env"] },
    ThirdParty { name: "libc", users: &["esker-env"] },
    ThirdParty { name: "liblzma", users: &["esker-codec"] },
    ThirdParty {
        name: "loom",
        users: &[
            "esker-base",
            "esker-env",
            "esker-cache",
            "esker-memtable",
            "esker-sst",
            "esker-wal",
            "esker-engine",
        ],
    },
    ThirdParty { name: "lz4_flex", users: &["esker-codec"] },
    ThirdParty { name: "mio", users: &["esker-redis-server"] },
    ThirdParty { name: "mlua", users: &["esker-lua"] },
    ThirdParty { name: "mlua-sys", users: &["esker-lua"] },
    ThirdParty {
        name: "parking_lot",
        users: &[
            "esker-env",
            "esker-filter",
            "esker-cache",
            "esker-wal",
            "esker-sst",
            "esker-view",
            "esker-build",
            "esker-engine",
            "esker",
            "esker-redis-store",
            "esker-redis-server",
            "esker-tls",
            "esker-grpc",
            "esker-admin",
        ],
    },
    ThirdParty { name: "plotters", users: &["esker-experiments"] },
    ThirdParty { name: "proc-macro2", users: &["xtask"] },
    ThirdParty { name: "prost", users: &["esker-grpc", "xtask"] },
    ThirdParty { name: "protox", users: &["xtask"] },
    ThirdParty { name: "quick_cache", users: &["esker-cache"] },
    ThirdParty { name: "rapidhash", users: &["esker-experiments"] },
    ThirdParty { name: "ratatui", users: &["esker-cli"] },
    // Certificates of tests.
    ThirdParty { name: "rcgen", users: &["esker-redis-testkit"] },
    // A client that applications use; no product code.
    ThirdParty { name: "redis", users: &["esker-redis-server"] },
    ThirdParty { name: "rustix", users: &["esker-env", "esker-server", "esker-cli"] },
    ThirdParty { name: "rustls", users: &["esker-tls", "esker-redis-server", "esker-redis-testkit"] },
    ThirdParty { name: "rustyline", users: &["esker-cli"] },
    ThirdParty { name: "serde", users: &["esker-bench"] },
    ThirdParty { name: "serde_json", users: &["esker-bench", "esker-admin", "esker-cli"] },
    ThirdParty { name: "sha1", users: &["esker-lua"] },
    ThirdParty { name: "sha2", users: &["esker-redis-commands"] },
    ThirdParty { name: "signal-hook", users: &["esker-cli"] },
    ThirdParty { name: "siphasher", users: &["esker-experiments"] },
    ThirdParty { name: "socket2", users: &["esker-redis-server"] },
    ThirdParty { name: "snap", users: &["esker-codec"] },
    ThirdParty { name: "subtle", users: &["esker-redis-commands", "esker-admin"] },
    ThirdParty { name: "syn", users: &["xtask"] },
    ThirdParty { name: "thiserror", users: &["esker-base", "esker-codec"] },
    ThirdParty {
        name: "tokio",
        users: &["esker-server", "esker-tls", "esker-grpc", "esker-admin", "esker-cli"],
    },
    ThirdParty { name: "tokio-rustls", users: &["esker-tls"] },
    ThirdParty { name: "tokio-stream", users: &["esker-grpc"] },
    ThirdParty { name: "tonic", users: &["esker-grpc", "esker-cli"] },
    ThirdParty { name: "tonic-health", users: &["esker-grpc"] },
    ThirdParty { name: "tonic-prost", users: &["esker-grpc"] },
    ThirdParty { name: "tonic-prost-build", users: &["xtask"] },
    ThirdParty { name: "tonic-reflection", users: &["esker-grpc"] },
    ThirdParty { name: "tonic-types", users: &["esker-grpc"] },
    ThirdParty { name: "toml", users: &["esker-options", "esker-cli"] },
    ThirdParty {
        name: "tracing",
        users: &[
            "esker-view",
            "esker-build",
            "esker-engine",
            "esker",
            "esker-server",
            "esker-redis-server",
            "esker-grpc",
            "esker-admin",
            "esker-cli",
        ],
    },
    ThirdParty { name: "tracing-subscriber", users: &["esker-cli"] },
    ThirdParty { name: "xxhash-rust", users: &["esker-base", "esker-experiments", "esker-redis-store"] },
    ThirdParty { name: "zstd", users: &["esker-codec"] },
];
