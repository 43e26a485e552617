//! A database at rest keeps no log files that it has no use for.
//!
//! Under load the log has segments ahead of the writers and keeps as many for reuse as memtables hold, 80 MiB
//! by default: making a segment costs more than writing it. A database that nobody writes to would keep them
//! on the disk for ever, and one of some kilobytes be as large as that. So the log rests
//! ([`LogWriter::shrink`](esker_wal::LogWriter::shrink)) when the database is idle ([`crate::wanted`]), and after
//! a compaction that was asked for, unless somebody wrote meanwhile: who asks for one wants the room.
//!
//! Rejected: resting from the opening on. Who opens a database mostly writes at once, and a log that is woken
//! and flushed at the same time fills its segments with zeros while the first writes wait for the device.
//!
//! # What holds
//! * RS1. The segment being written is left for a small one only if no memtable needs a record of any
//!   segment, and the left one goes by an edit of the manifest, as all do (WL7). So nothing that recovery
//!   reads is touched.
//! * RS2. Nobody waits for a rest: files are made and deleted without the writers' lock, and whoever writes
//!   first ends it in passing. Half a small segment later, at the earliest, the next one is needed, and asked
//!   for since.
//! * RS3. Resting again and again costs nothing: a segment that is small already is not left, so there is an
//!   edit for each time that more than a small segment was written, at most.
//! * RS4. It is nobody's failure: on a full disk there may be no small segment to be had, and what asked for
//!   the rest was done. Then the files at hand are kept, since others could not be made.
//! * RS5. With consumers of changes the segment is not left, because what it holds may be history (HS6).
//! * RS6. A writer is not forgotten. One that finds the log full ends a rest, asks for a segment and waits
//!   until something changes; a rest that began between that and the log lane's look would have the lane see
//!   that no segment is wanted, and the writer wait for its whole limit. So there is no rest once something
//!   was written, which is asked under the writers' lock, nor while a writer is known to wait; and one that
//!   begins all the same, before the writer is counted, announces itself, so that the writer asks again.

use crate::commit::CommitState;
use crate::scheduler::Lane;
use crate::store::{Store, Writing};
use esker_base::{Result, SeqNo};

impl Store {
    /// Lets the log rest if nothing was written since this sequence number was the last, and nobody is about
    /// to (RS4, RS6).
    pub(crate) fn rest_if_still_at(&self, last: SeqNo) {
        if let Err(error) = self.try_to_rest(last) {
            tracing::warn!(%error, "log files that are not needed could not be given up");
        }
    }

    fn try_to_rest(&self, last: SeqNo) -> Result<()> {
        let Some(writing) = &self.writing else { return Ok(()) };
        // Closing waits until nobody makes or removes files.
        let _activity = self.activity.read_recursive();
        let leaves = {
            let state = writing.commit.lock();
            if !self.may_rest(&state, last) {
                return Ok(());
            }
            self.leaves_for_rest(writing, &state)
        };
        let mut small = if leaves { Some(writing.log.prepare_small()?) } else { None };
        let mut has_left = false;
        let begins = {
            let mut state = writing.commit.lock();
            if !self.may_rest(&state, last) {
                return Ok(());
            }
            if let Some(small) = &mut small
                && self.leaves_for_rest(writing, &state)
            {
                // What is at rest already has a bound that belongs to the segment it leaves.
                state.log.grow();
                state.log.rotate_to_private(small, self.time.now_ms())?;
                has_left = true;
            }
            state.log.shrink()
        };
        if begins {
            // RS6.
            self.scheduler.announce_progress();
        }
        if has_left {
            self.release_log()?;
        }
        writing.log.delete_surplus()?;
        self.offer_share(writing);
        self.rebalance_memory();
        Ok(())
    }

    /// Whether nothing was written since, and no writer is known to wait for a segment.
    fn may_rest(&self, state: &CommitState, last: SeqNo) -> bool {
        !state.closed && state.next_seqno == last.plus(1) && !self.counters.is_waited_for(Lane::Log)
    }

    /// Whether the active segment should make way for a small one (RS1, RS3, RS5).
    fn leaves_for_rest(&self, writing: &Writing, state: &CommitState) -> bool {
        let mut keyspaces = state.keyspaces.iter().flatten();
        !state.closed
            && state.log.segment_bytes() > writing.log.small_segment_bytes()
            && !self.consumers.are_there()
            && keyspaces.all(|active| active.entries == 0 && !active.keyspace.view.has_sealed())
    }
}

#[cfg(test)]
mod tests;
