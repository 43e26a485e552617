//! Entries that expire: writing them, asking how long they live, and changing that.

use super::Keyspace;
use crate::Durability;
use crate::transaction::Next;
use esker_base::Result;
use esker_base::expiry::EXPIRY_LEN;
use esker_view::read::resolve::{End, end_of};
use std::time::Duration;

/// How long a key lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Until it is overwritten or deleted.
    Forever,
    /// For a time.
    Expires {
        /// The first moment without the value, in milliseconds since 1970, by the database's time.
        at_ms: u64,
        /// What is left until then.
        left: Duration,
    },
}

impl Keyspace {
    /// Sets `key` to `value` for as long as `ttl` says; then it is gone, as if deleted. Fractions of a
    /// millisecond are rounded up; zero is over at once.
    ///
    /// Expiry is exact to the millisecond, by the database's time, which never runs backwards
    /// ([`crate::Database::now_ms`]). Compaction frees the room of what has expired. An expiring entry takes
    /// 8 bytes more.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # use std::time::Duration;
    /// # let sessions = esker_engine::Database::open("data")?.keyspace("sessions")?;
    /// sessions.put_with_ttl("ada", "token", Duration::from_secs(1800))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> {
        let expiry_ms = self.store().time.after(ttl);
        self.put_with_expiry(key, value, expiry_ms)
    }

    /// Sets `key` to `value` until `expiry_ms`, in milliseconds since 1970: the first moment without the
    /// value.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry_ms: u64,
    ) -> Result<()> {
        self.write_expiring(key.as_ref(), value.as_ref(), expiry_ms, self.store().durability)
    }

    /// How long `key` lives on; `None` if it has no value.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # use esker_engine::Ttl;
    /// # let sessions = esker_engine::Database::open("data")?.keyspace("sessions")?;
    /// if let Some(Ttl::Expires { left, .. }) = sessions.ttl("ada")? {
    ///     println!("{} seconds to go", left.as_secs());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Ttl>> {
        let mut pinned = self.pin()?;
        let now_ms = pinned.time.fix(&pinned.view.semantics);
        Ok(match end_of(&pinned.view, &mut pinned.time, key.as_ref(), pinned.seqno)? {
            End::Past => None,
            End::Never => Some(Ttl::Forever),
            End::At(at_ms) => {
                Some(Ttl::Expires { at_ms, left: Duration::from_millis(at_ms.saturating_sub(now_ms)) })
            }
        })
    }

    /// Lets `key` keep its value for good; `false` if it has none. Nothing is written if it does so already.
    ///
    /// Atomic: a write that comes in between is not undone.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        match self.ttl(key.as_ref())? {
            None => Ok(false),
            Some(Ttl::Forever) => Ok(true),
            Some(Ttl::Expires { .. }) => Ok(self.change_one(key.as_ref(), |_| Next::End(None))?.is_some()),
        }
    }

    /// Lets `key` keep its value for `ttl` from now on, whether that is longer or shorter than before;
    /// `false` if it has none.
    ///
    /// Atomic: a write that comes in between is not undone.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let time = &self.store().time;
        Ok(self.change_one(key.as_ref(), |_| Next::End(Some(time.after(ttl))))?.is_some())
    }

    #[cold]
    pub(super) fn write_expiring(
        &self,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
        durability: Durability,
    ) -> Result<()> {
        let bytes = (key.len() + EXPIRY_LEN + value.len()) as u64;
        self.write_encoded(durability, bytes, None, |scratch, id| {
            scratch.put_expiring(id, key, value, expiry_ms)
        })
    }
}
