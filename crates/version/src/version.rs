//! Versions: the levels of one keyspace at one moment.

use crate::blob::{BlobFileMeta, BlobFiles};
use crate::part::PartMeta;
use crate::range::{Key, KeyRange};
use crate::run::Run;
use esker_base::{FileNumber, PartId, RunId, SeqNo};
use std::fmt;
use std::sync::Arc;

/// The index of a level. 0 takes flushes, 1 to 62 are tiers or levels in between, [`LevelIndex::LAST`] is the
/// bottommost. The last level always has the same number, so a tree that gets deeper never relabels anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelIndex(u8);

impl LevelIndex {
    /// Level 0, where flushes go.
    pub const FLUSH: LevelIndex = LevelIndex(0);
    /// The last level, the bottommost.
    pub const LAST: LevelIndex = LevelIndex(63);

    /// The level with this number; `None` past the last.
    pub const fn new(number: u8) -> Option<LevelIndex> {
        if number <= LevelIndex::LAST.0 { Some(LevelIndex(number)) } else { None }
    }

    /// The number, 0 to 63.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The level after this one in reading order; the last has none.
    pub const fn next(self) -> Option<LevelIndex> {
        LevelIndex::new(self.0 + 1)
    }

    /// Whether this is the last level.
    pub const fn is_last(self) -> bool {
        self.0 == LevelIndex::LAST.0
    }
}

impl fmt::Display for LevelIndex {
    /// `L0`, `L1`, ..., `Llast`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_last() { f.write_str("Llast") } else { write!(f, "L{}", self.0) }
    }
}

/// The runs of one level, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Which level.
    pub index: LevelIndex,
    runs: Vec<Arc<Run>>,
}

impl Level {
    /// The runs, newest first, that is, by falling [`Run::order`].
    #[inline]
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.bytes()))
    }

    /// The newest run.
    pub fn newest(&self) -> Option<&Arc<Run>> {
        self.runs.first()
    }

    /// The oldest run.
    pub fn oldest(&self) -> Option<&Arc<Run>> {
        self.runs.last()
    }
}

/// Position of a part in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The level.
    pub level: LevelIndex,
    /// The run; created if the level does not have it.
    pub run: RunId,
    /// The run's position in its level, see [`Run::order`]; must agree if the run exists.
    pub order: u64,
}

/// The levels of one keyspace at one moment; immutable once shared.
///
/// Reading order is level 0 from its newest to its oldest run, then level 1, and so on: of one user key, a
/// version met earlier is newer (I1). Cloning copies pointers to runs; changing a clone copies the runs that
/// change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    levels: Vec<Level>,
    blobs: BlobFiles,
}

impl Version {
    /// A version without parts.
    pub fn new() -> Version {
        Version::default()
    }

    /// A version with these parts; the order of the list does not matter.
    ///
    /// # Errors
    /// If two parts of a run share keys, or the same run or order is used twice; see [`Version::insert`].
    pub fn from_parts(
        parts: impl IntoIterator<Item = (Place, Arc<PartMeta>)>,
    ) -> Result<Version, PlacementError> {
        let mut version = Version::new();
        for (place, part) in parts {
            version.insert(place, part)?;
        }
        Ok(version)
    }

    /// The levels that hold parts, from the newest to the last.
    #[inline]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The blob files that parts point to.
    #[inline]
    pub fn blob_files(&self) -> &BlobFiles {
        &self.blobs
    }

    /// Adds a blob file, to which nothing points yet; `false` if there is one with this number.
    pub fn add_blob_file(&mut self, file: BlobFileMeta) -> bool {
        self.blobs.add(file)
    }

    /// Removes and returns the blob files that no part points to any more (BF2).
    pub(crate) fn take_unreferenced_blobs(&mut self) -> Vec<FileNumber> {
        self.blobs.take_unreferenced()
    }

    /// A level, if it holds parts.
    pub fn level(&self, index: LevelIndex) -> Option<&Level> {
        let at = self.levels.binary_search_by_key(&index, |level| level.index).ok()?;
        Some(&self.levels[at])
    }

    /// The runs of a level, newest first; empty if it holds no parts.
    pub fn runs_of(&self, index: LevelIndex) -> &[Arc<Run>] {
        self.level(index).map_or(&[], |level| level.runs())
    }

    /// All runs in reading order, newest first.
    #[inline]
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (LevelIndex, &Arc<Run>)> {
        self.levels.iter().flat_map(|level| level.runs.iter().map(|run| (level.index, run)))
    }

    /// All parts in reading order.
    pub fn parts(&self) -> impl Iterator<Item = (LevelIndex, &Arc<Run>, &Arc<PartMeta>)> {
        self.runs().flat_map(|(level, run)| run.parts().iter().map(move |part| (level, run, part)))
    }

    /// A run of a level.
    pub fn run(&self, level: LevelIndex, id: RunId) -> Option<&Arc<Run>> {
        self.runs_of(level).iter().find(|run| run.id == id)
    }

