//! Partial leveling: a level is compacted one part at a time.
//!
//! Where leveling merges a whole level into the next, partial leveling takes one part, the neighbours that
//! add no overlap, and the overlapping parts of the next level. Jobs are small, and the choice of the part
//! determines write cost, read cost and how long data stays in a level; [`CompactionPriority`] names the
//! rules.
//!
//! # The cursor
//! Round robin continues where the last job ended, and that position is visible in the tree: a job's output
//! becomes new parts of the next level, and part ids grow, so the newest part there ends where the last job
//! ended. No state is stored, and a reopened database continues at the same position. A moved part keeps its
//! id and does not show; but it has left its level, so the first part after the cursor is the one behind it.

use crate::plan::{InputPart, PlanInput};
use crate::plan_builder::{Context, bytes_of, input_from};
use crate::score::Score;
use crate::tombstone_rules::garbage;
use esker_version::{LevelIndex, PartMeta, Run};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

/// Parts of a level that are compared to find the best; of more, those after the cursor. Each comparison
/// costs up to a microsecond, and a plan must take less than a millisecond.
const MAX_COMPARED: usize = 512;
/// How many windows are tried when running jobs conflict with the best.
const MAX_TRIES: usize = 8;

/// Compaction priority: which part of a level is compacted next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "compaction_pri")]
#[doc(alias = "CompactionPri")]
pub enum CompactionPriority {
    /// Each in turn, by key, as LevelDB does. Equal treatment of all keys.
    RoundRobin,
    /// The smallest overlap with the next level relative to the part's own bytes: fewest bytes written.
    #[default]
    LeastOverlap,
    /// The part with the oldest data: hot data stays above, and so does most of what it overwrites.
    Oldest,
    /// The greatest share of tombstones and expired entries: space is freed early.
    MostTombstones,
    /// The most reads per byte: reads of hot keys search fewer levels.
    Hottest,
}

impl CompactionPriority {
    /// All rules.
    pub const ALL: [CompactionPriority; 5] = [
        CompactionPriority::RoundRobin,
        CompactionPriority::LeastOverlap,
        CompactionPriority::Oldest,
        CompactionPriority::MostTombstones,
        CompactionPriority::Hottest,
    ];

    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            CompactionPriority::RoundRobin => "round-robin",
            CompactionPriority::LeastOverlap => "least-overlap",
            CompactionPriority::Oldest => "oldest",
            CompactionPriority::MostTombstones => "most-tombstones",
            CompactionPriority::Hottest => "hottest",
        }
    }
}

impl fmt::Display for CompactionPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CompactionPriority {
    type Err = String;

    fn from_str(text: &str) -> Result<CompactionPriority, String> {
        CompactionPriority::ALL.into_iter().find(|pick| pick.name() == text).ok_or_else(|| {
            let names = CompactionPriority::ALL.map(CompactionPriority::name).join(", ");
            format!("parts are picked by one of {names}, not by {text:?}")
        })
    }
}

/// The parts of a level's run, and the run that they are merged into.
#[derive(Debug)]
pub(crate) struct LevelParts<'a> {
    pub(crate) cx: Context<'a>,
    pub(crate) level: LevelIndex,
    pub(crate) run: &'a Arc<Run>,
    /// The run of the next level; `None` if that level is empty.
    pub(crate) below: Option<&'a Arc<Run>>,
    /// The bytes one job may rewrite, unless one part alone needs more.
    pub(crate) job_bytes: u64,
}

