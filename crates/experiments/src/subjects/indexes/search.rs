//! Entries, probes, and the timed loops of the index experiment.

use crate::context::time_ns;
use crate::error::Result;
use crate::keys::push_decimal;
use esker::parts::base::key::{common_prefix_len, head};
use esker::parts::env::{Random, SeededRandom, SystemClock};
use esker::parts::sst::{FenceIndex, IndexKind};
use std::hint::black_box;

pub(super) const BASELINE: &str = "binary-search";
/// Keys that are searched for, again and again.
pub(super) const PROBES: usize = 1 << 17;
/// Least time of a measurement.
pub(super) const LEAST_MS: u64 = 20;
/// Ranges: name, number of probes, and entries between their ends.
pub(super) const RANGES: [(&str, usize, usize); 4] =
    [("small", 2_500, 10), ("medium", 1_000, 100), ("large", 500, 1_000), ("extreme", 100, 10_000)];

const KEY_BYTES: usize = 16;
type Key = [u8; KEY_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexKeyKind {
    /// Random bytes.
    Random,
    /// `user:` and a random number of ten digits; a zero byte makes them as long as the others.
    User,
}

impl IndexKeyKind {
    pub(super) const ALL: [IndexKeyKind; 2] = [IndexKeyKind::Random, IndexKeyKind::User];

    pub(super) const fn name(self) -> &'static str {
        match self {
            IndexKeyKind::Random => "random",
            IndexKeyKind::User => "user",
        }
    }

    fn key(self, random: &SeededRandom) -> Key {
        let mut key = [0; KEY_BYTES];
        match self {
            IndexKeyKind::Random => {
                key[..8].copy_from_slice(&random.next_u64().to_le_bytes());
                key[8..].copy_from_slice(&random.next_u64().to_le_bytes());
            }
            IndexKeyKind::User => {
                let mut text = b"user:".to_vec();
                push_decimal(random.below(10_000_000_000), 10, &mut text);
                key[..text.len()].copy_from_slice(&text);
            }
        }
        key
    }
}

#[derive(Debug)]
pub(super) struct Fences {
    keys: Vec<Key>,
}

impl Fences {
    pub(super) fn new(kind: IndexKeyKind, count: usize, random: &SeededRandom) -> Fences {
        let mut keys: Vec<Key> = (0..count).map(|_| kind.key(random)).collect();
        keys.sort_unstable();
        keys.dedup();
        Fences { keys }
    }

    /// The entries as tables store them, each cut to the shortest prefix that distinguishes it from the one
    /// before. The first stays whole, so that the common prefix of all can be found.
    fn stored(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.keys.first().map(|key| &key[..]);
        let others = self.keys.windows(2).map(|pair| &pair[1][..common_prefix_len(&pair[0], &pair[1]) + 1]);
        first.into_iter().chain(others)
    }
}

#[derive(Debug)]
pub(super) struct IndexProbes {
    points: Vec<Key>,
    /// For each of [`RANGES`], pairs of keys.
    ranges: Vec<Vec<(Key, Key)>>,
}

impl IndexProbes {
    pub(super) fn new(kind: IndexKeyKind, fences: &Fences, random: &SeededRandom) -> IndexProbes {
        let keys = &fences.keys;
        let range = |apart: usize| {
            // Where an index has fewer entries than a range spans, the range is as long as there are entries.
            let apart = apart.min(keys.len() - 1);
            let first = random.below((keys.len() - apart) as u64) as usize;
            (keys[first], keys[first + apart])
        };
        IndexProbes {
            points: (0..PROBES).map(|_| kind.key(random)).collect(),
            ranges: RANGES.map(|(_, count, apart)| (0..count).map(|_| range(apart)).collect()).to_vec(),
        }
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &[u8]> {
        self.points.iter().map(|key| &key[..])
    }
}

#[derive(Debug)]
pub(super) struct SearchedIndex {
    pub(super) name: &'static str,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Heads of the entries behind the bytes that all have in common.
    Heads {
        heads: Vec<u64>,
        prefix_len: usize,
    },
    Index(Box<FenceIndex>),
}

impl SearchedIndex {
    pub(super) fn baseline(fences: &Fences) -> SearchedIndex {
        let (first, last) = (fences.stored().next(), fences.keys.last());
        let prefix_len = first.zip(last).map_or(0, |(first, last)| common_prefix_len(first, last));
        let heads = fences.stored().map(|fence| head(fence, prefix_len)).collect();
        SearchedIndex { name: BASELINE, form: Form::Heads { heads, prefix_len } }
    }

