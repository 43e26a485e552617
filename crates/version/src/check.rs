//! Structural checks of a version, for tests and for `verify`.
//!
//! Metadata cannot show whether versions of one key get older in reading order (I1, IN6). Not even
//! "overlapping parts have ordered sequence numbers" holds: two flushes may be placed on both sides of a
//! newer run's key, and a later merge may join them to one part that spans that key with newer numbers. Only
//! a scan of the entries can tell; this module checks everything that needs no scan.

use crate::part::PartMeta;
use crate::version::Version;
use esker_base::SeqNo;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Version {
    /// Contradictions in the structure, as sentences; empty if there are none. Checks runs (disjoint,
    /// ascending, not empty), orders, part ids, and slices of one file. O(parts log parts).
    pub fn problems(&self) -> Vec<String> {
        problems_of(self)
    }
}

fn problems_of(version: &Version) -> Vec<String> {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    let mut run_ids = BTreeSet::new();
    for level in version.levels() {
        if level.runs().is_empty() {
            problems.push(format!("{} is listed but holds no run", level.index));
        }
        for pair in level.runs().windows(2) {
            if pair[0].order <= pair[1].order {
                problems.push(format!(
                    "runs {} and {} of {} have orders {} and {}, which must decrease",
                    pair[0].id, pair[1].id, level.index, pair[0].order, pair[1].order
                ));
            }
        }
        for run in level.runs() {
            if !run_ids.insert(run.id) {
                problems.push(format!("run {} is listed twice", run.id));
            }
            if run.parts().is_empty() {
                problems.push(format!("run {} of {} holds no part", run.id, level.index));
            }
            for pair in run.parts().windows(2) {
                if !pair[0].range.is_before(&pair[1].range) {
                    problems.push(format!("run {} holds {} before {}", run.id, pair[0], pair[1]));
                }
            }
            for part in run.parts() {
                if !ids.insert(part.id) {
                    problems.push(format!("part {} is listed twice", part.id));
                }
                problems.extend(part_problem(part));
            }
        }
    }
    problems.extend(file_problems(version));
    problems
}

pub(crate) fn part_problem(part: &PartMeta) -> Option<String> {
    // Keys have an end; only a range tombstone can be unbounded.
    let is_endless = part.range.end.key().is_none() && part.range_tombstones == 0;
    if part.range.is_empty() || is_endless {
        return Some(format!("part {} has the impossible range {}", part.id, part.range));
    }
    if part.min_seqno > part.max_seqno {
        return Some(format!("{part} has a least sequence number above its greatest"));
    }
    if part.global_seqno.is_some_and(|global| (part.min_seqno, part.max_seqno) != (global, global)) {
        return Some(format!("{part} was ingested but has sequence numbers of its own"));
    }
    if part.global_seqno == Some(SeqNo::ZERO) {
        return Some(format!("{part} was ingested before the first write"));
    }
    if part.bytes > part.file_bytes {
        return Some(format!("{part} is larger than its file of {} bytes", part.file_bytes));
    }
    None
}

/// Parts of one file must be slices that share no key and agree about the file.
fn file_problems(version: &Version) -> Vec<String> {
    let mut problems = Vec::new();
    let mut files: BTreeMap<_, Vec<&Arc<PartMeta>>> = BTreeMap::new();
    for (_, _, part) in version.parts() {
        files.entry(part.file).or_default().push(part);
    }
    for (file, mut parts) in files {
        parts.sort_by(|a, b| a.range.start.cmp(&b.range.start));
        for pair in parts.windows(2) {
            if !pair[0].sliced || !pair[1].sliced {
                problems.push(format!("file {file} has several parts and one of them is whole"));
            }
            if !pair[0].range.is_before(&pair[1].range) {
                problems.push(format!("slices of file {file} share keys: {} and {}", pair[0], pair[1]));
            }
            if pair[0].table_uid != pair[1].table_uid
                || pair[0].file_bytes != pair[1].file_bytes
                || pair[0].global_seqno != pair[1].global_seqno
            {
                problems.push(format!("parts {} and {} disagree about file {file}", pair[0].id, pair[1].id));
            }
        }
    }
    problems
}
