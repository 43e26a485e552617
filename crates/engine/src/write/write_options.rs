//! Options of one write: durability, expiry, and whether it may stall.

use esker_base::{Error, Result};
use esker_options::Durability;
use esker_view::time::{self, Time};
use std::time::{Duration, SystemTime};

/// When the value that a write sets expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// Depends on the call: a put or a merge takes the keyspace's default TTL, if there is one; a call that
    /// changes a value it has read (`fetch_update`, `compare_and_set`) keeps the expiry of the value it
    /// replaces.
    #[default]
    Default,
    /// Never, also in a keyspace with a default TTL.
    Never,
    /// This long after the call. Fractions of a millisecond are rounded up; zero expires at once.
    After(Duration),
    /// At this time: the first moment without the value. Fractions of a millisecond are rounded up.
    At(SystemTime),
    /// Keeps the expiry of the present value. A key without a value is treated as with [`Expiry::Default`].
    /// The call reads the key, and is atomic with its write.
    #[doc(alias = "KEEPTTL")]
    Keep,
}

/// A resolved expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It does not expire.
    Never,
    /// In milliseconds since 1970.
    At(u64),
    /// That of the replaced value.
    AsBefore,
}

impl Expiry {
    /// Resolves it for a call made now, in a keyspace with this default TTL.
    pub fn resolve(self, clock: &Time, default_ttl: Option<Duration>) -> Ends {
        match self {
            Expiry::Never => Ends::Never,
            Expiry::After(ttl) => Ends::At(clock.after(ttl)),
            Expiry::At(moment) => Ends::At(time::to_ms(moment)),
            Expiry::Keep => Ends::AsBefore,
            Expiry::Default => default_ttl.map_or(Ends::Never, |ttl| Ends::At(clock.after(ttl))),
        }
    }
}

/// Options of one write. Every write call has a form that takes them, or anything that converts into them:
/// a [`Durability`] or an [`Expiry`] alone will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct WriteOptions {
    /// The durability of the acknowledged write. `None`: as set by `Options::durability`.
    pub durability: Option<Durability>,
    /// When the value expires. For calls that set a value; deletes, and batches whose entries have their own,
    /// refuse anything but [`Expiry::Default`].
    pub expiry: Expiry,
    /// Fail with [`Error::WouldStall`] instead of waiting while writes are throttled. Nothing was written
    /// then.
    pub no_stall: bool,
}

impl WriteOptions {
    /// The defaults: the database's durability, the call's expiry, waiting allowed.
    pub const fn new() -> WriteOptions {
        WriteOptions { durability: None, expiry: Expiry::Default, no_stall: false }
    }

    /// Sets [`WriteOptions::durability`].
    pub const fn durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = Some(durability);
        self
    }

    /// Sets [`WriteOptions::expiry`].
    pub const fn expiry(mut self, expiry: Expiry) -> WriteOptions {
        self.expiry = expiry;
        self
    }

    /// Lets the value expire this long after the call: [`Expiry::After`].
    pub const fn ttl(self, ttl: Duration) -> WriteOptions {
        self.expiry(Expiry::After(ttl))
    }

    /// Sets [`WriteOptions::no_stall`].
    #[doc(alias = "no_slowdown")]
    pub const fn no_stall(mut self) -> WriteOptions {
        self.no_stall = true;
        self
    }

    /// An error if an expiry was chosen for a write without a value of its own.
    pub fn check_without_expiry(&self, what: &str) -> Result<()> {
        if self.expiry == Expiry::Default {
            return Ok(());
        }
        Err(Error::invalid(format!("{what} takes no expiry, but the write options name one")))
    }
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions::new().durability(durability)
    }
}

impl From<Expiry> for WriteOptions {
    fn from(expiry: Expiry) -> WriteOptions {
        WriteOptions::new().expiry(expiry)
    }
}

impl From<&WriteOptions> for WriteOptions {
    fn from(options: &WriteOptions) -> WriteOptions {
        *options
    }
}
