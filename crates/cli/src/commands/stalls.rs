//! `stalls`: explains in sentences why writes are slowed or stopped.

use super::{Context, write_json};
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_time};
use esker::metrics::KeyspaceStall;
use std::io::Write;

pub(super) fn run(context: &mut Context<'_>) -> Result<Exit, Failure> {
    let mut stalls = context.database.stalls();
    if let Some(only) = &context.only {
        context.existing_keyspace()?;
        stalls.keyspaces.retain(|keyspace| keyspace.name == *only);
    }
    if context.shape.json {
        let serde_json::Value::Object(members) = esker_admin::json::stalls::stalls(&stalls) else {
            return Ok(Exit::Done);
        };
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
