//! Random members and scans, by the hashes of the members' names.

use super::split::{Split, stored_score};
use super::{Form, SortedSet};
use crate::layout::{Space, object_key, object_range};
use crate::random_seed::random_seed;
use crate::txn::Txn;
use crate::types::malformed;
use esker::{BatchRange, Result, Value};

/// Members up to which a random one is found by a walk.
const FEW_MEMBERS: u64 = 64;

/// Members that a bucket of hashes has on average, and the most that one is expected to have: with more, one
/// in 10^18, the bucket is not accepted more often than one with this number.
const BUCKET_MEMBERS: u64 = 16;
const BUCKET_MOST: u64 = 64;

/// Random numbers for one command.
#[derive(Debug)]
pub struct Chance(u64);

impl Default for Chance {
    fn default() -> Self {
        Self(random_seed())
    }
}

impl Chance {
    /// A number of 64 random bits, by SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

impl SortedSet {
    /// Shows a random member, all with the same probability. The set has members.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn random(&self, txn: &Txn<'_>, chance: &mut Chance, visit: impl FnOnce(&[u8], f64)) -> Result<()> {
        match &self.form {
            Form::Packed(packed) => {
                if let Some(member) = packed.iter().nth(chance.below(packed.len() as u64) as usize) {
                    visit(member.member, member.score);
                }
                Ok(())
            }
            Form::Split(split) => {
                let (key, value) = split.random(txn, chance)?;
                visit(&key[16..], stored_score(&value)?);
                Ok(())
            }
        }
    }

    /// Shows `count` different random members, or all if there are no more, each choice with the same
    /// probability.
    ///
    /// One walk for all: each member is shown with the probability that is left for it.
    ///
    /// # Errors
    /// As [`SortedSet::random`].
    pub fn random_choice(
        &self,
        txn: &Txn<'_>,
        chance: &mut Chance,
        count: u64,
        mut visit: impl FnMut(&[u8], f64),
    ) -> Result<()> {
        let (mut left, mut wanted) = (self.len(), count.min(self.len()));
        self.walk(txn, &super::Span::all(), false, |member, score| {
            if chance.below(left.max(1)) < wanted {
                visit(member, score);
                wanted -= 1;
            }
            left = left.saturating_sub(1);
            wanted > 0
        })
    }

    /// Shows at least `count` members from a cursor on, if so many follow. Returns the cursor behind them, 0
    /// at the end. A member that is there from the first to the last call of a scan is shown, whatever
    /// else is changed.
    ///
    /// # Errors
    /// As [`SortedSet::random`].
    pub fn scan(
        &self,
        txn: &Txn<'_>,
        cursor: u64,
        count: u64,
        mut visit: impl FnMut(&[u8], f64),
    ) -> Result<u64> {
        let split = match &self.form {
            // As Redis does with a listpack: all at once, in order.
            Form::Split(split) if self.is_skiplist => split,
            _ => {
                self.walk(txn, &super::Span::all(), false, |member, score| {
                    visit(member, score);
                    true
                })?;
                return Ok(0);
            }
        };
        let mut last = None;
        for (shown, entry) in (0..).zip(split.elements_from(txn, cursor)) {
            let (key, value) = entry?;
            let hash = hash_of(&key)?;
            // Members of one hash are shown together, so that a hash is a cursor.
            if shown >= count.max(1) && last != Some(hash) {
                return Ok(hash);
            }
            last = Some(hash);
            visit(&key[16..], stored_score(&value)?);
        }
        Ok(0)
    }
}

impl Split {
    fn elements_from<'t>(&self, txn: &'t Txn<'_>, hash: u64) -> BatchRange<'t> {
        let end = object_range(self.object).1;
        txn.range(Space::Elements, object_key(self.object, &hash.to_be_bytes())..end)
    }

    /// A random element: a random bucket of hashes, accepted by how many elements it has, and one of them.
    fn random(&self, txn: &Txn<'_>, chance: &mut Chance) -> Result<(Value, Value)> {
        if self.len <= FEW_MEMBERS {
            let at = chance.below(self.len) as usize;
            return self.elements_from(txn, 0).nth(at).ok_or_else(|| malformed("number of members"))?;
        }
        let buckets = self.len.div_ceil(BUCKET_MEMBERS);
        let width = u64::MAX / buckets + 1;
        loop {
            let start = chance.below(buckets) * width;
            let end = start.saturating_add(width);
            let mut bucket = Vec::new();
            for entry in self.elements_from(txn, start) {
                let (key, value) = entry?;
                let hash = hash_of(&key)?;
                if hash >= end && end != u64::MAX {
                    break;
                }
                bucket.push((key, value));
            }
            let accepted = chance.below(BUCKET_MOST.max(bucket.len() as u64));
            if accepted < bucket.len() as u64 {
                return Ok(bucket.swap_remove(accepted as usize));
            }
        }
    }
}

fn hash_of(key: &[u8]) -> Result<u64> {
    let hash = key.get(8..).and_then(|rest| rest.first_chunk::<8>());
    Ok(u64::from_be_bytes(*hash.ok_or_else(|| malformed("element of a sorted set"))?))
}
