//! Whether anything outside of a job may hold an older version of a key (4.4): then a tombstone is still needed, and a
//! sequence number may not become zero.
//!
//! A job that writes the last level asks about every key, so the answer must cost next to nothing. The parts to look at are
//! chosen once, when the job begins, and walked beside the job's own keys, which ascend: a question costs one
//! comparison for each run that keeps parts, and nothing where the job takes all there is.
//!
//! The version at the job's beginning suffices: tables made later hold a key with newer versions only, or with versions
//! that were counted here.

use esker_base::{PartId, SeqNo};
use esker_version::{KeyRange, PartMeta, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// The parts of a version that a job leaves where they are, as far as they overlap its keys.
#[derive(Debug)]
pub(crate) struct OlderParts {
    runs: Vec<RunParts>,
}

/// Parts of one run in key order; those before `at` end before every key still to come.
#[derive(Debug)]
struct RunParts {
    parts: Vec<Arc<PartMeta>>,
    at: usize,
}

impl OlderParts {
    /// What stays of `version` where a job takes `inputs`, which lie in `hull` (everywhere if there is none).
    pub(crate) fn outside(
        version: &Version,
        inputs: &HashSet<PartId>,
        hull: Option<&KeyRange>,
    ) -> OlderParts {
        let staying = version.runs().map(|(_, run)| {
            let parts = hull.map_or(run.parts(), |hull| run.overlapping(hull));
            parts.iter().filter(|part| !inputs.contains(&part.id)).cloned().collect()
        });
        let runs = staying.filter(|parts: &Vec<_>| !parts.is_empty());
        OlderParts { runs: runs.map(|parts| RunParts { parts, at: 0 }).collect() }
    }

    /// What stays where the job takes memtables only.
    pub(crate) fn all_of(version: &Version, hull: &KeyRange) -> OlderParts {
        OlderParts::outside(version, &HashSet::new(), Some(hull))
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

    /// Whether one of the parts may hold a version of `key` older than `seqno`. Keys must be asked in ascending order.
    #[inline]
    pub(crate) fn may_hold(&mut self, key: &[u8], seqno: SeqNo) -> bool {
        self.runs.iter_mut().any(|run| run.may_hold(key, seqno))
    }
}

impl RunParts {
    #[inline]
    fn may_hold(&mut self, key: &[u8], seqno: SeqNo) -> bool {
        while let Some(part) = self.parts.get(self.at) {
            if part.range.end.covers(key) {
                return part.min_seqno < seqno && &*part.range.start <= key;
            }
            self.at += 1;
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
        let mut older = OlderParts::outside(&version(), &inputs, hull.as_ref());
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

    #[test]
    fn stretches_count_every_part_they_touch() {
        let older = OlderParts::outside(&version(), &HashSet::new(), None);
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