    /// Number of runs: the most tables that a lookup may read.
    pub fn run_count(&self) -> usize {
        self.levels.iter().map(|level| level.runs.len()).sum()
    }

    /// Number of parts.
    pub fn part_count(&self) -> usize {
        self.runs().map(|(_, run)| run.parts().len()).sum()
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().fold(0, |sum, level| sum.saturating_add(level.bytes()))
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The newest sequence number in any part; zero if there are none.
    pub fn max_seqno(&self) -> SeqNo {
        self.parts().map(|(_, _, part)| part.max_seqno).max().unwrap_or_default()
    }

    /// The place of a new run that is newer than all runs of `level`.
    ///
    /// Ids grow, so an order that is not below the id is never used twice, not even after its run is removed:
    /// a job that still knows a removed run can restore it in its old place.
    pub fn front(&self, level: LevelIndex, run: RunId) -> Place {
        let above = self.runs_of(level).first().map_or(1, |newest| newest.order.saturating_add(1));
        Place { level, run, order: above.max(run.get()) }
    }

    /// Whether some part shares keys with `range`.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        self.runs().any(|(_, run)| run.overlaps(range))
    }

    /// Adds a part, creating its run and level if they are missing. O(parts of the run) if the run is shared.
    ///
    /// # Errors
    /// The version is unchanged but for an empty run that may have been created; discard the clone.
    pub fn insert(&mut self, place: Place, part: Arc<PartMeta>) -> Result<(), PlacementError> {
        let level = match self.levels.binary_search_by_key(&place.level, |level| level.index) {
            Ok(at) => &mut self.levels[at],
            Err(at) => {
                self.levels.insert(at, Level { index: place.level, runs: Vec::new() });
                &mut self.levels[at]
            }
        };
        let by_id = level.runs.iter().find(|run| run.id == place.run);
        if let Some(run) = by_id.filter(|run| run.order != place.order) {
            return Err(PlacementError::OrderDiffers { place, found: run.order });
        }
        let at = level.runs.partition_point(|run| run.order > place.order);
        match level.runs.get(at).filter(|run| run.order == place.order) {
            Some(run) if run.id != place.run => {
                return Err(PlacementError::OrderTaken { place, by: run.id });
            }
            Some(_) => {}
            None => level.runs.insert(at, Arc::new(Run::new(place.run, place.order))),
        }
        if let Err(file) = self.blobs.count(&part) {
            return Err(PlacementError::MissingBlobFile { part, file });
        }
        let run = Arc::make_mut(&mut level.runs[at]);
        run.insert(part.clone()).map_err(|other| PlacementError::Overlap { place, part, other })
    }

    /// Removes the part with this id whose range starts with `start`; `None` if it does not exist. The run
    /// and the level are removed with their last part. O(parts of the run) if the run is shared.
    pub fn remove(
        &mut self,
        level: LevelIndex,
        run: RunId,
        part: PartId,
        start: &Key,
    ) -> Option<Arc<PartMeta>> {
        let level_at = self.levels.binary_search_by_key(&level, |level| level.index).ok()?;
        let level = &mut self.levels[level_at];
        let run_at = level.runs.iter().position(|held| held.id == run)?;
        let run = Arc::make_mut(&mut level.runs[run_at]);
        let removed = run.remove(start, part)?;
        self.blobs.discount(&removed);
        if run.parts().is_empty() {
            level.runs.remove(run_at);
            if level.runs.is_empty() {
                self.levels.remove(level_at);
            }
        }
        Some(removed)
    }
}

/// Why a part cannot be added to a version: a violation of IN5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The run has a part that shares keys with the new one.
    Overlap {
        /// The place of the new part.
        place: Place,
        /// The new part.
        part: Arc<PartMeta>,
        /// The existing part.
        other: Arc<PartMeta>,
    },
    /// The run exists with another order.
    OrderDiffers {
        /// The place of the new part.
        place: Place,
        /// The order of the run.
        found: u64,
    },
    /// The part points to a blob file that the version does not have.
    MissingBlobFile {
        /// The part.
        part: Arc<PartMeta>,
        /// The file.
        file: FileNumber,
    },
    /// Another run has that order.
    OrderTaken {
        /// The place of the new part.
        place: Place,
        /// The run that has the order.
        by: RunId,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementError::Overlap { place, part, other } => {
                let Place { level, run, .. } = place;
                write!(f, "{part} cannot join run {run} of {level}, which has {other}")
            }
            PlacementError::MissingBlobFile { part, file } => {
                write!(f, "{part} points to blob file {file}, which is not there")
            }
            PlacementError::OrderDiffers { place: Place { level, run, order }, found } => {
                write!(f, "run {run} of {level} has order {found}, not {order}")
            }
            PlacementError::OrderTaken { place: Place { level, run, order }, by } => {
                write!(f, "run {run} cannot be made in {level} with order {order}, which run {by} has")
            }
        }
    }
}
