//! The reports under `/api/v1`, each a JSON object. The words are those of `esker levels`, `stats` and
//! `stalls` with `--json`.

use crate::explanations;
use crate::history::{Sample, number_of};
use crate::json::{levels, metrics, stalls};
use crate::readiness::reasons;
use crate::shared::Shared;
use esker::metrics::{KeyspaceLevels, KeyspaceStall};
use esker_redis_server::figures::{CommandFigures, SlowCommand};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

/// Entries of SLOWLOG that are told.
const SLOW_COMMANDS: usize = 32;

/// Keyspaces that the page shows: more than a person looks through.
const SHOWN_KEYSPACES: usize = 24;

type Report = fn(&Shared) -> Value;

/// All reports and their paths below `/api/v1/`.
const REPORTS: &[(&str, Report)] = &[
    ("status", status),
    ("info", info),
    ("levels", all_levels),
    ("metrics", all_metrics),
    ("memory", memory),
    ("keyspaces", keyspaces),
    ("stalls", write_control),
    ("promises", promises),
    ("jobs", jobs),
    ("readers", readers),
    ("commands", commands),
    ("slowlog", slow_commands),
    ("history", history),
];

/// The report of a path behind `/api/v1`; nothing behind it lists them.
pub(crate) fn named(path: &str) -> Option<Report> {
    if matches!(path, "" | "/") {
        return Some(list);
    }
    let name = path.strip_prefix('/')?;
    REPORTS.iter().find(|(known, _)| *known == name).map(|(_, report)| *report)
}

fn list(_: &Shared) -> Value {
    let names = REPORTS.iter().map(|(name, _)| *name).chain(explanations::LISTED);
    let paths = names.map(|name| format!("/api/v1/{name}"));
    json!({ "reports": paths.collect::<Vec<_>>() })
}

/// All that the page shows, of one moment. Of more keyspaces than a page has room for, the largest and those
/// whose writes are held back most.
pub(crate) fn status(shared: &Shared) -> Value {
    let parts: [(&str, Report); 10] = [
        ("info", info),
        ("levels", largest_levels),
        ("memory", memory),
        ("stalls", worst_stalls),
        ("promises", promises),
        ("jobs", jobs),
        ("readers", readers),
        ("commands", commands),
        ("slowlog", slow_commands),
        ("history", history),
    ];
    parts.into_iter().map(|(name, report)| (name.to_owned(), report(shared))).collect::<Map<_, _>>().into()
}

fn info(shared: &Shared) -> Value {
    let (sources, metrics) = (&shared.sources, shared.sources.database().metrics());
    let reasons = reasons(shared.stop.is_draining(), &metrics, shared.history.stopped_for(sources.uptime()));
    let reasons = reasons.iter().map(|reason| json!({ "reason": reason.word(), "text": reason.sentence() }));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now_ms": sources.now_ms(),
        "uptime_ms": sources.uptime().as_millis() as u64,
        "free_bytes": sources.free_bytes(),
        "visible_seqno": metrics.visible_seqno.get(),
        "durable_seqno": metrics.durable_seqno.get(),
        "log_bytes": metrics.log.live_bytes,
        "totals": metrics::totals(&metrics),
        "not_ready": reasons.collect::<Vec<_>>(),
        "read_only_cause": metrics.read_only_cause,
        "background_errors": metrics.background_errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "redis": sources.redis().map(|redis| {
            let figures = redis.figures();
            json!({
                "clients": figures.clients,
                "blocked_clients": figures.blocked_clients,
                "max_clients": figures.max_clients,
                "executed": figures.executed,
                "keys": figures.databases.iter().map(|database| database.keys).sum::<u64>(),
            })
        }),
    })
}

fn all_levels(shared: &Shared) -> Value {
    let database = shared.sources.database();
    let targets = database.targets();
    let tree = |tree: &KeyspaceLevels| {
        let mut told = levels::tree(tree);
        if let Some(target) = targets.iter().find(|target| target.name == tree.name) {
            told["targets"] = levels::targets(target);
        }
        told
    };
    json!({ "keyspaces": database.levels().iter().map(tree).collect::<Vec<_>>() })
}

