//! The commit lock. Every writer waits for it, so its holder must not do slow work.
//!
//! One such operation hides behind reads of a memtable: kinds that append entries unsorted sort them at the
//! next read ([`esker_memtable::Tail`]). The guard forbids that to its thread, so that builds with debug
//! assertions panic where it happens, in whatever test (OD6). In other builds it is the mutex and nothing
//! else.

use crate::state::commit_state::CommitState;
use esker_memtable::NoSorting;
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

/// A [`CommitState`] behind the lock of the write path.
pub struct CommitLock(Mutex<CommitState>);

impl CommitLock {
    /// A lock over this state.
    pub fn new(state: CommitState) -> CommitLock {
        CommitLock(Mutex::new(state))
    }

    /// The state, once no other writer has it.
    #[inline(always)]
    pub fn lock(&self) -> CommitGuard<'_> {
        CommitGuard { state: self.0.lock(), _no_sorting: NoSorting::new() }
    }
}

/// The guard of the commit lock.
pub struct CommitGuard<'a> {
    state: MutexGuard<'a, CommitState>,
    _no_sorting: NoSorting,
}

impl Deref for CommitGuard<'_> {
    type Target = CommitState;

    #[inline(always)]
    fn deref(&self) -> &CommitState {
        &self.state
    }
}

impl DerefMut for CommitGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut CommitState {
        &mut self.state
    }
}
