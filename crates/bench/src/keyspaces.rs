//! Many keyspaces: what each step of a database costs by their number.
//!
//! Creates [`Settings::keyspaces`] keyspaces in a database of its own, puts an entry into each, and closes,
//! opens and flushes. A cost for each keyspace that grows with their number shows between two runs. After the
//! opening every entry must be there.

use crate::deletes::Outcome;
use crate::error::BenchError;
use crate::sample::{Measured, Sampler, Work};
use crate::settings::{Settings, Workload};
use esker::parts::env::{Clock, FileSystem, StdFileSystem};
use esker::{Database, Keyspace, Options};
use std::path::Path;

const KEY: &[u8] = b"the only key";

/// Runs all steps; the note has the time of each.
pub(crate) fn measure(settings: &Settings, clock: &dyn Clock) -> Result<Outcome, BenchError> {
    let dir = settings.directory.join("keyspaces");
    let removed = StdFileSystem.remove_dir_all(&dir);
    if let Err(error) = removed
        && !error.is_not_found()
    {
        return Err(error.into());
    }
    let mut steps = Steps { clock, count: settings.keyspaces, told: Vec::new(), sum_ns: 0 };
    run(&dir, &mut steps)?;
    StdFileSystem.remove_dir_all(&dir)?;
    let sampler = Sampler::new(clock, 1);
    let work = Work { ops: settings.keyspaces, found: settings.keyspaces, ..sampler.finish() };
    let note = format!("{} keyspaces with an entry each: {}", settings.keyspaces, steps.told.join(", "));
    Ok((Measured { work, seconds: steps.sum_ns as f64 / 1e9 }, Some(note)))
}

fn run(dir: &Path, steps: &mut Steps<'_>) -> Result<(), BenchError> {
    let count = steps.count;
    let name = |number: u64| format!("keyspace {number}");
    let put_all = |keyspaces: &[Keyspace], value: &[u8]| {
        keyspaces.iter().try_for_each(|keyspace| keyspace.put(KEY, value))
    };
    let db = Database::open_with(dir, Options::default())?;
    let names: Vec<String> = (0..count).map(name).collect();
    let keyspaces = steps.time("create", || db.create_keyspaces(&names))?;
    steps.time("put", || put_all(&keyspaces, b"1"))?;
    steps.time("close", || db.close())?;
    drop((keyspaces, db));
    let db = steps.time("open", || Database::open_with(dir, Options::default()))?;
    let keyspaces: Vec<Keyspace> =
        (0..count).map(|number| db.open_keyspace(&name(number))).collect::<Result<_, _>>()?;
    for keyspace in &keyspaces {
        if !keyspace.get_with(KEY, |value| value == Some(b"1".as_slice()))? {
            let detail = format!("{:?} has lost its entry", keyspace.name());
            return Err(BenchError::WrongAnswer { workload: Workload::Keyspaces, detail });
        }
    }
    put_all(&keyspaces, b"2")?;
    steps.time("flush", || db.flush())?;
    steps.time("drain", || db.drain())?;
    steps.time("metrics", || {
        db.metrics();
        Ok(())
    })?;
    steps.time("close again", || db.close())?;
    Ok(())
}

/// Times steps.
struct Steps<'a> {
    clock: &'a dyn Clock,
    count: u64,
    told: Vec<String>,
    sum_ns: u64,
}

impl Steps<'_> {
    fn time<T>(&mut self, what: &str, step: impl FnOnce() -> esker::Result<T>) -> esker::Result<T> {
        let began_ns = self.clock.monotonic_ns();
        let done = step()?;
        let took_ns = self.clock.monotonic_ns() - began_ns;
        self.sum_ns += took_ns;
        let each_us = took_ns as f64 / 1e3 / self.count as f64;
        self.told.push(format!("{what} {:.3} s ({each_us:.1} us each)", took_ns as f64 / 1e9));
        Ok(done)
    }
}
