//! Feasibility of delete-persistence targets: the bytes that merges must rewrite in time, and their rate.
//!
//! Deletes may affect any key. Then every table has to be rewritten between the delete and the deadline. An
//! eighth of that time passes before memtables are sealed (DW1), and merges begin an eighth before its end
//! (DW3): even if each begins as early as possible, they have three quarters of the time. Their rate is
//! bounded by the configured rate limits, and by the measured rate of compactions.

use super::{SEAL_DIVISOR, USABLE_PERCENT};
use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_base::{Error, Result};
use esker_env::BackgroundRates;
use std::fmt;
use std::time::Duration;

/// Why a delete-persistence target cannot be met for deletes in all tables. Printed as the reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeleteShortfall {
    /// Bytes of tables to rewrite in time.
    pub table_bytes: u64,
    /// The time available.
    pub time: Duration,
    /// Bytes that compactions can rewrite a second.
    pub bytes_per_second: f64,
    /// The origin of that limit.
    pub limited_by: &'static str,
    /// The shortest feasible target for these tables at this rate.
    pub least: Duration,
}

impl DeleteShortfall {
    /// The shortfall for this many bytes of tables; `None` if there is none, or the rate is unknown.
    fn of(
        table_bytes: u64,
        within: Duration,
        rates: BackgroundRates,
        measured: Option<f64>,
    ) -> Option<DeleteShortfall> {
        let configured = [
            (rates.write_bytes_per_second, "background_write_bytes_per_second"),
            (rates.read_bytes_per_second, "background_read_bytes_per_second"),
        ];
        let configured = configured.into_iter().filter_map(|(rate, name)| Some((rate? as f64, name)));
        let measured = measured.map(|rate| (rate, "the measured rate"));
        let (bytes_per_second, limited_by) =
            configured.chain(measured).min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let needed_seconds = table_bytes as f64 / bytes_per_second.max(1.0);
        let usable = 1.0 - 2.0 / SEAL_DIVISOR as f64;
        let time = within.mul_f64(usable);
        let least = Duration::from_secs((needed_seconds / usable).ceil() as u64);
        let is_short = needed_seconds > time.as_secs_f64();
        is_short.then_some(DeleteShortfall { table_bytes, time, bytes_per_second, limited_by, least })
    }
}

impl fmt::Display for DeleteShortfall {
    /// "3000.0 MB of tables have to be rewritten in 90 s where deletes lie all over them, 33.3 MB/s, and
    /// compactions can rewrite 10.0 MB/s (background_write_bytes_per_second); 400 s can be met"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (megabytes, seconds) = (self.table_bytes as f64 / 1e6, self.time.as_secs_f64());
        write!(
            f,
            "{megabytes:.1} MB of tables have to be rewritten in {seconds:.0} s where deletes lie all over them, {:.3} MB/s, and \
             compactions can rewrite {:.3} MB/s ({}); {} s can be met",
            megabytes / seconds,
            self.bytes_per_second / 1e6,
            self.limited_by,
            self.least.as_secs()
        )
    }
}

/// Why deletes in a keyspace cannot be gone within this time; `None` if they can.
pub fn delete_shortfall(
    store: &Store,
    keyspace: &KeyspaceState,
    within: Duration,
) -> Option<DeleteShortfall> {
    let one_job = keyspace.write_control.lock().capacity.merged_bytes_per_second();
    let measured = one_job.map(|rate| rate * store.compaction_threads as f64 * USABLE_PERCENT / 100.0);
    let table_bytes = keyspace.view.load().tree.version.bytes();
    DeleteShortfall::of(table_bytes, within, store.files.rates.get(), measured)
}

/// An error with the numbers if a delete-persistence target cannot be met.
pub(crate) fn check_deadline(
    store: &Store,
    keyspace: &KeyspaceState,
    within: Option<Duration>,
) -> Result<()> {
    let Some(within) = within else { return Ok(()) };
    let Some(shortfall) = delete_shortfall(store, keyspace, within) else { return Ok(()) };
    Err(Error::invalid(format!(
        "delete_within = {} s cannot be kept in keyspace {:?}: {shortfall}",
        within.as_secs_f64(),
        keyspace.name()
    )))
}

/// Logs warnings about delete-persistence targets that cannot be met: at open, and when the rate limits
/// change.
pub fn warn_of_deadlines(store: &Store) {
    for keyspace in store.all_keyspaces().iter() {
        if let Err(error) = check_deadline(store, keyspace, keyspace.options().delete_within) {
            tracing::warn!(%error, "a delete-persistence target cannot be met if deletes affect all tables");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_rates_decides() {
        let gigabytes = 3_000_000_000;
        let rates = |write, read| BackgroundRates {
            write_bytes_per_second: write,
            read_bytes_per_second: read,
            ..BackgroundRates::default()
        };
        let of = |seconds, rates, measured| {
            DeleteShortfall::of(gigabytes, Duration::from_secs(seconds), rates, measured)
        };
        assert_eq!(of(120, rates(None, None), None), None, "nothing is known");
        assert_eq!(of(120, rates(None, None), Some(40e6)), None, "75 s of 90");
        let measured = of(120, rates(None, None), Some(30e6)).unwrap();
        assert_eq!((measured.limited_by, measured.least.as_secs()), ("the measured rate", 134));
        assert_eq!(of(134, rates(None, None), Some(30e6)), None, "what it says can be met");
        let read = of(120, rates(Some(20_000_000), Some(10_000_000)), Some(30e6)).unwrap();
        assert_eq!((read.limited_by, read.least.as_secs()), ("background_read_bytes_per_second", 400));
        assert_eq!(
            of(120, rates(Some(10_000_000), None), Some(30e6)).unwrap().to_string(),
            "3000.0 MB of tables have to be rewritten in 90 s where deletes lie all over them, 33.333 MB/s, and compactions can \
             rewrite 10.000 MB/s (background_write_bytes_per_second); 400 s can be met"
        );
    }
}
