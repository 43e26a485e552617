//! Overwriting, mixed reading and writing, and deleting.

use super::drive::{Tally, Workload};
use super::scans::count_all;
use super::{Bench, Choice, with_value};
use crate::data::{Data, KEY_BUFFER_BYTES, Permutation, mix};
use crate::engine::{Engine, Result, Session};
use std::collections::HashMap;

/// Number of overwritten records whose versions are checked: few, so that their list does not count as the
/// store's memory.
const VERSIONS_SEEN: u64 = 10_000;
/// Mixed gets and puts have this many times as many operations as others: enough puts for several memtables,
/// so that their background cost is part of the rate.
const MIXED_LENGTH: u64 = 4;
/// One in this many records is deleted.
const DELETED_SHARE: u64 = 4;

/// Whether this many threads may set keys that others read.
pub(super) fn can_share(engine: &dyn Engine, threads: usize) -> bool {
    threads == 1 || engine.abilities().replaces_whole
}

/// Number of overwritten records that do not have the last version. `written` has records and versions in the
/// order in which one thread wrote them, at most `count` of them.
pub(super) fn stale(
    data: &Data,
    engine: &dyn Engine,
    written: impl Iterator<Item = (u32, u64)>,
    count: u64,
) -> Result<u64> {
    let one_in = (count / VERSIONS_SEEN).max(1);
    let is_seen = |record: u32| mix(u64::from(record)).is_multiple_of(one_in);
    let last: HashMap<u32, u64> = written.filter(|(record, _)| is_seen(*record)).collect();
    let mut session = engine.session()?;
    let mut key = [0; KEY_BUFFER_BYTES];
    let mut errors = 0;
    for (record, version) in last {
        let record = u64::from(record);
        let mut is_last = false;
        session.get(data.key(record, &mut key), &mut |value| {
            is_last = data.is_whole(record, value) && data.version_of(value) == Data::stored_version(version);
        })?;
        errors += u64::from(!is_last);
    }
    Ok(errors)
}

impl Bench {
    /// Puts of random present records.
    pub(super) fn overwrites(&mut self, engine: &dyn Engine) -> Result<()> {
        let name = "overwrite";
        for threads in self.settings.threads.clone() {
            if !self.selects(name) {
                continue;
            }
            let operations = self.settings.operations;
            let records = self.choose(Choice::Uniform, operations, 0x6f76_6572 + threads as u64);
            let data = &self.data;
            let put = |session: &mut dyn Session, number: u64, _: &mut Tally| {
                let mut key = [0; KEY_BUFFER_BYTES];
                let record = u64::from(records[number as usize]);
                with_value(data, record, number + 1, |value| session.put(data.key(record, &mut key), value))
            };
            let max_seconds = self.settings.max_seconds;
            let workload = Workload { name, threads, operations, max_seconds, operation: &put };
            let mut record = self.drive(engine, &workload)?;
            if threads == 1 && engine.abilities().reads {
                let written = (0..record.count).map(|number| (records[number as usize], number + 1));
                record.errors += stale(data, engine, written, record.count)?;
            }
            self.emit(record)?;
        }
        Ok(())
    }

    /// Alternating gets and puts of random present records. Each number of threads begins with no background
    /// work left: else the first would leave its memtable to the second, and the two could not be compared.
    pub(super) fn mixed(&mut self, engine: &mut dyn Engine) -> Result<()> {
        let name = "mixed";
        for threads in self.settings.threads.clone() {
            if !self.selects(name) || !can_share(engine, threads) {
                continue;
            }
            engine.flush()?;
            self.settle();
            let operations = self.settings.operations * MIXED_LENGTH;
            let records = self.choose(Choice::Uniform, operations, 0x6d69_7865 + threads as u64);
            let data = &self.data;
            let get_or_put = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
                let mut key = [0; KEY_BUFFER_BYTES];
                let record = u64::from(records[number as usize]);
                let key = data.key(record, &mut key);
                if number.is_multiple_of(2) {
                    return with_value(data, record, number + 1, |value| session.put(key, value));
                }
                let mut is_right = false;
                session.get(key, &mut |value| is_right = data.check(record, value, number >> 1))?;
                tally.errors += u64::from(!is_right);
                Ok(())
            };
            let max_seconds = self.settings.max_seconds;
            let workload = Workload { name, threads, operations, max_seconds, operation: &get_or_put };
            let mut record = self.drive(&*engine, &workload)?;
            if threads == 1 {
                let puts = (0..record.count).step_by(2);
                let written = puts.map(|number| (records[number as usize], number + 1));
                record.errors += stale(data, &*engine, written, record.count)?;
            }
            self.emit(record)?;
        }
        Ok(())
    }

    /// Deletes a quarter of the records, and counts the rest of `live`, which must contain no deleted one.
    pub(super) fn deletes(&mut self, engine: &dyn Engine, live: u64) -> Result<()> {
        let name = "delete";
        if !self.selects(name) {
            return Ok(());
        }
        let data = &self.data;
        let random = Permutation::new(self.settings.records, self.settings.seed ^ 0xde1);
        let delete = |session: &mut dyn Session, place: u64, _: &mut Tally| {
            let mut key = [0; KEY_BUFFER_BYTES];
            session.delete(data.key(random.at(place), &mut key))
        };
        let workload = Workload {
            name,
            threads: 1,
            operations: self.settings.records / DELETED_SHARE,
            max_seconds: self.settings.max_seconds,
            operation: &delete,
        };
        let mut record = self.drive(engine, &workload)?;
        let mut deleted = vec![false; usize::try_from(self.settings.records)?];
        for place in 0..record.count {
            deleted[random.at(place) as usize] = true;
        }
        let mut session = engine.session()?;
        let (count, errors) = count_all(data, session.as_mut(), &deleted)?;
        let expected = live - record.count;
        record.errors += errors + count.abs_diff(expected);
        if count != expected {
            record.note = format!("{count} records are left, {expected} should be");
        }
        drop(session);
        self.emit(record)
    }
}
