//! The figures of one moment, read from the JSON of `/api/v1/status`.
//!
//! What an older server does not tell is zero, empty or `None`; nothing that it tells can make reading fail.

use serde_json::Value;

/// The figures of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    pub(super) free_bytes: Option<u64>,
    pub(super) visible: u64,
    pub(super) durable: u64,
    pub(super) log_bytes: u64,
    /// Sentences that need attention: why clients are not to be sent there, and failures.
    pub(super) troubles: Vec<String>,
    pub(super) redis: Option<Redis>,
    pub(super) totals: Option<Counters>,
    pub(super) memory: Memory,
    pub(super) keyspaces: Vec<Keyspace>,
    /// Keyspaces that are not told.
    pub(super) left_out: u64,
    pub(super) stalls: Vec<Stall>,
    pub(super) jobs: Vec<Job>,
    /// Open readers of the past, oldest first.
    pub(super) readers: Vec<PastReader>,
    pub(super) commands: Vec<Calls>,
    /// Samples of the server itself, oldest first.
    pub(super) samples: Vec<Sample>,
}

/// The server of the Redis protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Redis {
    pub(super) clients: u64,
    pub(super) max_clients: u64,
    pub(super) blocked_clients: u64,
    pub(super) executed: u64,
    pub(super) keys: u64,
}

/// What was counted over the database's life or since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters {
    pub(super) entries: u64,
    pub(super) user_bytes: u64,
    pub(super) delay_ms: u64,
    pub(super) stall_ms: u64,
    pub(super) cache_hits: u64,
    pub(super) cache_misses: u64,
}

/// The budget and its use.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) budget_bytes: u64,
    pub(super) used_bytes: u64,
    pub(super) cache_bytes: u64,
    pub(super) cache_capacity_bytes: u64,
    /// Parts with what they hold, largest first.
    pub(super) parts: Vec<(String, u64)>,
}

/// A keyspace and its tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Keyspace {
    pub(super) name: String,
    pub(super) strategy: String,
    pub(super) memtable_entries: u64,
    pub(super) levels: Vec<Level>,
    pub(super) blob_files: u64,
    pub(super) blob_bytes: u64,
    pub(super) blob_garbage_bytes: u64,
    pub(super) put_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) write_amplification: Option<f64>,
    pub(super) space_amplification: Option<f64>,
    pub(super) sampled_lookups: u64,
    /// The space that it may take by its promise, as a factor.
    pub(super) space_target: Option<f64>,
    /// What a merge to another strategy still has to rewrite.
    pub(super) migration_left_bytes: Option<u64>,
}

/// A level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Level {
    pub(super) label: String,
    pub(super) runs: u64,
    pub(super) tables: u64,
    pub(super) bytes: u64,
    /// The bytes that it holds before it is compacted, if the strategy bounds them.
    pub(super) max_bytes: Option<u64>,
    pub(super) entries: u64,
    pub(super) tombstones: u64,
}

/// Write control of a keyspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stall {
    pub(super) keyspace: String,
    pub(super) state: WriteState,
    pub(super) bytes_per_second: Option<u64>,
    /// The fullest queue.
    pub(super) pressure: Option<Pressure>,
    /// The queue before level 0, which has the runs that stop writes.
    pub(super) level0: Option<Pressure>,
    pub(super) job: Option<u64>,
    pub(super) ends_in_ms: Option<u64>,
    pub(super) error: Option<String>,
}

/// Whether writes are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteState {
    #[default]
    Free,
    Slowed,
    Stopped,
}

/// How full a queue is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pressure {
    pub(super) cause: String,
    pub(super) amount: u64,
    pub(super) hard: u64,
    pub(super) permille: u64,
}

/// A flush or compaction that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) keyspace: String,
    pub(super) class: String,
    pub(super) reason: String,
    /// The label of the level that it writes.
    pub(super) to: String,
    pub(super) done_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) bytes_per_second: f64,
}

