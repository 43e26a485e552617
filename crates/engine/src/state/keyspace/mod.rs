//! A keyspace inside the engine: its name, options, current view and running jobs.
//!
//! [`registry`] finds keyspaces by name, [`crate::lifecycle::keyspace::change`] creates, renames and drops
//! them and changes their options, [`crate::background::migration`] handles unfinished changes of strategy,
//! [`compaction_outcome`] has the state of compactions for waiting writers.
//!
//! # Synchronisation
//! A keyspace's identity is its id, which never changes and is never reused (WL5). Name and options are
//! values that are replaced as a whole, under the manifest's lock and after the edit is durable; a job takes
//! the present value and keeps it until its end. The put path reads neither: the options it needs are in
//! [`crate::state::commit_state::ActiveKeyspace`], under the commit lock.

pub mod compaction_outcome;
pub mod recent_drops;
pub mod registry;

use crate::state::no_plan_cache::NoPlan;
use compaction_outcome::CompactionOutcome;
pub use recent_drops::RecentDrops;
pub use registry::Registry;

use crate::state::adaptive_state::Adapting;
use crate::state::no_plan_cache::NoPlanCache;
use crate::state::read_heat::ReadHeat;
use crate::state::read_triggered::ReadTrigger;
use crate::state::traffic::Traffic;
use crate::state::write_control::Control;
use esker_base::{Error, KeyspaceId, SeqNo};
use esker_build::compression_downgrade::CompressionDowngrade;
use esker_build::filters::FilterTuner;
use esker_build::overwrite_ratio::OverwriteRatios;
use esker_build::warmed_outputs::ReadsAtFlush;
use esker_iter::OperandMerger;
use esker_options::{KeyspaceOptions, KeyspaceRef, OwnFilter};
use esker_strategy::{BlobSpace, Busy, due_permille, upper_bytes, upper_runs};
use esker_version::LevelIndex;
use esker_view::ViewCell;
use esker_view::read::scan_tally::ScanCounts;
use esker_view::semantics::Semantics;
use esker_view::tree::TreeRun;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One keyspace of an open database.
#[derive(Debug)]
pub struct KeyspaceState {
    /// Its identity, never reused.
    pub id: KeyspaceId,
    /// Replaced by a rename.
    name: Mutex<Arc<str>>,
    /// Replaced when they are changed online.
    options: Mutex<Arc<KeyspaceOptions>>,
    /// The published view.
    pub view: ViewCell,
    /// Shared with every view.
    pub semantics: Arc<Semantics>,
    /// Held while a tree is built and published (OT5): by installs, by table cache eviction, and by a drop.
    /// No I/O happens under it.
    pub publishing: Mutex<()>,
    /// Held by the flush of this keyspace: flushes install oldest first (IN4) because there is one at a time.
    pub flushing: Mutex<()>,
    /// Plans that are being executed.
    pub busy: Mutex<Busy>,
    /// The cached last call of the strategy without a plan.
    pub no_plan_cache: Mutex<NoPlanCache>,
    /// The state of its compactions.
    pub compaction_outcome: CompactionOutcome,
    /// Runs in level 0, stored beside the view so that a writer reads them without loading it.
    level0_runs: AtomicU64,
    /// Whether blob garbage collection is due; stored likewise.
    is_large_over: AtomicBool,
    /// The default TTL of the options, in milliseconds, 0 for none: stored beside them so that a put reads it
    /// without a lock.
    default_ttl_ms: AtomicU64,
    /// Set when the keyspace was dropped, durably, and before its view becomes an empty one: a reader that
    /// finds the empty view also finds this, and returns an error instead of "no such key".
    pub dropped: AtomicBool,
    /// Bytes that flushes and compactions moved.
    pub traffic: Traffic,
    /// Counters of its cursors.
    pub scans: Arc<ScanCounts>,
    /// What these scans may have merged.
    pub read_trigger: ReadTrigger,
    /// Measures whether flushed data is read.
    pub reads_at_flush: ReadsAtFlush,
    /// The state of its automatic tuning.
    pub adapting: Adapting,
    /// The read heat of its tables, if its strategy uses it.
    pub heat: Mutex<ReadHeat>,
    /// The overwrite ratios of its tables, if its strategy uses them.
    pub overwrite_ratios: Mutex<OverwriteRatios>,
    /// The compression downgrade of its jobs.
    pub compression_downgrade: CompressionDowngrade,
    /// The write control; taken before `busy` and `commit`.
    pub control: Mutex<Control>,
    /// The admission rate of writers in bytes a second, 0 for no limit, as of the last update of the
    /// pressure.
    pub admitted_bytes_per_second: AtomicU64,
    /// Statistics of its filters, and the tuning of new ones.
    pub filters: FilterTuner,
}

impl KeyspaceState {
    /// The state of a keyspace with this view.
    pub fn new(id: KeyspaceId, name: Arc<str>, options: KeyspaceOptions, view: ViewCell) -> KeyspaceState {
        let state = KeyspaceState {
            id,
            default_ttl_ms: AtomicU64::new(options.default_ttl_ms()),
            name: Mutex::new(name),
            options: Mutex::new(Arc::new(options)),
            semantics: Arc::clone(&view.load().semantics),
            view,
            publishing: Mutex::new(()),
            flushing: Mutex::new(()),
            busy: Mutex::default(),
            no_plan_cache: Mutex::default(),
            compaction_outcome: CompactionOutcome::default(),
            level0_runs: AtomicU64::new(0),
            is_large_over: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
            traffic: Traffic::default(),
            scans: Arc::default(),
            read_trigger: ReadTrigger::default(),
            reads_at_flush: ReadsAtFlush::default(),
            adapting: Adapting::default(),
            heat: Mutex::default(),
            overwrite_ratios: Mutex::default(),
            compression_downgrade: CompressionDowngrade::default(),
            control: Mutex::default(),
            admitted_bytes_per_second: AtomicU64::new(0),
            filters: FilterTuner::default(),
        };
        state.note_shape();
        state
    }

