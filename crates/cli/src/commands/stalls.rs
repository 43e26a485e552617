//! `stalls`: explains in sentences why writes are slowed or stopped.

use super::{Context, write_json};
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_time};
use esker::metrics::{
    BlockingWork, JobMetrics, KeyspaceStall, Pressure, PressureCause, StallChange, Stalls, WriteState,
};
use serde_json::json;
use std::io::Write;

pub(super) fn run(context: &mut Context<'_>) -> Result<Exit, Failure> {
    let mut stalls = context.database.stalls();
    if let Some(only) = &context.only {
        context.existing_keyspace()?;
        stalls.keyspaces.retain(|keyspace| keyspace.name == *only);
    }
    if context.shape.json {
        let serde_json::Value::Object(members) = as_json(&stalls) else { return Ok(Exit::Done) };
        write_json(context.out, members)?;
        return Ok(Exit::Done);
    }
    write!(context.out, "{stalls}")?;
    for keyspace in &stalls.keyspaces {
        print_keyspace(context.out, keyspace)?;
    }
    let metrics = context.database.metrics();
    writeln!(
        context.out,
        "since {}: {} writes slowed for {} ms, {} stopped for {} ms",
        human_time(metrics.counted_since_ms),
        human_count(metrics.delays),
        human_count(metrics.delay_time.as_millis() as u64),
        human_count(metrics.stalls),
        human_count(metrics.stall_time.as_millis() as u64),
    )?;
    Ok(Exit::Done)
}

fn print_keyspace(out: &mut dyn Write, keyspace: &KeyspaceStall) -> Result<(), Failure> {
    let name = keyspace.name.escape_debug();
    for pressure in keyspace.pressures.iter().filter(|pressure| pressure.hard > 0) {
        writeln!(out, "  {name}: {pressure}")?;
    }
    let rates =
        [("flushes", keyspace.flush_bytes_per_second), ("compactions", keyspace.compaction_bytes_per_second)];
    for (work, measured) in rates {
        if let Some(rate) = measured {
            writeln!(out, "  {name}: {work} run at {} a second", human_bytes(rate))?;
        }
    }
    Ok(())
}

fn as_json(stalls: &Stalls) -> serde_json::Value {
    let waiting: Vec<_> = stalls
        .waiting
        .iter()
        .map(|waiting| json!({ "writes": waiting.writes, "cause": waiting.cause }))
        .collect();
    json!({
        "keyspaces": stalls.keyspaces.iter().map(keyspace_as_json).collect::<Vec<_>>(),
        "waiting": waiting,
        "stall_limit_ms": u64::try_from(stalls.stall_limit.as_millis()).unwrap_or(u64::MAX),
    })
}

fn keyspace_as_json(keyspace: &KeyspaceStall) -> serde_json::Value {
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

fn blocking_as_json(blocking: &BlockingWork) -> serde_json::Value {
    let job = |job: &JobMetrics| {
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
    };
    let ends_in_ms = blocking.ends_in.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    json!({
        "job": blocking.job.as_ref().map(job),
        "ends_in_ms": ends_in_ms,
        "error": blocking.error,
    })
}

fn pressure_as_json(pressure: &Pressure) -> serde_json::Value {
    let cause = match pressure.cause {
        PressureCause::Memory => "memory",
        PressureCause::SharedMemory => "shared memory",
        PressureCause::Level0 => "level 0",
        PressureCause::Space => "space",
        PressureCause::Garbage => "garbage",
        _ => "other",
    };
    json!({
        "cause": cause,
        "amount": pressure.amount,
        "soft": pressure.soft,
        "hard": pressure.hard,
        "permille": pressure.permille,
    })
}

fn change_as_json(change: &StallChange) -> serde_json::Value {
    json!({
        "at_ms": crate::format::unix_ms(change.at),
        "pressure": pressure_as_json(&change.pressure),
        "admitted_bytes_per_second": change.admitted_bytes_per_second,
    })
}
