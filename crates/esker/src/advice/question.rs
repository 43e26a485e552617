//! Converts counters and table metadata to a question for the model.

use super::AdviceRequest;
use super::check::{ModelCheck, calibration, checks};
use esker_base::{Error, Result};
use esker_engine::amplification;
use esker_engine::amplification::Amplification;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::shape;
use esker_engine::state::store::Store;
use esker_filter::watch::SAMPLE;
use esker_model::advice::{Calibration, Design, Operations, Question, Usage};
use esker_options::{KeyspaceOptions, Preset};
use esker_view::SuperVersion;
use std::sync::Arc;

/// Profiles that are compared with the proposal.
const PROFILES: [&str; 4] = ["write-heavy", "read-heavy", "mixed", "range-heavy"];

/// A write buffer may be one in so many of the memtables' memory: larger ones are sealed because of the
/// budget before they are full.
const WRITE_BUFFER_DIVISOR: u64 = 2;

/// The contents of a keyspace.
#[derive(Clone, Copy)]
struct Content {
    entries: f64,
    key_bytes: f64,
    entry_bytes: f64,
}

/// The number of operations of each kind in the keyspace's life.
pub(crate) fn operations(store: &Store, keyspace: &KeyspaceState) -> Operations {
    let view = keyspace.view.load();
    let reads = store.files.lookup_stats_of(keyspace.id).seen_lookups();
    let book = keyspace.jobs.traffic.book();
    let scans = keyspace.tuning.scans.seen();
    let in_memtables: u64 = view.memtables().map(|view| view.memtable.len()).sum();
    let writes = (book.flushed_entries() + in_memtables) as f64;
    let deletes = writes * book.flushed_tombstones_share();
    let sampled = |count: u64| (count * SAMPLE) as f64;
    Operations {
        present_reads: sampled(reads.present),
        absent_reads: sampled(reads.absent),
        short_scans: scans.short as f64,
        short_scan_entries: scans.short_entries as f64,
        long_scans: scans.long as f64,
        long_scan_entries: scans.long_entries as f64,
        puts: writes - deletes,
        deletes,
    }
}

/// The question for a request, and the checks of the formulas on the keyspace.
pub(super) fn question(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    request: &AdviceRequest,
) -> Result<(Question, Vec<ModelCheck>)> {
    let seen = operations(store, keyspace);
    let operations = request.operations.unwrap_or(seen);
    if operations.total() <= 0.0 {
        return Err(Error::invalid(format!(
            "nothing was read or written in keyspace {:?} since its operations are counted; state what it is used for",
            keyspace.name()
        )));
    }
    question_for(store, keyspace, request, operations, &seen)
}

/// [`question`] for these operations.
pub(crate) fn question_for(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    request: &AdviceRequest,
    operations: Operations,
    seen: &Operations,
) -> Result<(Question, Vec<ModelCheck>)> {
    let (view, options) = (keyspace.view.load(), keyspace.options());
    let told =
        amplification::amplification(store, keyspace, &view, amplification::user_bytes(store, keyspace));
    let content = content(&view, &told)
        .ok_or_else(|| Error::invalid(format!("keyspace {:?} holds nothing", keyspace.name())))?;
    let usage = usage(store, keyspace, &options, content, operations, request.memory_bytes);
    let present = options.design(store.memory.write_buffer_bytes);
    let mut question = Question {
        present: Some(present),
        options: shape::strategy_options(store, &options),
        prices: request.prices,
        named: profiles(&options, store.memory.write_buffer_bytes),
        ..Question::new(usage)
    };
    let checks = question.predict(&present).map_or_else(Vec::new, |plain| checks(&plain, &told, seen));
    question.known = calibration(&checks, cache_skew(store));
    Ok((question, checks))
}

