//! `stalls`: explains in sentences why writes are slowed or stopped.

use super::{Context, write_json};
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_counted, human_time};
use esker::metrics::{KeyspaceStall, Stalls};
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
    let calm = if context.only.is_none() { leave_out_calm(&mut stalls) } else { 0 };
    write!(context.out, "{stalls}")?;
    if calm > 0 {
        let others = human_counted(calm, "other keyspace");
        writeln!(
            context.out,
            "{others}: writes are not slowed, no queue is half full (--keyspace shows one)"
        )?;
    }
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

/// Leaves out keyspaces of which there is nothing to tell and counts them; the first one stays if there is no
/// other. There may be ten thousand.
fn leave_out_calm(stalls: &mut Stalls) -> u64 {
    let before = stalls.keyspaces.len();
    let keeps_first = stalls.keyspaces.iter().all(is_calm);
    let mut at = 0;
    stalls.keyspaces.retain(|keyspace| {
        at += 1;
        !is_calm(keyspace) || (keeps_first && at == 1)
    });
    (before - stalls.keyspaces.len()) as u64
}

/// Whether writes are free, and no queue has half of what slows them.
fn is_calm(keyspace: &KeyspaceStall) -> bool {
    keyspace.blocking.is_none()
        && keyspace.pressures.iter().all(|pressure| pressure.hard == 0 || pressure.amount < pressure.soft / 2)
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
