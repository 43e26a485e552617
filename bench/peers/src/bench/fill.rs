//! Fills: every record once, into an empty store.

use super::drive::{Tally, Workload};
use super::{Bench, with_value};
use crate::data::{KEY_BUFFER_BYTES, Permutation, Random};
use crate::engine::{Batch, Durability, Engine, Result, Session};
use crate::record::Record;
use std::cell::RefCell;

/// Records that are read after a fill.
const LOOKED_UP: u64 = 10_000;
/// Threads of the durable fills.
const DURABLE_THREADS: [usize; 2] = [1, 8];

thread_local! {
    static BATCH: RefCell<Batch> = RefCell::new(Batch::default());
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Random,
    RandomBatches,
}

impl Bench {
    /// The fills whose data no later workload uses.
    pub(super) fn separate_fills(&mut self) -> Result<()> {
        let mut fills = vec![("fill_seq", Order::Ascending, 1), ("fill_batch", Order::RandomBatches, 1)];
        let threads = self.settings.threads.iter().skip(1);
        fills.extend(threads.map(|threads| ("fill_random", Order::Random, *threads)));
        for (name, order, threads) in fills {
            if self.selects(name) {
                let (engine, record) = self.fill(name, order, threads)?;
                self.emit(record)?;
                self.close_and_remove(engine)?;
            }
        }
        if self.selects("fill_power") {
            for threads in DURABLE_THREADS {
                self.durable_fill(threads)?;
            }
        }
        Ok(())
    }

    /// The fill whose data all later workloads use.
    pub(super) fn main_fill(&mut self) -> Result<Box<dyn Engine>> {
        let threads = self.settings.threads[0];
        let (name, order) = if self.is_filled_in_order() {
            ("fill_seq", Order::Ascending)
        } else {
            ("fill_random", Order::Random)
        };
        let (engine, mut record) = self.fill(name, order, threads)?;
        if record.is_cut_short {
            self.complete(engine.as_ref(), &record, order)?;
            record.note = "completed by batches".to_owned();
            self.settle();
        }
        if self.selects(name) {
            self.emit(record)?;
        }
        Ok(engine)
    }

    /// All records in one copy: the limit of everything that touches all of them.
    pub(super) fn copy_all(&self, engine: &dyn Engine) -> Result<Option<Record>> {
        if engine.copy_all().is_none() || !self.selects("copy_all") {
            return Ok(None);
        }
        let records = self.settings.records;
        let operation = |_: &mut dyn Session, _: u64, tally: &mut Tally| {
            let copied = engine.copy_all().unwrap_or(0);
            tally.items += copied;
            tally.errors += copied.abs_diff(records);
            Ok(())
        };
        let max_seconds = self.settings.max_fill_seconds;
        let workload =
            Workload { name: "copy_all", threads: 1, operations: 1, max_seconds, operation: &operation };
        self.drive(engine, &workload).map(Some)
    }

    fn fill(&mut self, name: &str, order: Order, threads: usize) -> Result<(Box<dyn Engine>, Record)> {
        let engine = self.open_empty(Durability::Process)?;
        let (data, records, batch_records) = (&self.data, self.settings.records, self.settings.batch);
        let record_at = self.record_at(order);
        let put = |session: &mut dyn Session, place: u64, _: &mut Tally| {
            let mut key = [0; KEY_BUFFER_BYTES];
            let record = record_at(place);
            with_value(data, record, 0, |value| session.put(data.key(record, &mut key), value))
        };
        let put_batch = |session: &mut dyn Session, number: u64, tally: &mut Tally| {
            let places = number * batch_records..((number + 1) * batch_records).min(records);
            tally.items += places.end - places.start;
            BATCH.with_borrow_mut(|batch| {
                data.fill_batch(batch, places.map(&record_at));
                session.write_batch(batch)
            })
        };
        let is_batched = order == Order::RandomBatches;
        let workload = Workload {
            name,
            threads,
            operations: if is_batched { records.div_ceil(batch_records) } else { records },
            max_seconds: self.settings.max_fill_seconds,
            operation: if is_batched { &put_batch } else { &put },
        };
        let mut record = self.drive(engine.as_ref(), &workload)?;
        if !record.is_cut_short && engine.abilities().reads {
            record.errors += self.look_up(engine.as_ref())?;
        }
        Ok((engine, record))
    }

    /// The record that a fill in this order writes at a place.
    fn record_at(&self, order: Order) -> impl Fn(u64) -> u64 + Sync + use<> {
        let random = Permutation::new(self.settings.records, self.settings.seed);
        move |place| if order == Order::Ascending { place } else { random.at(place) }
    }

    /// Writes the records that a fill cut short did not reach.
    fn complete(&self, engine: &dyn Engine, filled: &Record, order: Order) -> Result<()> {
        let record_at = self.record_at(order);
        let threads = filled.threads as u64;
        // With several threads it is unknown where each stopped; writing all again is safe.
        let done = if threads == 1 { filled.count } else { 0 };
        let mut session = engine.session()?;
        let mut batch = Batch::default();
        let mut place = done;
        while place < self.settings.records {
            let end = (place + self.settings.batch).min(self.settings.records);
            self.data.fill_batch(&mut batch, (place..end).map(&record_at));
            session.write_batch(&batch)?;
            place = end;
        }
        Ok(())
    }

    /// Number of sampled records that are not as written.
    fn look_up(&self, engine: &dyn Engine) -> Result<u64> {
        let mut session = engine.session()?;
        let mut random = Random::new(self.settings.seed ^ 0x6c_6f_6f_6b);
        let mut key = [0; KEY_BUFFER_BYTES];
        let mut errors = 0;
        for _ in 0..LOOKED_UP.min(self.settings.records) {
            let record = random.below(self.settings.records);
            let mut is_whole = false;
            session.get(self.data.key(record, &mut key), &mut |value| {
                is_whole = self.data.is_whole(record, value);
            })?;
            errors += u64::from(!is_whole);
        }
        Ok(errors)
    }

    /// Writes that survive a power cut, one by one, from this many threads.
    fn durable_fill(&mut self, threads: usize) -> Result<()> {
        let engine = self.open_empty(Durability::Power)?;
        let data = &self.data;
        let random = Permutation::new(self.settings.records, self.settings.seed);
        let operations = (self.settings.durable_writes * threads as u64).min(self.settings.records);
        let put = |session: &mut dyn Session, place: u64, _: &mut Tally| {
            let mut key = [0; KEY_BUFFER_BYTES];
            let record = random.at(place);
            with_value(data, record, 0, |value| session.put(data.key(record, &mut key), value))
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name: "fill_power", threads, operations, max_seconds, operation: &put };
        let mut record = self.drive(engine.as_ref(), &workload)?;
        let abilities = engine.abilities();
        record.is_power = abilities.survives_power_cut;
        record.is_weaker = abilities.persists && !abilities.survives_power_cut;
        if !record.is_power {
            record.note = "does not survive a power cut".to_owned();
        }
        self.emit(record)?;
        self.close_and_remove(engine)
    }

    fn close_and_remove(&self, engine: Box<dyn Engine>) -> Result<()> {
        engine.close()?;
        self.remove_directory()
    }
}
