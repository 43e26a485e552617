//! One adapter for each store, and the list of those in this binary.

#[cfg(feature = "esker")]
mod esker;
#[cfg(test)]
mod faulty;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
mod limits;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "speedb")]
#[path = "rocksdb.rs"]
mod speedb;
#[cfg(feature = "surrealkv")]
mod surrealkv;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

#[cfg(test)]
pub(crate) use faulty::Fault;

use crate::engine::{Engine, EngineSettings, Open, Result};
use std::path::Path;

#[cfg(all(feature = "rocksdb", feature = "speedb"))]
compile_error!("the libraries of RocksDB and Speedb export the same names: build a binary for each");

/// Role of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A store.
    Store,
    /// A store with a setting that suits some workloads better than the common one.
    Variant {
        /// Name of the store.
        of: &'static str,
        /// Workloads for which the setting is meant.
        suits: &'static [&'static str],
    },
    /// Not a store: the limit of the machine for one part of it.
    Limit,
}

/// An engine.
pub(crate) struct Adapter {
    /// Name in commands and tables; a variant has its store's, a plus and the setting's.
    pub(crate) name: &'static str,
    /// Description, or what is set otherwise.
    pub(crate) about: &'static str,
    pub(crate) role: Role,
    open: Open,
}

/// Names of all engines that this program knows, in the order of tables; a binary has those it was built
/// with.
pub(crate) const ORDER: &[&str] = &[
    "esker",
    "esker+mapped",
    "esker+direct",
    "rocksdb",
    "rocksdb+hash-index",
    "rocksdb+unordered",
    "speedb",
    "speedb+hash-index",
    "speedb+unordered",
    "leveldb",
    "fjall",
    "fjall+hash-index",
    "surrealkv",
    "surrealkv+64k",
    "sled",
    "lmdb",
    "lmdb+writemap",
    "lmdb+no-readahead",
    "redb",
    "wiredtiger",
    "skiplist",
    "btreemap",
    "array",
    "raw-write",
    "raw-map",
    "memcpy",
];

/// Workloads of point reads.
#[cfg(any(feature = "esker", feature = "fjall", feature = "rocksdb", feature = "speedb"))]
const GETS: &[&str] = &["get_uniform", "get_zipf", "get_absent", "multi_get_32", "ycsb_c"];
/// Workloads that touch pages in random order.
#[cfg(feature = "lmdb")]
const RANDOM_ACCESS: &[&str] = &[
    "get_uniform",
    "get_zipf",
    "get_absent",
    "multi_get_32",
    "seek_10",
    "seek_100",
    "overwrite",
    "get_beside_puts",
];
/// Workloads of scans.
#[cfg(feature = "surrealkv")]
const SCANS: &[&str] = &["scan_forward", "scan_backward", "seek_100"];
/// Writes that need not survive a power cut.
#[cfg(any(feature = "lmdb", feature = "rocksdb", feature = "speedb"))]
const WRITES: &[&str] = &["fill_seq", "fill_batch", "fill_random", "overwrite", "delete", "log_append"];

const fn store(name: &'static str, about: &'static str, open: Open) -> Adapter {
    Adapter { name, about, role: Role::Store, open }
}

const fn limit(name: &'static str, about: &'static str, open: Open) -> Adapter {
    Adapter { name, about, role: Role::Limit, open }
}

const fn variant(
    name: &'static str,
    about: &'static str,
    of: &'static str,
    suits: &'static [&'static str],
    open: Open,
) -> Adapter {
    Adapter { name, about, role: Role::Variant { of, suits }, open }
}

