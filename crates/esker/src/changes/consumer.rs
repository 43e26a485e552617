//! Consumers: named positions in the change stream, for which the log is kept.
//!
//! The position of a consumer is in the manifest, and in memory as a hold on the log's history. Durable
//! first: the edit that moves a consumer comes before its hold moves, and before the edit everything it has
//! read is on the device (TS1). Creating, moving and dropping happen under the manifest's lock.

use super::Changes;
use crate::Database;
use crate::handle::Handle;
use esker_base::limits::MAX_KEYSPACE_NAME_LEN;
use esker_base::{Error, Result, SeqNo};
use esker_engine::background::{flush_group, install};
use esker_engine::state::consumers::ConsumerPosition;
use esker_engine::state::scheduler::WorkerPool;
use esker_engine::state::store::{Store, Writing};
use esker_engine::write::commit;
use esker_version::{EditOp, VersionEdit};
use esker_wal::Hold;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Database {
    /// Creates a consumer of changes, which begins with the next write: from now on the log is kept until it
    /// has acknowledged it, also while it is not open and across reopens, up to
    /// [`Options::change_history_limit`](crate::Options::change_history_limit). Durable when it returns.
    ///
    /// While there are consumers, each flush of a memtable first makes the log durable, which costs it one
    /// flush of the device.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let audit = db.create_consumer("audit")?;
    /// db.default_keyspace().put(b"k", b"v")?;
    /// if let Some(batch) = audit.changes()?.try_next()? {
    ///     assert_eq!(batch.len(), 1);
    ///     audit.acknowledge(batch.last_seqno())?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if there is one of this name already, or if the name is empty or over 255 bytes
    /// long; `Full`, `Io`, `ReadOnly`, `Closed`.
    pub fn create_consumer(&self, name: &str) -> Result<Consumer> {
        create_consumer(&self.handle().store, name, None)?;
        Consumer::new(self.handle(), name)
    }

    /// As [`Database::create_consumer`], beginning after `seqno`.
    ///
    /// # Errors
    /// As [`Database::create_consumer`]; [`Error::HistoryGone`] if batches after `seqno` are not in the log
    /// any more.
    pub fn create_consumer_at(&self, name: &str, seqno: SeqNo) -> Result<Consumer> {
        create_consumer(&self.handle().store, name, Some(seqno))?;
        Consumer::new(self.handle(), name)
    }

    /// The consumer of this name.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Closed`.
    pub fn consumer(&self, name: &str) -> Result<Consumer> {
        Consumer::new(self.handle(), name)
    }

    /// All consumers by name: how far behind each is, and the log kept for it.
    pub fn consumers(&self) -> Vec<ConsumerInfo> {
        list_consumers(&self.handle().store)
    }

    /// Drops a consumer; nothing is kept for it any more. Its open streams continue.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Full`, `Io`, `ReadOnly`, `Closed`.
    pub fn drop_consumer(&self, name: &str) -> Result<()> {
        drop_consumer(&self.handle().store, name)
    }
}

/// The state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "replication slot")]
#[doc(alias = "subscriber")]
pub struct ConsumerInfo {
    /// Its name.
    pub name: String,
    /// It has read everything up to here, and the log is kept behind it.
    pub acknowledged: SeqNo,
    /// Sequence numbers assigned since.
    pub newer_operations: u64,
    /// Bytes of log kept for it beyond what recovery needs; several consumers may report the same bytes.
    pub kept_bytes: u64,
    /// Whether it fell behind by more than [`crate::Options::change_history_limit`]: the history it needs is
    /// gone, and nothing is kept for it.
    pub is_cut_off: bool,
}

/// A named position in the change stream, for which the log is kept, also while it is not open and across
/// reopens; see [`crate::Database::create_consumer`].
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Database::open("data")?;
/// # fn send(batch: &esker::changes::ChangeBatch) {}
/// let audit = db.consumer("audit")?;
/// for batch in audit.changes()? {
///     let batch = batch?;
///     send(&batch);
///     audit.acknowledge(batch.last_seqno())?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Consumer {
    handle: Arc<Handle>,
    name: Arc<str>,
}

