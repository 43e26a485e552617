//! Checkpoints of the data, made by SAVE and BGSAVE: each a database of its own in a directory of its own.
//!
//! They lie below one directory, named by their time in milliseconds since 1970. The last two are kept: a
//! copy of the one before can end while a new one is made. Tables are linked, so a checkpoint takes hardly
//! any space until the data change.

use esker::parts::env::{Clock, FileSystem, StdFileSystem, SystemClock};
use esker::{Database, Error, Result};
use parking_lot::{Condvar, Mutex};
use std::path::PathBuf;

/// Checkpoints that are kept.
const KEPT: usize = 2;

/// What INFO tells of checkpoints.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointStatus {
    /// When the last one was made, in seconds since 1970; before the first, when the server started.
    pub(crate) last_s: u64,
    /// Whether the last attempt succeeded.
    pub(crate) has_succeeded: bool,
    /// How long the last one took, in seconds; `None` before the first.
    pub(crate) took_s: Option<u64>,
    /// When the one began that is being made, in seconds since 1970.
    pub(crate) began_s: Option<u64>,
}

#[derive(Debug)]
struct State {
    directory: Option<PathBuf>,
    status: CheckpointStatus,
    /// Whether the thread is to make one.
    is_wanted: bool,
    /// Whether there is a thread that makes them.
    has_thread: bool,
    is_closed: bool,
}

/// Makes checkpoints, one at a time.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    state: Mutex<State>,
    asked: Condvar,
    clock: SystemClock,
}

impl Checkpoints {
    /// None yet; the server started at this time.
    pub(crate) fn new(started_s: u64) -> Self {
        let status = CheckpointStatus { last_s: started_s, has_succeeded: true, took_s: None, began_s: None };
        let state = State { directory: None, status, is_wanted: false, has_thread: false, is_closed: false };
        Self { state: Mutex::new(state), asked: Condvar::new(), clock: SystemClock::new() }
    }

    /// Sets where checkpoints are made.
    pub(crate) fn set_directory(&self, directory: PathBuf) {
        self.state.lock().directory = Some(directory);
    }

    /// What INFO tells.
    pub(crate) fn status(&self) -> CheckpointStatus {
        self.state.lock().status.clone()
    }

    /// Makes a checkpoint and waits for it.
    ///
    /// # Errors
    /// `Locked` while another one is made, `InvalidArgument` without a directory, those of the engine.
    pub(crate) fn make(&self, database: &Database, now_s: u64) -> Result<()> {
        let directory = self.begin(now_s)?;
        self.finish(database, &directory, now_s)
    }

    /// Lets the thread make one; without a thread it is made here.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub(crate) fn ask(&self, database: &Database, now_s: u64) -> Result<()> {
        let directory = self.begin(now_s)?;
        {
            let mut state = self.state.lock();
            if state.has_thread {
                state.is_wanted = true;
                self.asked.notify_one();
                return Ok(());
            }
        }
        self.finish(database, &directory, now_s)
    }

    fn begin(&self, now_s: u64) -> Result<PathBuf> {
        let mut state = self.state.lock();
        if state.status.began_s.is_some() {
            return Err(Error::InvalidArgument("Background save already in progress".into()));
        }
        let Some(directory) = state.directory.clone() else {
            let text = "no directory for checkpoints is set: start the server with one";
            return Err(Error::InvalidArgument(text.into()));
        };
        state.status.began_s = Some(now_s);
        Ok(directory)
    }

    fn finish(&self, database: &Database, directory: &std::path::Path, began_s: u64) -> Result<()> {
        let began_ns = self.clock.monotonic_ns();
        let made = self.write(database, directory);
        let took_s = self.clock.monotonic_ns().saturating_sub(began_ns) / 1_000_000_000;
        let mut state = self.state.lock();
        state.status.began_s = None;
        state.status.has_succeeded = made.is_ok();
        if made.is_ok() {
            state.status.last_s = began_s + took_s;
            state.status.took_s = Some(took_s);
        }
        made
    }

    /// Makes a checkpoint and removes those before the last.
    fn write(&self, database: &Database, directory: &std::path::Path) -> Result<()> {
        let files = StdFileSystem;
        files.create_dir_all(directory)?;
        let now_ms =
            database.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let is_older = |name: &str| name.parse::<u64>().is_ok();
        let mut older: Vec<u64> = files
            .list(directory)?
            .iter()
            .filter(|entry| entry.is_dir && is_older(&entry.name))
            .filter_map(|entry| entry.name.parse().ok())
            .collect();
        older.sort_unstable();
        // A clock that was set back must not make the newest look old.
        let name = now_ms.max(older.last().map_or(0, |newest| newest + 1));
        database.checkpoint(directory.join(name.to_string()))?;
        let surplus = (older.len() + 1).saturating_sub(KEPT);
        for name in &older[..surplus] {
            files.remove_dir_all(&directory.join(name.to_string()))?;
        }
        Ok(())
    }

    /// Makes checkpoints on request until it is closed.
    pub(crate) fn run(&self, database: &Database) {
        self.state.lock().has_thread = true;
        loop {
            let (directory, began_s) = {
                let mut state = self.state.lock();
                while !state.is_wanted && !state.is_closed {
                    self.asked.wait(&mut state);
                }
                // One that was promised is made before the end.
                if !state.is_wanted {
                    state.has_thread = false;
                    return;
                }
                state.is_wanted = false;
                (state.directory.clone().unwrap_or_default(), state.status.began_s.unwrap_or_default())
            };
            // A failure is told by INFO, as in Redis.
            let _told_by_info = self.finish(database, &directory, began_s);
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.asked.notify_one();
    }
}
