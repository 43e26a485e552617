//! Gets, alone and many at a time.

use super::drive::{Tally, Workload};
use super::{
    Bench, Choice, LEAST_WARM_MIB, MAX_LIMITED_WARM_SECONDS, MAX_WARM_SECONDS_PER_GIB, WARM_GETS_PER_BLOCK,
};
use crate::data::{Data, KEY_BUFFER_BYTES, Random};
use crate::engine::{BLOCK_BYTES, Engine, Result, Session};
use std::time::Instant;

/// Keys of a multi-get; one bit of a 32-bit word for each.
const MULTI_GET_KEYS: usize = 32;

/// Gets a record, and checks what is found.
pub(super) fn checked_get(
    data: &Data,
    record: u32,
    session: &mut dyn Session,
    number: u64,
    tally: &mut Tally,
) -> Result<()> {
    let mut key = [0; KEY_BUFFER_BYTES];
    let mut is_right = false;
    let key = data.key(u64::from(record), &mut key);
    session.get(key, &mut |value| is_right = data.check(u64::from(record), value, number))?;
    tally.errors += u64::from(!is_right);
    Ok(())
}

impl Bench {
    pub(super) fn points(&mut self, engine: &dyn Engine) -> Result<()> {
        for threads in self.settings.threads.clone() {
            self.gets(engine, "get_uniform", Choice::Uniform, threads)?;
        }
        self.gets(engine, "get_zipf", Choice::Zipf, 1)?;
        self.absent_gets(engine)?;
        self.multi_gets(engine)
    }

    /// Untimed gets of present records, which warm the caches.
    pub(super) fn warm(&self, engine: &dyn Engine) -> Result<()> {
        let mut session = engine.session()?;
        let mut key = [0; KEY_BUFFER_BYTES];
        let mut random = Random::new(self.settings.seed ^ 0x77_61_72_6d);
        let cache_mib = self.settings.cache_mib;
        let blocks = (cache_mib << 20) / BLOCK_BYTES as u64;
        let gets = self.settings.operations.max(WARM_GETS_PER_BLOCK * blocks);
        let max_seconds = if self.settings.memory_limit_mib > 0 {
            MAX_LIMITED_WARM_SECONDS
        } else {
            MAX_WARM_SECONDS_PER_GIB * cache_mib.max(LEAST_WARM_MIB) as f64 / 1024.0
        };
        let start = Instant::now();
        for number in 0..gets {
            let record = random.below(self.settings.records);
            session.get(self.data.key(record, &mut key), &mut |_| {})?;
            if number.is_multiple_of(1024) && start.elapsed().as_secs_f64() > max_seconds {
                break;
            }
        }
        Ok(())
    }

    fn gets(&mut self, engine: &dyn Engine, name: &str, choice: Choice, threads: usize) -> Result<()> {
        if !self.selects(name) {
            return Ok(());
        }
        let operations = self.settings.operations;
        let records = self.choose(choice, operations, 0x7265_6164 + threads as u64);
        let data = &self.data;
        let get = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            checked_get(data, records[number as usize], session, number, tally)
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name, threads, operations, max_seconds, operation: &get };
        let record = self.drive(engine, &workload)?;
        self.emit(record)
    }

    fn absent_gets(&mut self, engine: &dyn Engine) -> Result<()> {
        let name = "get_absent";
        if !self.selects(name) {
            return Ok(());
        }
        let operations = self.settings.operations;
        let records = self.choose(Choice::Uniform, operations, 0x6d69_7373);
        let data = &self.data;
        let get = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            let mut key = [0; KEY_BUFFER_BYTES];
            let record = u64::from(records[number as usize]);
            tally.errors += u64::from(session.get(data.absent_key(record, &mut key), &mut |_| {})?);
            Ok(())
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name, threads: 1, operations, max_seconds, operation: &get };
        let record = self.drive(engine, &workload)?;
        self.emit(record)
    }

    fn multi_gets(&mut self, engine: &dyn Engine) -> Result<()> {
        let name = "multi_get_32";
        if !self.selects(name) {
            return Ok(());
        }
        let operations = (self.settings.operations / MULTI_GET_KEYS as u64).max(1);
        let records = self.choose(Choice::Uniform, operations * MULTI_GET_KEYS as u64, 0x6d75_6c74);
        let data = &self.data;
        let multi_get = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            let start = number as usize * MULTI_GET_KEYS;
            let records = &records[start..start + MULTI_GET_KEYS];
            let mut buffers = [[0; KEY_BUFFER_BYTES]; MULTI_GET_KEYS];
            let mut keys: [&[u8]; MULTI_GET_KEYS] = [&[]; MULTI_GET_KEYS];
            for ((key, buffer), record) in keys.iter_mut().zip(&mut buffers).zip(records) {
                *key = data.key(u64::from(*record), buffer);
            }
            let mut right = 0u32;
            session.multi_get(&keys, &mut |place, value| {
                if data.check(u64::from(records[place]), value, (start + place) as u64) {
                    right |= 1 << place;
                }
            })?;
            tally.items += MULTI_GET_KEYS as u64;
            tally.errors += u64::from(right.count_zeros());
            Ok(())
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name, threads: 1, operations, max_seconds, operation: &multi_get };
        let mut record = self.drive(engine, &workload)?;
        record.note = engine.abilities().multi_get.to_owned();
        self.emit(record)
    }
}
