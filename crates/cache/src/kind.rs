//! The kinds of caches: which policy chooses what is evicted.

use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a cache chooses what it evicts, and how hits find their block.
///
/// Its text is `slots`, `clock`, `lru`, `lru:60s`, `lfu` or `s3-fifo`; [`fmt::Display`] gives the same back.
/// The kind is not stored: a database may be opened with another one each time.
///
/// All kinds have the same guarantees: one budget, priorities for blocks that serve whole tables, and the
/// scans' share (see the [crate's page](crate)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// The default. CLOCK with a doorkeeper, and an array of atomic slots for each table through which hits
    /// go without a lock (`slots` in `esker-sst`). A full cache admits only what was loaded twice. Costs
    /// eight bytes for each block of an open table, cached or not.
    #[default]
    Slots,
    /// CLOCK (Corbató 1968): a hand takes a chance from each entry and evicts the first without one.
    Clock,
    /// For comparison. Evicts the least recently used entry: a hit moves it to the end of a list.
    Lru {
        /// Age from which an entry is not found any more, used or not; no limit if `None`, in milliseconds.
        /// An expired entry leaves when its block is loaded or when it reaches the end of the list.
        ttl: Option<Duration>,
    },
    /// For comparison. Evicts the least frequently used entry, and of several the least recently used: a list
    /// for each frequency (Shah, Mitra, Matani 2010), with frequencies that are halved from time to time
    /// (Einziger, Friedman, Manes 2017).
    Lfu,
    /// S3-FIFO (Yang et al. 2023), as the crate `quick_cache` has it: a small queue for new entries, a large
    /// one for entries used again, and ghost entries for what left the small one too early. Its hit rate is
    /// up to 1.2 points above the default's, but every miss evicts, where the default evicts on one miss in
    /// four at most.
    S3Fifo,
}

/// Longest TTL: a hundred years, far from the end of 64 bits of nanoseconds.
const MAX_TTL: Duration = Duration::from_secs(100 * 366 * 86_400);

impl CacheKind {
    /// Each kind, with its plainest parameters; kinds for comparison last ([`CacheKind::is_reference`]).
    pub const ALL: [CacheKind; 5] =
        [CacheKind::Slots, CacheKind::Clock, CacheKind::S3Fifo, CacheKind::Lru { ttl: None }, CacheKind::Lfu];

    /// The kind's name, without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            CacheKind::Slots => "slots",
            CacheKind::Clock => "clock",
            CacheKind::Lru { .. } => "lru",
            CacheKind::Lfu => "lfu",
            CacheKind::S3Fifo => "s3-fifo",
        }
    }

    /// Whether the kind is for comparison only: the default has no lower hit rate and takes less memory.
    pub const fn is_reference(self) -> bool {
        matches!(self, CacheKind::Lru { .. } | CacheKind::Lfu)
    }

    /// Whether owners of values keep shortcuts (see the [crate's page](crate)) with reference bits.
    #[inline]
    pub const fn has_shortcuts(self) -> bool {
        matches!(self, CacheKind::Slots)
    }

    /// Whether a full cache has an admission filter (`doorkeeper`).
    pub(crate) const fn has_doorkeeper(self) -> bool {
        matches!(self, CacheKind::Slots)
    }

    /// The kind with parameters within their limits: a TTL has whole milliseconds, at least one.
    #[must_use]
    pub fn within_limits(self) -> CacheKind {
        match self {
            CacheKind::Lru { ttl: Some(ttl) } => {
                let ms = ttl.clamp(Duration::from_millis(1), MAX_TTL).as_millis();
                CacheKind::Lru { ttl: Some(Duration::from_millis(ms as u64)) }
            }
            other => other,
        }
    }
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.within_limits() {
            CacheKind::Lru { ttl: Some(ttl) } if ttl.subsec_millis() == 0 => write!(f, ":{}s", ttl.as_secs()),
            CacheKind::Lru { ttl: Some(ttl) } => write!(f, ":{}ms", ttl.as_millis()),
            _ => Ok(()),
        }
    }
}

impl FromStr for CacheKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<CacheKind> {
        if let Some(ttl) = text.strip_prefix("lru:") {
            return parse_ttl(ttl).map(|ttl| CacheKind::Lru { ttl: Some(ttl) }).ok_or_else(|| {
                let limit = MAX_TTL.as_secs();
                Error::invalid(format!(
                    "a cache `lru` takes a TTL in whole seconds or milliseconds from 1ms to {limit}s, such as `lru:60s`, not `{ttl}`"
                ))
            });
        }
        CacheKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = CacheKind::ALL.iter().map(|kind| kind.name()).collect();
            Error::invalid(format!("no cache is called `{text}`; there are {}", names.join(", ")))
        })
    }
}

fn parse_ttl(text: &str) -> Option<Duration> {
    let (digits, unit_ms) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    // `parse` alone would take a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ms = digits.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    Some(Duration::from_millis(ms)).filter(|&ttl| !ttl.is_zero() && ttl <= MAX_TTL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_round_trip_through_text() {
        let ttls = [1, 999, 1000, 1001, 60_000].map(Duration::from_millis).into_iter().chain([MAX_TTL]);
        for kind in CacheKind::ALL.into_iter().chain(ttls.map(|ttl| CacheKind::Lru { ttl: Some(ttl) })) {
            assert_eq!(kind.to_string().parse::<CacheKind>().unwrap(), kind, "{kind}");
            assert_eq!(kind.within_limits(), kind);
        }
        assert_eq!(CacheKind::Lru { ttl: Some(Duration::from_millis(2_500)) }.to_string(), "lru:2500ms");
        assert_eq!("lru:60s".parse::<CacheKind>().unwrap().to_string(), "lru:60s");
    }

    #[test]
    fn unknown_kinds_are_named_in_the_error() {
        for text in [
            "",
            "LRU",
            "slots:1",
            "lru:",
            "lru:0s",
            "lru:+5s",
            "lru:5",
            "lru:-1ms",
            "lru:99999999999999999999s",
        ] {
            let error = text.parse::<CacheKind>().unwrap_err().to_string();
            let shown = text.strip_prefix("lru:").unwrap_or(text);
            assert!(error.contains(&format!("`{shown}`")), "{error}");
        }
        let odd = CacheKind::Lru { ttl: Some(Duration::from_nanos(1)) };
        assert_eq!(odd.within_limits(), CacheKind::Lru { ttl: Some(Duration::from_millis(1)) });
        assert_eq!(odd.to_string(), "lru:1ms");
    }
}