/// The usage of a keyspace, with its share of the memory.
fn usage(
    store: &Store,
    keyspace: &KeyspaceState,
    options: &KeyspaceOptions,
    content: Content,
    operations: Operations,
    memory_bytes: Option<u64>,
) -> Usage {
    let log_bytes = store.writing.as_ref().map_or(0, |writing| writing.log.mapped_bytes());
    let own = options.write_buffer_bytes.unwrap_or(store.memory.write_buffer_bytes);
    let share = share_of(store, keyspace);
    let (memory_bytes, reserved_bytes) = match memory_bytes {
        Some(bytes) => (bytes as f64, 0.0),
        None => {
            let reserved = store.memory.memtables_bytes + log_bytes;
            (share * store.memory.budget_bytes as f64, share * reserved as f64)
        }
    };
    let most_write_buffer = store.memory.memtables_bytes / WRITE_BUFFER_DIVISOR;
    let space_target = options.max_space_amp_permille.map(|permille| permille as f64 / 1000.0);
    Usage {
        block_bytes: options.block_size_bytes as f64,
        reserved_bytes,
        most_write_buffer_bytes: share * most_write_buffer.max(own) as f64,
        max_space_amplification: space_target,
        operations,
        ..Usage::new(content.entries, content.key_bytes, content.entry_bytes, memory_bytes)
    }
}

/// The share of the memory attributed to one keyspace: that of its tables in all tables.
fn share_of(store: &Store, keyspace: &KeyspaceState) -> f64 {
    let bytes = |keyspace: &KeyspaceState| keyspace.view.load().tree.version.bytes() as f64;
    let all: f64 = store.all_keyspaces().iter().map(|keyspace| bytes(keyspace)).sum();
    let own = bytes(keyspace);
    if own > 0.0 && all > 0.0 { (own / all).clamp(0.01, 1.0) } else { 1.0 }
}

/// The skew of block accesses, from the cache's hit rate and contents; 1 with too few lookups.
fn cache_skew(store: &Store) -> f64 {
    const LEAST_LOOKUPS: u64 = 1000;
    let cache = store.files.cache();
    let total = cache.stats().total();
    let lookups = total.hits + total.misses;
    let tables: u64 =
        store.all_keyspaces().iter().map(|keyspace| keyspace.view.load().tree.version.bytes()).sum();
    if lookups < LEAST_LOOKUPS || tables == 0 {
        return 1.0;
    }
    Calibration::skew(total.hits as f64 / lookups as f64, cache.used_bytes() as f64 / tables as f64)
}

/// The contents of a view; `None` if it is empty.
fn content(view: &SuperVersion, told: &Amplification) -> Option<Content> {
    let (mut entries, mut raw_bytes, mut key_bytes, mut keys) = (0.0, 0.0, 0.0, 0.0);
    for part in view.tree.parts() {
        entries += part.meta.entries as f64;
        raw_bytes += part.meta.raw_bytes as f64;
        key_bytes += part.meta.smallest().len() as f64;
        keys += 1.0;
    }
    let space = &told.space;
    let alive = if space.table_bytes > 0 {
        (space.live_bytes.saturating_sub(space.blob_bytes) as f64 / space.table_bytes as f64).min(1.0)
    } else {
        1.0
    };
    let (mut in_memtables, mut memtable_bytes) = (0.0, 0.0);
    for view in view.memtables() {
        in_memtables += view.memtable.len() as f64;
        memtable_bytes += view.memtable.payload_bytes() as f64;
    }
    if entries <= 0.0 {
        (entries, raw_bytes) = (in_memtables, memtable_bytes);
    }
    let entry_bytes = raw_bytes / entries;
    // Key sizes come from table bounds; without tables an eighth is an estimate that matters to deletes only.
    let key_bytes = if keys > 0.0 { key_bytes / keys } else { entry_bytes / 8.0 };
    (entries > 0.0 && raw_bytes > 0.0).then(|| Content {
        entries: (entries * alive).max(1.0),
        key_bytes: key_bytes.clamp(1.0, entry_bytes.max(1.0)),
        entry_bytes: entry_bytes.max(1.0),
    })
}

/// The profiles as designs, without their settings for blocks and codecs.
fn profiles(options: &KeyspaceOptions, write_buffer_bytes: u64) -> Vec<(String, Design)> {
    let of = |name: &&str| {
        let preset = Preset::find(name).ok()?;
        let options = KeyspaceOptions { write_buffer_bytes: None, ..options.clone() };
        let design = preset.applied_to(options).ok()?;
        Some(((*name).to_owned(), design.design(write_buffer_bytes)))
    };
    PROFILES.iter().filter_map(of).collect()
}