/// The engines in this binary.
pub(crate) const ADAPTERS: &[Adapter] = &[
    #[cfg(feature = "esker")]
    store("esker", "Esker as it is by default", esker::open),
    #[cfg(feature = "esker")]
    variant("esker+mapped", "`table_reads` mapped, uncompressed", "esker", GETS, esker::open_mapped),
    #[cfg(feature = "esker")]
    variant("esker+direct", "`table_reads` direct, past the page cache", "esker", GETS, esker::open_direct),
    #[cfg(feature = "rocksdb")]
    store("rocksdb", "log-structured merge-tree in C++", rocksdb::open),
    #[cfg(feature = "rocksdb")]
    variant("rocksdb+hash-index", "hash index in data blocks", "rocksdb", GETS, rocksdb::open_hash_index),
    #[cfg(feature = "rocksdb")]
    variant(
        "rocksdb+unordered",
        "`unordered_write`: batches are not atomic for readers",
        "rocksdb",
        WRITES,
        rocksdb::open_unordered,
    ),
    #[cfg(feature = "speedb")]
    store("speedb", "fork of RocksDB", speedb::open),
    #[cfg(feature = "speedb")]
    variant("speedb+hash-index", "hash index in data blocks", "speedb", GETS, speedb::open_hash_index),
    #[cfg(feature = "speedb")]
    variant(
        "speedb+unordered",
        "`unordered_write`: batches are not atomic for readers",
        "speedb",
        WRITES,
        speedb::open_unordered,
    ),
    #[cfg(feature = "leveldb")]
    store("leveldb", "log-structured merge-tree in C++, the system's library", leveldb::open),
    #[cfg(feature = "fjall")]
    store("fjall", "log-structured merge-tree in Rust", fjall::open),
    #[cfg(feature = "fjall")]
    variant("fjall+hash-index", "hash index in data blocks", "fjall", GETS, fjall::open_hash_index),
    #[cfg(feature = "surrealkv")]
    store("surrealkv", "log-structured merge-tree in Rust", surrealkv::open),
    #[cfg(feature = "surrealkv")]
    variant(
        "surrealkv+64k",
        "blocks of 64 KiB, its default",
        "surrealkv",
        SCANS,
        surrealkv::open_large_blocks,
    ),
    #[cfg(feature = "sled")]
    store("sled", "log-structured B-link-tree in Rust", sled::open),
    #[cfg(feature = "lmdb")]
    store("lmdb", "copy-on-write B+-tree in C, mapped", lmdb::open),
    #[cfg(feature = "lmdb")]
    variant(
        "lmdb+writemap",
        "`MDB_WRITEMAP`: changed pages are written where they lie",
        "lmdb",
        WRITES,
        lmdb::open_write_map,
    ),
    #[cfg(feature = "lmdb")]
    variant(
        "lmdb+no-readahead",
        "`MDB_NORDAHEAD`: a page that is missing is read without its neighbours",
        "lmdb",
        RANDOM_ACCESS,
        lmdb::open_no_readahead,
    ),
    #[cfg(feature = "redb")]
    store("redb", "copy-on-write B-tree in Rust", redb::open),
    #[cfg(feature = "wiredtiger")]
    store("wiredtiger", "B-tree with a log in C", wiredtiger::open),
    limit("skiplist", "crossbeam's SkipMap in memory, without a log", limits::skiplist::open),
    limit(
        "btreemap",
        "the standard library's BTreeMap in memory behind a lock, without a log",
        limits::btree::open,
    ),
    limit("array", "entries in the places that their keys' numbers say, in memory", limits::array::open),
    limit("raw-write", "one write(2) for each record; with fdatasync where durable", limits::raw_write::open),
    limit("raw-map", "records copied into a mapped file; with msync where durable", limits::raw_map::open),
    limit("memcpy", "records copied into memory that was touched before", limits::copy::open),
];

/// The engine of this name.
///
/// # Errors
/// With the available names, if this binary has none of this name.
pub(crate) fn find(name: &str) -> Result<&'static Adapter> {
    ADAPTERS.iter().find(|adapter| adapter.name == name).ok_or_else(|| {
        let built: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name).collect();
        let why = if ORDER.contains(&name) { "was not built with" } else { "does not know" };
        format!("this binary {why} the engine {name}; it has {}", built.join(", ")).into()
    })
}

impl Adapter {
    /// Opens the store in this directory, and creates the directory if it is missing.
    pub(crate) fn open(&self, directory: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make the directory {}: {error}", directory.display()))?;
        (self.open)(directory, settings)
            .map_err(|error| format!("cannot open {} in {}: {error}", self.name, directory.display()).into())
    }

    /// Whether this workload is measured for this engine.
    pub(crate) fn takes_part(&self, workload: &str) -> bool {
        match self.role {
            Role::Variant { suits, .. } => suits.contains(&workload),
            Role::Store | Role::Limit => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADAPTERS, ORDER, Role};

    #[test]
    fn every_engine_is_ordered_and_every_variant_has_its_store() {
        for adapter in ADAPTERS {
            assert!(ORDER.contains(&adapter.name), "{} has no place in the order of tables", adapter.name);
            if let Role::Variant { of, suits } = adapter.role {
                assert!(ADAPTERS.iter().any(|other| other.name == of && other.role == Role::Store));
                assert!(adapter.name.starts_with(of) && !suits.is_empty());
            }
        }
    }
}
