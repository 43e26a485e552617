//! Tombstone elision: whether data outside of a job may hold an older version of a key (4.4). If so, a
//! tombstone is still needed, and a sequence number may not become zero.
//!
//! A job that writes the last level checks every key, so a check must cost almost nothing. The candidate
//! parts are chosen once, when the job begins, and walked in parallel with the job's own keys, which ascend:
//! a check costs two integer comparisons for each run that keeps parts, and nothing where the job takes
//! everything.
//!
//! The version at the job's beginning suffices: tables made later hold a key with newer versions only, or
//! with versions that were counted here.

use esker_base::key::leading;
use esker_base::planted;
use esker_base::{PartId, SeqNo};
use esker_version::{KeyRange, PartMeta, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// The parts of a version outside of the job that overlap its keys.
#[derive(Debug)]
pub struct OlderVersions {
    runs: Vec<RunParts>,
}

/// Parts of one run in key order; those before `at` end before every key still to come.
///
/// OP1. `start` and `end` are the [leading bytes](leading) of the ends of the part at `at`, the greatest
/// number where it has no end; behind the last part they compare as above every key. Where the leading bytes
/// of a key are less or greater, so is the key; on equality whole keys are compared.
#[derive(Debug)]
struct RunParts {
    parts: Vec<Arc<PartMeta>>,
    at: usize,
    start: u128,
    end: u128,
}

impl OlderVersions {
    /// The parts of `version` that are not `inputs` of the job, within `hull` (everywhere without one).
    pub fn outside(version: &Version, inputs: &HashSet<PartId>, hull: Option<&KeyRange>) -> OlderVersions {
        let staying = version.runs().map(|(_, run)| {
            let parts = hull.map_or(run.parts(), |hull| run.overlapping(hull));
            parts.iter().filter(|part| !inputs.contains(&part.id)).cloned().collect()
        });
        let runs = staying.filter(|parts: &Vec<_>| !parts.is_empty());
        OlderVersions { runs: runs.map(RunParts::new).collect() }
    }

    /// The same for a job with memtables as inputs only.
    pub fn all_of(version: &Version, hull: &KeyRange) -> OlderVersions {
        OlderVersions::outside(version, &HashSet::new(), Some(hull))
    }

    /// Whether one of the parts may hold a version older than `seqno` of some key from `low` up to `high`.
    pub(crate) fn may_hold_any(&self, low: &[u8], high: Option<&[u8]>, seqno: SeqNo) -> bool {
        self.runs.iter().any(|run| {
            let from = run.parts.partition_point(|part| !part.range.end.covers(low));
            let inside = run.parts[from..].iter();
            let mut inside = inside.take_while(|part| high.is_none_or(|high| &*part.range.start < high));
            inside.any(|part| part.min_seqno < seqno)
        })
    }

    /// Whether one of the parts may hold a version of `key` older than `seqno`. Keys must be passed in
    /// ascending order.
    #[inline]
    pub fn may_hold(&mut self, key: &[u8], seqno: SeqNo) -> bool {
        !self.runs.is_empty() && self.any_may_hold(key, seqno)
    }

    /// Out of line, so that it does not burden the caller's loop where a job takes everything.
    #[inline(never)]
    fn any_may_hold(&mut self, key: &[u8], seqno: SeqNo) -> bool {
        if planted!(DropsTombstoneEarly) {
            return false;
        }
        let leading = leading(key);
        self.runs.iter_mut().any(|run| run.may_hold(key, leading, seqno))
    }
}

impl RunParts {
    fn new(parts: Vec<Arc<PartMeta>>) -> RunParts {
        let mut run = RunParts { parts, at: 0, start: 0, end: 0 };
        run.enter(0);
        run
    }

    /// Advances to the part at this index.
    fn enter(&mut self, at: usize) {
        self.at = at;
        let range = self.parts.get(at).map(|part| &part.range);
        self.start = range.map_or(u128::MAX, |range| leading(&range.start));
        self.end = range.map_or(0, |range| range.end.key().map_or(u128::MAX, |end| leading(end)));
    }

    #[inline]
    fn may_hold(&mut self, key: &[u8], leading: u128, seqno: SeqNo) -> bool {
        // Before the part, or behind all.
        if leading < self.start || (leading >= self.end && !self.find(key)) {
            return false;
        }
        let part = &self.parts[self.at];
        part.min_seqno < seqno && (leading > self.start || *part.range.start <= *key)
    }

    /// Advances to the first part that does not end before `key`; whether there is one.
    #[inline(never)]
    fn find(&mut self, key: &[u8]) -> bool {
        while let Some(part) = self.parts.get(self.at) {
            if part.range.end.covers(key) {
                return true;
            }
            self.enter(self.at + 1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{FileNumber, RunId, TableUid};
    use esker_version::{LevelIndex, Place};

    /// Run 1 holds `b-d` from 5 and `h-k` from 2, run 2 holds `a-z` from 9; parts 1, 2 and 3.
    fn version() -> Version {
        let part = |run, id, from: &str, to: &str, min_seqno| {
            let range = KeyRange::inclusive(from.as_bytes().to_vec(), to.as_bytes().to_vec());
            let mut part = PartMeta::new(PartId(id), FileNumber(id), 100, TableUid(id), range);
            part.min_seqno = SeqNo::new(min_seqno);
            (Place { level: LevelIndex::FLUSH, run: RunId(run), order: run }, Arc::new(part))
        };
        let parts = [part(1, 1, "b", "d", 5), part(1, 2, "h", "k", 2), part(2, 3, "a", "z", 9)];
        Version::from_parts(parts).unwrap()
    }

    /// The keys from a to z for which a version older than `seqno` may be outside.
    fn held(inputs: &[u64], hull: Option<(&str, &str)>, seqno: u64) -> String {
        let inputs = inputs.iter().copied().map(PartId).collect();
        let hull = hull.map(|(a, b)| KeyRange::inclusive(a.as_bytes().to_vec(), b.as_bytes().to_vec()));
        let mut older = OlderVersions::outside(&version(), &inputs, hull.as_ref());
        ('a'..='z').filter(|key| older.may_hold(key.to_string().as_bytes(), SeqNo::new(seqno))).collect()
    }

    #[test]
    fn only_parts_that_stay_and_are_older_count() {
        assert_eq!(held(&[], None, 2), "");
        assert_eq!(held(&[], None, 3), "hijk");
        assert_eq!(held(&[], None, 6), "bcdhijk");
        assert_eq!(held(&[3], None, 100), "bcdhijk");
        assert_eq!(held(&[3, 2], None, 100), "bcd");
        assert_eq!(held(&[1, 2, 3], None, 100), "");
        assert_eq!(held(&[1, 2], None, 10), "abcdefghijklmnopqrstuvwxyz");
    }

    /// OP1: keys that share the first sixteen bytes with ends of parts, shorter and longer ones, and the
    /// greatest.
    #[test]
    fn numbers_tell_what_whole_keys_tell() {
        let of = |tail: &[u8]| [&[0xff; 15][..], tail].concat();
        let keys: Vec<Vec<u8>> = (0..40u8)
            .flat_map(|at| [vec![at], vec![at, 0], of(&[at]), of(&[0xff, at]), of(&[0xff; 3])])
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        for (width, is_half_open) in (1..12).flat_map(|width| [(width, false), (width, true)]) {
            let range = |keys: &[Vec<u8>]| {
                let (low, high) = (keys[0].clone(), keys[keys.len() - 1].clone());
                let is_half_open = is_half_open && low < high;
                if is_half_open { KeyRange::half_open(low, high) } else { KeyRange::inclusive(low, high) }
            };
            let ranges: Vec<KeyRange> = keys.chunks(width).step_by(2).map(range).collect();
            let part = |range: &KeyRange| {
                Arc::new(PartMeta::new(PartId(1), FileNumber(1), 100, TableUid(1), range.clone()))
            };
            let mut run = RunParts::new(ranges.iter().map(part).collect());
            for key in &keys {
                let expected = ranges.iter().any(|range| range.contains(key));
                assert_eq!(run.may_hold(key, leading(key), SeqNo::MAX), expected, "{key:?} in {ranges:?}");
            }
        }
    }

    #[test]
    fn stretches_count_every_part_they_touch() {
        let older = OlderVersions::outside(&version(), &HashSet::new(), None);
        let holds = |low: &str, high: &str, seqno| {
            let high = Some(high.as_bytes()).filter(|high| !high.is_empty());
            older.may_hold_any(low.as_bytes(), high, SeqNo::new(seqno))
        };
        assert!(holds("a", "c", 6) && !holds("a", "b", 6) && !holds("e", "h", 6) && holds("e", "hh", 6));
        assert!(holds("d", "e", 6) && !holds("dd", "e", 6) && holds("dd", "", 3) && !holds("l", "", 9));
        assert!(holds("l", "", 10) && !holds("zz", "", 100));
    }

    #[test]
    fn the_hull_leaves_out_parts_and_no_keys_of_its_own() {
        assert_eq!(held(&[3], Some(("c", "g")), 100), "bcd");
        assert_eq!(held(&[3], Some(("e", "g")), 100), "");
    }
}
