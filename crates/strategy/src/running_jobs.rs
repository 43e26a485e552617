//! Running compaction jobs: which parts and keys they occupy.

use crate::plan::CompactionPlan;

use crate::position::Position;

use crate::position::RunPosition;
use esker_base::PartId;
use esker_version::{KeyRange, PartMeta};
use std::collections::{BTreeMap, BTreeSet};

/// Names a running job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// What the planner needs to know about a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The position of the newest input.
    pub from: RunPosition,
    /// The position of the output.
    pub to: RunPosition,
    /// The key range of the job; its output may cover any key in it.
    pub hull: KeyRange,
    /// Bytes the job may write.
    pub est_out_bytes: u64,
    /// The input parts.
    pub parts: Vec<PartId>,
}

/// The running compactions of a keyspace. Flushes are not included: they only add newer runs.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    parts: BTreeSet<PartId>,
    jobs: BTreeMap<JobId, RunningJob>,
    next: u64,
}

impl Busy {
    /// No running jobs.
    pub fn new() -> Busy {
        Busy::default()
    }

    /// Registers a plan whose execution begins.
    pub fn add(&mut self, plan: &CompactionPlan) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        let parts: Vec<PartId> = plan.parts().map(|(_, input)| input.part.id).collect();
        self.parts.extend(&parts);
        let job = RunningJob {
            from: plan.from(),
            to: plan.to.in_reading_order(),
            hull: plan.hull.clone(),
            est_out_bytes: plan.est_out_bytes,
            parts,
        };
        self.jobs.insert(id, job);
        id
    }

    /// Removes a job that has ended, installed or abandoned.
    pub fn remove(&mut self, id: JobId) {
        for part in self.jobs.remove(&id).map(|job| job.parts).unwrap_or_default() {
            self.parts.remove(&part);
        }
    }

    /// The running jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &RunningJob> {
        self.jobs.values()
    }

    /// Whether no job runs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether a running job has this part as an input.
    pub fn has(&self, part: &PartMeta) -> bool {
        self.parts.contains(&part.id)
    }

    /// Whether a job with these ends and keys must wait for a running job (V4): their key ranges overlap, and
    /// one of them writes between the input and the output of the other, or to the same run.
    pub fn conflicts(&self, from: RunPosition, to: Position, hull: &KeyRange) -> bool {
        let to = to.in_reading_order();
        self.jobs.values().any(|job| {
            job.hull.overlaps(hull) && ((from..=to).contains(&job.to) || (job.from..=job.to).contains(&to))
        })
    }
}
