//! Time to open a database after a clean close, and after a kill with a full memtable.
//!
//! The killed process is this program started anew ([`Settings::victim`]), because a thread cannot be killed.
//! It opens the database, overwrites records until the memtable is full, prints a line, and waits in
//! [`fill_until_killed`]. Only the opening is timed, [`OPENS`] times; the median counts. After each, the
//! whole data set is read and the writes of the killed process must be there: it overwrites records with the
//! other of their two values, so that a lost replay shows.

use crate::data::Data;
use crate::error::BenchError;
use crate::host;
use crate::sample::{Measured, Sampler, Work};
use crate::settings::{Settings, Victim, Workload};
use crate::store::Store;
use crate::workloads::Prepared;
use esker::parts::env::Clock;
use std::io::{Read, Write};

/// Openings for a row: an odd number, so that one of them is the median.
const OPENS: u64 = 5;

/// End of the line by which the process reports that its memtable is full.
const FULL: &str = " entries in the memtable";

/// Opens the database repeatedly, and returns it open.
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
        // The first overwrites what a fill has written, each later one what its predecessor has.
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

/// Number of puts that fill a memtable without sealing it.
fn full_memtable(store: &Store, settings: &Settings) -> u64 {
    let pair_bytes = (settings.key_size + settings.value_size) as u64;
    (store.database.metrics().memory.write_buffer_bytes / pair_bytes).max(1)
}

fn kill(settings: &Settings, victim: &Victim) -> Result<(), BenchError> {
    let start = settings.victim.ok_or_else(|| BenchError::Settings("there is no program to kill".into()))?;
    let said = host::kill_after_line(start(settings, victim)?, |line| line.ends_with(FULL))?;
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

/// Checks that everything the killed process was to write is there.
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

/// Entries of the active memtable, sealed memtables, and flushes in the life of the keyspace.
fn filled(store: &Store) -> (u64, usize, u64) {
    let metrics = store.database.metrics();
    let here = metrics.keyspaces.iter().find(|keyspace| keyspace.name == *store.keyspace.name());
    here.map(|keyspace| (keyspace.memtable_entries, keyspace.sealed_memtables, keyspace.flushes))
        .unwrap_or_default()
}

/// Body of the process that `reopenkill` kills: fills a memtable, reports it in a line on `out`, and waits
/// for the kill, or for the end of its parent, which shows as the end of `input`.
///
/// # Errors
/// Those of the database; and if the memtable is sealed before all puts are in it.
pub fn fill_until_killed(
    settings: &Settings,
    victim: &Victim,
    out: &mut dyn Write,
    input: &mut dyn Read,
) -> Result<(), BenchError> {
    let store = Store::open(settings)?;
    let (_, _, flushes_before) = filled(&store);
    let data = Data::new(settings.key_size, settings.value_size, settings.seed);
    let keys = data.keys(0..victim.puts.min(settings.num));
    let puts = usize::try_from(victim.puts).unwrap_or(usize::MAX);
    for key in keys.whole().iter().cycle().take(puts) {
        store.keyspace.put(key, data.value(key, victim.version))?;
    }
    let (entries, sealed, flushes) = filled(&store);
    let flushes = flushes - flushes_before;
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
