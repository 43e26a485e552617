//! Retrying a transaction after a conflict.

use super::handle::Transaction;
use super::options::TransactionOptions;
use crate::Database;
use esker_base::{Error, Result};
use esker_engine::state::store::Store;
use std::time::Duration;

/// The longest pause after the first retry; the bound doubles with each further one. A transaction of a few
/// calls takes about as long.
const FIRST_PAUSE: Duration = Duration::from_micros(5);

/// The longest pause, however often a transaction has failed: a commit that waits for the device takes about
/// as long.
const MAX_PAUSE: Duration = Duration::from_millis(5);

impl Database {
    /// Runs `body` in a transaction and commits it; repeats both after a conflict, with everything read anew.
    /// An error of `body` other than a conflict ends it, and nothing is changed. `body` may run several
    /// times, so its side effects outside the transaction must be repeatable.
    ///
    /// Between attempts it pauses for a random time, at first some microseconds, at most 5 ms, without any
    /// lock.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let accounts = db.keyspace("accounts")?;
    /// let amount = |value: Option<esker::Value>| value.map_or(0, |value| u64::from(value[0]));
    /// let moved = db.transact(|tx| {
    ///     let (from, to) = (amount(tx.get(&accounts, b"a")?), amount(tx.get(&accounts, b"b")?));
    ///     if from == 0 {
    ///         return Ok(false);
    ///     }
    ///     tx.put(&accounts, b"a", [from as u8 - 1])?;
    ///     tx.put(&accounts, b"b", [to as u8 + 1])?;
    ///     Ok(true)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The last [`esker_base::Error::Conflict`] after the last attempt (100 unless
    /// [`Database::transact_with`] says otherwise); the errors of `body` and of [`Transaction::commit`].
    #[doc(alias = "OptimisticTransactionDB")]
    pub fn transact<R>(&self, body: impl FnMut(&mut Transaction) -> Result<R>) -> Result<R> {
        self.transact_with(TransactionOptions::default(), body)
    }

    /// As [`Database::transact`], for a `body` with errors of another type: what it returns is returned, and
    /// nothing is changed then. Only a conflict at the commit runs it again.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = esker::Database::open("data")?;
    /// # let counters = db.keyspace("counters")?;
    /// let count = db.try_transact(|tx| -> Result<u64, Box<dyn std::error::Error>> {
    ///     let count = tx.get(&counters, "visits")?.map_or("0".into(), Vec::from);
    ///     let count: u64 = std::str::from_utf8(&count)?.parse()?;
    ///     tx.put(&counters, "visits", (count + 1).to_string())?;
    ///     Ok(count + 1)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `body`; the last [`esker_base::Error::Conflict`] after 100 attempts; those of
    /// [`Transaction::commit`].
    pub fn try_transact<R, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<R, E>,
    ) -> Result<R, E> {
        self.repeat(TransactionOptions::default(), body, |_| false)
    }

    /// As [`Database::transact`], with these options.
    pub fn transact_with<R>(
        &self,
        options: TransactionOptions,
        body: impl FnMut(&mut Transaction) -> Result<R>,
    ) -> Result<R> {
        self.repeat(options, body, Error::is_conflict)
    }

    /// Runs and commits `body` until it meets no conflict. `is_conflict` tells whether an error of `body` is
    /// one.
    fn repeat<R, E: From<Error>>(
        &self,
        options: TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<R, E>,
        is_conflict: impl Fn(&E) -> bool,
    ) -> Result<R, E> {
        let mut retries = 0;
        loop {
            let mut transaction = self.transaction_with(options);
            let is_last = retries + 1 >= transaction.attempts();
            match body(&mut transaction) {
                Ok(result) => match transaction.commit() {
                    Ok(_) => return Ok(result),
                    Err(error) if error.is_conflict() && !is_last => {}
                    Err(error) => return Err(error.into()),
                },
                Err(error) => {
                    drop(transaction);
                    if is_last || !is_conflict(&error) {
                        return Err(error);
                    }
                }
            }
            pause(self.store(), retries);
            retries += 1;
        }
    }
}

/// Pauses after the `retries`-th conflict: a random time of at most twice the previous bound, none in stepped
/// mode, which has no other threads. The caller holds no lock.
pub(super) fn pause(store: &Store, retries: u32) {
    let bound = FIRST_PAUSE.saturating_mul(1 << retries.min(20)).min(MAX_PAUSE);
    let bound_ns = bound.as_nanos() as u64;
    store.scheduler.pause(Duration::from_nanos(store.env.random.next_u64() % (bound_ns + 1)));
}
