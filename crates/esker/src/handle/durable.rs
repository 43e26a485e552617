//! The durable sequence number: read, and waited for.

use super::Database;
use esker_base::{Result, SeqNo};
use esker_engine::write::commit;
use std::time::Duration;

impl Database {
    /// The sequence number up to which every logged write survives a power cut. It grows with each flush of
    /// the log: by [`Database::sync`], by writes at [`Durability::Power`](crate::Durability::Power), and by
    /// background work. One load.
    ///
    /// Writes at [`Durability::None`](crate::Durability::None) are not in the log, so it says nothing of
    /// them; [`Database::sync`] makes them durable too. Zero in a database that was opened read-only, which
    /// does not know it, and after an open until the log is flushed for the first time it may be less than
    /// what is durable.
    pub fn durable_seqno(&self) -> SeqNo {
        self.store().writing.as_ref().map_or(SeqNo::ZERO, |writing| writing.log.durable_seqno())
    }

    /// Waits until [`Database::durable_seqno`] is at least `seqno`; `false` if that took longer than `limit`.
    /// It flushes nothing itself: it is for threads that acknowledge what another thread makes durable, so
    /// that many writes at [`Durability::Process`](crate::Durability::Process) share a flush without waiting
    /// for it one by one. Sleeps until a flush ends; the number may be one that is not assigned yet.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-durable-{}", std::process::id()));
    /// use std::time::Duration;
    ///
    /// let db = esker::Database::open(&dir)?;
    /// let mut batch = db.batch();
    /// batch.put(db.default_keyspace(), "ada", "1815");
    /// let written = db.write(&batch)?;
    /// std::thread::scope(|scope| {
    ///     // One thread makes durable, another one waits for it to tell its client.
    ///     scope.spawn(|| db.sync());
    ///     assert!(db.wait_durable(written, Duration::from_secs(60))?);
    ///     Ok::<_, esker::Error>(())
    /// })?;
    /// assert!(db.durable_seqno() >= written);
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `ReadOnly` if the log cannot be flushed any more, or the database was opened read-only; `Closed`, also
    /// when it is closed during the wait and the number was not reached.
    pub fn wait_durable(&self, seqno: SeqNo, limit: Duration) -> Result<bool> {
        commit::wait_durable(self.store(), seqno, limit)
    }
}
