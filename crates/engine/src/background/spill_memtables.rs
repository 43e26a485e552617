//! Memtable spill: moves flushed memtables that readers still hold from memory to files.
//!
//! A cursor shows the moment at which it was opened, so it keeps the memtables of that moment, whatever is
//! flushed meanwhile. A thousand forgotten cursors would hold a thousand memtables. Of those that readers
//! hold, the newest stay in memory, up to the [limit](esker_options::MemoryPlan::pinned_bytes); of all others
//! the pages are replaced by those of a file ([`esker_memtable::Memtable::spill`]). Addresses and bytes stay
//! as they are: a reader notices nothing, and pays nothing for it.
//!
//! The file has no name from the start, and its room is free as soon as the last reader lets go of the
//! memtable. What it holds is flushed already: nothing depends on the file after a crash.
//!
//! # Invariants
//! * SM1. Only memtables are moved that were flushed: they are immutable, and no writer or job needs them.
//! * SM2. Beyond one round of the log worker, readers keep no more memory of flushed memtables than the
//!   limit, as long as files can be written. Where they cannot, the memory counts in the budget and is
//!   listed.
//!
//! # Rejected
//! * A cursor that goes on in the table with the same content: the thread that flushes cannot change a cursor
//!   while the thread that owns it may be using it or borrows an entry from it, without a lock for each step;
//!   and one that is never touched again, the usual case, would never change by itself.
//! * An error for the oldest readers: the same lock, and work that is lost.
//! * Reading from the flushed tables at the cursor's sequence number: the flush has dropped what no snapshot
//!   protects.

use crate::state::store::{Store, Writing};
use esker_base::Result;
use esker_memtable::Memtable;
use std::sync::atomic::Ordering;

/// Moves the oldest pinned memtables to files, until the rest is within the limit (SM2). Returns whether any
/// was.
pub(crate) fn spill_pinned(store: &Store, writing: &Writing) -> bool {
    let pinned = &store.pinned_memtables;
    if pinned.cannot_spill.load(Ordering::Relaxed) {
        return false;
    }
    let held = pinned.held();
    let mut in_memory: u64 = held.iter().map(|memtable| memtable.allocated_bytes()).sum();
    let mut has_spilled = false;
    for memtable in held {
        if in_memory <= store.memory.pinned_bytes() {
            break;
        }
        let bytes = memtable.allocated_bytes();
        if bytes == 0 {
            continue;
        }
        match spill(writing, &memtable) {
            Ok(true) => {
                pinned.note_attempt(false);
                in_memory -= bytes - memtable.allocated_bytes().min(bytes);
                has_spilled = true;
            }
            Ok(false) => pinned.cannot_spill.store(true, Ordering::Relaxed),
            Err(error) => {
                if pinned.note_attempt(true) {
                    tracing::warn!(
                        %error,
                        "memtables that cursors hold could not be moved to files; they stay in memory"
                    );
                }
                break;
            }
        }
    }
    has_spilled
}

/// Moves one to a file; `false` if that is impossible here.
fn spill(writing: &Writing, memtable: &Memtable) -> Result<bool> {
    memtable.spill(&*writing.tables.create_nameless()?)
}
