//! Scans: of everything in both directions, and short ones from random keys.

use super::drive::{Tally, Workload};
use super::{Bench, Choice};
use crate::data::{Data, KEY_BUFFER_BYTES};
use crate::engine::{Engine, Result, Session};

impl Bench {
    /// All scans; the first `live` records exist.
    pub(super) fn scans(&mut self, engine: &dyn Engine, live: u64) -> Result<()> {
        // The first pass warms the caches; it has a row of its own.
        for name in ["scan_forward_first", "scan_forward", "scan_backward"] {
            self.whole_scan(engine, name, live)?;
        }
        for length in self.settings.scan_lengths.clone() {
            self.seeks(engine, length)?;
        }
        Ok(())
    }

    fn whole_scan(&mut self, engine: &dyn Engine, name: &str, live: u64) -> Result<()> {
        if !self.selects(name) {
            return Ok(());
        }
        let data = &self.data;
        let is_backward = name == "scan_backward";
        let operation = |session: &mut dyn Session, _: u64, tally: &mut Tally| {
            let mut order = ScanOrder::new(data, is_backward);
            let told = if is_backward {
                session.scan_backward(&mut |key, value| order.see(key, value))?
            } else {
                session.scan(&[], usize::MAX, &mut |key, value| order.see(key, value))?
            };
            tally.items += order.count;
            tally.errors += order.errors + order.count.abs_diff(live) + (told as u64).abs_diff(order.count);
            Ok(())
        };
        // One operation, which cannot be cut short.
        let max_seconds = self.settings.max_fill_seconds;
        let workload = Workload { name, threads: 1, operations: 1, max_seconds, operation: &operation };
        let mut record = self.drive(engine, &workload)?;
        if record.count != live {
            record.note = format!("found {} of {live} records", record.count);
        }
        self.emit(record)
    }

    fn seeks(&mut self, engine: &dyn Engine, length: u64) -> Result<()> {
        let name = format!("seek_{length}");
        if !self.selects(&name) {
            return Ok(());
        }
        // Long ones are fewer, so that a workload moves a bounded number of entries.
        let operations = (self.settings.scans * 100 / length.max(100)).max(1);
        let records = self.choose(Choice::Uniform, operations, 0x7363_616e);
        let (data, stored) = (&self.data, self.settings.records);
        let seek = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            let from = u64::from(records[number as usize]);
            tally.errors += scan_some(data, session, from, length, stored, number)?;
            Ok(())
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name: &name, threads: 1, operations, max_seconds, operation: &seek };
        let record = self.drive(engine, &workload)?;
        self.emit(record)
    }
}

/// Scans `length` records from a stored one on; records below `stored` are known to exist. Returns the number
/// of wrong ones.
pub(super) fn scan_some(
    data: &Data,
    session: &mut dyn Session,
    from: u64,
    length: u64,
    stored: u64,
    number: u64,
) -> Result<u64> {
    let mut key = [0; KEY_BUFFER_BYTES];
    let mut expected = from;
    let mut errors = 0;
    let count = session.scan(data.key(from, &mut key), length as usize, &mut |key, value| {
        let record = data.record_of(key);
        let is_right =
            record == expected && data.check_key(record, key, number) && data.check(record, value, number);
        errors += u64::from(!is_right);
        expected += 1;
    })? as u64;
    let is_counted = count <= length && count >= length.min(stored - from);
    Ok(errors + u64::from(!is_counted))
}

/// Counts everything, and checks the order, a sample of the values, and that no `deleted` record exists;
/// returns the count and the number of wrong ones.
pub(super) fn count_all(data: &Data, session: &mut dyn Session, deleted: &[bool]) -> Result<(u64, u64)> {
    let mut order = ScanOrder::new(data, false);
    let mut revived = 0;
    let told = session.scan(&[], usize::MAX, &mut |key, value| {
        order.see(key, value);
        revived += u64::from(deleted.get(data.record_of(key) as usize) == Some(&true));
    })?;
    Ok((order.count, order.errors + revived + (told as u64).abs_diff(order.count)))
}

/// Checks of a full scan.
pub(super) struct ScanOrder<'a> {
    data: &'a Data,
    is_backward: bool,
    previous: Option<u64>,
    pub(super) count: u64,
    pub(super) errors: u64,
}

impl ScanOrder<'_> {
    pub(super) fn new(data: &Data, is_backward: bool) -> ScanOrder<'_> {
        ScanOrder { data, is_backward, previous: None, count: 0, errors: 0 }
    }

    #[inline]
    pub(super) fn see(&mut self, key: &[u8], value: &[u8]) {
        let record = self.data.record_of(key);
        let is_next = self
            .previous
            .is_none_or(|previous| (previous < record) != self.is_backward && previous != record);
        let is_right = is_next
            && self.data.check_key(record, key, self.count)
            && self.data.check(record, value, self.count);
        self.errors += u64::from(!is_right);
        self.previous = Some(record);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, ScanOrder};
    use crate::data::KEY_BUFFER_BYTES;

    fn errors(records: &[u64], is_backward: bool) -> u64 {
        let data = Data::new(16, 100, 1);
        let mut order = ScanOrder::new(&data, is_backward);
        let (mut key, mut value) = ([0; KEY_BUFFER_BYTES], [0; 100]);
        for record in records {
            order.see(data.key(*record, &mut key), data.value(*record, 0, &mut value));
        }
        assert_eq!(order.count, records.len() as u64);
        order.errors
    }

    #[test]
    fn keys_out_of_order_or_repeated_are_wrong() {
        assert_eq!(errors(&[1, 2, 5], false), 0);
        assert_eq!(errors(&[5, 2, 1], true), 0);
        assert_eq!(errors(&[1, 1, 5], false), 1);
        assert_eq!(errors(&[5, 5, 1], true), 1);
        assert_eq!(errors(&[1, 5, 2], false), 1);
        assert_eq!(errors(&[5, 1, 2], true), 1);
    }
}
