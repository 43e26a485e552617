//! Closing, opening, and opening after a kill: time to the first answer, and lost writes.

use super::{Bench, with_value};
use crate::data::{KEY_BUFFER_BYTES, Permutation};
use crate::engine::{Durability, Engine, Result};
use crate::record::Record;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Most records that the killed process writes: about 100,000, and no round number at which a flush could
/// fall.
const MOST_KILLED_RECORDS: u64 = 97_777;
/// Version of its values.
const KILLED_VERSION: u64 = 0x00dd_dddd;
/// The command that runs it; its other arguments are those of `run`.
pub(crate) const KILLED_COMMAND: &str = "run-killed";

impl Bench {
    /// Closes and opens the store, kills a process that writes to it, opens it again and checks its content.
    pub(super) fn reopen(&mut self, engine: Box<dyn Engine>) -> Result<Box<dyn Engine>> {
        if !self.selects("reopen") {
            return Ok(engine);
        }
        let start = Instant::now();
        engine.close()?;
        self.emit_value("close", start.elapsed().as_secs_f64() * 1e3, "ms", "")?;
        self.open_timed("reopen_clean")?.close()?;
        let written = self.killed_writes()?;
        let engine = self.open_timed("reopen_kill")?;
        self.judge(engine.as_ref(), written)?;
        Ok(engine)
    }

    fn open_timed(&mut self, name: &str) -> Result<Box<dyn Engine>> {
        let mut key = [0; KEY_BUFFER_BYTES];
        let record = self.settings.records / 2;
        let mut is_whole = false;
        let start = Instant::now();
        let engine = self.open(Durability::Process)?;
        engine.session()?.get(self.data.key(record, &mut key), &mut |value| {
            is_whole = self.data.is_whole(record, value);
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let record = Record {
            value: Some(seconds * 1e3),
            unit: "ms".to_owned(),
            seconds,
            errors: u64::from(!is_whole),
            note: "opening and a get".to_owned(),
            ..self.record(name, 1)
        };
        self.emit(record)?;
        self.settle();
        Ok(engine)
    }

    /// Runs the process to be killed; returns its number of acknowledged writes.
    fn killed_writes(&self) -> Result<u64> {
        let arguments = std::env::args_os().skip(2);
        let program = std::env::current_exe()?;
        let output =
            Command::new(program).arg(KILLED_COMMAND).args(arguments).stderr(Stdio::inherit()).output()?;
        let told = String::from_utf8_lossy(&output.stdout);
        let count = told.trim().parse();
        count.map_err(|_| {
            format!("the process that was to be killed ended by itself ({}) and said {told:?}", output.status)
                .into()
        })
    }

    /// Body of that process: writes, reports how much, and kills itself.
    ///
    /// # Errors
    /// If it ends otherwise.
    pub(crate) fn write_and_be_killed(&self) -> Result<()> {
        let engine = self.open(Durability::Process)?;
        let data = &self.data;
        let random = self.killed_order();
        let mut session = engine.session()?;
        let mut key = [0; KEY_BUFFER_BYTES];
        let mut written = 0;
        let start = Instant::now();
        while written < MOST_KILLED_RECORDS.min(self.settings.records / 4) {
            let record = random.at(written);
            with_value(data, record, KILLED_VERSION, |value| session.put(data.key(record, &mut key), value))?;
            written += 1;
            if start.elapsed().as_secs_f64() > self.settings.max_seconds {
                break;
            }
        }
        let mut out = std::io::stdout();
        writeln!(out, "{written}")?;
        out.flush()?;
        // SAFETY: a signal to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        Err("this process survived a SIGKILL to itself".into())
    }

    fn killed_order(&self) -> Permutation {
        Permutation::new(self.settings.records, self.settings.seed ^ 0xd1)
    }

    /// The stored records must be a prefix of the written ones, and all of them where the engine guarantees
    /// it.
    fn judge(&mut self, engine: &dyn Engine, written: u64) -> Result<()> {
        let random = self.killed_order();
        let mut session = engine.session()?;
        let mut key = [0; KEY_BUFFER_BYTES];
        let (mut lost, mut damaged, mut kept_behind_lost) = (0, 0, 0);
        for place in 0..written {
            let record = random.at(place);
            let (mut is_whole, mut is_kept) = (false, false);
            session.get(self.data.key(record, &mut key), &mut |value| {
                is_whole = self.data.is_whole(record, value);
                is_kept = self.data.version_of(value) == KILLED_VERSION;
            })?;
            damaged += u64::from(!is_whole);
            lost += u64::from(!is_kept);
            kept_behind_lost += u64::from(is_kept && lost > 0);
        }
        drop(session);
        let broken_promises = if engine.abilities().survives_exit { lost } else { 0 };
        let record = Record {
            value: Some(lost as f64),
            unit: "writes".to_owned(),
            count: written,
            errors: damaged + kept_behind_lost + broken_promises,
            note: format!("of {written} acknowledged before the kill"),
            ..self.record("lost_by_kill", 1)
        };
        self.emit(record)
    }
}
