//! Writing operands.

use super::Keyspace;
use crate::Durability;
use esker_base::expiry::EXPIRY_LEN;
use esker_base::{Result, ValueKind};
use std::time::Duration;

impl Keyspace {
    /// Changes the value of `key` by an operand for the keyspace's merge operator, without reading it: adds
    /// to a counter, appends to a list. Costs what a put costs. Readers see what the operands come to;
    /// flushes and compactions fold them into values.
    ///
    /// In a keyspace with a default TTL the operand counts for that long, and each on its own: a counter
    /// there counts what came lately.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # use esker_engine::{Database, KeyspaceOptions, MergeOperator};
    /// # let db = Database::open("data")?;
    /// let options = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
    /// let visits = db.keyspace_with("visits", options)?;
    /// visits.merge("/index.html", "1")?;
    /// visits.merge("/index.html", "41")?;
    /// assert_eq!(visits.get("/index.html")?.as_deref(), Some(b"42".as_slice()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace has no merge operator or this is none of its operands; else as
    /// [`Keyspace::put`].
    #[doc(alias = "increment")]
    #[inline]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, self.store().durability)
    }

    /// Changes the value of `key` by an operand, with this durability. See [`Keyspace::merge`].
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    #[inline]
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        if let Some(ttl) = self.state().default_ttl() {
            return self.merge_expiring(key, operand, self.store().time.after(ttl), durability);
        }
        self.state().folding()?.check_operand(key, operand)?;
        let bytes = (key.len() + operand.len()) as u64;
        let single = Some((ValueKind::Merge as u8, key, operand));
        self.write_encoded(durability, bytes, single, |scratch, id| scratch.merge(id, key, operand))
    }

    /// Changes the value of `key` by an operand that counts for as long as `ttl` says. Then the value is what
    /// it would be without the operand; what is still to end is not folded into values before.
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    pub fn merge_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expiry_ms = self.store().time.after(ttl);
        self.merge_expiring(key.as_ref(), operand.as_ref(), expiry_ms, self.store().durability)
    }

    #[cold]
    fn merge_expiring(
        &self,
        key: &[u8],
        operand: &[u8],
        expiry_ms: u64,
        durability: Durability,
    ) -> Result<()> {
        self.state().folding()?.check_operand(key, operand)?;
        let bytes = (key.len() + EXPIRY_LEN + operand.len()) as u64;
        self.write_encoded(durability, bytes, None, |scratch, id| {
            scratch.merge_expiring(id, key, operand, expiry_ms)
        })
    }
}
