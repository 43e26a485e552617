//! Explanation of stalls: why writes are slowed or stopped, since when, and until when.

use super::text::{bytes, counted, time};
use super::{Explanation, Figure, Step};
use crate::Database;
use esker_engine::state::store::Store;
use esker_engine::write::write_control::{BlockingWork, KeyspaceStall, Stalls, stall_report};
use esker_strategy::write_control::{Pressure, PressureCause, WriteState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl Database {
    /// Why writes are slowed or stopped at this moment, if they are: the queue before background work that
    /// causes it, since when, the job that has to end and when it ends, and what has passed.
    ///
    /// [`Database::stalls`] has the same as values.
    pub fn explain_stall(&self) -> Explanation {
        let store = &self.handle().store;
        explain(store, &stall_report::stalls(store))
    }
}

fn explain(store: &Store, stalls: &Stalls) -> Explanation {
    let now = UNIX_EPOCH + Duration::from_millis(store.env.clock.wall_ms());
    let held: Vec<&KeyspaceStall> =
        stalls.keyspaces.iter().filter(|keyspace| keyspace.state != WriteState::Free).collect();
    let waiting: u64 = stalls.waiting.iter().map(|waiting| waiting.writes).sum();
    let outcome = match held.len() {
        0 if waiting == 0 => "writes are not slowed".to_owned(),
        0 => format!("{} wait for room", counted(waiting, "write")),
        some => format!("writes to {} are slowed or stopped", counted(some as u64, "keyspace")),
    };
    let mut root = Step::new("writes", outcome);
    let counters = &store.counters;
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    for waiting in &stalls.waiting {
        let what = format!("waiting now, because {}", waiting.cause);
        root.steps.push(Step::new(what, "").with(Figure::Writes, waiting.writes));
    }
    root.steps.extend(keyspace_steps(&stalls.keyspaces, now));
    for (name, writes, took_ns) in [
        ("slowed in the database's life", load(&counters.delays), load(&counters.delay_ns)),
        ("stopped in the database's life", load(&counters.stalls), load(&counters.stall_ns)),
    ] {
        root.steps.push(Step::new(name, "").with(Figure::Writes, writes).with(Figure::Time, took_ns));
    }
    Explanation { root, conclusion: conclusion(&held, now, stalls.stall_limit) }
}

/// A step for each keyspace of which there is something to tell, and one for the others: there may be ten
/// thousand.
fn keyspace_steps(keyspaces: &[KeyspaceStall], now: SystemTime) -> Vec<Step> {
    let (calm, others): (Vec<&KeyspaceStall>, Vec<&KeyspaceStall>) =
        keyspaces.iter().partition(|keyspace| is_calm(keyspace));
    let mut steps: Vec<Step> = others.into_iter().map(|keyspace| keyspace_step(keyspace, now)).collect();
    match &calm[..] {
        [] => {}
        [one] => steps.push(keyspace_step(one, now)),
        some => {
            let what = counted(some.len() as u64, "keyspace");
            steps.push(Step::new(what, "not slowed, no queue is half full"));
        }
    }
    steps
}

/// Whether writes are free, and no queue has half of what slows them.
fn is_calm(keyspace: &KeyspaceStall) -> bool {
    keyspace.state == WriteState::Free
        && keyspace.pressures.iter().all(|pressure| pressure.hard == 0 || pressure.amount < pressure.soft / 2)
}

fn keyspace_step(keyspace: &KeyspaceStall, now: SystemTime) -> Step {
    let state = match keyspace.state {
        WriteState::Free => "not slowed".to_owned(),
        WriteState::Slowed { bytes_per_second } => format!("slowed to {} a second", bytes(bytes_per_second)),
        _ => "stopped".to_owned(),
    };
    let mut step = Step::new(format!("keyspace {}", keyspace.name.escape_debug()), state);
    if let Some(since) = since(keyspace, now) {
        step.add(Figure::Since, since.as_nanos() as u64);
    }
    let queues = keyspace.pressures.iter().filter(|pressure| pressure.hard > 0);
    step.steps = queues.map(queue_step).collect();
    step.steps.extend(keyspace.blocking.as_ref().map(blocking_step));
    let rates =
        [("flushes", keyspace.flush_bytes_per_second), ("compactions", keyspace.compaction_bytes_per_second)];
    for (work, rate) in rates {
        if let Some(rate) = rate {
            step.steps.push(Step::new(format!("rate of {work}"), "").with(Figure::Rate, rate));
        }
    }
    step
}

/// How long a keyspace has been under pressure without a pause.
fn since(keyspace: &KeyspaceStall, now: SystemTime) -> Option<Duration> {
    if keyspace.state == WriteState::Free {
        return None;
    }
    let changes = keyspace.changes.iter().map(|change| (change.at, change.admitted_bytes_per_second));
    lasting(changes, now)
}

/// The time since the first of the last changes that have a rate.
fn lasting(
    changes: impl DoubleEndedIterator<Item = (SystemTime, Option<u64>)>,
    now: SystemTime,
) -> Option<Duration> {
    let (began, _) = changes.rev().take_while(|(_, rate)| rate.is_some()).last()?;
    // The wall clock may have been set back.
    Some(now.duration_since(began).unwrap_or_default())
}

fn queue_step(pressure: &Pressure) -> Step {
    let name = match pressure.cause {
        PressureCause::Memory => "memtables before the flush, bytes",
        PressureCause::SharedMemory => "memtables of all keyspaces before the flush, bytes",
        PressureCause::Level0 => "level 0 before compaction, runs",
        PressureCause::Space => "tables and running jobs under the space target, bytes",
        PressureCause::Garbage => "overwritten data before compaction, bytes",
        _ => "a queue",
    };
    Step::new(name, if pressure.permille > 0 { "this slows writes" } else { "" })
        .with(Figure::Amount, pressure.amount)
        .with(Figure::Soft, pressure.soft)
        .with(Figure::Hard, pressure.hard)
}

fn blocking_step(blocking: &BlockingWork) -> Step {
    let mut step = Step::new("the work that writes wait for", blocking.to_string());
    if let Some(job) = &blocking.job {
        step.add(Figure::Rate, job.bytes_per_second());
    }
    if let Some(ends_in) = blocking.ends_in {
        step.add(Figure::EndsIn, ends_in.as_nanos() as u64);
    }
    step
}

fn conclusion(held: &[&KeyspaceStall], now: SystemTime, limit: Duration) -> String {
    let is_stopped = |keyspace: &&&KeyspaceStall| keyspace.state == WriteState::Stopped;
    let Some(worst) = held.iter().find(is_stopped).or_else(|| held.first()) else {
        return "Writes are not slowed: background work keeps up.".to_owned();
    };
    let for_long =
        since(worst, now).map_or_else(String::new, |since| format!(" for {}", time(since.as_nanos() as f64)));
    let state = if worst.state == WriteState::Stopped { "stopped" } else { "slowed" };
    let name = worst.name.escape_debug();
    let cause = &worst.pressures[0];
    let end = match worst.blocking.as_ref().and_then(|blocking| blocking.ends_in) {
        Some(left) => format!("The job that they wait for ends in about {}", time(left.as_nanos() as f64)),
        None => "The end of the work that they wait for is not known yet".to_owned(),
    };
    let way_out = match cause.cause {
        PressureCause::Memory | PressureCause::SharedMemory => {
            "a larger memory_budget or write_buffer takes longer bursts"
        }
        PressureCause::Space => "a greater space target needs less merging",
        _ => "more compaction threads, or a strategy that writes less (esker advise), keep up with more",
    };
    let limit = if worst.state == WriteState::Stopped {
        format!(" Writes are refused after {}.", time(limit.as_nanos() as f64))
    } else {
        String::new()
    };
    format!("Writes to {name} are {state}{for_long}, because {cause}. {end}; {way_out}.{limit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_lasts_since_the_last_change_from_no_limit() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let changes = [(at(1), Some(9)), (at(2), None), (at(3), Some(7)), (at(5), Some(5))];
        assert_eq!(lasting(changes.into_iter(), at(9)), Some(Duration::from_secs(6)));
        assert_eq!(lasting(changes[..2].iter().copied(), at(9)), None, "it has ended");
        assert_eq!(lasting(changes[..1].iter().copied(), at(9)), Some(Duration::from_secs(8)));
        assert_eq!(lasting(changes.into_iter(), at(2)), Some(Duration::ZERO), "the wall clock went back");
    }

    #[test]
    fn without_pressure_nothing_is_to_be_done() {
        assert!(conclusion(&[], UNIX_EPOCH, Duration::ZERO).contains("not slowed"));
    }
}