/// An open reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PastReader {
    pub(super) kind: String,
    /// Its own name, or that of its keyspace.
    pub(super) of: Option<String>,
    pub(super) age_ms: u64,
    pub(super) newer_operations: u64,
    pub(super) held_bytes: u64,
}

/// Calls of a command of Redis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calls {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) microseconds: u64,
}

/// A sample of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) commands_per_second: f64,
    pub(super) writes_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

impl Snapshot {
    /// Reads the figures. `None` if it is no status.
    pub(super) fn read(text: &str) -> Option<Snapshot> {
        serde_json::from_str(text).ok().as_ref().and_then(Snapshot::of)
    }

    /// The figures of a status; `None` if it is none.
    pub(super) fn of(status: &Value) -> Option<Snapshot> {
        let info = status.get("info")?;
        let mut keyspaces: Vec<Keyspace> = list(&status["levels"]["keyspaces"], keyspace);
        for promise in array(&status["promises"]["keyspaces"]) {
            let target = promise["space"]["target"].as_f64();
            let of = |keyspace: &&mut Keyspace| keyspace.name == text(&promise["keyspace"]);
            if let Some(keyspace) = keyspaces.iter_mut().find(of) {
                keyspace.space_target = target;
            }
        }
        Some(Snapshot {
            version: text(&info["version"]),
            uptime_ms: number(&info["uptime_ms"]),
            free_bytes: info["free_bytes"].as_u64(),
            visible: number(&info["visible_seqno"]),
            durable: number(&info["durable_seqno"]),
            log_bytes: number(&info["log_bytes"]),
            troubles: troubles(info),
            redis: info["redis"].is_object().then(|| redis(&info["redis"])),
            totals: info["totals"].is_object().then(|| totals(&info["totals"])),
            memory: memory(&status["memory"]),
            keyspaces,
            left_out: number(&status["levels"]["left_out"]),
            stalls: list(&status["stalls"]["keyspaces"], stall),
            jobs: list(&status["jobs"]["jobs"], job),
            readers: list(&status["readers"]["readers"], reader),
            commands: list(&status["commands"]["commands"], calls),
            samples: list(&status["history"]["samples"], sample),
        })
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> T) -> Vec<T> {
    array(value).iter().map(read).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Text in one line: names come from users, and a control character would move the terminal's cursor.
fn text(value: &Value) -> String {
    optional_text(value).unwrap_or_default()
}

fn optional_text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let shown =
        |char: char| if char.is_control() { char.escape_default().to_string() } else { char.to_string() };
    Some(text.chars().map(shown).collect())
}

fn troubles(info: &Value) -> Vec<String> {
    let mut troubles: Vec<String> = list(&info["not_ready"], |reason| text(&reason["text"]));
    troubles.extend(optional_text(&info["read_only_cause"]).map(|cause| format!("takes no writes: {cause}")));
    troubles.extend(list(&info["background_errors"], text));
    troubles
}

fn redis(value: &Value) -> Redis {
    Redis {
        clients: number(&value["clients"]),
        max_clients: number(&value["max_clients"]),
        blocked_clients: number(&value["blocked_clients"]),
        executed: number(&value["executed"]),
        keys: number(&value["keys"]),
    }
}

fn totals(value: &Value) -> Counters {
    Counters {
        entries: number(&value["entries"]),
        user_bytes: number(&value["user_bytes"]),
        delay_ms: number(&value["delay_ms"]),
        stall_ms: number(&value["stall_ms"]),
        cache_hits: number(&value["cache_hits"]),
        cache_misses: number(&value["cache_misses"]),
    }
}

fn memory(value: &Value) -> Memory {
    let parts = value["parts"].as_object().into_iter().flatten();
    let mut parts: Vec<(String, u64)> =
        parts.map(|(name, bytes)| (name.replace('_', " "), number(bytes))).collect();
    parts.sort_by(|(name, bytes), (other, more)| more.cmp(bytes).then(name.cmp(other)));
    Memory {
        budget_bytes: number(&value["budget_bytes"]),
        used_bytes: number(&value["used_bytes"]),
        cache_bytes: number(&value["cache_bytes"]),
        cache_capacity_bytes: number(&value["cache_capacity_bytes"]),
        parts,
    }
}

fn keyspace(value: &Value) -> Keyspace {
    let (amplification, blobs) = (&value["amplification"], array(&value["blob_files"]));
    let space = &amplification["space"];
    let sum = |name: &str| blobs.iter().map(|blob| number(&blob[name])).sum();
    Keyspace {
        name: text(&value["keyspace"]),
        strategy: text(&value["strategy"]),
        memtable_entries: number(&value["memtable_entries"]),
        levels: list(&value["levels"], level),
        blob_files: blobs.len() as u64,
        blob_bytes: sum("bytes"),
        blob_garbage_bytes: sum("garbage_bytes"),
        put_bytes: number(&amplification["put_bytes"]),
        written_bytes: number(&amplification["written_bytes"]),
        write_amplification: amplification["write"].as_f64(),
        space_amplification: space["ratio"].as_f64().filter(|_| space["is_measured"] == true),
        sampled_lookups: number(&amplification["read"]["sampled_lookups"]),
        space_target: None,
        migration_left_bytes: value["migration"]["bytes_left"].as_u64(),
    }
}

fn level(value: &Value) -> Level {
    let runs = array(&value["runs"]);
    let tables = || runs.iter().flat_map(array);
    let sum = |name: &str| tables().map(|table| number(&table[name])).sum();
    Level {
        label: text(&value["label"]),
        runs: runs.len() as u64,
        tables: tables().count() as u64,
        bytes: number(&value["bytes"]),
        max_bytes: value["max_bytes"].as_u64(),
        entries: sum("entries"),
        tombstones: sum("tombstones"),
    }
}

fn stall(value: &Value) -> Stall {
    let pressures = list(&value["pressures"], pressure);
    let blocking = &value["blocking"];
    Stall {
        keyspace: text(&value["name"]),
        state: match value["state"].as_str() {
            Some("slowed") => WriteState::Slowed,
            Some("stopped") => WriteState::Stopped,
            _ => WriteState::Free,
        },
        bytes_per_second: value["admitted_bytes_per_second"].as_u64(),
        level0: pressures.iter().find(|pressure| pressure.cause == "level 0").cloned(),
        pressure: pressures.into_iter().max_by_key(|pressure| pressure.permille),
        job: blocking["job"]["number"].as_u64(),
        ends_in_ms: blocking["ends_in_ms"].as_u64(),
        error: optional_text(&blocking["error"]),
    }
}

fn pressure(value: &Value) -> Pressure {
    Pressure {
        cause: text(&value["cause"]),
        amount: number(&value["amount"]),
        hard: number(&value["hard"]),
        permille: number(&value["permille"]),
    }
}

fn job(value: &Value) -> Job {
    Job {
        number: number(&value["number"]),
        keyspace: text(&value["keyspace"]),
        class: text(&value["class"]),
        reason: text(&value["reason"]),
        to: text(&value["to"]),
        done_bytes: number(&value["done_bytes"]),
        total_bytes: number(&value["total_bytes"]),
        bytes_per_second: float(&value["bytes_per_second"]),
    }
}

fn reader(value: &Value) -> PastReader {
    let held = ["memtable_bytes", "spilled_bytes", "table_bytes", "log_bytes"];
    PastReader {
        kind: text(&value["kind"]),
        of: optional_text(&value["name"]).or_else(|| optional_text(&value["keyspace"])),
        age_ms: number(&value["age_ms"]),
        newer_operations: number(&value["newer_operations"]),
        held_bytes: held.iter().map(|name| number(&value[*name])).sum(),
    }
}

fn calls(value: &Value) -> Calls {
    Calls {
        name: text(&value["name"]),
        calls: number(&value["calls"]),
        microseconds: number(&value["microseconds"]),
    }
}

fn sample(value: &Value) -> Sample {
    Sample {
        commands_per_second: float(&value["commands_per_second"]),
        writes_per_second: float(&value["writes_per_second"]),
        p50_us: float(&value["p50_us"]),
        p99_us: float(&value["p99_us"]),
    }
}
