//! Reads among deleted keys: a seek over them after an idle time, and the latency of a queue over its life.
//!
//! Each workload has a keyspace of its own beside the data set, created before and dropped after it.

use crate::data::{Data, Rng};
use crate::error::BenchError;
use crate::sample::{Measured, Sampler, Work};
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::Keyspace;
use esker::parts::env::Clock;
use std::time::Duration;

const KEYSPACE: &str = "esker.bench.deleted";

/// Seeks after the idle time: enough for a 99th percentile.
const SEEKS: u64 = 1_000;

const QUEUE_LEN: u64 = 1_000;

/// A queue's operations are divided into this many parts; the first and the last are compared.
const QUEUE_PARTS: u64 = 10;

/// The measurement, and a note for the report.
pub(crate) type Outcome = (Measured, Option<String>);

pub(crate) fn measure(
    workload: Workload,
    store: &Store,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<Outcome, BenchError> {
    if store.database.open_keyspace(KEYSPACE).is_ok() {
        store.database.drop_keyspace(KEYSPACE)?;
    }
    let keyspace = store.database.keyspace(KEYSPACE)?;
    let outcome = match workload {
        Workload::Queue => queue(&keyspace, settings, data, clock)?,
        _ => (seek_deleted(workload, store, &keyspace, settings, data, clock)?, None),
    };
    store.database.drop_keyspace(KEYSPACE)?;
    Ok(outcome)
}

/// Deletes everything between two keys, waits, and seeks from random keys between them: each finds the
/// second.
fn seek_deleted(
    workload: Workload,
    store: &Store,
    keyspace: &Keyspace,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<Measured, BenchError> {
    let keys = data.sorted_keys(settings.num + 2);
    let keys: Vec<&[u8]> = keys.whole().iter().collect();
    for key in &keys {
        keyspace.put(key, data.value(key, 0))?;
    }
    store.database.drain()?;
    let last = keys.len() - 1;
    if workload == Workload::SeekRangeDeleted {
        keyspace.delete_range(keys[1]..keys[last])?;
    } else {
        keys[1..last].iter().try_for_each(|key| keyspace.delete(key))?;
    }
    #[expect(clippy::disallowed_methods, reason = "lying idle for a time is what is measured")]
    std::thread::sleep(Duration::from_secs(settings.idle_seconds));
    let mut rng = Rng::new(settings.seed, 1 + workload as u64);
    let mut sampler = Sampler::new(clock, 1);
    let start = clock.monotonic_ns();
    let mut wrong = None;
    for _ in 0..SEEKS {
        let from = keys[1 + rng.below(settings.num) as usize];
        let found = sampler.measure(|| -> esker::Result<_> {
            let mut cursor = keyspace.cursor()?;
            cursor.seek(from)?;
            Ok(cursor.entry().map(|(key, _)| key == keys[last]))
        })?;
        if found != Some(true) {
            wrong = Some("a seek over deleted keys did not find the key after them".to_owned());
        }
    }
    let seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
    match wrong {
        None => Ok(Measured { work: Work { ops: SEEKS, found: SEEKS, ..sampler.finish() }, seconds }),
        Some(detail) => Err(BenchError::WrongAnswer { workload, detail }),
    }
}

/// Puts at the tail, finds the head, deletes it. The search for the head is timed.
fn queue(
    keyspace: &Keyspace,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<Outcome, BenchError> {
    let key_of = |number: u64| {
        let mut key = vec![b'q'; settings.key_size];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    };
    let put = |number: u64| {
        let key = key_of(number);
        keyspace.put(&key, data.value(&key, 0))
    };
    (0..QUEUE_LEN).try_for_each(put)?;
    let mut parts: Vec<Sampler<'_>> = (0..QUEUE_PARTS).map(|_| Sampler::new(clock, 1)).collect();
    let start = clock.monotonic_ns();
    for number in 0..settings.num {
        put(QUEUE_LEN + number)?;
        let sampler = &mut parts[(number * QUEUE_PARTS / settings.num) as usize];
        let head = sampler.measure(|| keyspace.first())?;
        let Some((key, _)) = head.filter(|(key, _)| **key == *key_of(number)) else {
            let detail = format!("the queue's head was not entry {number}");
            return Err(BenchError::WrongAnswer { workload: Workload::Queue, detail });
        };
        keyspace.delete(key)?;
    }
    let seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
    let mut all = Sampler::new(clock, 1).finish();
    let mut p99_us = Vec::new();
    for part in parts {
        let work = part.finish();
        p99_us.push(work.histogram.value_at_quantile(0.99) as f64 / 1e3);
        all.add(work);
    }
    let part = settings.num / QUEUE_PARTS;
    let (first, last) = (p99_us[0], p99_us[p99_us.len() - 1]);
    let note = format!(
        "queue: 99 of 100 searches for the head took at most {first:.1} us in the first {part} operations, {last:.1} us in the last"
    );
    let work = Work { ops: settings.num, found: settings.num, ..all };
    Ok((Measured { work, seconds }, Some(note)))
}