impl Consumer {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Result<Consumer> {
        handle.store.check_open()?;
        handle.store.consumers.standing(name)?;
        Ok(Consumer { handle: Arc::clone(handle), name: name.into() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sequence number up to which it has read everything.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was dropped.
    pub fn acknowledged(&self) -> Result<SeqNo> {
        Ok(self.handle.store.consumers.standing(&self.name)?.acknowledged)
    }

    /// The changes after the acknowledged ones. Each call begins there anew: batches that were returned and
    /// not acknowledged are returned again.
    ///
    /// # Errors
    /// [`Error::HistoryGone`] if it fell behind by more than the limit; [`Error::NotFound`] if it was
    /// dropped; [`Error::Closed`].
    pub fn changes(&self) -> Result<Changes> {
        let store = &self.handle.store;
        let standing = store.consumers.standing(&self.name)?;
        Changes::new(store, standing.acknowledged, Some(Arc::clone(&self.name)))
    }

    /// Acknowledges everything up to `seqno`, and releases the log up to there. Durable when it returns, and
    /// so is the log up to `seqno`. It costs a flush of the manifest: once for many batches is enough. A
    /// smaller number than before changes nothing. A consumer that was cut off continues after acknowledging
    /// a number from which the log is complete.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a number that was not assigned yet; [`Error::NotFound`] if it was
    /// dropped; [`Error::ReadOnly`], [`Error::Full`], [`Error::Io`], [`Error::Closed`].
    pub fn acknowledge(&self, seqno: SeqNo) -> Result<()> {
        acknowledge(&self.handle.store, &self.name, seqno)
    }
}

pub(crate) fn create_consumer(store: &Store, name: &str, after: Option<SeqNo>) -> Result<()> {
    if name.is_empty() || name.len() > MAX_KEYSPACE_NAME_LEN {
        let len = name.len();
        return Err(Error::invalid(format!(
            "a consumer's name has 1 to {MAX_KEYSPACE_NAME_LEN} bytes, not {len}"
        )));
    }
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    // From here on each flush makes the log durable first; earlier ones are covered below.
    let _counted = store.consumers.count_one_more();
    // And every batch is logged, once a writer that has the commit lock is done (UL3). What was not logged
    // must survive a crash as well, because the consumer's owner may copy it now.
    drop(writing.commit.lock());
    flush_group::flush_unlogged(store)?;
    let installed = &mut *writing.manifest.lock();
    if installed.state.consumers.contains_key(name) {
        return Err(Error::invalid(format!("there is a consumer {name:?} already")));
    }
    let name: Arc<str> = name.into();
    let visible = SeqNo::new(store.visible.load(Ordering::Acquire));
    let after = after.unwrap_or(visible);
    if after > visible {
        return Err(Error::invalid(format!(
            "a consumer cannot begin after sequence number {after}, the last one is {visible}"
        )));
    }
    let hold = hold_history(store, writing, &name, after);
    let hold = hold.map_err(|oldest| super::stream::history_gone(store, after, oldest, None))?;
    // In this order: a segment that is released between the two has been made durable by the first.
    commit::sync(store)?;
    writing.log.sync_history()?;
    let mut edit = VersionEdit::new();
    edit.push(EditOp::Consumer { name: Arc::clone(&name), seqno: after });
    install::make_durable(store, writing, installed, &edit)?;
    store.consumers.add(name, ConsumerPosition { acknowledged: after, hold: Some(hold) });
    Ok(())
}

pub(crate) fn drop_consumer(store: &Store, name: &str) -> Result<()> {
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    store.consumers.standing(name)?;
    let mut edit = VersionEdit::new();
    edit.push(EditOp::DropConsumer { name: name.into() });
    install::make_durable(store, writing, &mut installed, &edit)?;
    store.consumers.remove(name);
    drop(installed);
    store.scheduler.request(WorkerPool::Log);
    Ok(())
}

fn acknowledge(store: &Store, name: &Arc<str>, seqno: SeqNo) -> Result<()> {
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let visible = store.visible.load(Ordering::Acquire);
    if seqno.get() > visible {
        return Err(Error::invalid(format!(
            "sequence number {seqno} cannot be acknowledged, the last one is {visible}"
        )));
    }
    // A position past the records that survive a power cut would skip later ones.
    writing.sync_up_to(seqno)?;
    let mut installed = writing.manifest.lock();
    let standing = store.consumers.standing(name)?;
    if seqno <= standing.acknowledged {
        return Ok(());
    }
    let mut edit = VersionEdit::new();
    edit.push(EditOp::Consumer { name: Arc::clone(name), seqno });
    install::make_durable(store, writing, &mut installed, &edit)?;
    let hold = match standing.hold.filter(|hold| !hold.is_cut_off()) {
        Some(hold) => {
            hold.advance(seqno);
            Some(hold)
        }
        None => hold_history(store, writing, name, seqno).ok(),
    };
    store.consumers.update(name, ConsumerPosition { acknowledged: seqno, hold });
    drop(installed);
    store.scheduler.request(WorkerPool::Log);
    Ok(())
}

fn hold_history(store: &Store, writing: &Writing, name: &Arc<str>, after: SeqNo) -> Result<Arc<Hold>, SeqNo> {
    writing.commit.lock().log.hold(after, Some(Arc::clone(name)), store.env.clock.monotonic_ns())
}

/// All consumers, by name.
pub(crate) fn list_consumers(store: &Store) -> Vec<ConsumerInfo> {
    let visible = store.visible.load(Ordering::Acquire);
    let holds = store.writing.as_ref().map(|writing| writing.log.holds()).unwrap_or_default();
    let info = |(name, standing): (&Arc<str>, &ConsumerPosition)| {
        let hold = holds.iter().find(|hold| hold.name.as_ref() == Some(name) && !hold.is_cut_off);
        let is_cut_off = match &store.writing {
            Some(_) => standing.hold.as_ref().is_none_or(|hold| hold.is_cut_off()),
            None => standing.acknowledged < store.history.gone_upto,
        };
        let kept_bytes = match &store.writing {
            Some(_) => hold.map_or(0, |hold| hold.kept_bytes),
            None if is_cut_off => 0,
            None => store.history.kept_bytes_after(standing.acknowledged),
        };
        ConsumerInfo {
            name: name.to_string(),
            acknowledged: standing.acknowledged,
            newer_operations: visible.saturating_sub(standing.acknowledged.get()),
            kept_bytes,
            is_cut_off,
        }
    };
    store.consumers.map(info)
}
