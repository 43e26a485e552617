//! The line of a client in CLIENT LIST, CLIENT INFO and the log of what was denied.

use crate::clients::{Client, Shown, shown_address};
use esker_redis_commands::Command;
use esker_resp::writer::Protocol;
use std::sync::atomic::Ordering;

/// Appends the line of a client.
pub(crate) fn write_line(client: &Client, shown: &Shown, now_ms: u64, out: &mut Vec<u8>) {
    let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    let mut flags = String::new();
    for (is_set, flag) in [
        (shown.is_monitor, 'O'),
        (shown.subscriptions != [0; 3], 'P'),
        (shown.queued.is_some(), 'x'),
        (shown.tracking.is_some(), 't'),
        (shown.tracking.is_some_and(|mode| mode.broadcasts), 'B'),
        (shown.is_blocked, 'b'),
        (client.address.is_none(), 'U'),
    ] {
        if is_set {
            flags.push(flag);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let (query, output) =
        (client.query_bytes.load(Ordering::Relaxed), client.output_bytes.load(Ordering::Relaxed));
    let command = client.last_command().map_or("NULL", Command::name);
    out.extend_from_slice(
        format!(
            "id={} addr={} laddr={} fd=-1 name=",
            client.id,
            shown_address(client.address),
            shown_address(client.local_address)
        )
        .as_bytes(),
    );
    out.extend_from_slice(&shown.name);
    let [channels, patterns, shards] = shown.subscriptions;
    let queued = shown.queued.map_or(-1, |count| count as i64);
    out.extend_from_slice(
        format!(
            " age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub={shards} multi={queued} \
             qbuf={query} qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem={output} tot-mem={} \
             events=r cmd={command} user=",
            seconds(client.connected_ms),
            seconds(client.active_ms.load(Ordering::Relaxed)),
            shown.db,
            shown.queued_bytes,
            query + output + (shown.queued_bytes + shown.held_bytes) as u64,
        )
        .as_bytes(),
    );
    out.extend_from_slice(shown.user.as_deref().unwrap_or(b"default"));
    let redirection = shown.tracking.map_or(-1, |mode| mode.redirection as i64);
    let version = if client.protocol() == Protocol::Resp3 { 3 } else { 2 };
    out.extend_from_slice(format!(" redir={redirection} resp={version}\n").as_bytes());
}
