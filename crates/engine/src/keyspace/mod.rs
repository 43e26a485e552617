//! A keyspace inside the engine: its name, options, current view and running jobs.
//!
//! [`registry`] finds keyspaces by name, [`change`] creates, renames and drops them and changes their
//! options, [`migration`] knows of changes of strategy that are being worked through, [`merging`] of how
//! merges fare that somebody waits for.
//!
//! # What changes, and who may look
//! A keyspace's identity is its id, which never changes and is never used again (WL5). Name and options are
//! values that are replaced whole, under the manifest's lock and after the edit that says so is durable;
//! whoever needs them takes the present one and keeps it for the length of a job. The put path reads neither:
//! what it needs of the options lies in [`crate::commit::ActiveKeyspace`], under the commit lock.

mod change;
mod merging;
mod migration;
mod registry;

pub(crate) use change::RecentDrops;
use merging::Merging;
pub use migration::MigrationInfo;
pub(crate) use migration::Switch;
pub(crate) use registry::Registry;

use crate::advice::{Adapting, ScanCounts};
use crate::amplification::traffic::Traffic;
use crate::easing::Easing;
use crate::filters::FilterTuner;
use crate::heat::HeatBook;
use crate::heirs::ReadsAtFlush;
use crate::options::{KeyspaceOptions, OwnFilter};
use crate::pressure::Control;
use crate::replaced::ReplacedBook;
use crate::semantics::Semantics;
use crate::tree::TreeRun;
use crate::view::ViewCell;
use crate::wanted::AskedBook;
use esker_base::{Error, KeyspaceId, SeqNo};
use esker_iter::Folding;
use esker_strategy::{BlobAccount, Busy, due_permille};
use esker_version::LevelIndex;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One keyspace of an open database.
#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    /// Replaced by a rename.
    name: Mutex<Arc<str>>,
    /// Replaced when they are changed online.
    options: Mutex<Arc<KeyspaceOptions>>,
    pub(crate) view: ViewCell,
    /// The same that every view refers to.
    pub(crate) semantics: Arc<Semantics>,
    /// Held while a tree is built and published (OT5): by installs, by the sweep of open tables, and by a
    /// drop. No input or output happens under it.
    pub(crate) publishing: Mutex<()>,
    /// Held by the flush of this keyspace: flushes install oldest first (IN4) because there is one at a time.
    pub(crate) flushing: Mutex<()>,
    /// Plans that are being carried out.
    pub(crate) busy: Mutex<Busy>,
    /// What the strategy wanted nothing of, the last time.
    pub(crate) asked: Mutex<AskedBook>,
    /// How the plans fare that are carried out.
    pub(crate) merging: Merging,
    /// Runs in level 0, kept beside the view so that a writer sees them without loading it.
    level0_runs: AtomicU64,
    /// Whether garbage of blob files is due to be collected: kept likewise.
    is_large_over: AtomicBool,
    /// The default TTL of the options, in milliseconds, 0 for none: kept beside them so that a put sees it
    /// without a lock.
    default_ttl_ms: AtomicU64,
    /// Set when the keyspace was dropped, durably, and before its view becomes an empty one: a reader that
    /// finds the empty view also finds this, and answers an error instead of "no such key".
    dropped: AtomicBool,
    /// What flushes and compactions moved.
    pub(crate) traffic: Traffic,
    /// What its cursors counted.
    pub(crate) scans: Arc<ScanCounts>,
    /// Whether what is flushed is read is told by it.
    pub(crate) reads_at_flush: ReadsAtFlush,
    /// How it follows its workload, if it does.
    pub(crate) adapting: Adapting,
    /// How often its tables are read, if its strategy goes by that.
    pub(crate) heat: Mutex<HeatBook>,
    /// How much of its tables replaces something, if its strategy goes by that.
    pub(crate) replaced: Mutex<ReplacedBook>,
    /// How jobs compress.
    pub(crate) easing: Easing,
    /// What holds writers back; taken before `busy` and `commit`.
    pub(crate) control: Mutex<Control>,
    /// Bytes a second that writers are admitted with, 0 for no limit: what the last look at the pressure
    /// said.
    pub(crate) admitted_bytes_per_second: AtomicU64,
    /// How the filters do, and what follows for new ones.
    pub(crate) filters: FilterTuner,
}

