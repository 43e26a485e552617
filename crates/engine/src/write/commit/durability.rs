//! Durability beyond the process: syncing the log, and waiting until a write survives a power cut.

use crate::state::store::{Store, Writing};
use esker_base::{Error, Result, SeqNo};
use esker_wal::DurableWait;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Makes every acknowledged write durable.
pub fn sync(store: &Store) -> Result<()> {
    let last = SeqNo::new(store.visible.load(Ordering::Acquire));
    let writing = store.writing()?;
    writing.sync_up_to(last)?;
    // Behind the records, where it tells the next open that none of them can be missing. It is no part of the
    // promise, so it is not synced itself, and a log without room for it goes without.
    let mut state = writing.commit.lock();
    if !state.closed
        && let Err(error) = state.log.append_mark()
    {
        tracing::debug!(%error, "the durable position could not be noted in the log");
    }
    Ok(())
}

/// Waits until everything up to `seqno` survives a power cut, at most `limit`; `false` if the time is over.
/// Leads no flush.
pub fn wait_durable(store: &Store, seqno: SeqNo, limit: Duration) -> Result<bool> {
    store.check_open()?;
    let log = match &store.writing {
        Some(writing) => &writing.log,
        // It says why there is no log.
        None => &store.writing()?.log,
    };
    match log.wait_durable(seqno, limit)? {
        DurableWait::Durable => Ok(true),
        DurableWait::TimedOut => Ok(false),
        DurableWait::Ended => {
            store.check_open()?;
            store.writing()?;
            Err(Error::Closed)
        }
    }
}

impl Writing {
    /// Waits until everything up to `seqno` survives a power cut; concurrent callers share flushes.
    pub fn sync_up_to(&self, seqno: SeqNo) -> Result<()> {
        // Poisoned: threads that wait for a batch must not wait any longer (CS2).
        self.log.sync_up_to(seqno, || self.commit.lock().end()).inspect_err(|_| self.commit_notifier.notify())
    }
}
