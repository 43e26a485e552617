//! INFO: what the server tells of itself, in the sections and with the names of Redis.
//!
//! What has no meaning here (replication, forks, eviction) has the value of a server at rest, so that
//! exporters find it. What has a meaning and is not counted is left out. What is Esker's own stands in the
//! section `esker`.

mod processor;
mod statistics;

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use crate::pubsub::Subject;
use crate::server::{REDIS_VERSION, Server};
use crate::statistics::read;
use std::fmt::Write;
use std::sync::atomic::Ordering;

pub(crate) const COMMANDS: Family = &[("info", info)];

type Section = (&'static str, fn(&Server, &mut String));

/// Sections in their order.
const SECTIONS: &[Section] = &[
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cpu", processor::section),
    ("modules", |_, text| text.push_str("# Modules\r\n")),
    ("commandstats", statistics::commands),
    ("errorstats", statistics::errors),
    ("latencystats", statistics::latencies),
    ("cluster", |_, text| text.push_str("# Cluster\r\ncluster_enabled:0\r\n")),
    ("keyspace", keyspace),
    ("esker", esker_section),
];

/// Sections that are long, and told only if they are asked for by name or as part of all.
const LONG_SECTIONS: [&str; 2] = ["commandstats", "latencystats"];

fn info(call: &mut Call<'_, '_>) -> Outcome {
    let wanted = &call.args[1..];
    let is_wanted = |name: &str| {
        let is_long = LONG_SECTIONS.contains(&name);
        (wanted.is_empty() && !is_long)
            || wanted.iter().any(|word| {
                let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
                is(name) || is("all") || is("everything") || (is("default") && !is_long)
            })
    };
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if is_wanted(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            write(call.server, &mut text);
        }
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// Appends `name:value` lines.
fn lines(text: &mut String, title: &str, pairs: &[(&str, String)]) {
    // A String takes everything.
    let _written = write!(text, "# {title}\r\n");
    for (name, value) in pairs {
        let _written = write!(text, "{name}:{value}\r\n");
    }
}

fn server(server: &Server, text: &mut String) {
    let now_ms = server.now_ms();
    let uptime = now_ms.saturating_sub(server.started_ms) / 1000;
    lines(
        text,
        "Server",
        &[
            ("redis_version", REDIS_VERSION.to_owned()),
            ("redis_git_sha1", "00000000".to_owned()),
            ("redis_git_dirty", "0".to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("os", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
            ("arch_bits", usize::BITS.to_string()),
            ("monotonic_clock", "POSIX clock_gettime".to_owned()),
            ("multiplexing_api", "epoll".to_owned()),
            ("process_id", std::process::id().to_string()),
            ("process_supervised", "no".to_owned()),
            ("run_id", server.run_id.clone()),
            ("tcp_port", server.port.load(Ordering::Relaxed).to_string()),
            ("server_time_usec", (now_ms * 1000).to_string()),
            ("uptime_in_seconds", uptime.to_string()),
            ("uptime_in_days", (uptime / 86_400).to_string()),
            ("hz", "10".to_owned()),
            ("configured_hz", "10".to_owned()),
            ("lru_clock", (now_ms / 1000 % (1 << 24)).to_string()),
            ("io_threads_active", "0".to_owned()),
        ],
    );
}

fn clients(server: &Server, text: &mut String) {
    let all = server.clients.all();
    let (waiting, paused) = (server.waiting.count(), server.pausing.count());
    let most = |value: fn(&crate::clients::Client) -> u64| {
        all.iter().map(|client| value(client)).max().unwrap_or_default().to_string()
    };
    lines(
        text,
        "Clients",
        &[
            ("connected_clients", all.len().to_string()),
            ("cluster_connections", "0".to_owned()),
            ("maxclients", server.max_clients.load(Ordering::Relaxed).to_string()),
            ("client_recent_max_input_buffer", most(|client| client.query_bytes.load(Ordering::Relaxed))),
            ("client_recent_max_output_buffer", most(|client| client.output_bytes.load(Ordering::Relaxed))),
            ("blocked_clients", (waiting + paused).to_string()),
            ("tracking_clients", server.tracking.counts().clients.to_string()),
            ("clients_in_timeout_table", waiting.to_string()),
        ],
    );
}

/// Bytes as Redis prints them for people.
fn human(bytes: u64) -> String {
    let (unit, shift) = match bytes {
        0..1024 => return format!("{bytes}B"),
        1024..1_048_576 => ("K", 10),
        1_048_576..1_073_741_824 => ("M", 20),
        _ => ("G", 30),
    };
    format!("{:.2}{unit}", bytes as f64 / f64::from(1u32 << shift))
}

fn memory(server: &Server, text: &mut String) {
    let metrics = server.store.database().metrics();
    let used = metrics
        .memory
        .process_anonymous_bytes
        .unwrap_or(metrics.memory.memtable_bytes + metrics.memory.cache_bytes);
    let (scripts, script_bytes) = server.scripting.kept();
    let process = processor::memory();
    lines(
        text,
        "Memory",
        &[
            ("used_memory", used.to_string()),
            ("used_memory_human", human(used)),
            ("used_memory_rss", process.resident_bytes.to_string()),
            ("used_memory_rss_human", human(process.resident_bytes)),
            ("used_memory_peak", process.peak_bytes.to_string()),
            ("used_memory_peak_human", human(process.peak_bytes)),
            ("total_system_memory", process.system_bytes.to_string()),
            ("total_system_memory_human", human(process.system_bytes)),
            ("mem_fragmentation_ratio", format!("{:.2}", process.resident_bytes as f64 / used.max(1) as f64)),
            ("used_memory_scripts", script_bytes.to_string()),
            ("used_memory_scripts_human", human(script_bytes as u64)),
            ("number_of_cached_scripts", scripts.to_string()),
            ("maxmemory", "0".to_owned()),
            ("maxmemory_human", "0B".to_owned()),
            ("maxmemory_policy", "noeviction".to_owned()),
            // Nothing is evicted; programs subtract it from `used_memory`.
            ("mem_not_counted_for_evict", "0".to_owned()),
            ("lazyfree_pending_objects", server.store.garbage_objects().to_string()),
        ],
    );
}

fn persistence(server: &Server, text: &mut String) {
    let database = server.store.database();
    let checkpoint = server.checkpoints.status();
    let now_s = server.now_ms() / 1000;
    let seconds = |seconds: Option<u64>| seconds.map_or(-1, |seconds| seconds as i64).to_string();
    let status = if server.has_flush_failed() { "err" } else { "ok" };
    lines(
        text,
        "Persistence",
        &[
            ("loading", "0".to_owned()),
            ("async_loading", "0".to_owned()),
            ("rdb_changes_since_last_save", read(&server.statistics.changes).to_string()),
            ("rdb_bgsave_in_progress", u8::from(checkpoint.began_s.is_some()).to_string()),
            ("rdb_last_save_time", checkpoint.last_s.to_string()),
            ("rdb_last_bgsave_status", if checkpoint.has_succeeded { "ok" } else { "err" }.to_owned()),
            ("rdb_last_bgsave_time_sec", seconds(checkpoint.took_s)),
            (
                "rdb_current_bgsave_time_sec",
                seconds(checkpoint.began_s.map(|began_s| now_s.saturating_sub(began_s))),
            ),
            // The log of the engine is what an append-only file is in Redis.
            ("aof_enabled", "1".to_owned()),
            ("aof_rewrite_in_progress", "0".to_owned()),
            ("aof_rewrite_scheduled", "0".to_owned()),
            ("aof_last_bgrewrite_status", "ok".to_owned()),
            ("aof_last_write_status", status.to_owned()),
            ("esker_written_seqno", server.store.written().get().to_string()),
            ("esker_durable_seqno", database.durable_seqno().get().to_string()),
        ],
    );
}

fn stats(server: &Server, text: &mut String) {
    let counted = &server.statistics;
    let tracking = server.tracking.counts();
    let [operations, received, sent] = server.rates.per_second();
    lines(
        text,
        "Stats",
        &[
            ("total_connections_received", read(&counted.connections).to_string()),
            ("total_commands_processed", read(&counted.commands).to_string()),
            ("instantaneous_ops_per_sec", format!("{operations:.0}")),
            ("total_net_input_bytes", read(&counted.received_bytes).to_string()),
            ("total_net_output_bytes", read(&counted.sent_bytes).to_string()),
            ("instantaneous_input_kbps", format!("{:.2}", received / 1024.0)),
            ("instantaneous_output_kbps", format!("{:.2}", sent / 1024.0)),
            ("rejected_connections", read(&counted.refused_connections).to_string()),
            ("sync_full", "0".to_owned()),
            ("sync_partial_ok", "0".to_owned()),
            ("sync_partial_err", "0".to_owned()),
            ("expired_keys", server.store.expired_keys().to_string()),
            ("evicted_keys", "0".to_owned()),
            ("evicted_clients", "0".to_owned()),
            ("keyspace_hits", read(&counted.keyspace_hits).to_string()),
            ("keyspace_misses", read(&counted.keyspace_misses).to_string()),
            ("pubsub_channels", server.pubsub.names(Subject::Channel, None).len().to_string()),
            ("pubsub_patterns", server.pubsub.names(Subject::Pattern, None).len().to_string()),
            ("pubsubshard_channels", server.pubsub.names(Subject::Shard, None).len().to_string()),
            ("migrate_cached_sockets", "0".to_owned()),
            ("latest_fork_usec", "0".to_owned()),
            ("total_forks", "0".to_owned()),
            ("tracking_total_keys", tracking.keys.to_string()),
            ("tracking_total_items", tracking.items.to_string()),
            ("tracking_total_prefixes", tracking.prefixes.to_string()),
            ("unexpected_error_replies", "0".to_owned()),
            ("total_error_replies", server.observed.commands.error_replies().to_string()),
            ("total_reads_processed", read(&counted.socket_reads).to_string()),
            ("total_writes_processed", read(&counted.socket_writes).to_string()),
        ],
    );
}

fn replication(server: &Server, text: &mut String) {
    lines(
        text,
        "Replication",
        &[
            ("role", "master".to_owned()),
            ("connected_slaves", "0".to_owned()),
            ("master_failover_state", "no-failover".to_owned()),
            ("master_replid", server.run_id.clone()),
            ("master_replid2", "0".repeat(40)),
            ("master_repl_offset", "0".to_owned()),
            ("second_repl_offset", "-1".to_owned()),
            ("repl_backlog_active", "0".to_owned()),
            ("repl_backlog_size", "1048576".to_owned()),
            ("repl_backlog_first_byte_offset", "0".to_owned()),
            ("repl_backlog_histlen", "0".to_owned()),
        ],
    );
}

fn keyspace(server: &Server, text: &mut String) {
    let mut pairs = Vec::new();
    let names: Vec<String> = (0..server.store.databases()).map(|db| format!("db{db}")).collect();
    for (db, name) in (0..server.store.databases()).zip(&names) {
        let keys = server.store.keys(db);
        if keys > 0 {
            let expiring = server.store.expiring_keys(db);
            pairs.push((name.as_str(), format!("keys={keys},expires={expiring},avg_ttl=0")));
        }
    }
    lines(text, "Keyspace", &pairs);
}

fn esker_section(server: &Server, text: &mut String) {
    let stalls = server.store.database().stalls();
    lines(
        text,
        "Esker",
        &[
            ("esker_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("esker_tls_handshakes", read(&server.statistics.tls_handshakes).to_string()),
            ("esker_failed_tls_handshakes", read(&server.statistics.failed_tls_handshakes).to_string()),
            ("esker_slow_groups", read(&server.statistics.slow_groups).to_string()),
            ("esker_garbage_objects", server.store.garbage_objects().to_string()),
            ("esker_writes_held_back", stalls.waiting.len().to_string()),
        ],
    );
}
