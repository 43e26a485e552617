//! What the manifest says about a keyspace: its name, its options, and whether it was dropped.
//!
//! Name and options are values that are replaced as a whole, under the manifest's lock and after the edit is
//! durable; a job takes the present value and keeps it until its end.

use esker_base::{Error, Result};
use esker_iter::OperandMerger;
use esker_options::{KeyspaceOptions, OwnFilter};
use esker_view::semantics::Semantics;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The definition of one keyspace.
#[derive(Debug)]
pub struct Definition {
    /// Replaced by a rename.
    name: Mutex<Arc<str>>,
    /// Replaced when they are changed online.
    options: Mutex<Arc<KeyspaceOptions>>,
    /// The default TTL of the options, in milliseconds, 0 for none: stored beside them so that a put reads it
    /// without a lock.
    default_ttl_ms: AtomicU64,
    /// Set when the keyspace was dropped, durably, and before its view becomes an empty one: a reader that
    /// finds the empty view also finds this, and returns an error instead of "no such key".
    dropped: AtomicBool,
    /// What entries mean under these options; shared with every view.
    pub semantics: Arc<Semantics>,
}

impl Definition {
    pub(crate) fn new(name: Arc<str>, options: KeyspaceOptions, semantics: Arc<Semantics>) -> Definition {
        Definition {
            name: Mutex::new(name),
            default_ttl_ms: AtomicU64::new(options.default_ttl_ms()),
            options: Mutex::new(Arc::new(options)),
            dropped: AtomicBool::new(false),
            semantics,
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.lock())
    }

    /// Renames the keyspace. The registry calls it, so that no two keyspaces have the same name.
    pub(crate) fn rename(&self, to: &Arc<str>) {
        *self.name.lock() = Arc::clone(to);
        if let Some(operand_merger) = self.semantics.operand_merger() {
            operand_merger.rename(Arc::clone(to));
        }
    }

    pub(crate) fn options(&self) -> Arc<KeyspaceOptions> {
        Arc::clone(&self.options.lock())
    }

    pub(crate) fn set_options(&self, options: KeyspaceOptions) {
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

    #[inline]
    pub(crate) fn operand_merger(&self) -> Result<&Arc<OperandMerger>> {
        self.semantics.operand_merger().ok_or_else(|| self.without_operator())
    }

    #[cold]
    fn without_operator(&self) -> Error {
        let name = self.name();
        Error::invalid(format!(
            "keyspace {name:?} has no merge operator; give it one by the option merge_operator"
        ))
    }

    #[inline]
    pub(crate) fn default_ttl(&self) -> Option<Duration> {
        let ms = self.default_ttl_ms.load(Ordering::Relaxed);
        (ms != 0).then(|| Duration::from_millis(ms))
    }

    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks the keyspace as dropped. Only after the edit is durable, and before the view is replaced.
    pub(crate) fn note_drop(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

/// The error of calls on a dropped keyspace with this name.
pub(crate) fn dropped_error(name: &str) -> Error {
    Error::NotFound(format!("keyspace {name:?} was dropped").into())
}
