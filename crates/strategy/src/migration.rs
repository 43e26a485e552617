//! From one strategy's form of a tree to another's, without haste.
//!
//! Any tree is legal for any strategy, so a change of strategy is nothing but that: from then on other rules
//! plan. Left to themselves they would see a tree out of form and work on nothing else, with all the force
//! that is meant for keeping up with the writers. So files are told apart by when they were written. What
//! lies in those from before the change, the *old* ones, is not counted where a rule asks whether it has to
//! act: old runs make no level too full and no merge urgent. When nothing is to be done by that count, the
//! same rules are asked again with everything counted, and what they answer now is done in class
//! [`Class::Clean`], in jobs of limited size. So the tree gets its new form step by step while the writers
//! have what they need, and at each moment it can stop there or turn back.
//!
//! # Invariants
//! * MG1. What is done for the writers' sake, new data counted, does not wait for what is old, unless order
//!   demands it: a merge takes the oldest runs first.
//! * MG2. [`Migration`] changes when something is merged and how urgent that is, never whether a plan is
//!   legal.
//! * MG3. Old data that is out of form only becomes less: each step of a migration rewrites some of it into
//!   new files, or moves it to where it is in form.
//!
//! Rejected: to mark runs with the strategy that made them. Runs are extended and sliced; files are neither.

use crate::draft::Context;
use crate::plan::Class;
use esker_base::FileNumber;
use esker_version::{PartMeta, Run};

/// A change of strategy that the tree has not been worked through yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Files below this were written before the change.
    pub first_new: FileNumber,
    /// Whether the old ones are left as they are for now.
    pub is_paused: bool,
}

impl Migration {
    /// Whether a part lies in an old file.
    pub fn is_old(&self, part: &PartMeta) -> bool {
        part.file < self.first_new
    }
}

impl Context<'_> {
    /// Whether a part counts where a rule asks if it has to act.
    pub(crate) fn counts(&self, part: &PartMeta) -> bool {
        self.counted.is_none_or(|migration| !migration.is_old(part))
    }

    /// Whether anything in a run counts.
    pub(crate) fn counts_run(&self, run: &Run) -> bool {
        self.counted.is_none() || run.parts().iter().any(|part| self.counts(part))
    }

    /// Bytes in a run that count.
    pub(crate) fn counted_bytes(&self, run: &Run) -> u64 {
        if self.counted.is_none() {
            return run.bytes();
        }
        let counted = run.parts().iter().filter(|part| self.counts(part));
        counted.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Bytes in old files of a run.
    pub(crate) fn old_bytes(&self, run: &Run) -> u64 {
        let Some(migration) = self.shape.migration else { return 0 };
        let old = run.parts().iter().filter(|part| migration.is_old(part));
        old.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Whether what is planned now is planned for a migration's sake.
    pub(crate) fn migrates(&self) -> bool {
        self.shape.migration.is_some() && self.counted.is_none()
    }

    /// What a class comes to: keeping the form is not urgent where it is another strategy's.
    pub(crate) fn class_of(&self, class: Class) -> Class {
        if class == Class::Shape && self.migrates() { Class::Clean } else { class }
    }
}
