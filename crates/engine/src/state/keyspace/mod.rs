//! A keyspace inside the engine: its definition, current view, jobs, tuning and write control.
//!
//! [`registry`] finds keyspaces by name, [`crate::lifecycle::keyspace::change`] creates, renames and drops
//! them and changes their options, [`crate::background::migration`] handles unfinished changes of strategy,
//! [`compaction_outcome`] has the state of compactions for waiting writers.
//!
//! # Synchronisation
//! A keyspace's identity is its id, which never changes and is never reused (WL5). The put path reads neither
//! name nor options: those that it needs are in [`crate::state::commit_state::ActiveKeyspace`], under the
//! commit lock.

pub mod compaction_outcome;
pub mod definition;
pub mod job_state;
pub mod publication;
pub mod recent_drops;
pub mod registry;
pub mod tuning;

pub use definition::Definition;
pub(crate) use definition::dropped_error;
pub use job_state::JobState;
pub use publication::Publication;
pub use recent_drops::RecentDrops;
pub use registry::Registry;
pub use tuning::Tuning;

use crate::state::write_control::WriteControl;
use esker_base::{Error, KeyspaceId, Result};
use esker_iter::OperandMerger;
use esker_options::{KeyspaceOptions, KeyspaceRef};
use esker_view::ViewCell;
use std::sync::Arc;
use std::time::Duration;

/// One keyspace of an open database.
#[derive(Debug)]
pub struct KeyspaceState {
    /// Its identity, never reused.
    pub id: KeyspaceId,
    /// The published view.
    pub view: ViewCell,
    /// Name, options, and whether it was dropped.
    pub definition: Definition,
    /// How its trees are published.
    pub publication: Publication,
    /// Its flushes and compactions.
    pub jobs: JobState,
    /// What was learned from its use.
    pub tuning: Tuning,
    /// How its writers are slowed.
    pub write_control: WriteControl,
}

impl KeyspaceState {
    /// The state of a keyspace with this view.
    pub fn new(id: KeyspaceId, name: Arc<str>, options: KeyspaceOptions, view: ViewCell) -> KeyspaceState {
        let semantics = Arc::clone(&view.load().semantics);
        let state = KeyspaceState {
            id,
            view,
            definition: Definition::new(name, options, semantics),
            publication: Publication::default(),
            jobs: JobState::default(),
            tuning: Tuning::default(),
            write_control: WriteControl::default(),
        };
        state.note_tree();
        state
    }

    /// Its present name.
    pub fn name(&self) -> Arc<str> {
        self.definition.name()
    }

    /// Its identity and present name, for an event.
    pub(crate) fn event_ref(&self) -> KeyspaceRef {
        KeyspaceRef { id: self.id, name: self.name() }
    }

    /// Its present options. A job takes them once and keeps them.
    pub fn options(&self) -> Arc<KeyspaceOptions> {
        self.definition.options()
    }

    /// The merge operator.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace has none.
    #[inline]
    pub fn operand_merger(&self) -> Result<&Arc<OperandMerger>> {
        self.definition.operand_merger()
    }

    /// The time to live of a put without its own; `None` for no expiry.
    #[inline]
    pub fn default_ttl(&self) -> Option<Duration> {
        self.definition.default_ttl()
    }

    /// Recomputes what follows from the tree; called after each published change of it, and after a change of
    /// the options.
    pub(crate) fn note_tree(&self) {
        let (tree, options) = (Arc::clone(&self.view.load().tree), self.options());
        self.publication.note_tree(&tree, &options);
        self.tuning.note_tree(&tree, &options);
    }

    /// Whether writers must wait for compaction before they seal one more memtable: level 0 is full, or blob
    /// garbage collection is due. Without the latter, writers faster than garbage collection would exceed the
    /// space target.
    pub fn must_compact_first(&self) -> bool {
        self.publication.is_blob_gc_due() || self.is_level0_full()
    }

    pub(crate) fn is_level0_full(&self) -> bool {
        self.publication.has_level0_runs(self.options().level0_limits().1)
    }

    /// Whether the keyspace was dropped. Readers check it after they have loaded the view.
    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.definition.is_dropped()
    }

    /// The error of a handle of a dropped keyspace.
    #[cold]
    pub(crate) fn dropped_error(&self) -> Error {
        dropped_error(&self.name())
    }

    /// An error if the keyspace was dropped.
    #[inline]
    pub fn check_living(&self) -> Result<()> {
        if self.is_dropped() { Err(self.dropped_error()) } else { Ok(()) }
    }
}
