//! The whole run: prepares the data, runs the workloads, reports.

use crate::blob;
use crate::compact;
use crate::data::Data;
use crate::deletes;
use crate::error::BenchError;
use crate::keyspaces;
use crate::memory_bound;
use crate::overwrite;
use crate::reopen;
use crate::report::{MemoryRow, OverwriteRow, Report, Row};
use crate::rest;
use crate::settings::{Group, Settings, Workload};
use crate::store::{DataSet, Store};
use crate::workloads::Prepared;
use esker::parts::env::host::anonymous_bytes;
use esker::parts::env::{Clock, SystemClock};

/// Runs the workloads of `settings` one after the other on one data set and reports each as it ends.
///
/// A fill replaces the data of an earlier benchmark (unless `use_existing_db`). A reading workload uses the
/// stored data if it is the one the settings describe, and fills first if not; a note reports it.
///
/// # Errors
/// Those of the database; invalid settings; a directory with contents that no benchmark made; a wrong answer.
pub fn run(settings: &Settings, report: &mut dyn Report) -> Result<(), BenchError> {
    settings.validate().map_err(BenchError::Settings)?;
    let baseline_bytes = anonymous_bytes();
    let mut run = Run {
        clock: SystemClock::new(),
        data: Data::new(settings.key_size, settings.value_size, settings.seed),
        settings,
        store: Some(Store::open(settings)?),
        report,
        is_warm: false,
        memory: None,
        baseline_bytes,
    };
    let result = run.workloads();
    if let Some(store) = run.store.take() {
        store.database.close()?;
    }
    result
}

struct Run<'a> {
    settings: &'a Settings,
    report: &'a mut dyn Report,
    clock: SystemClock,
    data: Data,
    /// `None` only during replacement.
    store: Option<Store>,
    /// The data were read once, so the caches are warm.
    is_warm: bool,
    baseline_bytes: Option<u64>,
    memory: Option<MemoryRow>,
}

