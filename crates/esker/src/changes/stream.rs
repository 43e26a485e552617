//! Reading the change stream.

use super::ChangeBatch;
use crate::Database;
use crate::Durability;
use esker_base::{Error, HistoryGone, Result, SeqNo};
use esker_engine::state::store::Store;
use esker_wal::{HistoryReader, HistoryStep, Hold, Located};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Database {
    /// The committed batches after a sequence number, in order: first the existing ones, then each new one as
    /// it is written. Each batch is complete and returned once. Batches are read from the log, as far back as
    /// it goes; while the stream lives, and is not slower than the writers by more than
    /// [`Options::change_history_limit`](crate::Options::change_history_limit), no batch behind it is deleted. For a reader that disconnects and
    /// returns there are named consumers ([`Database::create_consumer`]).
    ///
    /// Batches are returned when they are durable: the stream flushes the log where no other thread has; see
    /// [`Changes::with_durability`]. Reading does not delay writers.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// use esker::changes::Change;
    ///
    /// // A copy, and everything that happens after it.
    /// let copied = db.snapshot();
    /// // ... read everything at `copied` ...
    /// for batch in db.changes_since(copied.seqno())? {
    ///     for change in &batch? {
    ///         if let Change::Put { keyspace, key, value, .. } = change {
    ///             println!("{:?}: {key:?} = {value:?}", keyspace.name);
    ///         }
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A number in the middle of a batch returns that batch, whole.
    ///
    /// # Errors
    /// [`Error::HistoryGone`] if batches after `seqno` are not in the log any more; `InvalidArgument` for a
    /// number that was not assigned yet; `Closed`.
    #[doc(alias = "GetUpdatesSince")]
    #[doc(alias = "TransactionLogIterator")]
    #[doc(alias = "subscribe")]
    #[doc(alias = "watch")]
    pub fn changes_since(&self, seqno: SeqNo) -> Result<Changes> {
        Changes::new(&self.handle().store, seqno, None)
    }
}

/// How long a stream without a new batch waits before it requests a notification.
pub(super) const LINGER: Duration = Duration::from_millis(1);

/// The longest single wait; longer ones are made of several.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Committed batches, in order, as they are written; see [`crate::Database::changes_since`].
///
/// As an iterator it waits for the next batch. It ends with [`Error::Closed`] when the database is closed,
/// and with [`Error::HistoryGone`] when the history it needs is gone; without an error only in a read-only
/// database, at the end.
#[derive(Debug)]
#[doc(alias = "TransactionLogIterator")]
pub struct Changes {
    store: Arc<Store>,
    reader: HistoryReader,
    /// `None` in a read-only database, where no segment is reused.
    hold: Option<Arc<Hold>>,
    consumer: Option<Arc<str>>,
    durability: Durability,
    has_failed: bool,
}

impl Changes {
    /// Changes after `after`.
    pub(crate) fn new(store: &Arc<Store>, after: SeqNo, consumer: Option<Arc<str>>) -> Result<Changes> {
        store.check_open()?;
        let visible = store.visible.load(Ordering::Acquire);
        if after.get() > visible {
            return Err(Error::invalid(format!(
                "changes after sequence number {after} are asked for, and the last one is {visible}"
            )));
        }
        let gone = |oldest| history_gone(store, after, oldest, consumer.clone());
        let hold = match &store.writing {
            Some(writing) => {
                let since_ns = store.env.clock.monotonic_ns();
                Some(writing.commit.lock().log.hold(after, None, since_ns).map_err(gone)?)
            }
            None => match locate_history(store, after) {
                Located::Gone { oldest } => return Err(gone(oldest)),
                Located::In(_) | Located::Nowhere => None,
            },
        };
        let reader = HistoryReader::new(Arc::clone(&store.env.fs), after);
        let store = Arc::clone(store);
        Ok(Changes { store, reader, hold, consumer, durability: Durability::Power, has_failed: false })
    }

