//! Migration: a tree is brought from one strategy's form to another's in the background.
//!
//! Any tree is legal for any strategy, so after a change of strategy the new rules plan at once. On their own
//! they would treat the old tree as out of form and compact it at the priority that serves writers. So files
//! are distinguished by when they were written. Files from before the change, the *old* ones, are not counted
//! where a rule decides whether to act: old runs make no level too full and no merge urgent. When this count
//! leaves nothing to do, the same rules run again with everything counted, and their plans get class
//! [`crate::Class::Clean`] and jobs of limited size. So the tree reaches its new form step by step without
//! delaying writers, and the migration can stop or be reversed at any point.
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

use esker_base::FileNumber;
use esker_version::PartMeta;

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
