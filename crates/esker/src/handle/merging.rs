//! Writing merge operands.

use super::Keyspace;
use crate::WriteOptions;
use esker_base::expiry::EXPIRY_LEN;
use esker_base::{Error, Result, ValueKind};
use esker_engine::write::commit;
use esker_engine::write::commit::WriteMode;
use esker_engine::write::write_options::Ends;

impl Keyspace {
    /// Merges an operand into the value of `key` with the keyspace's merge operator, without reading it: adds
    /// to a counter, appends to a list. Costs as much as a put. Readers see the merged value; flushes and
    /// compactions replace operands by values.
    ///
    /// In a keyspace with a default TTL each operand expires on its own: a counter there counts recent
    /// operands.
    ///
    /// A value and its operands are merged in memory, so together they have at most the bytes of the memory
    /// budget and of the longest value, 512 MiB. Beyond that reads of the key are refused with
    /// [`Error::Merge`]; nothing is lost, and with a larger budget the key can be read.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # use esker::{Database, KeyspaceOptions, MergeOperator};
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
    /// `InvalidArgument` if the keyspace has no merge operator or it rejects the operand; else as
    /// [`Keyspace::put`].
    #[doc(alias = "increment")]
    #[inline]
    #[doc(alias = "MergeOperator")]
    #[doc(alias = "merge operator")]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand, mode) = (key.as_ref(), operand.as_ref(), commit::default_write_mode(self.store()));
        match self.state().default_ttl() {
            None => self.merge_for_good(key, operand, mode),
            Some(ttl) => self.merge_expiring(key, operand, self.store().time.after(ttl), mode),
        }
    }

    /// Merges an operand into the value of `key`, with these options; see [`Keyspace::merge`].
    ///
    /// An operand with an expiry counts until then. After it the value is as without the operand; operands
    /// that will expire are not merged into values before.
    ///
    /// # Errors
    /// As [`Keyspace::merge`]; `InvalidArgument` for [`Expiry::Keep`](crate::Expiry::Keep): an operand has an
    /// expiry of its own.
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (key, operand, options) = (key.as_ref(), operand.as_ref(), options.into());
        let mode = commit::write_mode(self.store(), &options);
        match options.expiry.resolve(&self.store().time, self.state().default_ttl()) {
            Ends::Never => self.merge_for_good(key, operand, mode),
            Ends::At(expiry_ms) => self.merge_expiring(key, operand, expiry_ms, mode),
            Ends::AsBefore => Err(no_expiry_to_keep()),
        }
    }

    #[inline]
    fn merge_for_good(&self, key: &[u8], operand: &[u8], mode: WriteMode) -> Result<()> {
        self.state().operand_merger()?.check_operand(key, operand)?;
        let bytes = (key.len() + operand.len()) as u64;
        let single = Some((ValueKind::Merge as u8, key, operand));
        self.write_encoded(mode, bytes, single, |scratch, id| scratch.merge(id, key, operand))
    }

    #[cold]
    fn merge_expiring(&self, key: &[u8], operand: &[u8], expiry_ms: u64, mode: WriteMode) -> Result<()> {
        self.state().operand_merger()?.check_operand(key, operand)?;
        let bytes = (key.len() + EXPIRY_LEN + operand.len()) as u64;
        self.write_encoded(mode, bytes, None, |scratch, id| {
            scratch.merge_expiring(id, key, operand, expiry_ms)
        })
    }
}

/// [`Expiry::Keep`](crate::Expiry::Keep) where no value is replaced.
pub(crate) fn no_expiry_to_keep() -> Error {
    Error::invalid("Expiry::Keep is for a call that replaces one value and may read it first")
}