    pub(super) fn index(kind: IndexKind, fences: &Fences) -> Result<SearchedIndex> {
        let index = FenceIndex::new(kind, fences.stored())?;
        Ok(SearchedIndex { name: kind.name(), form: Form::Index(Box::new(index)) })
    }

    pub(super) fn bytes_per_entry(&self, entries: usize) -> f64 {
        let bytes = match &self.form {
            Form::Heads { heads, .. } => size_of_val(&heads[..]),
            Form::Index(index) => index.memory_bytes(),
        };
        bytes as f64 / entries as f64
    }

    /// What an adaptive index chose; of others their name.
    pub(super) fn form(&self) -> &'static str {
        match &self.form {
            Form::Heads { .. } => BASELINE,
            Form::Index(index) => index.kind().name(),
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> usize {
        match &self.form {
            Form::Heads { heads, prefix_len } => find_head(heads, *prefix_len, key),
            Form::Index(index) => index.find(key),
        }
    }

    /// Nanoseconds of an independent point, a dependent one, and of each of [`RANGES`].
    pub(super) fn measure(&self, clock: &SystemClock, probes: &IndexProbes) -> Vec<f64> {
        // Each form has loops of its own, so that the timed code does not dispatch at each step.
        match &self.form {
            Form::Heads { heads, prefix_len } => {
                loops(clock, probes, |key| find_head(heads, *prefix_len, key))
            }
            Form::Index(index) => loops(clock, probes, |key| index.find(key)),
        }
    }
}

#[inline(never)]
fn find_head(heads: &[u64], prefix_len: usize, key: &[u8]) -> usize {
    let wanted = head(key, prefix_len);
    heads.partition_point(|&head| head <= wanted).saturating_sub(1)
}

fn loops(clock: &SystemClock, probes: &IndexProbes, find: impl Fn(&[u8]) -> usize) -> Vec<f64> {
    let points = &probes.points;
    let independent =
        each(clock, points.len(), || points.iter().map(|key| find(key)).fold(0, usize::wrapping_add));
    // The compiler cannot know that this is zero, so each search must wait for the result of the last one.
    // (Bits beyond any position would not do: the compiler knows the limit of a slice's length and drops
    // them.)
    let nothing = black_box(0usize);
    let dependent = each(clock, points.len(), || {
        (0..points.len()).fold(0, |last, at| find(&points[at ^ (last & nothing)]))
    });
    let ranges = probes.ranges.iter().map(|ranges| {
        each(clock, ranges.len(), || {
            ranges.iter().map(|(from, to)| find(to).wrapping_sub(find(from))).fold(0, usize::wrapping_add)
        })
    });
    [independent, dependent].into_iter().chain(ranges).collect()
}

/// Nanoseconds for each of `count` things that `pass` does, over as many passes as take long enough.
fn each(clock: &SystemClock, count: usize, pass: impl Fn() -> usize) -> f64 {
    black_box(pass());
    let (mut passes, mut taken_ns, mut batch) = (0, 0.0, 1);
    while taken_ns < (LEAST_MS * 1_000_000) as f64 {
        taken_ns += time_ns(clock, || (0..batch).for_each(|_| _ = black_box(pass()))).0;
        passes += batch;
        // Short passes are timed in growing groups, so that the clock's own cost vanishes.
        batch *= 2;
    }
    taken_ns / (passes * count) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_find_the_entry_at_or_before_a_key() {
        let random = SeededRandom::new(3);
        for kind in IndexKeyKind::ALL {
            let fences = Fences::new(kind, 700, &random);
            let subjects = IndexKind::ALL.map(|kind| SearchedIndex::index(kind, &fences).unwrap());
            for _ in 0..500 {
                let key = kind.key(&random);
                let expected = fences.keys.partition_point(|fence| fence <= &key).saturating_sub(1);
                for subject in &subjects {
                    let found = subject.find(&key);
                    // A shortened entry may be less than the key it stands for, never more than one key below
                    // it.
                    assert!(
                        found == expected || found == expected + 1,
                        "{}: {found}, {expected}",
                        subject.name
                    );
                    assert_eq!(found, subjects[0].find(&key));
                }
            }
        }
    }

    #[test]
    fn ranges_match_their_names() {
        let random = SeededRandom::new(4);
        let fences = Fences::new(IndexKeyKind::Random, 20_000, &random);
        let probes = IndexProbes::new(IndexKeyKind::Random, &fences, &random);
        let index = SearchedIndex::index(IndexKind::ALL[0], &fences).unwrap();
        for ((_, count, apart), ranges) in RANGES.into_iter().zip(&probes.ranges) {
            assert_eq!(ranges.len(), count);
            assert!(ranges.iter().all(|(from, to)| index.find(to) - index.find(from) == apart));
        }
    }
}
