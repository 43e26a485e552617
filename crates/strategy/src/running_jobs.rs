//! Running compaction jobs: which parts and keys they occupy; and the files that are set aside, whose parts
//! are taken as those of running jobs are, for as long as they are in the tree.
//!
//! SA1. A part of a file that is set aside, or that points to one, is no input of a merge: it keeps its place
//! in its run, nothing newer passes it downwards and nothing older upwards (V1, V2), and it counts as older
//! data that may hold any key of its range (V3). It may be moved and dropped, which reads nothing of it.

use crate::plan::CompactionPlan;

use crate::position::Position;

use crate::position::RunPosition;
use esker_base::{FileNumber, PartId};
use esker_version::{KeyRange, PartMeta};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files that no merge reads, tables and blob files.
pub type SetAside = Arc<BTreeSet<FileNumber>>;

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
    set_aside: SetAside,
}

impl Busy {
    /// No running jobs.
    pub fn new() -> Busy {
        Busy::default()
    }

    /// No running jobs beside these files.
    pub fn beside(set_aside: SetAside) -> Busy {
        Busy { set_aside, ..Busy::default() }
    }

    /// Changes the files that are set aside.
    pub fn set_aside(&mut self, files: SetAside) {
        self.set_aside = files;
    }

    /// Whether files are set aside.
    pub fn has_set_aside(&self) -> bool {
        !self.set_aside.is_empty()
    }

    /// Whether a merge cannot read this part (SA1).
    pub(crate) fn is_set_aside(&self, part: &PartMeta) -> bool {
        self.has_set_aside()
            && (self.set_aside.contains(&part.file)
                || part.blobs.iter().any(|blob| self.set_aside.contains(&blob.file)))
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

    /// Whether no part is taken.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.is_empty() && !self.has_set_aside()
    }

    /// Whether a running job has this part as an input.
    pub fn is_input(&self, part: &PartMeta) -> bool {
        self.parts.contains(&part.id)
    }

    /// Whether a merge must leave this part alone: it is the input of a running job, or set aside.
    pub fn has(&self, part: &PartMeta) -> bool {
        self.is_input(part) || self.is_set_aside(part)
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
