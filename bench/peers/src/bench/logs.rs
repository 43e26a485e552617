//! A log: records are appended at its newest end and deleted at its oldest, so that their number stays, and
//! scans read the newest.
//!
//! Threads take the number of an append by one counter, and may finish it in another order. So a scan must
//! see what was finished before it began and is not deleted when it ends; which records these are is told by
//! [`Ends`].

use super::drive::{Tally, Workload};
use super::scans::ScanOrder;
use super::{Bench, with_value};
use crate::data::{Data, KEY_BUFFER_BYTES};
use crate::engine::{Engine, Result, Session};
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Records of a scan of the newest.
const NEWEST: u64 = 100;
/// Of so many operations of `log_newest` one appends, and the others scan.
const APPEND_EVERY: u64 = 4;
/// No append under way.
const NONE: u64 = u64::MAX;

thread_local! {
    /// The place of this thread among those of a workload, each of which has threads of its own.
    static PLACE: OnceCell<usize> = const { OnceCell::new() };
}

/// Both ends of a log, moved by several threads.
struct Ends {
    /// The record that is deleted next.
    oldest: AtomicU64,
    /// The record that is appended next.
    newest: AtomicU64,
    /// For each thread a record at or below the one that it appends.
    appending: Vec<AtomicU64>,
    places: AtomicUsize,
}

impl Ends {
    fn new(live: &Range<u64>, threads: usize) -> Ends {
        Ends {
            oldest: AtomicU64::new(live.start),
            newest: AtomicU64::new(live.end),
            appending: std::iter::repeat_with(|| AtomicU64::new(NONE)).take(threads).collect(),
            places: AtomicUsize::new(0),
        }
    }

    fn place(&self) -> usize {
        PLACE.with(|place| *place.get_or_init(|| self.places.fetch_add(1, Ordering::Relaxed)))
    }

    /// Appends a record, and deletes the oldest one.
    fn advance(&self, data: &Data, session: &mut dyn Session) -> Result<()> {
        let mut key = [0; KEY_BUFFER_BYTES];
        let appending = &self.appending[self.place()];
        // Announced before the record is taken: else a scan could know of the record and not of the append.
        appending.store(self.newest.load(Ordering::SeqCst), Ordering::SeqCst);
        let record = self.newest.fetch_add(1, Ordering::SeqCst);
        with_value(data, record, 0, |value| session.put(data.key(record, &mut key), value))?;
        appending.store(NONE, Ordering::SeqCst);
        // Taken before it is deleted: what a scan misses below `oldest` may be deleted.
        let record = self.oldest.fetch_add(1, Ordering::SeqCst);
        // Only in a log of a few thousand records can another thread still be appending it.
        while self.newest().1 <= record {
            std::thread::yield_now();
        }
        session.delete(data.key(record, &mut key))
    }

    /// The end of the log, and the record below which every append is finished.
    fn newest(&self) -> (u64, u64) {
        let newest = self.newest.load(Ordering::SeqCst);
        let appending = self.appending.iter().map(|record| record.load(Ordering::SeqCst));
        (newest, appending.fold(newest, u64::min))
    }

    /// Scans the newest records, and returns the number of wrong ones.
    fn scan(&self, data: &Data, session: &mut dyn Session, number: u64) -> Result<u64> {
        let mut key = [0; KEY_BUFFER_BYTES];
        let (newest, finished) = self.newest();
        let mut scan = Newest { data, number, finished, expected: newest - NEWEST, missing: None, errors: 0 };
        let from = data.key(newest - NEWEST, &mut key);
        let count = session.scan(from, NEWEST as usize, &mut |key, value| scan.see(key, value))? as u64;
        if count < NEWEST {
            scan.miss(finished);
        }
        let missing = scan.missing.filter(|record| *record >= self.oldest.load(Ordering::SeqCst));
        let never_written = scan.expected > self.newest.load(Ordering::SeqCst);
        Ok(scan.errors + u64::from(missing.is_some()) + u64::from(never_written) + u64::from(count > NEWEST))
    }
}

/// Checks of a scan of the newest records.
struct Newest<'a> {
    data: &'a Data,
    number: u64,
    /// Records below were appended before the scan.
    finished: u64,
    /// The record after the last one.
    expected: u64,
    /// The last record below `finished` that did not come.
    missing: Option<u64>,
    errors: u64,
}

