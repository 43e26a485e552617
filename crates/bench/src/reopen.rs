//! Opening: after a clean close, and after a process was killed whose memtable was full.
//!
//! The process to be killed is this program started anew ([`Settings::victim`]), because a thread cannot be
//! killed: it opens the database, overwrites records until the memtable holds what it may, says so, and waits
//! for its end in [`fill_until_killed`]. Only the opening itself is timed, a few times; the median counts.
//! After each the whole data set is read, and what the killed process wrote must be there: it overwrites
//! records with the other of their two values, so that a lost replay shows.

use crate::data::Data;
use crate::error::BenchError;
use crate::host;
use crate::sample::{Measured, Sampler, Work};
use crate::settings::{Settings, Victim, Workload};
use crate::store::Store;
use crate::workloads::Prepared;
use esker::parts::env::Clock;
use std::io::{Read, Write};

/// Times that the database is opened for a row: an odd number, so that one of them is the median.
const OPENS: u64 = 5;

/// How the line ends in which the process to be killed says that it is ready.
const FULL: &str = " entries in the memtable";

/// Opens the database again and again, and gives it back open.
pub(crate) fn measure(
    workload: Workload,
    mut store: Store,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<(Store, Measured), BenchError> {
    let mut sampler = Sampler::new(clock, 1);
    let (mut total_ns, mut found) = (0, 0);
    let victim_puts = full_memtable(&store, settings);
    for number in 0..OPENS {
        store.close()?;
        // The first overwrites what a fill has written, each later one what the one before it has.
        let victim = Victim { puts: victim_puts, version: (number + 1) % 2 };
        if workload == Workload::ReopenKill {
            kill(settings, &victim)?;
        }
        let (opened, took_ns) = Store::open_timed(settings, clock)?;
        store = opened;
        sampler.note(took_ns);
        total_ns += took_ns;
        found += Prepared::new(workload, settings, data).run(&store, clock)?.work.found;
        if workload == Workload::ReopenKill {
            check(&store, settings, data, &victim)?;
        }
    }
    let work = Work { ops: OPENS, found, ..sampler.finish() };
    Ok((store, Measured { work, seconds: total_ns as f64 / 1e9 }))
}

/// Puts that fill a memtable and do not seal it.
fn full_memtable(store: &Store, settings: &Settings) -> u64 {
    let pair_bytes = (settings.key_size + settings.value_size) as u64;
    (store.database.metrics().memory.write_buffer_bytes / pair_bytes).max(1)
}

/// Starts the process, waits until its memtable is full, and kills it.
fn kill(settings: &Settings, victim: &Victim) -> Result<(), BenchError> {
    let start = settings.victim.ok_or_else(|| BenchError::Settings("there is no program to kill".into()))?;
    let said = host::kill_once_it_said(start(settings, victim)?, |line| line.ends_with(FULL))?;
    match said {
        Some(line) if line == said_when_full(victim.puts) => Ok(()),
        said => Err(BenchError::WrongAnswer {
            workload: Workload::ReopenKill,
            detail: match said {
                Some(line) => {
                    format!("the process to be killed was to make {} puts and said {line:?}", victim.puts)
                }
                None => "the process to be killed came to an end by itself".to_owned(),
            },
        }),
    }
}

fn said_when_full(puts: u64) -> String {
    format!("{puts}{FULL}")
}

/// Everything the killed process was told to write is there.
fn check(store: &Store, settings: &Settings, data: &Data, victim: &Victim) -> Result<(), BenchError> {
    let keys = data.keys(0..victim.puts.min(settings.num));
    let mut missing = 0u64;
    for key in keys.whole().iter() {
        let expected = data.value(key, victim.version);
        let is_there = store.keyspace.get_with(key, |value| value == Some(expected))?;
        missing += u64::from(!is_there);
    }
    match missing {
        0 => Ok(()),
        _ => Err(BenchError::WrongAnswer {
            workload: Workload::ReopenKill,
            detail: format!(
                "{missing} of the records that the killed process wrote are not as it wrote them"
            ),
        }),
    }
}

/// What the process does that `reopenkill` kills: fills a memtable, says so in a line on `out`, and waits for
/// its end, or for the end of the process that was to kill it, which shows as the end of `input`.
///
/// # Errors
/// Those of the database; and if the memtable would not take as much.
pub fn fill_until_killed(
    settings: &Settings,
    victim: &Victim,
    out: &mut dyn Write,
    input: &mut dyn Read,
) -> Result<(), BenchError> {
    let store = Store::open(settings)?;
    let data = Data::new(settings.key_size, settings.value_size, settings.seed);
    let keys = data.keys(0..victim.puts.min(settings.num));
    let puts = usize::try_from(victim.puts).unwrap_or(usize::MAX);
    for key in keys.whole().iter().cycle().take(puts) {
        store.keyspace.put(key, data.value(key, victim.version))?;
    }
    let metrics = store.database.metrics();
    let filled = metrics.keyspaces.iter().find(|keyspace| keyspace.name == *store.keyspace.name());
    let (entries, sealed, flushes) = filled
        .map(|keyspace| (keyspace.memtable_entries, keyspace.sealed_memtables, keyspace.flushes))
        .unwrap_or_default();
    if (sealed, flushes) != (0, 0) {
        let detail = format!("{puts} puts sealed {sealed} memtables and flushed {flushes} times");
        return Err(BenchError::WrongAnswer { workload: Workload::ReopenKill, detail });
    }
    writeln!(out, "{}", said_when_full(entries))?;
    out.flush()?;
    let mut byte = [0];
    while input.read(&mut byte)? > 0 {}
    Ok(())
}