impl KeyspaceState {
    pub(crate) fn new(
        id: KeyspaceId,
        name: Arc<str>,
        options: KeyspaceOptions,
        view: ViewCell,
    ) -> KeyspaceState {
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
            asked: Mutex::default(),
            merging: Merging::default(),
            level0_runs: AtomicU64::new(0),
            is_large_over: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
            traffic: Traffic::default(),
            scans: Arc::default(),
            reads_at_flush: ReadsAtFlush::default(),
            adapting: Adapting::default(),
            heat: Mutex::default(),
            replaced: Mutex::default(),
            easing: Easing::default(),
            control: Mutex::default(),
            admitted_bytes_per_second: AtomicU64::new(0),
            filters: FilterTuner::default(),
        };
        state.note_shape();
        state
    }

    /// Its name at present.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.lock())
    }

    /// Its options at present. A job takes them once and keeps to them.
    pub(crate) fn options(&self) -> Arc<KeyspaceOptions> {
        Arc::clone(&self.options.lock())
    }

    /// Replaces the options.
    fn set_options(&self, options: KeyspaceOptions) {
        let mut present = self.options.lock();
        self.default_ttl_ms.store(options.default_ttl_ms(), Ordering::Relaxed);
        *present = Arc::new(options);
        self.semantics.follow(&present, &self.name());
    }

    /// Attaches a filter. Nothing of it is stored.
    pub(crate) fn attach_filter(&self, filter: &OwnFilter) {
        let mut present = self.options.lock();
        let mut options = KeyspaceOptions::clone(&present);
        options.compaction_filter = Some(filter.clone());
        *present = Arc::new(options);
    }

    /// What operands are folded by.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace takes none.
    #[inline]
    pub(crate) fn folding(&self) -> esker_base::Result<&Arc<Folding>> {
        self.semantics.folding().ok_or_else(|| self.without_operator())
    }

    #[cold]
    fn without_operator(&self) -> Error {
        let name = self.name();
        Error::invalid(format!(
            "keyspace {name:?} has no merge operator; give it one by the option merge_operator"
        ))
    }

    /// How long a put lives that does not say so itself; `None` for good.
    #[inline]
    pub(crate) fn default_ttl(&self) -> Option<Duration> {
        let ms = self.default_ttl_ms.load(Ordering::Relaxed);
        (ms != 0).then(|| Duration::from_millis(ms))
    }

    /// Recomputes what is kept beside the view; called after each published change of the tree.
    pub(crate) fn note_shape(&self) {
        let (tree, migration) = (Arc::clone(&self.view.load().tree), self.options().migration());
        // Runs that a change of strategy has found here must not make writers wait: they were in form before.
        let counts = |run: &TreeRun| {
            run.level == LevelIndex::FLUSH
                && migration
                    .is_none_or(|migration| run.parts.iter().any(|part| !migration.is_old(&part.meta)))
        };
        let runs = tree.runs.iter().filter(|run| counts(run)).count();
        self.level0_runs.store(runs as u64, Ordering::Relaxed);
        let account = BlobAccount::of(&tree.version);
        let options = self.options();
        self.scans.note_shape(&tree, &options);
        // Where nothing is merged nothing is collected either, and nobody has to wait for it.
        let is_over =
            options.strategy.merges() && account.is_over(due_permille(options.blob_space_amp_permille));
        self.is_large_over.store(is_over, Ordering::Relaxed);
    }

    /// Whether writers must wait for compaction before they seal one more memtable: level 0 is full, or
    /// garbage of blob files is due to be collected: who writes faster than it is collected is held to that
    /// pace, or the target for room would be none.
    pub(crate) fn must_compact_first(&self) -> bool {
        self.is_large_over.load(Ordering::Relaxed) || self.is_level0_full()
    }

    pub(crate) fn is_level0_full(&self) -> bool {
        self.level0_runs.load(Ordering::Relaxed) >= u64::from(self.options().level0_limits().1)
    }

    /// First sequence number that is only in memtables; `None` if all are empty.
    pub(crate) fn first_unflushed(&self) -> Option<SeqNo> {
        self.view.load().memtables().filter_map(|memtable| memtable.first_seqno()).min()
    }

    /// Whether the keyspace was dropped. Readers ask after they have loaded the view.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// What a handle of a dropped keyspace answers.
    #[cold]
    pub(crate) fn dropped_error(&self) -> Error {
        dropped_error(&self.name())
    }

    /// An error if the keyspace was dropped.
    #[inline]
    pub(crate) fn check_living(&self) -> esker_base::Result<()> {
        if self.is_dropped() { Err(self.dropped_error()) } else { Ok(()) }
    }
}

/// What calls on a keyspace of this name answer once it is dropped.
pub(crate) fn dropped_error(name: &str) -> Error {
    Error::NotFound(format!("keyspace {name:?} was dropped").into())
}
