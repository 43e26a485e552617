//! Migration: a tree is brought from one strategy's form to another's in the background.
//!
//! Any tree is legal for any strategy, so after a change of strategy the new rules plan at once. On their own
//! they would treat the old tree as out of form and compact it at the priority that serves writers. So files
//! are distinguished by when they were written. Files from before the change, the *old* ones, are not counted
//! where a rule decides whether to act: old runs make no level too full and no merge urgent. When this count
//! leaves nothing to do, the same rules run again with everything counted, and their plans get class
//! [`Class::Clean`] and jobs of limited size. So the tree reaches its new form step by step without delaying
//! writers, and the migration can stop or be reversed at any point.
//!
//! # Invariants
//! * MG1. Work for the writers, with only new data counted, does not wait for old data, unless order requires
//!   it: a merge takes the oldest runs first.
//! * MG2. [`Migration`] changes when something is merged and how urgent that is, never whether a plan is
//!   legal.
//! * MG3. Old data that is out of form only shrinks: each step of a migration rewrites some of it into new
//!   files, or moves it into form.
//!
//! Rejected: to mark runs with the strategy that made them. Runs are extended and sliced; files are neither.

use crate::plan::Class;
use crate::plan_builder::Context;
use esker_base::FileNumber;
use esker_version::{PartMeta, Run};

/// A change of strategy whose migration is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Files with a smaller number were written before the change.
    pub first_new: FileNumber,
    /// Whether the migration is paused.
    pub is_paused: bool,
}

impl Migration {
    /// Whether a part lies in an old file.
    pub fn is_old(&self, part: &PartMeta) -> bool {
        part.file < self.first_new
    }
}

impl Context<'_> {
    /// Whether a part counts where a rule decides whether to act.
    pub(crate) fn counts(&self, part: &PartMeta) -> bool {
        self.counted.is_none_or(|migration| !migration.is_old(part))
    }

    pub(crate) fn counts_run(&self, run: &Run) -> bool {
        self.counted.is_none() || run.parts().iter().any(|part| self.counts(part))
    }

    pub(crate) fn counted_bytes(&self, run: &Run) -> u64 {
        if self.counted.is_none() {
            return run.bytes();
        }
        let counted = run.parts().iter().filter(|part| self.counts(part));
        counted.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    pub(crate) fn old_bytes(&self, run: &Run) -> u64 {
        let Some(migration) = self.shape.migration else { return 0 };
        let old = run.parts().iter().filter(|part| migration.is_old(part));
        old.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Whether this planning pass serves the migration.
    pub(crate) fn migrates(&self) -> bool {
        self.shape.migration.is_some() && self.counted.is_none()
    }

    /// The class of a plan: restoring the shape is not urgent in a migration.
    pub(crate) fn class_of(&self, class: Class) -> Class {
        if class == Class::Shape && self.migrates() { Class::Clean } else { class }
    }
}
