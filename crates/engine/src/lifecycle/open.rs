//! Opening: recovery, phase by phase (protocol chapter 5).
//!
//! | phase | what happens |
//! |---|---|
//! | 1 | the directory is created if missing, with durable names up to the root, and locked |
//! | 2 | the manifest is read |
//! | 3 | every live table must exist with its recorded length; none is opened ([`damaged_files`]) |
//! | 4 | the log is replayed into memtables, and those are written to tables |
//! | 5 | a manifest with the result is written and CURRENT renamed: the one commit point of an open |
//! | 6 | a new log begins, files unknown to the new state are deleted, the workers start |
//!
//! Until the commit point nothing that the previous state needs is changed (RC1), so an open that is
//! interrupted anywhere starts over from the same input (RC2).
//!
//! Numbers never decrease (RC3): file numbers rise past every name seen in the directory, log ids and
//! sequence numbers past every valid record, discarded ones included.
//!
//! After a close that left everything in tables phase 5 is unnecessary, and the open continues with the
//! manifest that it found ([`clean_reopen`]).
//!
//! Where the disk is full, files that no state needs are deleted and the phases from 2 on are tried once more
//! ([`full_disk`]).
//!
//! A [read-only](read_only) open takes a shared lock, keeps replayed data in private memory, and changes no
//! file.
//!
//! | file | holds |
//! |---|---|
//! | `directory` | the directory, its lock, and the names of the files in it |
//! | `manifest`, `log` | reading what is stored, and beginning both anew |
//! | `stored_options` | the options of keyspaces, as the manifest has them |
//! | `table_files`, `damaged_files` | caches and readers; checking that the files are there |
//! | `assembly` | the store, made of what was found |
//! | `writable`, `read_only`, `clean_reopen`, `full_disk` | the phases in order, for each kind of open |

use crate::state::scheduler::Scheduler;
use crate::state::store::{AdaptKeyspaces, Store};
use esker_base::{Error, FileNumber, Result};
use esker_env::{Env, MemoryLedger};
use esker_memtable::ArenaPool;
use esker_options::{MemoryPlan, Options};
use esker_view::time::Time;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod assembly;
mod clean_reopen;
mod damaged_files;
mod directory;
mod full_disk;
mod log;
mod manifest;
mod read_only;
mod stored_options;
mod table_files;
mod writable;

pub use directory::make_directory;

/// The inputs of all phases of an open.
struct Opening {
    env: Env,
    dir: PathBuf,
    options: Options,
    memory: MemoryPlan,
    scheduler: Arc<Scheduler>,
    arenas: ArenaPool,
    time: Arc<Time>,
    started_ns: u64,
    /// Runs adaptive tuning of keyspaces.
    adapt_keyspaces: AdaptKeyspaces,
    /// Above every file number that this open has seen, in files that it has deleted, too (RC3).
    above_seen: FileNumber,
}

/// Opens a database directory.
///
/// The working directory plays no part afterwards, and the directory stays the same one when it is renamed:
/// it is held by its descriptor ([`esker_env::FileSystem::hold_dir`]).
pub fn open(dir: &Path, options: Options, adapt_keyspaces: AdaptKeyspaces) -> Result<Arc<Store>> {
    if dir.as_os_str().is_empty() {
        return Err(Error::invalid("the directory of the database is an empty path"));
    }
    let memory = MemoryPlan::new(&options, esker_env::host::memory_limit_bytes());
    let env = Env { memory: MemoryLedger::for_budget(memory.budget_bytes), ..options.env.clone() };
    let dir = env.fs.absolute(dir)?;
    let mut opening = Opening {
        started_ns: env.clock.monotonic_ns(),
        scheduler: Arc::new(Scheduler::new(env.background)),
        arenas: ArenaPool::new(memory.memtables_bytes),
        dir,
        time: Arc::new(Time::new(Arc::clone(&env.clock), 0)),
        env,
        options,
        memory,
        adapt_keyspaces,
        above_seen: FileNumber(1),
    };
    opening.find_directory()?;
    let lock = opening.lock()?;
    if opening.options.read_only { opening.open_read_only(lock) } else { opening.open_writable(lock) }
}

impl Opening {
    /// Logs the end of a phase, with the time since the open began.
    fn phase(&self, what: &'static str) {
        let elapsed_us = self.env.clock.monotonic_ns().saturating_sub(self.started_ns) / 1000;
        tracing::debug!(dir = %self.dir.display(), elapsed_us, "open: {what}");
    }
}