    /// Sets what a batch survives when it is returned. At [`Durability::Power`], the default, it is on the
    /// device: the stream flushes the log where no other thread has. At [`Durability::Process`], and at
    /// [`Durability::None`], a batch is returned as soon as it can be read; a power cut
    /// may undo it, and its sequence numbers may then be reused for other batches. So data that leaves the
    /// machine should wait for `Power`.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Changes {
        self.durability = durability;
        self
    }

    /// The sequence number up to which everything was returned. A stream created with it continues there.
    pub fn seqno(&self) -> SeqNo {
        self.reader.position()
    }

    /// The next batch, if there is one: waits for no write, though perhaps for a flush of the log.
    ///
    /// # Errors
    /// [`Error::HistoryGone`] if the stream was so slow that the log it needs was released;
    /// [`Error::Closed`]; [`Error::ReadOnly`] if the log cannot be flushed; [`Error::Corruption`] and
    /// [`Error::Io`] from the log's files.
    pub fn try_next(&mut self) -> Result<Option<ChangeBatch>> {
        self.store.check_open()?;
        let store = Arc::clone(&self.store);
        // Closing waits for this read, and after closing no thread accesses the directory.
        let _activity = store.activity.read_recursive();
        store.check_open()?;
        let step = loop {
            let (limit, before) = (self.limit()?, self.seqno());
            let step = self.reader.next(limit, &|after| locate_history(&store, after))?;
            if let Some(hold) = &self.hold {
                hold.advance(self.reader.position());
            }
            // Numbers that an earlier run assigned and lost were passed; records behind them may have to be
            // made durable.
            let has_moved =
                self.seqno() > before && self.seqno().get() < store.visible.load(Ordering::Acquire);
            if !(has_moved && matches!(step, HistoryStep::UpToDate)) {
                break step;
            }
        };
        match step {
            HistoryStep::Record(record) => ChangeBatch::new(&store, record).map(Some),
            HistoryStep::UpToDate => Ok(None),
            HistoryStep::Gone { oldest } => {
                Err(history_gone(&store, self.seqno(), oldest, self.consumer.clone()))
            }
        }
    }

    /// The next batch; waits until there is one, at most `limit`. `None` on timeout, and at the end of a
    /// read-only database.
    ///
    /// # Errors
    /// As [`Changes::try_next`]; [`Error::ReadOnly`] if the database takes no writes any more and everything
    /// was returned.
    pub fn next_timeout(&mut self, limit: Duration) -> Result<Option<ChangeBatch>> {
        let mut left = limit;
        let mut has_lingered = false;
        loop {
            // Before the read: a later publication notifies more often than this.
            let notifications =
                self.store.writing.as_ref().map(|writing| writing.commit_notifier.notifications());
            if let Some(batch) = self.try_next()? {
                return Ok(Some(batch));
            }
            let Some(notifications) = notifications else { return Ok(None) };
            let writing = self.store.writing()?;
            if left.is_zero() {
                return Ok(None);
            }
            if has_lingered && !writing.listen(self.seqno().get()) {
                has_lingered = false;
                continue;
            }
            let piece = left.min(if has_lingered { LONGEST_WAIT } else { LINGER });
            has_lingered = true;
            if !writing.commit_notifier.wait(notifications, piece) {
                left = left.saturating_sub(piece);
            }
        }
    }

    /// Up to where batches may be returned.
    fn limit(&self) -> Result<SeqNo> {
        let visible = SeqNo::new(self.store.visible.load(Ordering::Acquire));
        let Some(writing) = &self.store.writing else { return Ok(visible) };
        if self.durability != Durability::Power || self.seqno() >= visible {
            return Ok(visible);
        }
        if writing.log.durable_seqno() <= self.seqno() {
            self.store.writing()?.sync_up_to(visible)?;
        }
        // Both are bounds of batches, so the smaller one is.
        Ok(writing.log.durable_seqno().min(visible))
    }
}

impl Iterator for Changes {
    type Item = Result<ChangeBatch>;

    /// Waits for the next batch.
    fn next(&mut self) -> Option<Result<ChangeBatch>> {
        if self.has_failed {
            return None;
        }
        let next = self.next_timeout(Duration::MAX).transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // In a child after a fork another thread may have held the scheduler's lock.
        if self.hold.take().is_some() && !self.store.process.is_inherited() {
            // Segments kept only for this stream are deleted there.
            self.store.scheduler.request(esker_engine::state::scheduler::WorkerPool::Log);
        }
    }
}

/// The segment with the first batch after `after`.
pub(crate) fn locate_history(store: &Store, after: SeqNo) -> Located {
    match &store.writing {
        Some(writing) => writing.log.locate(after),
        None => store.history.locate(after),
    }
}

pub(super) fn history_gone(
    store: &Store,
    requested: SeqNo,
    oldest: SeqNo,
    consumer: Option<Arc<str>>,
) -> Error {
    let limit_bytes = store.history_limit_bytes;
    Error::HistoryGone(Box::new(HistoryGone { requested, oldest, limit_bytes, consumer }))
}
