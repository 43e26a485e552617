//! Expiring entries: reading and changing the time to live of a key.

use super::Keyspace;
use super::key_update::KeyUpdate;
use crate::Expiry;
use esker_base::Result;
use esker_base::expiry::EXPIRY_LEN;
use esker_engine::write::commit::WriteMode;
use esker_view::read::resolve::{End, end_of};
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
        Ok(match end_of(&pinned.view, &mut pinned.time, key.as_ref(), pinned.seqno)? {
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
            Some(Ttl::Expires { .. }) => {
                Ok(self.change_one(key.as_ref(), Expiry::Never.into(), |_| KeyUpdate::Rewrite)?.is_some())
            }
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
        Ok(self.change_one(key.as_ref(), Expiry::After(ttl).into(), |_| KeyUpdate::Rewrite)?.is_some())
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
