//! Changes of a transaction: puts, deletes and merges, which its own reads see.

use super::handle::Transaction;
use crate::overlay::{MergePart, Pending, check_sizes};
use crate::{Expiry, KeyRange, Keyspace, Value};
use esker_base::expiry::is_over;
use esker_base::{Error, Result};
use esker_engine::write::write_options::Ends;
use esker_view::read::resolve::End;

impl Transaction {
    /// Sets `key` to `value`. In a keyspace with a default TTL the value expires by it, counted from this
    /// call. It does not keep the expiry of the value that it replaces: [`Transaction::fetch_update`] does,
    /// and [`Expiry::Keep`] in [`Transaction::put_with`].
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 65,535 bytes or a value over 512 MiB, or a keyspace of another
    /// database; `Full` past the memory limit. The transaction is as it was before then.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(keyspace, key, value, Expiry::Default)
    }

    /// Sets `key` to `value`, with this expiry, counted from this call.
    ///
    /// A transaction sees one moment, so what it puts does not expire for its own reads, unless it had
    /// expired at that moment.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # use std::time::Duration;
    /// # use esker::Expiry;
    /// # let db = esker::Database::open("data")?;
    /// let (sessions, by_user) = (db.keyspace("sessions")?, db.keyspace("sessions by user")?);
    /// let hour = Expiry::After(Duration::from_secs(3600));
    /// db.transact(|tx| {
    ///     tx.put_with(&sessions, "token", "ada", hour)?;
    ///     tx.put_with(&by_user, "ada", "token", hour)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`]; with [`Expiry::Keep`] those of [`Transaction::get`].
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_change(keyspace, key, value.len())?;
        let expiry_ms = match expiry.resolve(&keyspace.store().time, keyspace.state().default_ttl()) {
            Ends::Never => None,
            Ends::At(expiry_ms) => Some(expiry_ms),
            Ends::AsBefore => match self.end(keyspace, key)? {
                End::Never => None,
                End::At(expiry_ms) => Some(expiry_ms),
                End::Past => keyspace.default_expiry_ms(),
            },
        };
        let is_past = expiry_ms.is_some_and(|expiry_ms| is_over(expiry_ms, self.time_ms()));
        let change = if is_past { Pending::Delete } else { Pending::Put(value.into(), expiry_ms) };
        self.change(keyspace, key, change)
    }

    /// When the value of `key` ends that the transaction sees; on a stored one the transaction then depends.
    fn end(&self, keyspace: &Keyspace, key: &[u8]) -> Result<End> {
        let stored = || {
            self.depend_on(keyspace, key)?;
            keyspace.at(&self.snapshot).end(key)
        };
        match self.writes.get(keyspace.id(), key) {
            Some(Pending::Put(_, expiry_ms)) => Ok(expiry_ms.map_or(End::Never, End::At)),
            Some(Pending::Delete) => Ok(End::Past),
            Some(Pending::Merge(merge)) => {
                let below = if merge.base.is_some() { End::Past } else { stored()? };
                Ok(merge.end(below, self.time_ms()))
            }
            None => stored(),
        }
    }

    /// Sets `key` to what `update` makes of its value, on which the transaction then depends at either
    /// isolation level; `None` stands for no value on both sides. Returns the value that the key had before.
    /// A value that replaces another keeps its expiry; one that is new takes the keyspace's default TTL.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::put`].
    pub fn fetch_update(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        update: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        let key = key.as_ref();
        let before = self.get_for_update(keyspace, key)?;
        match update(before.as_deref()) {
            Some(new) => self.put_with(keyspace, key, new, Expiry::Keep)?,
            None if before.is_some() => self.delete(keyspace, key)?,
            None => {}
        }
        Ok(before)
    }

    /// Deletes all keys in `range` that the transaction sees, each as [`Transaction::delete`] does, and
    /// returns how many there were; a serializable transaction depends on the whole range.
    ///
    /// It first collects the keys: their bytes and 16 a key are memory beside that of the changes, of which
    /// there is one for each key. To delete while scanning without that, use [`Transaction::cursor_in`]; to
    /// delete a large range as one operation, [`Keyspace::delete_range`] outside of a transaction.
    ///
    /// # Errors
    /// As [`Transaction::range`] and [`Transaction::delete`]; nothing is deleted then.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<u64> {
        let keys: Vec<Value> = self.keys(keyspace, range).collect::<Result<_>>()?;
        self.check_limit(keys.iter().map(|key| self.writes.cost(key, &Pending::Delete)).sum())?;
        for key in &keys {
            self.delete(keyspace, key)?;
        }
        Ok(keys.len() as u64)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.check_change(keyspace, key.as_ref(), 0)?;
        self.change(keyspace, key.as_ref(), Pending::Delete)
    }

    /// Merges an operand into the value of `key`, without reading it; see [`Keyspace::merge`]. In a keyspace
    /// with a default TTL the operand expires by it, counted from this call. The transaction's own reads see
    /// the result. Two transactions that merge into the same key conflict as two that put it do.
    ///
    /// # Errors
    /// As [`Transaction::put`]; `InvalidArgument` if the keyspace has no merge operator or rejects the
    /// operand; [`Error::Merge`] if it cannot be merged into a value that the transaction has put with the
    /// same expiry.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_with(keyspace, key, operand, Expiry::Default)
    }

    /// Merges an operand into the value of `key`, with this expiry, counted from this call. Each operand
    /// expires on its own, and so does a value that the transaction has put below it: the key lives as long
    /// as the last of them.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # use std::time::Duration;
    /// # use esker::Expiry;
    /// # let db = esker::Database::open("data")?;
    /// // How often in the last hour.
    /// let recent = db.keyspace("recent visits")?;
    /// let hour = Expiry::After(Duration::from_secs(3600));
    /// db.transact(|tx| tx.merge_with(&recent, "/index.html", "1", hour))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::merge`]; `InvalidArgument` for [`Expiry::Keep`]: an operand has an expiry of its
    /// own.
    pub fn merge_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.check_change(keyspace, key, operand.len())?;
        let operand = MergePart::operand(keyspace, key, operand, expiry)?;
        let before = self.writes.get(keyspace.id(), key);
        let change =
            Pending::merged(before, keyspace.state().operand_merger()?, key, operand, self.time_ms())?;
        self.change(keyspace, key, change)
    }

    fn check_change(&self, keyspace: &Keyspace, key: &[u8], value_len: usize) -> Result<()> {
        if !self.snapshot.belongs_to(keyspace.store()) {
            let name = keyspace.name();
            return Err(Error::invalid(format!(
                "keyspace {name:?} belongs to another database than the transaction"
            )));
        }
        check_sizes(key, value_len)
    }

    fn change(&mut self, keyspace: &Keyspace, key: &[u8], value: Pending) -> Result<()> {
        self.check_limit(self.writes.cost(key, &value))?;
        self.writes.set(keyspace, key, value);
        Ok(())
    }
}
