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
//! A read-only open takes a shared lock, keeps replayed data in private memory, and changes no file.

use crate::background::clock_state;
use crate::background::quarantine::REPLACEMENT_SUFFIX;
use crate::background::targets;
use crate::background::targets::deadline;
use crate::lifecycle::history_recovery::{history_for_reading, settle_history};
use crate::lifecycle::new_keyspace::NewKeyspace;
use crate::lifecycle::replay::Replay;
use crate::state::activity::IdleState;
use crate::state::commit_notifier::CommitNotifier;
use crate::state::commit_state::{ActiveKeyspace, CommitLock, CommitState};
use crate::state::consumers::Consumers;
use crate::state::events::Events;
use crate::state::figures;
use crate::state::idle_budget::IdleBudget;
use crate::state::jobs::Jobs;
use crate::state::keyspace::{KeyspaceState, Registry};
use crate::state::memory_shares::MemoryArbiter;
use crate::state::pinned_memtables::PinnedMemtables;
use crate::state::quarantine::Quarantine;
use crate::state::scheduler::{Scheduler, WorkerPool};
use crate::state::store::{AdaptKeyspaces, Installed, Store, Writing};
use crate::write::memory_arbiter;
use damaged_files::DamagedFiles;
use esker_base::planted;
use esker_base::sync::CachePadded;
use esker_base::{Error, FileNumber, KeyspaceId, LogId, Result, SeqNo};
use esker_build::pending_outputs::UnclaimedFiles;
use esker_build::table_factory::TableFactory;
use esker_env::fs::parent_dir;
use esker_env::{
    AsyncReads, Background, Env, FileLock, FileSystem, LockKind, MemoryLedger, OpenMode, ProcessMark,
    ReadQueue,
};
use esker_memtable::ArenaPool;
use esker_options::DEFAULT_KEYSPACE;
use esker_options::{KeyspaceOptions, MemoryPlan, Options, default_open_tables};
use esker_sst::{OpenTables, TableCache};
use esker_version::{
    CURRENT_NAME, CURRENT_TEMPORARY_NAME, ClosedManifest, DatabaseState, EditOp, Manifest, Recovered,
    Recovery, VersionEdit, parse_manifest_name,
};
use esker_view::MemtableView;
use esker_view::paths;
use esker_view::read::open_readers::OpenReaders;
use esker_view::semantics::Semantics;
use esker_view::snapshot::Snapshots;
use esker_view::time::Time;
use esker_view::tree::{OpenAmount, RequestCleanup, TableFiles, Tree};
use esker_wal::{
    KeptHistory, Log, LogOptions, LogPosition, LogStart, LogWriter, RecoverInput, RecoveryReport,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

pub mod clean_reopen;
mod damaged_files;
mod full_disk;

/// Creates a directory and its ancestors, and makes their names durable: the contents of a directory survive
/// a power cut only if the directory does.
///
/// Existing directories may have been created by a process that was killed before this point, so their names
/// are synced, too, where permitted: other users' directories may be inaccessible to this process.
pub fn make_directory(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let ancestors = || dir.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty());
    // Not every file system can open a directory like a file, but for an existing one none reports that it
    // was not found.
    let is_missing = |dir: &Path| fs.open(dir, OpenMode::Read).is_err_and(|error| error.is_not_found());
    let made = ancestors().take_while(|ancestor| is_missing(ancestor)).count();
    fs.create_dir_all(dir)?;
    for (at, ancestor) in ancestors().enumerate() {
        match fs.sync_dir(&parent_dir(ancestor)) {
            Err(error) if at >= made => {
                tracing::debug!(%error, "a parent directory could not be synced");
            }
            synced => synced?,
        }
    }
    Ok(())
}

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
/// it is held by its descriptor ([`FileSystem::hold_dir`]).
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
    /// Creates the directory if it is missing, and holds it: from here on the paths of the database mean what
    /// is in this directory.
    fn find_directory(&mut self) -> Result<()> {
        let fs = Arc::clone(&self.env.fs);
        if fs.file_len(&self.dir.join(CURRENT_NAME))?.is_none() {
            if self.options.read_only || !self.options.create_if_missing {
                return Err(Error::NotFound(
                    format!("there is no database in {}", self.dir.display()).into(),
                ));
            }
            make_directory(&*fs, &self.dir)?;
        }
        if let Some(held) = fs.hold_dir(&self.dir)?
            && !planted!(FollowsPathAfterRename)
        {
            self.env.fs = held;
        }
        Ok(())
    }

    /// The lock of the directory; none for a read-only open of a directory without a lock file, such as a
    /// copy on a read-only medium.
    fn lock(&self) -> Result<Option<Box<dyn FileLock>>> {
        let fs = &self.env.fs;
        if self.options.read_only {
            return match fs.file_len(&paths::lock(&self.dir))? {
                Some(_) => fs.lock(&paths::lock(&self.dir), LockKind::Shared).map(Some),
                None => Ok(None),
            };
        }
        fs.lock(&paths::lock(&self.dir), LockKind::Exclusive).map(Some)
    }

    /// Time goes on where the manifest says that it stopped, or begins with the clock (TM2, TM5).
    fn begin_time(&self, state: &DatabaseState) {
        if !self.options.believe_clock {
            self.time.raise(state.time_floor_ms);
        }
    }

    /// Headers of log segments may be later than the manifest.
    fn note_log_time(&self, report: &RecoveryReport) {
        if !self.options.believe_clock {
            self.time.raise_if_near(report.latest_wall_ms);
        }
    }

    fn phase(&self, what: &'static str) {
        let elapsed_us = self.env.clock.monotonic_ns().saturating_sub(self.started_ns) / 1000;
        tracing::debug!(dir = %self.dir.display(), elapsed_us, "open: {what}");
    }

    // ---- writable

    fn open_writable(mut self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<Store>> {
        let (assembly, parts) = match self.recover_writable() {
            Err(Error::Full(cause)) => self.recover_on_full_disk(cause)?,
            recovered => recovered?,
        };
        self.assemble(Assembly { lock, ..assembly }, Some(parts))
    }

    /// Phases 2 to 6 without the workers. After an error they may be tried again (RC2).
    fn recover_writable(&mut self) -> Result<(Assembly, WritableParts)> {
        let fs = &*self.env.fs;
        let tables_dir = paths::tables(&self.dir);
        let (mut state, last_edit, closed) = self.read_manifest()?;
        self.phase("manifest read");
        // Both names are durable by the commit point, which syncs their parent directory.
        fs.create_dir_all(&tables_dir)?;
        fs.create_dir_all(&paths::wal(&self.dir))?;
        self.begin_time(&state);
        let is_complete = !self.add_default_keyspace(&mut state)? && !self.options.believe_clock;
        let above_names = self.above_all_names(&tables_dir)?.max(self.above_seen);
        self.above_seen = above_names;
        let is_unchanged = is_complete && above_names <= state.next_file;
        state.next_file = state.next_file.max(above_names);
        let factory = TableFactory::new(
            self.env.clone(),
            self.dir.clone(),
            state.uuid,
            state.next_file,
            state.next_part,
        );
        let files = self.table_files()?;
        let damaged = self.check_files(&state, &files)?;
        self.phase("tables checked");
        let durable = durable_position(&state);
        let options = self.all_stored_options(&state)?;
        let largest_buffer = options.values().filter_map(|options| options.write_buffer_bytes).max();
        self.memory = self.memory.for_buffers_of(largest_buffer.unwrap_or(0));
        let mut replay = Replay::new(Some(&factory), &self.memory, &self.arenas, &files, state, options);
        let mut report = self.read_log(&mut replay, last_edit, durable)?;
        self.phase("log replayed");
        let found = clean_reopen::ReopenInputs {
            closed,
            last_edit,
            is_unchanged,
            state: &replay.state,
            report: &report,
        };
        let resumed = self.resume(&found)?;
        self.note_log_time(&report);
        let replayed = replay.entries_applied;
        let (state, manifest, log_id, history) = match resumed {
            Some(manifest) => {
                let state = replay.into_unchanged();
                let (log_id, history) = (state.min_log_id, KeptHistory::none(state.last_seqno));
                (state, manifest, log_id, history)
            }
            None => {
                let (state, manifest, history) =
                    self.begin_manifest(replay, &factory, last_edit, &mut report)?;
                (state, manifest, report.next_log_id, history)
            }
        };
        self.phase("manifest committed");
        self.delete_orphans(&state, manifest.number(), &tables_dir)?;
        let (log, writer) = self.begin_log(&state, manifest.last_edit(), log_id, history)?;
        self.phase("log begun");
        tracing::info!(dir = %self.dir.display(), replayed, warning = report.warning, "database opened");
        let history = KeptHistory::default();
        let assembly = Assembly { state, files, lock: None, memtables: BTreeMap::new(), history, damaged };
        Ok((assembly, WritableParts { manifest, tables: factory, log, writer, report }))
    }

    /// The state in the manifest with the number of its last edit, and the end of it if it was closed; or an
    /// empty state.
    fn read_manifest(&self) -> Result<(DatabaseState, u64, Option<ClosedManifest>)> {
        match esker_version::recover(&*self.env.fs, &self.dir)? {
            Recovery::Database(recovered) => {
                self.check_log_directory(&recovered)?;
                Ok((recovered.state, recovered.last_edit, recovered.closed))
            }
            Recovery::Nothing | Recovery::NoCurrent { .. } => {
                self.check_nothing_to_lose()?;
                Ok((DatabaseState::new(self.new_uuid()), 0, None))
            }
        }
    }

    /// Writes replayed data to tables, and a manifest with the result.
    fn begin_manifest(
        &self,
        replay: Replay<'_>,
        factory: &TableFactory,
        last_edit: u64,
        report: &mut RecoveryReport,
    ) -> Result<(DatabaseState, Manifest, KeptHistory)> {
        let (flushed, min_log_id) = (flushed_seqno(&replay.state), replay.state.min_log_id);
        let (mut state, written) = replay.finish(report.greatest_seqno)?;
        self.phase("log in tables");
        state.time_floor_ms = self.time.now_ms();
        state.min_log_id = state.min_log_id.max(report.next_log_id);
        state.durable_position = None;
        let history = settle_history(&*self.env.fs, &mut state, report, flushed, min_log_id)?;
        let manifest = self.commit(factory, &mut state, last_edit, written)?;
        Ok((state, manifest, history))
    }

    /// The one commit point: a manifest with all of `state` becomes current, and with it the `written`
    /// tables. They are deleted only if it certainly does not become current.
    fn commit(
        &self,
        factory: &TableFactory,
        state: &mut DatabaseState,
        last_edit: u64,
        written: Option<UnclaimedFiles<'_>>,
    ) -> Result<Manifest> {
        let number = factory.take_file_number();
        (state.next_file, state.next_part) = factory.counters();
        let created = Manifest::create(&self.env, &self.dir, number, state, last_edit + 1);
        let may_count = created.as_ref().map_or_else(|failure| failure.fatal, |_| true);
        if may_count {
            written.into_iter().for_each(UnclaimedFiles::claim);
        }
        Ok(created?)
    }

    /// No CURRENT: fine if there is nothing, or if a creation was interrupted; corruption if there is data. A
    /// creation writes CURRENT before the first table and the first log segment.
    fn check_nothing_to_lose(&self) -> Result<()> {
        for (dir, what) in [(paths::tables(&self.dir), "tables"), (paths::wal(&self.dir), "log segments")] {
            let entries = match self.env.fs.list(&dir) {
                Err(error) if error.is_not_found() => continue,
                listed => listed?,
            };
            if let Some(entry) = entries.first() {
                let detail = format!("the file is missing, but there are {what} ({} for one)", entry.name);
                return Err(Error::corruption(self.dir.join(CURRENT_NAME), None, detail));
            }
        }
        Ok(())
    }

    /// A log directory that is missing is no empty log: it is created before the first manifest of an open. A
    /// copy, whose manifest begins with edit 0, has none; and after an orderly close nothing in it is needed.
    fn check_log_directory(&self, recovered: &Recovered) -> Result<()> {
        let dir = paths::wal(&self.dir);
        let is_needed = recovered.last_edit > 0 && recovered.closed.is_none();
        match self.env.fs.list(&dir) {
            Err(error) if error.is_not_found() && is_needed => {
                let detail = "the directory of the log is missing, and the database was not closed with all of \
                              its entries in tables: entries that only the log had are lost. Put the directory \
                              back; an empty one in its place opens the database without these entries if none \
                              of them was known to be durable";
                Err(Error::corruption(dir, None, detail))
            }
            Err(error) if error.is_not_found() => Ok(()),
            listed => listed.map(|_| ()),
        }
    }

    fn new_uuid(&self) -> [u8; 16] {
        let mut uuid = [0u8; 16];
        uuid[..8].copy_from_slice(&self.env.random.next_u64().to_le_bytes());
        uuid[8..].copy_from_slice(&self.env.random.next_u64().to_le_bytes());
        uuid
    }

    /// `true` if it was missing.
    fn add_default_keyspace(&self, state: &mut DatabaseState) -> Result<bool> {
        if state.keyspace_named(DEFAULT_KEYSPACE).is_some() {
            return Ok(false);
        }
        let mut edit = VersionEdit::new();
        edit.push(EditOp::CreateKeyspace {
            id: state.next_keyspace,
            name: DEFAULT_KEYSPACE.into(),
            options: self.options.default_keyspace()?.encode().into(),
        });
        state.apply(&edit)?;
        Ok(true)
    }

    /// A file number above every name in the directory, so that no number is reused, not even after an open
    /// that failed (RC3).
    fn above_all_names(&self, tables_dir: &Path) -> Result<FileNumber> {
        let (tables, others) = (self.env.fs.list(tables_dir)?, self.env.fs.list(&self.dir)?);
        let tables =
            tables.iter().filter_map(|entry| paths::parse_data(&entry.name).map(|(_, number)| number));
        let manifests = others.iter().filter_map(|entry| parse_manifest_name(&entry.name));
        Ok(tables.chain(manifests).max().map_or(FileNumber(1), FileNumber::next))
    }

    fn table_files(&self) -> Result<Arc<TableFiles>> {
        let capacity = usize::try_from(self.memory.budget_bytes / 2).unwrap_or(usize::MAX);
        let cache = TableCache::of_kind(self.options.cache_kind, capacity, &self.env.clock)
            .with_scan_percent(self.options.cache_scan_percent);
        let tables = self.options.max_open_tables;
        let limit = OpenAmount {
            tables: tables.unwrap_or_else(|| default_open_tables(esker_env::host::open_files_limit())),
            bytes: self.memory.table_metadata_bytes(),
        };
        let (env, scheduler) = (self.env.clone(), Arc::clone(&self.scheduler));
        let request_cleanup = RequestCleanup::new(move || scheduler.request(WorkerPool::Log));
        // In stepped mode one seeded thread does everything, and nothing may depend on the timing of others.
        let is_stepped = matches!(env.background, Background::Stepped { .. });
        let way = if is_stepped { AsyncReads::Off } else { self.options.async_reads };
        let (queue, memory) = (ReadQueue::new(way, &env)?, Arc::clone(&env.memory));
        let tables = OpenTables::with_choices(Arc::new(cache), self.options.cache_filters, queue, memory);
        let reads = self.options.table_reads;
        let files = TableFiles::new(env, self.dir.clone(), tables, reads, request_cleanup, limit);
        files.rates.set(self.options.background_rates);
        Ok(files)
    }

    fn read_log(
        &self,
        replay: &mut Replay<'_>,
        last_edit: u64,
        durable: LogPosition,
    ) -> Result<RecoveryReport> {
        let input = RecoverInput {
            fs: &*self.env.fs,
            dir: &paths::wal(&self.dir),
            db_uuid: replay.state.uuid,
            min_log_id: replay.state.min_log_id,
            durable,
            last_manifest_edit: last_edit,
            mode: self.options.wal_recovery,
        };
        let report = esker_wal::recover(&input, &mut |record| replay.apply(record))?;
        for (_, path) in report.removable.iter().filter(|_| planted!(DeletesLogTooEarly)) {
            self.env.fs.remove_file(path)?;
        }
        Ok(report)
    }

    /// After the commit point: deletes files unknown to the new state (RC4: everything before succeeded).
    fn delete_orphans(&self, state: &DatabaseState, manifest: FileNumber, tables_dir: &Path) -> Result<()> {
        let live = state.live_files();
        for entry in self.env.fs.list(tables_dir)? {
            let is_live = |(kind, number)| live.get(&number).is_some_and(|file| file.kind == kind);
            let orphan = paths::parse_data(&entry.name).is_some_and(|file| !is_live(file));
            let left_over = entry.name.ends_with(REPLACEMENT_SUFFIX);
            if (orphan || left_over) && !entry.is_dir {
                self.env.fs.remove_file(&tables_dir.join(&entry.name))?;
            }
        }
        for entry in self.env.fs.list(&self.dir)? {
            let other_manifest = parse_manifest_name(&entry.name).is_some_and(|number| number != manifest);
            if other_manifest || entry.name == CURRENT_TEMPORARY_NAME {
                self.env.fs.remove_file(&self.dir.join(&entry.name))?;
            }
        }
        Ok(())
    }

    fn begin_log(
        &self,
        state: &DatabaseState,
        manifest_edit: u64,
        log_id: LogId,
        history: KeptHistory,
    ) -> Result<(Arc<Log>, LogWriter)> {
        let start = LogStart {
            db_uuid: state.uuid,
            log_id,
            last_seqno: state.last_seqno,
            manifest_edit,
            wall_ms: self.time.now_ms(),
            history,
        };
        let options = LogOptions {
            segment_bytes: self.memory.wal_segment_bytes,
            mapped: self.options.mapped_log,
            kept_segments: self.memory.kept_segments(),
            history_limit_bytes: self.options.change_history_bytes,
        };
        Log::create(&self.env, &paths::wal(&self.dir), &start, options)
    }

    // ---- read-only

    fn open_read_only(self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<Store>> {
        let fs = &*self.env.fs;
        let Recovery::Database(recovered) = esker_version::recover(fs, &self.dir)? else {
            return Err(Error::NotFound(format!("there is no database in {}", self.dir.display()).into()));
        };
        self.check_log_directory(&recovered)?;
        let (state, last_edit) = (recovered.state, recovered.last_edit);
        self.begin_time(&state);
        let files = self.table_files()?;
        let damaged = self.check_files(&state, &files)?;
        let durable = durable_position(&state);
        let options = self.all_stored_options(&state)?;
        let mut replay = Replay::new(None, &self.memory, &self.arenas, &files, state, options);
        let report = self.read_log(&mut replay, last_edit, durable)?;
        let (flushed, min_log_id) = (flushed_seqno(&replay.state), replay.state.min_log_id);
        let history = history_for_reading(&replay.state, &report, flushed, min_log_id);
        self.note_log_time(&report);
        let (mut state, last_seqno, memtables) = replay.into_memtables();
        let replayed_to = last_seqno.max(report.greatest_seqno);
        state.last_seqno =
            if planted!(StaleReadOnlyOpen) { state.last_seqno } else { state.last_seqno.max(replayed_to) };
        self.assemble(Assembly { state, files, lock, memtables, history, damaged }, None)
    }
}

/// The parts of a store that differ between the two kinds of open.
struct Assembly {
    state: DatabaseState,
    files: Arc<TableFiles>,
    lock: Option<Box<dyn FileLock>>,
    /// Sealed memtables of a read-only open.
    memtables: BTreeMap<KeyspaceId, Vec<Arc<MemtableView>>>,
    /// The log history of a read-only open.
    history: KeptHistory,
    /// What is quarantined.
    damaged: DamagedFiles,
}

/// The parts that only a writable open makes.
struct WritableParts {
    manifest: Manifest,
    tables: TableFactory,
    log: Arc<Log>,
    writer: LogWriter,
    report: RecoveryReport,
}

impl WritableParts {
    /// The writable side of a store in this state, with these active keyspaces.
    fn into_writing(
        self,
        state: DatabaseState,
        active: impl Iterator<Item = ActiveKeyspace>,
        now_ns: u64,
    ) -> Writing {
        let mut commit = CommitState::new(state.last_seqno.plus(1), self.writer);
        active.for_each(|keyspace| commit.add_keyspace(keyspace));
        Writing {
            commit: CachePadded(CommitLock::new(commit)),
            log: self.log,
            commit_notifier: CommitNotifier::default(),
            last_edit: AtomicU64::new(self.manifest.last_edit()),
            manifest: Mutex::new(Installed::new(self.manifest, state, now_ns)),
            tables: self.tables,
            old_segments: Mutex::new(Some(self.report)),
        }
    }
}

/// Up to where the manifest says that the log was durable.
fn durable_position(state: &DatabaseState) -> LogPosition {
    state.durable_position.map_or(LogPosition::ZERO, |(id, offset)| LogPosition::new(id, offset))
}

/// The greatest sequence number that is in tables, according to the manifest.
fn flushed_seqno(state: &DatabaseState) -> SeqNo {
    state.keyspaces.values().map(|keyspace| keyspace.flushed_seqno).max().unwrap_or_default()
}

impl Opening {
    /// The keyspaces with their views, and the writable side of each.
    fn keyspaces(&self, assembly: &mut Assembly) -> Result<Vec<(Arc<KeyspaceState>, ActiveKeyspace)>> {
        let mut keyspaces = Vec::new();
        for (id, stored) in assembly.state.keyspaces.iter() {
            let options = self.stored_options(stored)?;
            assembly.files.set_reading(*id, options.table_reading());
            let tree = Arc::new(Tree::new(*id, Arc::clone(&stored.version), &assembly.files));
            let sealed = assembly.memtables.remove(id).unwrap_or_default();
            let name = Arc::clone(&stored.name);
            let semantics =
                Semantics::new(&self.time, self.memory.budget_bytes, options.operand_merger(&name));
            let new = NewKeyspace { id: *id, name, options, tree, sealed, semantics };
            let activated = new.activate(&self.memory, &self.arenas, &self.scheduler)?;
            if let Some(recorded) = &stored.figures {
                figures::restore(&activated.0, &assembly.files, recorded);
            }
            keyspaces.push(activated);
        }
        Ok(keyspaces)
    }

    /// The consumers of changes, with their holds on the log.
    fn consumers(&self, state: &DatabaseState, log: Option<&Arc<Log>>) -> Consumers {
        let since_ns = self.env.clock.monotonic_ns();
        Consumers::new(&state.consumers, |name, after| {
            let held = log?.hold(after, Some(Arc::clone(name)), since_ns);
            if let Err(oldest) = held {
                tracing::warn!(consumer = %name, %after, %oldest, "changes that a consumer needs are gone");
            }
            held.ok()
        })
    }

    /// The options of every keyspace, checked before they are used.
    fn all_stored_options(&self, state: &DatabaseState) -> Result<BTreeMap<KeyspaceId, KeyspaceOptions>> {
        state.keyspaces.iter().map(|(id, stored)| Ok((*id, self.stored_options(stored)?))).collect()
    }

    /// The stored options of a keyspace, with a user-defined merge operator attached.
    fn stored_options(&self, stored: &esker_version::KeyspaceState) -> Result<KeyspaceOptions> {
        let options = KeyspaceOptions::decode(&stored.options).map_err(|error| match error {
            Error::Unsupported(detail) => {
                Error::Unsupported(format!("keyspace {:?}: {detail}", stored.name).into())
            }
            other => other.in_keyspace(&stored.name),
        })?;
        let mut options = self.options.supply(options);
        if !self.options.allow_missing_operators {
            options.check_supplied(&stored.name)?;
        }
        if &*stored.name == DEFAULT_KEYSPACE {
            options.check_operator_is(&self.options.keyspace, &stored.name)?;
            options.compaction_filter.clone_from(&self.options.keyspace.compaction_filter);
        }
        Ok(options)
    }

    fn assemble(self, mut assembly: Assembly, parts: Option<WritableParts>) -> Result<Arc<Store>> {
        let pairs = self.keyspaces(&mut assembly)?;
        let last_seqno = assembly.state.last_seqno;
        let states: Vec<Arc<KeyspaceState>> = pairs.iter().map(|(state, _)| Arc::clone(state)).collect();
        let consumers = self.consumers(&assembly.state, parts.as_ref().map(|parts| &parts.log));
        let active = pairs.into_iter().map(|(_, active)| active);
        let counters = figures::restored_counters(&assembly.state, self.time.now_ms());
        let now_ns = self.env.clock.monotonic_ns();
        let writing = parts.map(|parts| parts.into_writing(assembly.state, active, now_ns));
        let open_readers = OpenReaders::new(Arc::clone(&self.env.clock), self.options.reader_warn_age);
        let jobs = Jobs::new(&self.scheduler, &self.env.clock, &assembly.files.rates);
        let events = Events::start(&self.env, self.options.listeners)?;
        let store = Arc::new(Store {
            process: ProcessMark::here(),
            adapt_keyspaces: self.adapt_keyspaces,
            idle_budget: Mutex::new(IdleBudget::new(self.env.clock.monotonic_ns())),
            env: self.env,
            dir: self.dir,
            memory: self.memory,
            durability: self.options.durability,
            stall_limit: self.options.stall_limit,
            flush_on_close: self.options.flush_on_close,
            default_options: self.options.keyspace,
            named: self.options.named,
            visible: CachePadded(AtomicU64::new(last_seqno.get())),
            sealed_bytes: CachePadded(AtomicU64::new(0)),
            memory_arbiter: MemoryArbiter::new(&self.memory),
            writing,
            keyspaces: RwLock::new(Registry::new(states)),
            snapshots: Snapshots::default(),
            open_readers,
            time: self.time,
            files: assembly.files,
            quarantine: Quarantine::new(self.options.recovery_mode, assembly.damaged.into_files()),
            pinned_memtables: PinnedMemtables::default(),
            arenas: self.arenas,
            scheduler: self.scheduler,
            consumers,
            history: assembly.history,
            history_limit_bytes: self.options.change_history_bytes,
            counters,
            events,
            jobs,
            flush_threads: self.options.flush_threads,
            compaction_threads: self.options.compaction_threads,
            max_subcompactions: self.options.max_subcompactions,
            last_compacted: AtomicU32::new(u32::MAX),
            last_activity: Mutex::default(),
            quiet: IdleState::default(),
            clock_state: Mutex::default(),
            log_ages: Mutex::default(),
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            activity: RwLock::new(()),
            closing: Mutex::new(()),
            lock: Mutex::new(assembly.lock),
        });
        memory_arbiter::begin_memory_arbitration(&store);
        targets::settle_log_reuse(&store);
        damaged_files::announce_all(&store);
        deadline::warn_of_deadlines(&store);
        clock_state::note_clock(&store);
        start_workers(&store)?;
        Ok(store)
    }
}

fn start_workers(store: &Arc<Store>) -> Result<()> {
    let started = match &store.writing {
        Some(_) => store.scheduler.start(&store.env, store, store.compaction_threads),
        None => store.scheduler.start_for_reading(&store.env, store),
    };
    // Threads that did start hold the store and would keep the directory locked for ever.
    started.inspect_err(|_| store.scheduler.stop())?;
    if store.writing.is_some() {
        for pool in [WorkerPool::Log, WorkerPool::Deletion, WorkerPool::Flush, WorkerPool::Compaction] {
            store.scheduler.request(pool);
        }
    }
    Ok(())
}
