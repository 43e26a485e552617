//! Cost and benefit of block bounds: bytes an entry of the index, and the share of absent keys whose lookup
//! reads a block.
//!
//! `cargo run --release -p esker-sst --example bounds_bench [keys]`
//!
//! Tables of random keys of 16 bytes, or of `user:` and ten digits of which a tenth exists, in blocks of 4
//! KiB. Absent keys are of the same kind and spread like the keys. Nothing is cached. It prints counts, not
//! times: they are the same on every machine.

#![expect(clippy::print_stdout, reason = "a program for people")]

use esker_base::checksum::key_hash;
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use esker_env::fault::{StrictFs, StrictOptions};
use esker_env::{FileSystem, OpenMode, Random, SeededRandom};
use esker_filter::FilterPolicy;
use esker_sst::{BlockBounds, Table, TableCache, TableIdentity, TableOptions, TableWriter};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const LOOKUPS: usize = 200_000;

fn key(kind: &str, keys: usize, random: &SeededRandom) -> Vec<u8> {
    match kind {
        "user" => format!("user:{:010}", random.below(10 * keys as u64)).into_bytes(),
        _ => [random.next_u64().to_le_bytes(), random.next_u64().to_le_bytes()].concat(),
    }
}

fn table(
    keys: &BTreeSet<Vec<u8>>,
    value_bytes: usize,
    options: TableOptions,
    cache: &Arc<TableCache>,
) -> Result<Table> {
    let fs = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let file = fs.open(Path::new("table.sst"), OpenMode::CreateNew)?;
    let mut writer = TableWriter::new(Arc::clone(&file), options)?;
    let value = vec![b'v'; value_bytes];
    for key in keys {
        writer.add(key, Tag::new(SeqNo::ZERO, ValueKind::Put), &value)?;
    }
    let bytes = writer.finish()?.file_bytes;
    Table::open_any(file, bytes, TableIdentity::standalone(Arc::clone(cache))?)
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).map_or(Ok(50_000), |count| count.parse());
    let count: usize = count.map_err(|error| Error::invalid(format!("a number of keys: {error}")))?;
    println!(
        "{:>7} {:>6} {:>7} {:>7} {:>12} {:>12} {:>11} {:>11}",
        "keys", "value", "blocks", "filter", "index B/ent", "bounds B/ent", "reads", "with bounds"
    );
    for kind in ["random", "user"] {
        let random = SeededRandom::new(1);
        let keys: BTreeSet<Vec<u8>> = (0..count).map(|_| key(kind, count, &random)).collect();
        let absent: Vec<Vec<u8>> =
            (0..LOOKUPS).map(|_| key(kind, count, &random)).filter(|key| !keys.contains(key)).collect();
        for value_bytes in [8, 100, 1_000, 4_000] {
            for (name, filter) in [("none", FilterPolicy::None), ("10 bits", FilterPolicy::DEFAULT)] {
                let mut shares = Vec::new();
                let mut facts = None;
                for bounds in [BlockBounds::Never, BlockBounds::Always] {
                    let cache = Arc::new(TableCache::new(0));
                    let options = TableOptions { filter, bounds, ..TableOptions::default() };
                    let table = table(&keys, value_bytes, options, &cache)?;
                    for key in &absent {
                        let hash = key_hash(key);
                        if table.covers(key) && table.may_contain(hash) {
                            table.get(key, hash, SeqNo::MAX)?;
                        }
                    }
                    // A cache without capacity declines every block that was read.
                    shares.push(cache.stats().declined as f64 / absent.len() as f64);
                    facts = table.index_facts()?;
                }
                let Some(facts) = facts else { continue };
                let entries = facts.entries as f64;
                println!(
                    "{kind:>7} {value_bytes:>6} {:>7} {name:>7} {:>12.1} {:>12.1} {:>10.3}% {:>10.3}%",
                    facts.entries,
                    facts.memory_bytes as f64 / entries,
                    facts.bounds_bytes.unwrap_or_default() as f64 / entries,
                    100.0 * shares[0],
                    100.0 * shares[1]
                );
            }
        }
    }
    Ok(())
}