impl Newest<'_> {
    #[inline]
    fn see(&mut self, key: &[u8], value: &[u8]) {
        let record = self.data.record_of(key);
        let is_right = record >= self.expected
            && record != u64::MAX
            && self.data.check_key(record, key, self.number)
            && self.data.check(record, value, self.number);
        if is_right {
            self.miss(record);
            self.expected = record + 1;
        } else {
            self.errors += 1;
        }
    }

    /// Notes what is missing before this record.
    #[inline]
    fn miss(&mut self, record: u64) {
        let end = record.min(self.finished);
        if self.expected < end {
            self.missing = Some(end - 1);
        }
    }
}

impl Bench {
    /// Appends and deletes, and scans beside them; after each, all records are counted. They begin with no
    /// background work left.
    pub(super) fn logs(&mut self, engine: &mut dyn Engine) -> Result<()> {
        if !engine.abilities().reads {
            return Ok(());
        }
        let mut live = 0..self.settings.records;
        for name in ["log_append", "log_newest"] {
            for threads in self.settings.threads.clone() {
                if self.selects(name) {
                    engine.flush()?;
                    self.settle();
                    live = self.log(&*engine, name, threads, live)?;
                }
            }
        }
        Ok(())
    }

    /// Runs one of them on these records, and returns those that are there after it.
    fn log(
        &mut self,
        engine: &dyn Engine,
        name: &str,
        threads: usize,
        live: Range<u64>,
    ) -> Result<Range<u64>> {
        let (data, is_append) = (&self.data, name == "log_append");
        let ends = Ends::new(&live, threads);
        let operation = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            if is_append || number.is_multiple_of(APPEND_EVERY) {
                return ends.advance(data, session);
            }
            tally.errors += ends.scan(data, session, number)?;
            Ok(())
        };
        let operations = if is_append { self.settings.operations } else { self.settings.scans };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name, threads, operations, max_seconds, operation: &operation };
        let mut record = self.drive(engine, &workload)?;
        let live = ends.oldest.into_inner()..ends.newest.into_inner();
        let (count, errors) = count_log(data, engine.session()?.as_mut(), &live)?;
        let expected = live.end - live.start;
        record.errors += errors + count.abs_diff(expected);
        if count != expected {
            record.note = format!("{count} records are left, {expected} should be");
        }
        self.emit(record)?;
        Ok(live)
    }
}

/// Counts everything, and checks the order and that all of it is in the log; returns the count and the number
/// of wrong ones.
fn count_log(data: &Data, session: &mut dyn Session, live: &Range<u64>) -> Result<(u64, u64)> {
    let mut order = ScanOrder::new(data, false);
    let mut outside = 0;
    let told = session.scan(&[], usize::MAX, &mut |key, value| {
        order.see(key, value);
        outside += u64::from(!live.contains(&data.record_of(key)));
    })?;
    Ok((order.count, order.errors + outside + (told as u64).abs_diff(order.count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of a scan that sees these records, of which those below 200 are finished.
    fn newest(records: impl IntoIterator<Item = u64>) -> (u64, Option<u64>, u64) {
        let data = Data::new(16, 100, 1).with_gaps(20);
        let (mut key, mut value) = ([0; KEY_BUFFER_BYTES], [0; 100]);
        let mut scan =
            Newest { data: &data, number: 0, finished: 200, expected: 110, missing: None, errors: 0 };
        for record in records {
            let value = data.value(record, 0, &mut value);
            scan.see(data.key(record, &mut key), value);
        }
        (scan.errors, scan.missing, scan.expected)
    }

    #[test]
    fn what_a_scan_of_the_newest_misses_is_noted() {
        assert_eq!(newest(110..210), (0, None, 210));
        assert_eq!(newest((110..150).chain(151..210)), (0, Some(150), 210));
        assert_eq!(newest((110..200).chain([203])), (0, None, 204), "what was not finished may be missing");
        assert_eq!(newest([110, 111, 111, 112]), (1, None, 113));
        assert_eq!(newest([109, 110]), (1, None, 111), "before the first key that was asked for");
        assert_eq!(newest([203]), (0, Some(199), 204));
    }

    #[test]
    fn appends_under_way_are_not_finished() {
        let ends = Ends::new(&(10..20), 2);
        assert_eq!(ends.newest(), (20, 20));
        ends.appending[1].store(18, Ordering::SeqCst);
        assert_eq!(ends.newest(), (20, 18));
    }
}
