//! The core workloads of YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", 2010), with one
//! thread unless stated.
//!
//! A: half reads, half updates. B: 95 % reads. C: reads. D: 95 % reads of recent inserts, the rest inserts.
//! E: 95 % scans of 1 to 100 records, the rest inserts. F: half reads, half reads followed by an update.
//! Records are Zipf-distributed and scattered over the keys; in D by their age. Inserts go after the last
//! record.

use super::drive::{Tally, Workload};
use super::scans::scan_some;
use super::updates::{can_share, stale};
use super::{Bench, Choice, with_value};
use crate::data::{Data, KEY_BUFFER_BYTES, Random, mix};
use crate::engine::{Engine, Result, Session};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest scan of E.
const LONGEST_SCAN: u64 = 100;

/// Kind of an operation.
#[derive(Clone, Copy)]
enum Step {
    Read,
    Update,
    ReadAndUpdate,
    Insert,
    Scan { length: u64 },
}

impl Bench {
    /// All of them, with E before and after A; returns the number of inserted records.
    pub(super) fn ycsb(&mut self, engine: &dyn Engine) -> Result<u64> {
        let mut end = self.settings.records;
        let most_threads = self.settings.threads.iter().copied().max().unwrap_or(1);
        for (name, threads) in [
            ("ycsb_c", 1),
            ("ycsb_c", most_threads),
            ("ycsb_e", 1),
            ("ycsb_d", 1),
            ("ycsb_b", 1),
            ("ycsb_a", 1),
            ("ycsb_e_after_a", 1),
            ("ycsb_a", most_threads),
            ("ycsb_f", 1),
        ] {
            end = self.one(engine, name, threads, end)?;
        }
        Ok(end - self.settings.records)
    }

    /// Runs one of them on records up to `end`, and returns the end after its inserts.
    fn one(&mut self, engine: &dyn Engine, name: &str, threads: usize, end: u64) -> Result<u64> {
        let which = name.as_bytes()[5];
        if !self.selects(name) || (which != b'c' && !can_share(engine, threads)) {
            return Ok(end);
        }
        let operations = if which == b'e' { self.settings.scans } else { self.settings.operations };
        let chosen = if which == b'd' {
            self.choose_ages(operations)
        } else {
            self.choose(Choice::Zipf, operations, 0x7963_7362 + threads as u64)
        };
        let (data, stored, seed) = (&self.data, self.settings.records, self.settings.seed);
        let end = AtomicU64::new(end);
        let step_at = |number: u64| step_of(which, mix(seed ^ (number << 8) ^ u64::from(which)));
        let operation = |session: &mut dyn Session, number: u64, tally: &mut Tally| -> Result<()> {
            let chosen = u64::from(chosen[number as usize]);
            let record = if which == b'd' { end.load(Ordering::Relaxed) - 1 - chosen } else { chosen };
            match step_at(number) {
                Step::Read => tally.errors += read(data, session, record, number)?,
                Step::Update => update(data, session, record, number)?,
                Step::ReadAndUpdate => {
                    tally.errors += read(data, session, record, number)?;
                    update(data, session, record, number)?;
                }
                Step::Insert => update(data, session, end.fetch_add(1, Ordering::Relaxed), number)?,
                Step::Scan { length } => {
                    tally.errors += scan_some(data, session, record, length, stored, number)?;
                }
            }
            Ok(())
        };
        let max_seconds = self.settings.max_seconds;
        let workload = Workload { name, threads, operations, max_seconds, operation: &operation };
        let mut record = self.drive(engine, &workload)?;
        if threads == 1 {
            let updates = (0..record.count)
                .filter(|number| matches!(step_at(*number), Step::Update | Step::ReadAndUpdate));
            let written = updates.map(|number| (chosen[number as usize], number + 1));
            record.errors += stale(data, engine, written, record.count)?;
        }
        self.emit(record)?;
        Ok(end.into_inner())
    }

    /// Distances of D's reads from the last record.
    fn choose_ages(&self, count: u64) -> Vec<u32> {
        let mut random = Random::new(self.settings.seed ^ mix(0x6c61_7374));
        self.keep((0..count).map(|_| self.zipf().rank(&mut random) as u32).collect())
    }
}

fn step_of(which: u8, dice: u64) -> Step {
    let percent = (dice >> 32) % 100;
    match which {
        b'a' if percent < 50 => Step::Update,
        b'b' if percent < 5 => Step::Update,
        b'd' | b'e' if percent < 5 => Step::Insert,
        b'e' => Step::Scan { length: 1 + (dice & 0xffff) % LONGEST_SCAN },
        b'f' if percent < 50 => Step::ReadAndUpdate,
        _ => Step::Read,
    }
}

/// Reads a record, and returns the number of wrong answers.
fn read(data: &Data, session: &mut dyn Session, record: u64, number: u64) -> Result<u64> {
    let mut key = [0; KEY_BUFFER_BYTES];
    let mut is_right = false;
    session.get(data.key(record, &mut key), &mut |value| is_right = data.check(record, value, number))?;
    Ok(u64::from(!is_right))
}

fn update(data: &Data, session: &mut dyn Session, record: u64, number: u64) -> Result<()> {
    let mut key = [0; KEY_BUFFER_BYTES];
    with_value(data, record, number + 1, |value| session.put(data.key(record, &mut key), value))
}
