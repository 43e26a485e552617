//! Metrics of the server of the Redis protocol.

use super::catalog::*;
use super::exposition::Exposition;
use esker_redis_server::figures::{CommandFigures, Figures, LATENCY_STEPS_NS, TURN_STEPS};
use esker_redis_server::server::Server;

pub(super) fn write(out: &mut Exposition, server: &Server) {
    let figures = server.figures();
    clients(out, &figures);
    turns(out, &figures);
    commands(out, &figures.commands);
    for (code, count) in &figures.errors {
        out.sample(&COMMAND_ERRORS, &[code], count);
    }
    latencies(out, &figures.commands);
    data(out, &figures);
}

fn clients(out: &mut Exposition, figures: &Figures) {
    let blocked = figures.blocked_clients.min(figures.clients);
    out.sample(&CONNECTIONS_OPEN, &["active"], figures.clients - blocked);
    out.sample(&CONNECTIONS_OPEN, &["blocked"], blocked);
    out.sample(&CONNECTIONS_LIMIT, &[], figures.max_clients);
    out.sample(&CONNECTIONS, &[], figures.connections);
    out.sample(&CONNECTIONS_REJECTED, &["maxclients"], figures.refused_connections);
    out.sample(&TLS_HANDSHAKES, &["ok"], figures.tls_handshakes);
    out.sample(&TLS_HANDSHAKES, &["failed"], figures.failed_tls_handshakes);
    out.sample(&NET_BYTES, &["in"], figures.received_bytes);
    out.sample(&NET_BYTES, &["out"], figures.sent_bytes);
    out.sample(&CLIENT_BUFFERS, &["input"], figures.query_bytes);
    out.sample(&CLIENT_BUFFERS, &["output"], figures.output_bytes);
}

fn turns(out: &mut Exposition, figures: &Figures) {
    out.sample(&BACKPRESSURE, &[], figures.backpressure_ns as f64 / 1e9);
    let (within, count) = figures.turns;
    let steps = TURN_STEPS.iter().map(|step| *step as f64).zip(within);
    out.histogram(&PIPELINE, &[], steps, count, figures.turn_commands as f64);
    out.sample(&GROUPS, &[], figures.groups);
    for (cause, count) in &figures.group_cuts {
        out.sample(&GROUP_CUTS, &[cause], count);
    }
}

fn commands(out: &mut Exposition, commands: &[CommandFigures]) {
    let mut each = |metric: &'static Metric, value: fn(&CommandFigures) -> u64| {
        commands.iter().for_each(|command| out.sample(metric, &[command.name], value(command)));
    };
    each(&COMMANDS, |command| command.calls);
    each(&COMMANDS_FAILED, |command| command.failed);
    each(&COMMANDS_REJECTED, |command| command.rejected);
}

fn latencies(out: &mut Exposition, commands: &[CommandFigures]) {
    for command in commands {
        let Some((below, count)) = command.latencies else { continue };
        let seconds = command.nanos as f64 / 1e9;
        out.histogram(&COMMAND_SECONDS, &[command.name], latency_steps(below), count, seconds);
    }
}

fn latency_steps(below: [u64; LATENCY_STEPS_NS.len()]) -> impl Iterator<Item = (f64, u64)> {
    LATENCY_STEPS_NS.iter().map(|step_ns| *step_ns as f64 / 1e9).zip(below)
}

fn data(out: &mut Exposition, figures: &Figures) {
    out.sample(&KEYSPACE_HITS, &[], figures.keyspace_hits);
    out.sample(&KEYSPACE_MISSES, &[], figures.keyspace_misses);
    out.sample(&SLOW_GROUPS, &[], figures.slow_groups);
    out.sample(&SLOW_LANE_QUEUE, &[], figures.slow_lane_jobs);
    let (below, count) = figures.scripts;
    out.histogram(&SCRIPT_SECONDS, &[], latency_steps(below), count, figures.script_ns as f64 / 1e9);
    out.sample(&SCRIPT_RERUNS, &[], figures.script_reruns);
    out.sample(&PUBSUB_MESSAGES, &[], figures.delivered_messages);
    out.sample(&PUBSUB_CHANNELS, &[], figures.pubsub_names);
    for database in &figures.databases {
        out.sample(&REDIS_KEYS, &[&database.number.to_string()], database.keys);
    }
    for database in &figures.databases {
        out.sample(&REDIS_EXPIRING, &[&database.number.to_string()], database.expiring_keys);
    }
    out.sample(&EXPIRED_KEYS, &[], figures.expired_keys);
    out.sample(&EXPIRY_LAG, &[], figures.expiry_lag_ms as f64 / 1000.0);
    out.sample(&GARBAGE_OBJECTS, &[], figures.garbage_objects);
}
