//! Blocking work: which job a keyspace's writers wait for, and when it ends.
//!
//! It is chosen among the running jobs at the moment of the query: a job that drains the queue itself, or
//! else one that prevents such a job from beginning: a job of the same keyspace that occupies the tables, or
//! one of another that occupies the thread.

use crate::state::jobs::{JobFacts, JobMetrics};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::Store;
use esker_base::KeyspaceId;
use esker_strategy::Class;
use esker_strategy::write_control::{Pressure, PressureCause};
use esker_version::LevelIndex;
use std::fmt;
use std::time::Duration;

/// The background work that writers of a keyspace wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingWork {
    /// The job that has to end before there is room; `None` if none runs, because it failed or is about to
    /// begin.
    pub job: Option<JobMetrics>,
    /// When the job ends, from now, at its present rate, or before any progress at the rate of previous jobs.
    /// `None` if nothing was measured yet.
    pub ends_in: Option<Duration>,
    /// The last failure of the work, if it did not succeed since.
    pub error: Option<String>,
}

/// How directly a job affects the queue, the most direct last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BlockingRole {
    /// It occupies the thread.
    HasThread,
    /// It occupies tables of the keyspace.
    HasTables,
    /// It drains the queue.
    EmptiesIt,
}

impl BlockingRole {
    /// How directly a job affects the queue of `cause` in `keyspace`; `None` if not at all.
    fn of(
        cause: PressureCause,
        keyspace: KeyspaceId,
        id: KeyspaceId,
        facts: &JobFacts,
    ) -> Option<BlockingRole> {
        let is_flush = facts.class == Class::Flush;
        let is_of_pool = cause.is_drained_by_flushes() == is_flush;
        let empties_queue = match cause {
            PressureCause::SharedMemory => true,
            PressureCause::Level0 => id == keyspace && facts.from.contains(&LevelIndex::FLUSH),
            _ => id == keyspace,
        };
        match () {
            () if !is_of_pool => None,
            () if empties_queue => Some(BlockingRole::EmptiesIt),
            () if id == keyspace => Some(BlockingRole::HasTables),
            () => Some(BlockingRole::HasThread),
        }
    }
}

/// The work that the writers of a keyspace throttled by `worst` wait for.
pub fn blocking_work(
    store: &Store,
    keyspace: &KeyspaceState,
    worst: &Pressure,
    of_flushes: Option<u64>,
    of_one_merge: Option<u64>,
) -> BlockingWork {
    let job = store
        .jobs
        .most(store.monotonic_ns(), |id, facts| BlockingRole::of(worst.cause, keyspace.id, id, facts));
    let (failure, sustained) = if worst.cause.is_drained_by_flushes() {
        (store.scheduler.error(WorkerPool::Flush), of_flushes)
    } else {
        (keyspace.jobs.compaction_outcome.last_failure(), of_one_merge)
    };
    let ends_in = job.as_ref().and_then(|job| ends_in(job, sustained));
    BlockingWork { job, ends_in, error: failure.map(|error| error.to_string()) }
}

/// When a job ends, by its own rate or else by the rate of previous ones, in bytes a second.
fn ends_in(job: &JobMetrics, sustained: Option<u64>) -> Option<Duration> {
    if let Some(ms) =
        job.remaining().map(|left| left.as_millis() as u64).filter(|_| job.running > Duration::ZERO)
    {
        return Some(Duration::from_millis(ms));
    }
    let left = job.total_bytes.saturating_sub(job.done_bytes());
    let ms = u128::from(left) * 1000 / u128::from(sustained.filter(|&rate| rate > 0)?);
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX)))
}

struct Megabytes(u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / 1e6)
    }
}

impl fmt::Display for BlockingWork {
    /// "waiting for job 12 (level 0 urgent) from L0, Llast to Llast: 12.0 MB of 40.0 MB done at 8.0 MB/s,
    /// ends in about 3.5 s".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.job {
            None => f.write_str("waiting for a job that has not begun")?,
            Some(job) => {
                write!(f, "waiting for job {} ({})", job.number, job.class)?;
                if !job.from.is_empty() {
                    write!(f, " from {}", job.from.join(", "))?;
                }
                let (done, total) = (Megabytes(job.done_bytes()), Megabytes(job.total_bytes));
                let rate = Megabytes(job.bytes_per_second());
                write!(f, " to {}: {done} of {total} done at {rate}/s, ", job.level)?;
                match self.ends_in {
                    Some(time) => write!(f, "ends in about {:.1} s", time.as_secs_f64())?,
                    None => f.write_str("its end is not known yet")?,
                }
            }
        }
        match &self.error {
            Some(error) => write!(f, "; it failed the last time: {error}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_goes_on_as_it_did_or_as_others_did() {
        let begun =
            JobMetrics { number: 1, total_bytes: 1000, reason: Some("why".into()), ..JobMetrics::default() };
        assert_eq!(ends_in(&begun, None), None);
        assert_eq!(ends_in(&begun, Some(0)), None);
        assert_eq!(ends_in(&begun, Some(500)), Some(Duration::from_secs(2)));
        let half_way = JobMetrics { read_bytes: 400, running: Duration::from_millis(800), ..begun.clone() };
        assert_eq!(ends_in(&half_way, Some(1)), Some(Duration::from_millis(1200)));
        let at_once = JobMetrics { running: Duration::ZERO, ..half_way };
        assert_eq!(ends_in(&at_once, Some(100)), Some(Duration::from_secs(6)), "no time, no speed");
        let told = BlockingWork { ends_in: ends_in(&begun, Some(500)), job: Some(begun), error: None };
        let told = told.to_string();
        assert!(told.ends_with("0.0 MB of 0.0 MB done at 0.0 MB/s, ends in about 2.0 s"), "{told}");
        let failed = BlockingWork { error: Some("disk full".into()), ..BlockingWork::default() };
        assert_eq!(
            failed.to_string(),
            "waiting for a job that has not begun; it failed the last time: disk full"
        );
    }
}
