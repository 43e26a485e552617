//! Which policy decides what stays.

use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a cache chooses what goes, and how its hits find their way.
///
/// People write it as `slots`, `clock`, `lru`, `lru:60s`, `lfu` or `s3-fifo`; [`fmt::Display`] gives the same
/// back. It is a choice of the running process: no file knows of it, and a database may be opened with
/// another one each time.
///
/// All kinds keep the same promises: one budget, priorities for what serves whole tables, and the scans'
/// share (see the [crate's page](crate)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// CLOCK, and an array of atomic slots for each table through which hits go without a lock. The cache
    /// chooses who goes as [`CacheKind::Clock`] does, but when it is full it takes in what was loaded twice;
    /// the slots are the table's (`slots` in `esker-sst`). Costs eight bytes a block of an open table,
    /// whether or not it is cached. The default.
    #[default]
    Slots,
    /// CLOCK (Corbató 1968): a hand goes round, takes a chance from each entry and evicts the first that has
    /// none. An approximation of LRU whose hits write one byte.
    Clock,
    /// The least recently used entry goes, exactly: a doubly linked list in each shard, to whose end a hit
    /// moves its entry.
    Lru {
        /// An entry is not found any more when it is older than this, used or not. No limit if `None`;
        /// counted in milliseconds. What is expired leaves when it is met: by a load of its block or at the
        /// end of the list.
        ttl: Option<Duration>,
    },
    /// The least frequently used entry goes, of several the least recently used: a list for each frequency
    /// (Shah, Mitra, Matani 2010), with frequencies that are halved every so often (Einziger, Friedman, Manes
    /// 2017).
    Lfu,
    /// S3-FIFO (Yang et al. 2023) as the crate `quick_cache` has it: a small queue for what is new, a large
    /// one for what was asked for again, and the names of what went from the small one too early.
    S3Fifo,
}

/// Longest TTL: a hundred years. Added to a clock that runs for as long it is far from the end of 64 bits of
/// nanoseconds.
const MAX_TTL: Duration = Duration::from_secs(100 * 366 * 86_400);

impl CacheKind {
    /// Each kind, with its plainest parameters.
    pub const ALL: [CacheKind; 5] =
        [CacheKind::Slots, CacheKind::Clock, CacheKind::Lru { ttl: None }, CacheKind::Lfu, CacheKind::S3Fifo];

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

    /// Whether owners of values are to keep shortcuts to them (see the [crate's page](crate)). Kinds that say
    /// no ask no value whether a shortcut was used.
    #[inline]
    pub const fn has_shortcuts(self) -> bool {
        matches!(self, CacheKind::Slots)
    }

    /// Whether a full cache takes in only what comes back (see the [crate's page](crate)).
    pub(crate) const fn has_door(self) -> bool {
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
    fn text_leads_back_to_the_kind() {
        let ttls = [1, 999, 1000, 1001, 60_000].map(Duration::from_millis).into_iter().chain([MAX_TTL]);
        for kind in CacheKind::ALL.into_iter().chain(ttls.map(|ttl| CacheKind::Lru { ttl: Some(ttl) })) {
            assert_eq!(kind.to_string().parse::<CacheKind>().unwrap(), kind, "{kind}");
            assert_eq!(kind.within_limits(), kind);
        }
        assert_eq!(CacheKind::Lru { ttl: Some(Duration::from_millis(2_500)) }.to_string(), "lru:2500ms");
        assert_eq!("lru:60s".parse::<CacheKind>().unwrap().to_string(), "lru:60s");
    }

    #[test]
    fn what_is_no_kind_is_refused_by_name() {
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