impl LevelParts<'_> {
    /// The inputs from this level for the best few jobs, best first.
    pub(crate) fn best(&self, pick: CompactionPriority) -> Vec<PlanInput> {
        let mut compared = self.compared(pick);
        compared.retain(|&at| !self.cx.busy.has(&self.run.parts()[at]));
        if pick != CompactionPriority::RoundRobin {
            let scores = compared.iter().map(|&at| self.score(pick, &self.run.parts()[at]));
            let mut scored: Vec<(Score, usize)> = scores.zip(compared.iter().copied()).collect();
            let by_score = |a: &(Score, usize), b: &(Score, usize)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
            if scored.len() > MAX_TRIES {
                scored.select_nth_unstable_by(MAX_TRIES, by_score);
                scored.truncate(MAX_TRIES);
            }
            scored.sort_unstable_by(by_score);
            compared = scored.into_iter().map(|(_, at)| at).collect();
        }
        compared.truncate(MAX_TRIES);
        compared.into_iter().map(|at| self.input(self.window(at))).collect()
    }

    /// Indexes of the candidate parts; for round robin in its order.
    fn compared(&self, pick: CompactionPriority) -> Vec<usize> {
        let count = self.run.parts().len();
        if pick != CompactionPriority::RoundRobin && count <= MAX_COMPARED {
            return (0..count).collect();
        }
        let first = self.first_behind_cursor();
        (first..count).chain(0..first).take(MAX_COMPARED).collect()
    }

    /// The first part that begins after the newest part below.
    fn first_behind_cursor(&self) -> usize {
        let newest = self.below.and_then(|below| below.parts().iter().max_by_key(|part| part.id));
        let Some(newest) = newest else { return 0 };
        let first = self.run.parts().partition_point(|part| newest.range.end.covers(part.smallest()));
        if first < self.run.parts().len() { first } else { 0 }
    }

    fn score(&self, pick: CompactionPriority, part: &PartMeta) -> Score {
        match pick {
            CompactionPriority::RoundRobin => Score::new(0, 1),
            CompactionPriority::LeastOverlap => Score::new(part.bytes, self.bytes_below(&self.overlap(part))),
            CompactionPriority::Oldest => Score::new(u64::MAX - part.min_seqno.get(), 1),
            CompactionPriority::MostTombstones => Score::new(garbage(&self.cx, part), part.entries.max(1)),
            CompactionPriority::Hottest => Score::new(self.cx.shape.heat_of(part), part.bytes.max(1)),
        }
    }

    /// Indexes of the parts below that a part overlaps.
    fn overlap(&self, part: &PartMeta) -> Range<usize> {
        self.below.map_or(0..0, |below| below.overlapping_indexes(&part.range))
    }

    fn bytes_below(&self, overlap: &Range<usize>) -> u64 {
        let parts = self.below.and_then(|below| below.parts().get(overlap.clone())).unwrap_or_default();
        parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// A part with the neighbours that add no overlap and still fit the job: they cost their own bytes only.
    fn window(&self, seed: usize) -> Range<usize> {
        let parts = self.run.parts();
        let overlap = self.overlap(&parts[seed]);
        let mut bytes = parts[seed].bytes.saturating_add(self.bytes_below(&overlap));
        let mut joins = |at: usize| {
            let theirs = self.overlap(&parts[at]);
            let nothing_further =
                theirs.is_empty() || (overlap.start <= theirs.start && theirs.end <= overlap.end);
            let with_it = bytes.saturating_add(parts[at].bytes);
            let fits = nothing_further && with_it <= self.job_bytes && !self.cx.busy.has(&parts[at]);
            bytes = if fits { with_it } else { bytes };
            fits
        };
        let mut window = seed..seed + 1;
        while window.end < parts.len() && joins(window.end) {
            window.end += 1;
        }
        while window.start > 0 && joins(window.start - 1) {
            window.start -= 1;
        }
        window
    }

    fn input(&self, window: Range<usize>) -> PlanInput {
        let parts = self.run.parts()[window].iter().cloned().map(InputPart::whole).collect();
        PlanInput { level: self.level, run: self.run.id, order: self.run.order, parts }
    }

    /// Bytes of the level that count and that no job is removing.
    pub(crate) fn free_bytes(&self) -> u64 {
        if self.cx.busy.takes_nothing() {
            return self.cx.counted_bytes(self.run);
        }
        let free = self.run.parts().iter().filter(|part| !self.cx.busy.has(part) && self.cx.counts(part));
        free.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// The estimated bytes rewritten when the whole level is compacted.
    pub(crate) fn bytes_with_below(&self) -> u64 {
        let range = self.run.hull();
        let below = self.below.and_then(|below| input_from(self.level, below, range.as_ref()));
        self.run.bytes().saturating_add(below.map_or(0, |input| bytes_of(&[input])))
    }
}
