//! RANDOMKEY: a random key of a database, without a list of all.
//!
//! Small databases are walked, and each key is equally likely. In a larger one a key is found by a random
//! descent of the tree that the keys' bytes form: at each byte where keys differ, one of the bytes between
//! the least and the greatest is drawn. A random number of steps to the right evens out that short keys end
//! the descent early. Every key can come; how likely each is depends on the shape of the names.

use crate::layout::{PhysicalDb, record_key, user_key};
use crate::record::Record;
use crate::txn::Txn;
use crate::{Space, random_seed};
use esker::Result;
use std::ops::Bound;

/// Keys up to which all are walked.
const FEW_KEYS: i64 = 128;
/// Bytes at which a descent chooses, at most.
const LEVELS: usize = 64;
/// Steps to the right behind a descent, at most.
const STEPS: u64 = 64;
/// Descents that may end at expired keys before all keys are walked.
const ATTEMPTS: usize = 16;

impl Txn<'_> {
    /// A random key of a logical database that has not expired; `None` if there is none.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn random_key(&self, db: u16) -> Result<Option<Vec<u8>>> {
        let physical = self.physical(db);
        let mut random = SplitMix(random_seed());
        if self.keys(db) > FEW_KEYS {
            for _ in 0..ATTEMPTS {
                if let Some(key) = self.descend(physical, &mut random)? {
                    return Ok(Some(key));
                }
            }
        }
        self.walk(physical, &mut random)
    }

    /// One of all keys: the n-th replaces the choice before with a probability of one in n.
    fn walk(&self, physical: PhysicalDb, random: &mut SplitMix) -> Result<Option<Vec<u8>>> {
        let (mut chosen, mut seen) = (None, 0);
        for entry in self.range(Space::Keys, all(physical)) {
            let (key, value) = entry?;
            if Record::decode(value)?.is_alive(self.now_ms()) {
                seen += 1;
                if random.below(seen) == 0 {
                    chosen = Some(user_key(&key).to_vec());
                }
            }
        }
        Ok(chosen)
    }

    /// A key by a random descent; `None` if only expired ones lie there.
    fn descend(&self, physical: PhysicalDb, random: &mut SplitMix) -> Result<Option<Vec<u8>>> {
        let mut ends = self.range(Space::Keys, all(physical));
        let Some(first) = ends.next().transpose()? else { return Ok(None) };
        let mut last = ends.next_back().transpose()?.map_or_else(|| first.0.to_vec(), |last| last.0.to_vec());
        let mut first = first.0.to_vec();
        for _ in 0..LEVELS {
            if first == last {
                break;
            }
            let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
            // A key that ends here is one choice more, beside the bytes of the others.
            let ends_here = first.len() == common;
            if ends_here {
                let behind = (Bound::Excluded(first.clone()), Bound::Included(last.clone()));
                let Some(second) = self.range(Space::Keys, behind).next().transpose()? else { break };
                first = second.0.to_vec();
            }
            let (Some(least), Some(greatest)) = (first.get(common), last.get(common)) else { break };
            let choices = u64::from(greatest.saturating_sub(*least)) + 1;
            let drawn = random.below(choices + u64::from(ends_here));
            if drawn == choices {
                first.truncate(common);
                break;
            }
            let byte = least.saturating_add(drawn as u8);
            let mut below = [&first[..common], &[byte]].concat();
            let mut above = self.range(Space::Keys, below.clone()..=last.clone());
            let Some(least) = above.next().transpose()? else { break };
            first = least.0.to_vec();
            below.clone_from(&first);
            below.truncate(common + 1);
            let end = prefix_end(&below).filter(|end| *end < last);
            if let Some(end) = end {
                let mut within = self.range(Space::Keys, first.clone()..end);
                last = within.next_back().transpose()?.map_or_else(|| first.clone(), |last| last.0.to_vec());
            }
        }
        let steps = random.below(STEPS);
        let mut chosen = None;
        for (step, entry) in self.range(Space::Keys, first..all(physical).end).enumerate() {
            let (key, value) = entry?;
            if Record::decode(value)?.is_alive(self.now_ms()) {
                chosen = Some(user_key(&key).to_vec());
            }
            if step as u64 >= steps && (chosen.is_some() || step as u64 >= STEPS) {
                break;
            }
        }
        Ok(chosen)
    }
}

/// The range of all records of a database.
fn all(physical: PhysicalDb) -> std::ops::Range<Vec<u8>> {
    record_key(physical, &[])..record_key(PhysicalDb(physical.0.saturating_add(1)), &[])
}

/// The least key behind all that begin with `prefix`; `None` if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

/// A generator (SplitMix64): a client gains nothing by foreseeing which key comes.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}
