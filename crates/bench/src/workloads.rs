//! The timed loops. Each runs on every thread with its own part of the keys; inside, nothing allocates or
//! computes beyond the measured calls.

mod shares;

use crate::data::{Data, Keys, Part, Rng, mix};
use crate::distribution::{Chooser, Distribution};
use crate::error::BenchError;
use crate::sample::{Measured, SAMPLE_INTERVAL, Sampler, Work, on_threads};
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::parts::env::{Clock, FileSystem, OpenMode, StdFileSystem};
use esker::{Cursor, Keyspace};
use shares::{MixedOperation, Shares};

/// One in this many answers is compared in full; of the others, length and first bytes.
const THOROUGH_INTERVAL: u64 = 16;

/// Bytes of one raw write, as in table files.
const RAW_WRITE_BYTES: usize = 1 << 20;

/// A workload with its keys.
pub(crate) struct Prepared<'a> {
    workload: Workload,
    settings: &'a Settings,
    data: &'a Data,
    keys: Keys,
    /// Whether reads must find every key, or none.
    present: bool,
}

impl<'a> Prepared<'a> {
    /// Makes the keys of a workload in the order of their use.
    pub(crate) fn new(workload: Workload, settings: &'a Settings, data: &'a Data) -> Prepared<'a> {
        let (num, reads) = (settings.num, settings.reads());
        let mut rng = Rng::new(settings.seed, 1 + workload as u64);
        let keys = match workload {
            Workload::FillSeq | Workload::BulkSeq => data.sorted_keys(num),
            Workload::FillRandom | Workload::FillBatch | Workload::BulkRandom => data.keys(0..num),
            Workload::RawWrite
            | Workload::ReadSeq
            | Workload::ReadReverse
            | Workload::Reopen
            | Workload::ReopenKill => data.keys(0..0),
            Workload::SeekDeleted
            | Workload::SeekRangeDeleted
            | Workload::Queue
            | Workload::Blob
            | Workload::Compact
            | Workload::Overwrite
            | Workload::ReadRested
            | Workload::Keyspaces
            | Workload::MemoryBound
            | Workload::StallBound => data.keys(0..0),
            Workload::ReadMissing => data.keys((0..reads).map(|_| num + rng.below(num))),
            Workload::ReadZipf
            | Workload::ReadRandom
            | Workload::MultiReadRandom
            | Workload::SeekRandom
            | Workload::ReadWrite
            | Workload::ReadHeavy
            | Workload::WriteHeavy
            | Workload::ScanHeavy
            | Workload::Quarters
            | Workload::Transaction
            | Workload::MergeRandom => {
                let is_zipf = workload == Workload::ReadZipf;
                let distribution = if is_zipf { Distribution::Zipf } else { settings.distribution };
                let mut chooser = Chooser::new(distribution, data, num, rng);
                data.keys((0..reads).map(|_| chooser.record()))
            }
        };
        Prepared { workload, settings, data, keys, present: workload != Workload::ReadMissing }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.keys.memory_bytes()
    }

    pub(crate) fn run(&self, store: &Store, clock: &dyn Clock) -> Result<Measured, BenchError> {
        // One file, so one thread writes it.
        let threads = if self.workload == Workload::RawWrite { 1 } else { self.settings.threads };
        let parts = self.keys.split(threads);
        let counters = match self.workload {
            Workload::MergeRandom => Some(store.fresh_counters()?),
            _ => None,
        };
        let measured = on_threads(clock, &parts, |part| match self.workload {
            Workload::FillSeq | Workload::FillRandom => self.fill(store, clock, *part),
            Workload::FillBatch => self.fill_batch(store, clock, *part),
            Workload::BulkSeq | Workload::BulkRandom => self.bulk_load(store, clock, *part),
            Workload::RawWrite => self.raw_write(clock),
            Workload::ReadRandom | Workload::ReadZipf | Workload::ReadMissing => {
                self.read(store, clock, *part)
            }
            Workload::MultiReadRandom => self.multi_read(store, clock, *part),
            // An opened database is read as a whole, so that the result of opening is checked like any other.
            Workload::ReadSeq | Workload::Reopen | Workload::ReopenKill => self.scan(store, clock, true),
            Workload::SeekDeleted
            | Workload::SeekRangeDeleted
            | Workload::Queue
            | Workload::Blob
            | Workload::Compact
            | Workload::Overwrite
            | Workload::ReadRested
            | Workload::Keyspaces
            | Workload::MemoryBound
            | Workload::StallBound => {
                unreachable!("they are measured by a module of their own")
            }
            Workload::ReadReverse => self.scan(store, clock, false),
            Workload::SeekRandom => self.seek(store, clock, *part),
            Workload::ReadWrite => self.read_write(store, clock, *part),
            Workload::ReadHeavy | Workload::WriteHeavy | Workload::ScanHeavy | Workload::Quarters => {
                self.by_shares(store, clock, *part)
            }
            Workload::Transaction => self.transact(store, clock, *part),
            Workload::MergeRandom => merge(counters.as_ref().unwrap_or(&store.keyspace), clock, *part),
        })?;
        if let Some(counters) = &counters {
            check_sum(counters, measured.work.ops)?;
        }
        match &measured.work.wrong {
            None => Ok(measured),
            Some(detail) => Err(BenchError::WrongAnswer { workload: self.workload, detail: detail.clone() }),
        }
    }

    fn pair_bytes(&self) -> u64 {
        (self.settings.key_size + self.settings.value_size) as u64
    }

    fn fill(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        for key in part.iter() {
            sampler.measure(|| store.keyspace.put(key, self.data.value(key, 0)))?;
        }
        let ops = part.len() as u64;
        Ok(Work { ops, bytes: ops * self.pair_bytes(), ..sampler.finish() })
    }

    fn fill_batch(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let batch_size = self.settings.batch_size;
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL / batch_size as u64);
        for group in part.groups(batch_size) {
            sampler.measure(|| {
                let mut batch = store.database.batch();
                for key in group.iter() {
                    batch.put(&store.keyspace, key, self.data.value(key, 0));
                }
                store.database.write(&batch).map(drop)
            })?;
        }
        let ops = part.len() as u64;
        Ok(Work { ops, bytes: ops * self.pair_bytes(), ..sampler.finish() })
    }

    fn bulk_load(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        let mut loader = store.keyspace.bulk_load()?;
        for key in part.iter() {
            sampler.measure(|| loader.add(key, self.data.value(key, 0)))?;
        }
        let report = loader.finish()?;
        let ops = part.len() as u64;
        let wrong = (report.entries != ops).then(|| format!("{} of {ops} pairs were loaded", report.entries));
        Ok(Work { ops, bytes: ops * self.pair_bytes(), wrong, ..sampler.finish() })
    }

    /// Counts operations as if the bytes were pairs, so that the rate compares with a load.
    fn raw_write(&self, clock: &dyn Clock) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, 1);
        let (fs, path) = (StdFileSystem, self.settings.directory.join("rawwrite"));
        let file = fs.open(&path, OpenMode::CreateOrTruncate)?;
        let piece: Vec<u8> = (0..RAW_WRITE_BYTES).map(|at| mix(at as u64) as u8).collect();
        let bytes = self.settings.num * self.pair_bytes();
        let mut at = 0;
        while at < bytes {
            let len = piece.len().min(usize::try_from(bytes - at).unwrap_or(piece.len()));
            sampler.measure(|| file.write_at(&piece[..len], at))?;
            at += len as u64;
        }
        file.sync_data()?;
        fs.remove_file(&path)?;
        Ok(Work { ops: self.settings.num, bytes, ..sampler.finish() })
    }

    fn read(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        let mut check = Check::new(self.data);
        for key in part.iter() {
            let thorough = check.is_thorough();
            let right = sampler.measure(|| {
                store
                    .keyspace
                    .get_with(key, |value| value.map(|value| self.data.is_right(key, value, thorough)))
            })?;
            check.answer(key, right);
        }
        let found = check.found;
        let ops = part.len() as u64;
        let wrong = check.finish(if self.present { ops } else { 0 });
        Ok(Work { ops, found, bytes: found * self.pair_bytes(), wrong, ..sampler.finish() })
    }

    fn multi_read(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let group_size = self.settings.multi_get_size;
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL / group_size as u64);
        let mut check = Check::new(self.data);
        let mut keys = Vec::with_capacity(group_size);
        for group in part.groups(group_size) {
            keys.clear();
            keys.extend(group.iter());
            let values = sampler.measure(|| store.keyspace.multi_get(&keys))?;
            for (key, value) in keys.iter().zip(&values) {
                let thorough = check.is_thorough();
                check.answer(key, value.as_ref().map(|value| self.data.is_right(key, value, thorough)));
            }
        }
        let (ops, found) = (part.len() as u64, check.found);
        let wrong = check.finish(ops);
        Ok(Work { ops, found, bytes: found * self.pair_bytes(), wrong, ..sampler.finish() })
    }

    /// All pairs in order. Checks order and number of the keys, and values as gets do.
    fn scan(&self, store: &Store, clock: &dyn Clock, forward: bool) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        let mut check = Check::new(self.data);
        let mut cursor = store.keyspace.cursor()?;
        let mut last_head = if forward { 0 } else { u64::MAX };
        if forward {
            cursor.seek_to_first()?;
        } else {
            cursor.seek_to_last()?;
        }
        while let Some((key, value)) = cursor.entry() {
            // The first eight bytes are distinct (see `data`), so they suffice to check the order.
            let head = key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
            let in_order = check.found == 0 || (head > last_head) == forward && head != last_head;
            last_head = head;
            let thorough = check.is_thorough();
            check.answer(key, Some(in_order && self.data.is_right(key, value, thorough)));
            sampler.measure(|| if forward { cursor.advance() } else { cursor.retreat() })?;
        }
        let found = check.found;
        let wrong = check.finish(self.settings.num);
        Ok(Work { ops: found, found, bytes: found * self.pair_bytes(), wrong, ..sampler.finish() })
    }

    fn seek(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        let mut check = Check::new(self.data);
        let mut cursor = store.keyspace.cursor()?;
        let (mut hits, mut pairs) = (0, 0);
        for key in part.iter() {
            let thorough = check.is_thorough();
            let right = sampler.measure(|| -> esker::Result<Option<bool>> {
                cursor.seek(key)?;
                let right = cursor
                    .entry()
                    .map(|(found, value)| found == key && self.data.is_right(found, value, thorough));
                for _ in 0..self.settings.seek_nexts {
                    if cursor.entry().is_none() {
                        break;
                    }
                    pairs += 1;
                    cursor.advance()?;
                }
                Ok(right)
            })?;
            hits += 1;
            check.answer(key, right);
        }
        let wrong = check.finish(hits);
        let ops = part.len() as u64;
        Ok(Work { ops, found: pairs, bytes: pairs * self.pair_bytes(), wrong, ..sampler.finish() })
    }

    /// One get and one put in each transaction. Of two threads with the same key one retries; both count
    /// once.
    fn transact(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        let mut check = Check::new(self.data);
        for key in part.iter() {
            let thorough = check.is_thorough();
            let right = sampler.measure(|| {
                store.database.transact(|tx| {
                    let found = tx.get(&store.keyspace, key)?;
                    tx.put(&store.keyspace, key, self.data.value(key, 1))?;
                    Ok(found.map(|value| self.data.is_right(key, &value, thorough)))
                })
            })?;
            check.answer(key, right);
        }
        let (ops, found) = (part.len() as u64, check.found);
        let wrong = check.finish(ops);
        Ok(Work { ops, found, bytes: (found + ops) * self.pair_bytes(), wrong, ..sampler.finish() })
    }

    fn read_write(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let gets = self.settings.read_percent;
        self.mix(store, clock, part, Shares { puts: 100 - gets, gets, ranges: 0 })
    }

    fn by_shares(&self, store: &Store, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
        let shares = Shares::of(self.workload);
        let work = self.mix(store, clock, part, shares)?;
        if shares.deletes() > 0 {
            // The data set is whole again for the next workload.
            for key in part.iter() {
                store.keyspace.put(key, self.data.value(key, 0))?;
            }
        }
        Ok(work)
    }

    /// Operations on the keys of the part, one after the other, in these shares. Where keys are deleted, a
    /// get may find none.
    fn mix(&self, store: &Store, clock: &dyn Clock, part: Part<'_>, shares: Shares) -> esker::Result<Work> {
        let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
        let mut check = Check::new(self.data);
        let mut cursor = store.keyspace.cursor()?;
        let (mut ops, mut gets, mut written, mut pairs) = (0, 0, 0, 0);
        for key in part.iter() {
            let operation = shares.pick(mix(ops) % 100);
            ops += 1;
            match operation {
                MixedOperation::Put => {
                    written += 1;
                    sampler.measure(|| store.keyspace.put(key, self.data.value(key, 1)))?;
                }
                MixedOperation::Get => {
                    gets += 1;
                    let thorough = check.is_thorough();
                    let right = sampler.measure(|| {
                        store.keyspace.get_with(key, |value| {
                            value.map(|value| self.data.is_right(key, value, thorough))
                        })
                    })?;
                    check.answer(key, right);
                }
                MixedOperation::Range => {
                    pairs += sampler.measure(|| self.range(&mut cursor, store, key))?;
                }
                MixedOperation::Delete => {
                    written += 1;
                    sampler.measure(|| store.keyspace.delete(key))?;
                }
            }
        }
        let found = check.found;
        let expected = if shares.deletes() > 0 { found } else { gets };
        let wrong = check.finish(expected);
        let bytes = (found + written + pairs) * self.pair_bytes();
        Ok(Work { ops, found: found + pairs, bytes, wrong, ..sampler.finish() })
    }

    /// A seek to the key, and the pairs from there; the cursor sees what was written up to then.
    fn range(&self, cursor: &mut Cursor, store: &Store, key: &[u8]) -> esker::Result<u64> {
        *cursor = store.keyspace.cursor()?;
        cursor.seek(key)?;
        let mut pairs = 0;
        while pairs < self.settings.seek_nexts as u64 && cursor.entry().is_some() {
            pairs += 1;
            cursor.advance()?;
        }
        Ok(pairs)
    }
}