fn largest_levels(shared: &Shared) -> Value {
    let mut trees = shared.sources.database().levels();
    let bytes = |tree: &KeyspaceLevels| {
        let runs = tree.levels.iter().flat_map(|level| &level.runs);
        runs.flat_map(|run| &run.tables).map(|table| table.bytes).sum::<u64>()
    };
    trees.sort_by_cached_key(|tree| Reverse((bytes(tree), tree.memtable_entries)));
    let shown = trees.len().min(SHOWN_KEYSPACES);
    let told: Vec<Value> = trees[..shown].iter().map(levels::tree).collect();
    json!({ "keyspaces": told, "left_out": trees.len() - shown })
}

fn worst_stalls(shared: &Shared) -> Value {
    let mut stalls = shared.sources.database().stalls();
    let full = |keyspace: &KeyspaceStall| keyspace.pressures.iter().map(|pressure| pressure.permille).max();
    stalls.keyspaces.sort_by_cached_key(|keyspace| Reverse((number_of(&keyspace.state), full(keyspace))));
    let left_out = stalls.keyspaces.len().saturating_sub(SHOWN_KEYSPACES);
    stalls.keyspaces.truncate(SHOWN_KEYSPACES);
    let mut told = stalls::stalls(&stalls);
    told["left_out"] = left_out.into();
    told
}

fn all_metrics(shared: &Shared) -> Value {
    let database = shared.sources.database();
    metrics::metrics(&database.metrics(), &database.open_readers())
}

fn memory(shared: &Shared) -> Value {
    let memory = shared.sources.database().metrics().memory;
    let parts =
        metrics::memory_parts(&memory).into_iter().map(|(part, bytes)| (part.to_owned(), bytes.into()));
    let mut told = metrics::memory_of(&memory);
    told["parts"] = Value::Object(parts.collect());
    told
}

fn keyspaces(shared: &Shared) -> Value {
    let metrics = shared.sources.database().metrics();
    json!({ "keyspaces": metrics.keyspaces.iter().map(metrics::keyspace_of).collect::<Vec<_>>() })
}

fn write_control(shared: &Shared) -> Value {
    stalls::stalls(&shared.sources.database().stalls())
}

fn promises(shared: &Shared) -> Value {
    let told = shared.sources.database().targets().into_iter().map(|target| {
        let mut told = levels::targets(&target);
        told["keyspace"] = target.name.into();
        told
    });
    json!({ "keyspaces": told.collect::<Vec<_>>() })
}

fn jobs(shared: &Shared) -> Value {
    let metrics = shared.sources.database().metrics();
    json!({ "jobs": metrics.jobs.iter().map(stalls::job).collect::<Vec<_>>() })
}

fn readers(shared: &Shared) -> Value {
    let readers = shared.sources.database().open_readers();
    json!({ "readers": readers.iter().map(metrics::reader).collect::<Vec<_>>() })
}

fn commands(shared: &Shared) -> Value {
    let figures = shared.sources.redis().map(|redis| redis.figures());
    let command = |command: &CommandFigures| {
        json!({
            "name": command.name,
            "calls": command.calls,
            "microseconds": command.nanos / 1000,
            "failed": command.failed,
            "rejected": command.rejected,
        })
    };
    let commands = figures.iter().flat_map(|figures| &figures.commands).map(command);
    json!({ "commands": commands.collect::<Vec<_>>() })
}

fn slow_commands(shared: &Shared) -> Value {
    let slow = shared.sources.redis().map(|redis| redis.slow_commands(SLOW_COMMANDS)).unwrap_or_default();
    // Arguments are bytes: what is no UTF-8 is shown as SLOWLOG's readers show it, escaped.
    let text = |bytes: &Vec<u8>| match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.escape_ascii().to_string(),
    };
    let entry = |slow: &SlowCommand| {
        json!({
            "id": slow.id,
            "time_s": slow.time_s,
            "duration_us": slow.duration_us,
            "arguments": slow.arguments.iter().map(text).collect::<Vec<_>>(),
            "address": slow.address,
            "client_name": text(&slow.client_name),
        })
    };
    json!({ "commands": slow.iter().map(entry).collect::<Vec<_>>() })
}

fn history(shared: &Shared) -> Value {
    let sample = |sample: &Sample| {
        json!({
            "at_ms": sample.at_ms,
            "commands_per_second": sample.commands_per_second,
            "writes_per_second": sample.writes_per_second,
            "p50_us": sample.p50_us,
            "p99_us": sample.p99_us,
            "used_bytes": sample.used_bytes,
            "write_state": sample.write_state,
        })
    };
    json!({
        "interval_ms": crate::history::INTERVAL.as_millis() as u64,
        "samples": shared.history.samples().iter().map(sample).collect::<Vec<_>>(),
    })
}