    /// Its present name.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.lock())
    }

    /// Its identity and present name, for an event.
    pub fn event_ref(&self) -> KeyspaceRef {
        KeyspaceRef { id: self.id, name: self.name() }
    }

    /// Its present options. A job takes them once and keeps them.
    pub fn options(&self) -> Arc<KeyspaceOptions> {
        Arc::clone(&self.options.lock())
    }

    /// Replaces the options.
    pub fn set_options(&self, options: KeyspaceOptions) {
        let mut present = self.options.lock();
        self.default_ttl_ms.store(options.default_ttl_ms(), Ordering::Relaxed);
        *present = Arc::new(options);
        self.semantics.set_folding(present.operand_merger(&self.name()));
    }

    /// Attaches a compaction filter. Nothing of it is stored.
    pub fn attach_filter(&self, filter: &OwnFilter) {
        let mut present = self.options.lock();
        let mut options = KeyspaceOptions::clone(&present);
        options.compaction_filter = Some(filter.clone());
        *present = Arc::new(options);
    }

    /// The merge operator.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace has none.
    #[inline]
    pub fn operand_merger(&self) -> esker_base::Result<&Arc<OperandMerger>> {
        self.semantics.operand_merger().ok_or_else(|| self.without_operator())
    }

    #[cold]
    fn without_operator(&self) -> Error {
        let name = self.name();
        Error::invalid(format!(
            "keyspace {name:?} has no merge operator; give it one by the option merge_operator"
        ))
    }

    /// The time to live of a put without its own; `None` for no expiry.
    #[inline]
    pub fn default_ttl(&self) -> Option<Duration> {
        let ms = self.default_ttl_ms.load(Ordering::Relaxed);
        (ms != 0).then(|| Duration::from_millis(ms))
    }

    /// Recomputes the values stored beside the view; called after each published change of the tree.
    pub fn note_shape(&self) {
        let (tree, migration) = (Arc::clone(&self.view.load().tree), self.options().migration());
        // Runs from before a change of strategy must not make writers wait: they were in form then.
        let counts = |run: &TreeRun| {
            run.level == LevelIndex::FLUSH
                && migration
                    .is_none_or(|migration| run.parts.iter().any(|part| !migration.is_old(&part.meta)))
        };
        let runs = tree.runs.iter().filter(|run| counts(run)).count();
        self.level0_runs.store(runs as u64, Ordering::Relaxed);
        let account = BlobSpace::of(&tree.version);
        let options = self.options();
        self.scans.note_shape(&tree, options.block_size_bytes);
        let upper = (upper_runs(&tree.version).count() as u64, upper_bytes(&tree.version));
        self.scans.watch(self.read_trigger.note_shape(self.scans.total(), upper.0, upper.1));
        // Without merges there is no garbage collection either, and no writer waits for it.
        let is_over =
            options.strategy.merges() && account.is_over(due_permille(options.blob_space_amp_permille));
        self.is_large_over.store(is_over, Ordering::Relaxed);
    }

    /// Whether writers must wait for compaction before they seal one more memtable: level 0 is full, or blob
    /// garbage collection is due. Without the latter, writers faster than garbage collection would exceed the
    /// space target.
    pub fn must_compact_first(&self) -> bool {
        self.is_large_over.load(Ordering::Relaxed) || self.is_level0_full()
    }

    pub(crate) fn is_level0_full(&self) -> bool {
        self.level0_runs.load(Ordering::Relaxed) >= u64::from(self.options().level0_limits().1)
    }

    /// The first sequence number that is only in memtables; `None` if all are empty.
    pub fn first_unflushed(&self) -> Option<SeqNo> {
        self.view.load().memtables().filter_map(|memtable| memtable.first_seqno()).min()
    }

    /// Whether its writers are throttled by a queue that merges drain.
    pub fn waits_for_merges(&self) -> bool {
        let cause = self.control.lock().state;
        cause.is_some_and(|cause| !cause.is_drained_by_flushes())
    }

    /// Clears the cached answer of the strategy.
    pub fn forget_no_plan(&self) {
        let mut asked = self.no_plan_cache.lock();
        asked.epoch += 1;
        asked.last = None;
    }

    /// Whether the strategy was called with the same inputs and returned no plan.
    pub fn has_no_plan_for(&self, asked: &NoPlan) -> bool {
        self.no_plan_cache.lock().last.as_ref().is_some_and(|last| {
            Arc::ptr_eq(&last.version, &asked.version)
                && Arc::ptr_eq(&last.options, &asked.options)
                && last.oldest == asked.oldest
                && last.is_idle == asked.is_idle
                && last.has_idle_budget == asked.has_idle_budget
                && last.is_scanned == asked.is_scanned
                && asked.until_ns < last.until_ns
        })
    }

    /// Whether the keyspace was dropped. Readers check it after they have loaded the view.
    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The error of a handle of a dropped keyspace.
    #[cold]
    pub fn dropped_error(&self) -> Error {
        dropped_error(&self.name())
    }

    /// An error if the keyspace was dropped.
    #[inline]
    pub fn check_living(&self) -> esker_base::Result<()> {
        if self.is_dropped() { Err(self.dropped_error()) } else { Ok(()) }
    }
}

/// The error of calls on a dropped keyspace with this name.
pub fn dropped_error(name: &str) -> Error {
    Error::NotFound(format!("keyspace {name:?} was dropped").into())
}
