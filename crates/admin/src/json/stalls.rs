//! Write control as JSON: why writes are slowed or stopped, and by which job.

use super::{milliseconds, unix_ms};
use esker::metrics::{BlockingWork, JobMetrics, KeyspaceStall, Pressure, StallChange, Stalls, WriteState};
use serde_json::{Value, json};

/// Why writes are slowed or stopped.
pub fn stalls(stalls: &Stalls) -> Value {
    let waiting: Vec<_> = stalls
        .waiting
        .iter()
        .map(|waiting| json!({ "writes": waiting.writes, "cause": waiting.cause }))
        .collect();
    json!({
        "keyspaces": stalls.keyspaces.iter().map(keyspace_as_json).collect::<Vec<_>>(),
        "waiting": waiting,
        "stall_limit_ms": milliseconds(stalls.stall_limit),
    })
}

fn keyspace_as_json(keyspace: &KeyspaceStall) -> Value {
    let (state, rate) = match keyspace.state {
        WriteState::Free => ("free", None),
        WriteState::Slowed { bytes_per_second } => ("slowed", Some(bytes_per_second)),
        _ => ("stopped", None),
    };
    json!({
        "name": keyspace.name,
        "state": state,
        "admitted_bytes_per_second": rate,
        "blocking": keyspace.blocking.as_ref().map(blocking_as_json),
        "pressures": keyspace.pressures.iter().map(pressure_as_json).collect::<Vec<_>>(),
        "flush_bytes_per_second": keyspace.flush_bytes_per_second,
        "compaction_bytes_per_second": keyspace.compaction_bytes_per_second,
        "changes": keyspace.changes.iter().map(change_as_json).collect::<Vec<_>>(),
    })
}

fn blocking_as_json(blocking: &BlockingWork) -> Value {
    json!({
        "job": blocking.job.as_ref().map(job),
        "ends_in_ms": blocking.ends_in.map(milliseconds),
        "error": blocking.error,
    })
}

/// A flush or compaction that runs.
pub fn job(job: &JobMetrics) -> Value {
    json!({
        "number": job.number,
        "keyspace": job.keyspace,
        "class": job.class,
        "reason": job.reason,
        "from": job.from,
        "to": job.level,
        "done_bytes": job.done_bytes(),
        "total_bytes": job.total_bytes,
        "bytes_per_second": job.bytes_per_second(),
        "running_ms": job.running.as_millis() as u64,
    })
}

fn pressure_as_json(pressure: &Pressure) -> Value {
    json!({
        "cause": pressure.cause.name(),
        "amount": pressure.amount,
        "soft": pressure.soft,
        "hard": pressure.hard,
        "permille": pressure.permille,
    })
}

fn change_as_json(change: &StallChange) -> Value {
    json!({
        "at_ms": unix_ms(change.at),
        "pressure": pressure_as_json(&change.pressure),
        "admitted_bytes_per_second": change.admitted_bytes_per_second,
    })
}
