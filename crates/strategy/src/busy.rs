//! What running jobs hold.

use crate::plan::{CompactionPlan, Position, RunPosition};
use esker_base::PartId;
use esker_version::{KeyRange, PartMeta};
use std::collections::{BTreeMap, BTreeSet};

/// Names a running job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// What the planner must know of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyJob {
    /// The place of its newest input.
    pub from: RunPosition,
    /// The place of its output.
    pub to: RunPosition,
    /// The keys it touches; its output may cover any of them.
    pub hull: KeyRange,
    /// Bytes it may write.
    pub est_out_bytes: u64,
    /// Its inputs.
    pub parts: Vec<PartId>,
}

/// The running jobs of a keyspace, flushes not among them: those only add newer runs.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    parts: BTreeSet<PartId>,
    jobs: BTreeMap<JobId, BusyJob>,
    next: u64,
}

impl Busy {
    /// Nothing runs.
    pub fn new() -> Busy {
        Busy::default()
    }

    /// Notes that a plan is being carried out.
    pub fn add(&mut self, plan: &CompactionPlan) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        let parts: Vec<PartId> = plan.parts().map(|(_, input)| input.part.id).collect();
        self.parts.extend(&parts);
        let job = BusyJob {
            from: plan.from(),
            to: plan.to.in_reading_order(),
            hull: plan.hull.clone(),
            est_out_bytes: plan.est_out_bytes,
            parts,
        };
        self.jobs.insert(id, job);
        id
    }

    /// Notes that a job has ended, whether installed or given up.
    pub fn remove(&mut self, id: JobId) {
        for part in self.jobs.remove(&id).map(|job| job.parts).unwrap_or_default() {
            self.parts.remove(&part);
        }
    }

    /// The running jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &BusyJob> {
        self.jobs.values()
    }

    /// Whether nothing runs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether a part is the input of a running job.
    pub fn has(&self, part: &PartMeta) -> bool {
        self.parts.contains(&part.id)
    }

    /// Whether a job with these ends and keys must wait for a running one (V4): both touch a key, and one
    /// writes between the inputs and the output of the other, or where the other writes.
    pub fn conflicts(&self, from: RunPosition, to: Position, hull: &KeyRange) -> bool {
        let to = to.in_reading_order();
        self.jobs.values().any(|job| {
            job.hull.overlaps(hull) && ((from..=to).contains(&job.to) || (job.from..=job.to).contains(&to))
        })
    }
}
