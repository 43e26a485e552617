//! Gets beside a thread that overwrites records at a steady rate, the same for all stores: what flushes and
//! compactions do to the latency of reads. At full speed a faster store would have more of them.

use super::drive::{Tally, Workload};
use super::points::checked_get;
use super::updates::{can_share, stale};
use super::{Bench, Choice, with_value};
use crate::data::{Data, KEY_BUFFER_BYTES, Random};
use crate::engine::{Engine, Result, Session};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Puts of the other thread in a second: of JSON values 10 MB, so that a memtable of 64 MiB is flushed every
/// 7 s and merged into the levels below. Merge trees take more, so all of them have the same work.
const PUTS_A_SECOND: u64 = 20_000;
/// How often it puts what is due.
const TICK: Duration = Duration::from_millis(1);
/// Salts of the choice of records.
const READ_SALT: u64 = 0x6265_7369;
const WRITTEN_SALT: u64 = 0x7075_7473;

impl Bench {
    /// Gets of random records, each timed, beside the puts; afterwards the last versions are looked for.
    pub(super) fn gets_beside_puts(&mut self, engine: &dyn Engine) -> Result<()> {
        let name = "get_beside_puts";
        if !self.selects(name) || !engine.abilities().reads || !can_share(engine, 2) {
            return Ok(());
        }
        let operations = self.settings.operations;
        let records = self.choose(Choice::Uniform, operations, READ_SALT);
        let data = &self.data;
        let get = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            checked_get(data, records[number as usize], session, number, tally)
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name, threads: 1, operations, max_seconds, operation: &get };
        let written = AtomicU64::new(0);
        let (most, seed) = (self.settings.records, self.settings.seed);
        let put =
            |is_over: &AtomicBool| put_steadily(data, engine, written_records(most, seed), is_over, &written);
        let mut record = self.drive_beside(engine, &workload, Some(&put))?;
        let count = written.into_inner();
        let choices = written_records(most, seed).take(count as usize).zip(1..);
        record.errors += stale(data, engine, choices, count)?;
        record.note = format!("beside {:.0} puts a second", count as f64 / record.seconds);
        self.emit(record)
    }
}

/// The records that are put, one after the other.
fn written_records(records: u64, seed: u64) -> impl Iterator<Item = u32> {
    let mut random = Random::new(seed ^ WRITTEN_SALT);
    std::iter::repeat_with(move || random.below(records) as u32)
}

/// Puts these records at the steady rate until it is over; without a pause where the store cannot keep up.
/// What has become due is put at once, a tick's worth at least.
fn put_steadily(
    data: &Data,
    engine: &dyn Engine,
    records: impl Iterator<Item = u32>,
    is_over: &AtomicBool,
    written: &AtomicU64,
) -> Result<()> {
    let mut session = engine.session()?;
    let mut key = [0; KEY_BUFFER_BYTES];
    let start = Instant::now();
    let mut count = 0u64;
    for (record, version) in records.zip(1..) {
        loop {
            if is_over.load(Ordering::Relaxed) && count > 0 {
                return Ok(());
            }
            let due = ((start.elapsed() + TICK).as_secs_f64() * PUTS_A_SECOND as f64) as u64;
            if count < due {
                break;
            }
            std::thread::sleep(TICK);
        }
        let record = u64::from(record);
        with_value(data, record, version, |value| session.put(data.key(record, &mut key), value))?;
        count += 1;
        written.store(count, Ordering::Relaxed);
    }
    Ok(())
}
