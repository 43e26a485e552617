//! Leased snapshots: moments of the database that clients name by number.
//!
//! What holds:
//! * NG5. A number stands for one snapshot for ever: numbers begin at the time of the server's start, so that
//!   those of an earlier run are not given again.
//! * NG6. A snapshot is gone when no call has used it for the time of its lease, at the latest when the sweep
//!   next wakes, which is at the end of the lease that ends first. A client that is gone pins nothing.
//! * NG7. There are at most [`Config::max_snapshots`](crate::Config::max_snapshots).

use crate::config::Config;
use crate::deadline::now;
use crate::status::retry;
use esker::{Database, Snapshot};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Code, Status};

/// Snapshots that one millisecond of a server's life may open before NG5 is in danger: a thousand times what
/// a processor can.
const NUMBERS_A_MILLISECOND: u64 = 1 << 20;

/// The leased snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    leases: Mutex<Leases>,
    /// That the first lease to end may be another one.
    changed: Notify,
}

#[derive(Debug)]
struct Leases {
    by_number: BTreeMap<u64, Lease>,
    next: u64,
}

#[derive(Debug)]
struct Lease {
    snapshot: Arc<Snapshot>,
    time: Duration,
    ends: Instant,
}

/// A snapshot that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) number: u64,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) lease: Duration,
}

impl Snapshots {
    pub(crate) fn new(database: &Database) -> Snapshots {
        let since = database.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = u64::try_from(since.as_millis()).unwrap_or(0).saturating_mul(NUMBERS_A_MILLISECOND);
        let leases = Leases { by_number: BTreeMap::new(), next: start.max(1) };
        Snapshots { leases: Mutex::new(leases), changed: Notify::new() }
    }

    /// Opens a snapshot of the present moment; zero asks for the usual lease.
    pub(crate) fn open(
        &self,
        database: &Database,
        config: &Config,
        lease: Duration,
    ) -> Result<Opened, Status> {
        let lease = if lease.is_zero() { config.snapshot_lease } else { lease };
        if lease > config.max_snapshot_lease {
            return Err(Status::invalid_argument(format!(
                "a lease of {} ms is asked for, the longest is {} ms",
                lease.as_millis(),
                config.max_snapshot_lease.as_millis()
            )));
        }
        let mut leases = self.leases.lock();
        leases.remove_ended();
        if leases.by_number.len() >= config.max_snapshots {
            let message = format!("there are {} leased snapshots, the limit", leases.by_number.len());
            let first = leases.first_end().map(|end| end.saturating_duration_since(now()));
            return Err(retry(Code::ResourceExhausted, message, first.unwrap_or(config.snapshot_lease)));
        }
        let number = leases.next;
        leases.next += 1;
        let snapshot = Arc::new(database.snapshot());
        let ends = now() + lease;
        leases.by_number.insert(number, Lease { snapshot: Arc::clone(&snapshot), time: lease, ends });
        drop(leases);
        self.changed.notify_one();
        Ok(Opened { number, snapshot, lease })
    }

    /// The snapshot of a number, whose lease begins anew.
    pub(crate) fn renew(&self, number: u64) -> Result<(Arc<Snapshot>, Duration), Status> {
        let mut leases = self.leases.lock();
        leases.remove_ended();
        let lease = leases.by_number.get_mut(&number).ok_or_else(|| gone(number))?;
        lease.ends = now() + lease.time;
        Ok((Arc::clone(&lease.snapshot), lease.time))
    }

    /// The snapshot that a read names; zero is the present.
    pub(crate) fn named(&self, number: u64) -> Result<Option<Arc<Snapshot>>, Status> {
        if number == 0 { Ok(None) } else { self.renew(number).map(|(snapshot, _)| Some(snapshot)) }
    }

    /// Closes the snapshot of a number.
    pub(crate) fn close(&self, number: u64) -> Result<(), Status> {
        let mut leases = self.leases.lock();
        leases.remove_ended();
        leases.by_number.remove(&number).map(drop).ok_or_else(|| gone(number))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.leases.lock().by_number.len()
    }

    /// Closes snapshots whose leases end, for ever.
    pub(crate) async fn sweep(&self) {
        loop {
            let first = {
                let mut leases = self.leases.lock();
                leases.remove_ended();
                leases.first_end()
            };
            let changed = self.changed.notified();
            match first {
                None => changed.await,
                Some(end) => {
                    let _timed_out = tokio::time::timeout_at(end, changed).await;
                }
            }
        }
    }
}

impl Leases {
    fn remove_ended(&mut self) {
        let now = now();
        self.by_number.retain(|_, lease| lease.ends > now);
    }

    fn first_end(&self) -> Option<Instant> {
        self.by_number.values().map(|lease| lease.ends).min()
    }
}

fn gone(number: u64) -> Status {
    Status::not_found(format!(
        "there is no snapshot {number}: it was closed, its lease ended, or the server was started anew"
    ))
}