fn merge(counters: &Keyspace, clock: &dyn Clock, part: Part<'_>) -> esker::Result<Work> {
    let mut sampler = Sampler::new(clock, SAMPLE_INTERVAL);
    let mut bytes = 0;
    for key in part.iter() {
        bytes += key.len() as u64 + 1;
        sampler.measure(|| counters.merge(key, b"1"))?;
    }
    Ok(Work { ops: part.len() as u64, bytes, ..sampler.finish() })
}

/// Checks that no increment is missing or counted twice.
fn check_sum(counters: &Keyspace, expected: u64) -> Result<(), BenchError> {
    let mut sum = 0u64;
    let mut cursor = counters.cursor()?;
    cursor.seek_to_first()?;
    while let Some(value) = cursor.value() {
        sum += std::str::from_utf8(value).ok().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        cursor.advance()?;
    }
    if sum == expected {
        return Ok(());
    }
    let detail = format!("{expected} were added, the counters sum up to {sum}");
    Err(BenchError::WrongAnswer { workload: Workload::MergeRandom, detail })
}

struct Check<'a> {
    data: &'a Data,
    answers: u64,
    found: u64,
    wrong: Option<String>,
}

impl<'a> Check<'a> {
    fn new(data: &'a Data) -> Check<'a> {
        Check { data, answers: 0, found: 0, wrong: None }
    }

    #[inline]
    fn is_thorough(&self) -> bool {
        self.answers.is_multiple_of(THOROUGH_INTERVAL)
    }

    /// Takes an answer: `None` if there was no pair, else whether it is the right one.
    #[inline]
    fn answer(&mut self, key: &[u8], right: Option<bool>) {
        self.answers += 1;
        match right {
            Some(true) => self.found += 1,
            Some(false) => self.note(key),
            None => {}
        }
    }

    #[cold]
    fn note(&mut self, key: &[u8]) {
        self.found += 1;
        let expected = self.data.value(key, 0).len();
        let key = key.escape_ascii();
        self.wrong.get_or_insert_with(|| {
            format!("key {key} is out of order, or its value is not the {expected} bytes that were written")
        });
    }

    /// The first wrong answer, or a wrong number of answers.
    fn finish(self, expected: u64) -> Option<String> {
        let found = self.found;
        self.wrong
            .or_else(|| (found != expected).then(|| format!("{expected} pairs expected, {found} found")))
    }
}