impl Run<'_> {
    fn workloads(&mut self) -> Result<(), BenchError> {
        let workloads = self.settings.workloads.len();
        for (before, &workload) in self.settings.workloads.iter().enumerate() {
            if !self.report.begins(workload, before + 1, workloads) {
                break;
            }
            match workload.group() {
                Group::BulkLoad if workload == Workload::RawWrite => self.raw_write()?,
                Group::Fill | Group::BulkLoad => self.fill(workload)?,
                Group::Open => self.reopen(workload)?,
                Group::Deleted => self.deleted(workload)?,
                Group::Blob => self.overwrite_large()?,
                Group::Overwrite => drop(self.overwrite()?),
                Group::Rest => self.rest()?,
                Group::Keyspaces => self.keyspaces()?,
                Group::Compact => self.merge()?,
                Group::Memory => self.memory_bound()?,
                Group::Stall => self.stall_bound()?,
                _ => self.measure(workload)?,
            }
            self.report.ends();
        }
        if let Some(memory) = &self.memory {
            self.report.memory(memory)?;
        }
        Ok(())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is there but while it is replaced")
    }

    /// Fills, by default into an empty database, and reports.
    fn fill(&mut self, workload: Workload) -> Result<(), BenchError> {
        let row = self.fill_quietly(workload)?;
        Ok(self.report.row(&row)?)
    }

    fn fill_quietly(&mut self, workload: Workload) -> Result<Row, BenchError> {
        if !self.settings.use_existing_db && self.store().data_set()?.is_some() {
            let store = self.store.take().expect("the store is there but while it is replaced");
            self.store = Some(store.replace(self.settings)?);
        }
        self.is_warm = false;
        let prepared = Prepared::new(workload, self.settings, &self.data);
        let done = DataSet::of(self.settings);
        self.store().mark(&DataSet { complete: false, ..done })?;
        let start = self.clock.monotonic_ns();
        let measured = prepared.run(self.store(), &self.clock)?;
        self.store().database.drain()?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        self.store().mark(&done)?;
        let memory = self.memory_now(prepared.memory_bytes());
        self.note_memory(memory);
        Ok(Row::new(workload, self.settings, &measured).drained(seconds))
    }

    fn raw_write(&mut self) -> Result<(), BenchError> {
        let prepared = Prepared::new(Workload::RawWrite, self.settings, &self.data);
        let measured = prepared.run(self.store(), &self.clock)?;
        Ok(self.report.row(&Row::new(Workload::RawWrite, self.settings, &measured))?)
    }

    fn measure(&mut self, workload: Workload) -> Result<(), BenchError> {
        self.ensure_data()?;
        if !self.is_warm {
            // A warm-up pass: without it the first reads, and only they, would measure the disk.
            Prepared::new(Workload::ReadSeq, self.settings, &self.data).run(self.store(), &self.clock)?;
            self.is_warm = true;
        }
        let prepared = Prepared::new(workload, self.settings, &self.data);
        let measured = prepared.run(self.store(), &self.clock)?;
        let memory = self.memory_now(prepared.memory_bytes());
        self.note_memory(memory);
        Ok(self.report.row(&Row::new(workload, self.settings, &measured))?)
    }

    fn reopen(&mut self, workload: Workload) -> Result<(), BenchError> {
        self.ensure_data()?;
        // The next reads meet a cold cache.
        self.is_warm = false;
        let store = self.store.take().expect("the store is there but while it is replaced");
        let (store, measured) = reopen::measure(workload, store, self.settings, &self.data, &self.clock)?;
        self.store = Some(store);
        Ok(self.report.row(&Row::new(workload, self.settings, &measured))?)
    }

    /// Measures reads among deleted keys, beside the data set.
    fn deleted(&mut self, workload: Workload) -> Result<(), BenchError> {
        let (measured, note) =
            deletes::measure(workload, self.store(), self.settings, &self.data, &self.clock)?;
        let memory = self.memory_now(0);
        self.note_memory(memory);
        self.report.row(&Row::new(workload, self.settings, &measured))?;
        Ok(note.map_or(Ok(()), |note| self.report.note(&note))?)
    }

    fn rest(&mut self) -> Result<(), BenchError> {
        self.ensure_data()?;
        let (measured, note) = rest::measure(self.store(), self.settings, &self.data, &self.clock)?;
        let memory = self.memory_now(0);
        self.note_memory(memory);
        self.report.row(&Row::new(Workload::ReadRested, self.settings, &measured))?;
        Ok(note.map_or(Ok(()), |note| self.report.note(&note))?)
    }

    /// Measures many keyspaces, in a database of their own.
    fn keyspaces(&mut self) -> Result<(), BenchError> {
        let (measured, note) = keyspaces::measure(self.settings, &self.clock)?;
        self.report.row(&Row::new(Workload::Keyspaces, self.settings, &measured))?;
        Ok(note.map_or(Ok(()), |note| self.report.note(&note))?)
    }

    /// Measures large values; they replace the data set.
    fn overwrite_large(&mut self) -> Result<(), BenchError> {
        if self.settings.use_existing_db {
            return Err(BenchError::Settings("blob brings data of its own, and none may be replaced".into()));
        }
        let store = self.store.take().expect("the store is there but while it is replaced");
        let (store, row) = blob::measure(store, self.settings, &self.clock)?;
        self.store = Some(store);
        self.is_warm = false;
        Ok(self.report.amplification(&row)?)
    }

    /// Measures the merge loop, beside the data set.
    fn merge(&mut self) -> Result<(), BenchError> {
        let row = compact::measure(self.store(), self.settings, &self.data, &self.clock)?;
        Ok(self.report.merge(&row)?)
    }

    /// Measures anonymous memory against its bound; the phases' data replace the data set.
    fn memory_bound(&mut self) -> Result<(), BenchError> {
        if self.settings.use_existing_db {
            return Err(BenchError::Settings(
                "memorybound brings data of its own, and none may be replaced".into(),
            ));
        }
        let store = self.store.take().expect("the store is there but while it is replaced");
        self.store = Some(memory_bound::measure(store, self.settings, self.report)?);
        self.is_warm = false;
        Ok(())
    }

    /// Measures overwriting, and fails if puts waited longer than they may.
    fn stall_bound(&mut self) -> Result<(), BenchError> {
        let missed = self.overwrite()?.missed_bounds();
        if missed.is_empty() {
            return Ok(());
        }
        Err(BenchError::OutOfBounds(format!("waiting puts: {}", missed.join("; "))))
    }

    fn overwrite(&mut self) -> Result<OverwriteRow, BenchError> {
        self.ensure_data()?;
        self.is_warm = false;
        let row = overwrite::measure(self.store(), self.settings, &self.data, &self.clock)?;
        if let Some(file) = &self.settings.series {
            row.write_series(file)?;
        }
        self.report.overwrite(&row)?;
        Ok(row)
    }

    fn ensure_data(&mut self) -> Result<(), BenchError> {
        let (wanted, found) = (DataSet::of(self.settings), self.store().data_set()?);
        let directory = self.settings.directory.display();
        if found.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let what = match &found {
            None => format!("{directory} holds no data"),
            Some(found) if !found.complete => format!("the fill of {directory} did not come to its end"),
            Some(found) => format!(
                "{directory} holds {} records of {} + {} bytes from seed {}",
                found.num, found.key_size, found.value_size, found.seed
            ),
        };
        if self.settings.use_existing_db {
            let wanted = format!(
                "--use_existing_db asks for {} records of {} + {} bytes from seed {}",
                wanted.num, wanted.key_size, wanted.value_size, wanted.seed
            );
            return Err(BenchError::Settings(format!("{what}; {wanted}")));
        }
        self.report.note(&format!("{what}; filling it first"))?;
        self.fill_quietly(Workload::FillRandom)?;
        Ok(())
    }

    fn memory_now(&self, keys_bytes: u64) -> Option<MemoryRow> {
        let resident = anonymous_bytes()?;
        let harness_bytes = self.baseline_bytes? + keys_bytes + self.data.memory_bytes();
        Some(MemoryRow {
            workload: "memory",
            resident_anonymous_bytes: resident,
            harness_bytes,
            database_bytes: resident.saturating_sub(harness_bytes),
            budget_bytes: self.store().database.metrics().memory.budget_bytes,
        })
    }

    /// Keeps the largest memory use.
    fn note_memory(&mut self, memory: Option<MemoryRow>) {
        let most = self.memory.as_ref().map_or(0, |memory| memory.database_bytes);
        if let Some(memory) = memory.filter(|memory| self.memory.is_none() || memory.database_bytes > most) {
            self.memory = Some(memory);
        }
    }
}
