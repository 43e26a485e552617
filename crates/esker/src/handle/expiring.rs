//! Expiring entries: reading and changing the time to live of a key.

use super::Keyspace;
use super::key_update::KeyUpdate;
use crate::{Expiry, ValueWithExpiry};
use esker_base::Result;
use esker_base::expiry::EXPIRY_LEN;
use esker_engine::write::commit::WriteMode;
use esker_view::read::resolve::End;
use esker_view::time;
use std::time::{Duration, SystemTime};

/// The time to live of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// No expiry.
    Forever,
    /// An expiry.
    Expires {
        /// The first moment without the value, by the database time.
        at: SystemTime,
        /// The time left until then.
        left: Duration,
    },
}

impl Keyspace {
    /// The value of `key` and its expiry, by one lookup. The same for [ranges](crate::Range::with_expiry),
    /// [cursors](crate::Cursor::expiry), [snapshots](crate::View::get_with_expiry) and
    /// [transactions](crate::Transaction::get_with_expiry).
    ///
    /// Takes as long as [`Keyspace::get`]. Where the value was merged from operands, it expires with the last
    /// of its parts, and not at all if one of them does not.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-expiry-{}", std::process::id()));
    /// use esker::Expiry;
    /// use std::time::Duration;
    ///
    /// let db = esker::Database::open(&dir)?;
    /// let sessions = db.keyspace("sessions")?;
    /// let end = db.now() + Duration::from_secs(1800);
    /// sessions.put_with("ada", "token", Expiry::At(end))?;
    ///
    /// // Another value, until the same moment.
    /// let session = sessions.get_with_expiry("ada")?.expect("it has not expired");
    /// assert_eq!(session.value, "token");
    /// assert!(session.expiry.is_some_and(|expiry| expiry >= end));
    /// sessions.put_with("ada", "new token", session.expiry.map_or(Expiry::Never, Expiry::At))?;
    /// assert_eq!(sessions.get_with_expiry("ada")?.and_then(|new| new.expiry), session.expiry);
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok(()) }
    /// ```
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueWithExpiry>> {
        self.pin()?.get_with_expiry(key.as_ref())
    }

    /// The values of several keys with their expiries, in the order of the keys, all of one moment; see
    /// [`Keyspace::multi_get`].
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<ValueWithExpiry>>> {
        self.pin()?.multi_get_with_expiry(keys)
    }

    /// The time to live of `key`; `None` if it has no value.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # use esker::Ttl;
    /// # let sessions = esker::Database::open("data")?.keyspace("sessions")?;
    /// if let Some(Ttl::Expires { left, .. }) = sessions.ttl("ada")? {
    ///     println!("{} seconds to go", left.as_secs());
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "DBWithTTL")]
    #[doc(alias = "expire")]
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Ttl>> {
        let mut pinned = self.pin()?;
        let now_ms = pinned.time.fix(&pinned.view.semantics);
        Ok(match pinned.end(key.as_ref())? {
            End::Past => None,
            End::Never => Some(Ttl::Forever),
            End::At(at_ms) => {
                let left = Duration::from_millis(at_ms.saturating_sub(now_ms));
                Some(Ttl::Expires { at: time::from_ms(at_ms), left })
            }
        })
    }

    /// Removes the expiry of `key`; `false` if it has no value. Nothing is written if it has no expiry
    /// already.
    ///
    /// Atomic: a concurrent write is not undone.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        match self.ttl(key.as_ref())? {
            None => Ok(false),
            Some(Ttl::Forever) => Ok(true),
            Some(Ttl::Expires { .. }) => Ok(self
                .change_one(key.as_ref(), Expiry::Never.into(), |_| KeyUpdate::Rewrite)?
                .before
                .is_some()),
        }
    }

    /// Sets the time to live of `key` to `ttl` from now on, whether that is longer or shorter than before;
    /// `false` if it has no value.
    ///
    /// Atomic: a concurrent write is not undone.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[doc(alias = "expire")]
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        Ok(self.change_one(key.as_ref(), Expiry::After(ttl).into(), |_| KeyUpdate::Rewrite)?.before.is_some())
    }

    /// When a value ends that is put now without an expiry of its own; `None` for never.
    #[inline]
    pub(crate) fn default_expiry_ms(&self) -> Option<u64> {
        self.state().default_ttl().map(|ttl| self.store().time.after(ttl))
    }

    #[cold]
    pub(super) fn write_expiring(
        &self,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
        mode: WriteMode,
    ) -> Result<()> {
        let bytes = (key.len() + EXPIRY_LEN + value.len()) as u64;
        self.write_encoded(mode, bytes, None, |scratch, id| scratch.put_expiring(id, key, value, expiry_ms))
    }
}
