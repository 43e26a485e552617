//! Assembly of a store from what recovery found: its keyspaces, its shared state and its workers.

use super::Opening;
use super::damaged_files::{self, DamagedFiles};
use crate::background::clock_state;
use crate::background::targets;
use crate::background::targets::deadline;
use crate::lifecycle::new_keyspace::NewKeyspace;
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
use crate::state::scheduler::WorkerPool;
use crate::state::sealed_memory::SealedMemory;
use crate::state::store::{Installed, Store, Writing};
use crate::write::memory_arbiter;
use esker_base::sync::CachePadded;
use esker_base::{KeyspaceId, Result};
use esker_build::table_factory::TableFactory;
use esker_env::{FileLock, ProcessMark};
use esker_version::{DatabaseState, Manifest};
use esker_view::MemtableView;
use esker_view::read::open_readers::OpenReaders;
use esker_view::semantics::Semantics;
use esker_view::snapshot::Snapshots;
use esker_view::tree::{TableFiles, Tree};
use esker_wal::{KeptHistory, Log, LogWriter, RecoveryReport};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The parts of a store that differ between the two kinds of open.
pub(super) struct Assembly {
    pub(super) state: DatabaseState,
    pub(super) files: Arc<TableFiles>,
    pub(super) lock: Option<Box<dyn FileLock>>,
    /// Sealed memtables of a read-only open.
    pub(super) memtables: BTreeMap<KeyspaceId, Vec<Arc<MemtableView>>>,
    /// The log history of a read-only open.
    pub(super) history: KeptHistory,
    /// What is quarantined.
    pub(super) damaged: DamagedFiles,
}

/// The parts that only a writable open makes.
pub(super) struct WritableParts {
    pub(super) manifest: Manifest,
    pub(super) tables: TableFactory,
    pub(super) log: Arc<Log>,
    pub(super) writer: LogWriter,
    pub(super) report: RecoveryReport,
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

impl Opening {
    pub(super) fn assemble(self, mut assembly: Assembly, parts: Option<WritableParts>) -> Result<Arc<Store>> {
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
            sealed_memory: SealedMemory::default(),
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
