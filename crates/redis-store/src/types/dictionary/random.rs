//! Uniform random picks. Of packed fields by position; of elements by rejection, without walking over them.
//!
//! The hashes of elements are uniform, so a range of hashes that expects [`EXPECTED`] elements has seldom
//! many more. A pick takes a random range and a random position below [`MOST`] in it, and tries again if the
//! range has fewer elements. Each element is thus picked with the same probability, as long as no range has
//! more than `MOST` elements; with random hashes one range in 10^10 has. Taking the element behind a random
//! hash instead would prefer those behind large gaps.

use super::{Body, Dictionary, elements};
use crate::layout::Space;
use crate::store::Store;
use crate::txn::Txn;
use crate::types::dictionary::items::{Items, Piece};
use crate::types::malformed;
use esker::Result;
use std::collections::BTreeSet;

/// Elements that a range of hashes should have: many, so that their number differs little and few tries are
/// needed, since to begin a range costs as much as to read a hundred elements.
const EXPECTED: u64 = 64;

/// Positions in a range: two tries a pick.
const MOST: u64 = 2 * EXPECTED;

/// Elements that could be read in the time of a pick, at least. Picks of more than one in so many cost more
/// than a walk.
const READS_OF_A_PICK: u64 = MOST;

/// Ranges that a pick tries before it gives up, which a dictionary with its count in order never reaches.
const TRIES: u32 = 100_000;

/// A field and its value.
pub type Item<'t> = (Piece<'t>, Piece<'t>);

impl Dictionary<'_> {
    /// One field at random; `None` if there are none.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn pick<'t>(&self, txn: &'t Txn<'_>) -> Result<Option<Item<'t>>>
    where
        Self: 't,
    {
        if self.is_empty() {
            return Ok(None);
        }
        match self.body {
            Body::Elements { object, count } => pick_element(txn, object, count).map(Some),
            _ => self.items(txn).nth(below(txn.store(), self.len()) as usize).transpose(),
        }
    }

    /// Calls `each` with `count` fields, each picked for itself, so that some come several times, until it
    /// returns `false`.
    ///
    /// # Errors
    /// As [`Dictionary::pick`].
    pub fn pick_each(
        &self,
        txn: &Txn<'_>,
        count: u64,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if let Body::Elements { count: len, .. } = self.body
            && count.saturating_mul(READS_OF_A_PICK) < len
        {
            for _ in 0..count {
                let Some((field, value)) = self.pick(txn)? else { break };
                if !each(&field, &value) {
                    break;
                }
            }
            return Ok(());
        }
        if self.is_empty() {
            return Ok(());
        }
        // One walk that meets the positions in their order, and the answer in the order of the picks.
        let mut positions: Vec<(u64, usize)> =
            (0..count as usize).map(|pick| (below(txn.store(), self.len()), pick)).collect();
        positions.sort_unstable();
        let mut picked: Vec<Option<Item<'_>>> = vec![None; positions.len()];
        let mut wanted = positions.iter().peekable();
        for (position, item) in (0..).zip(self.items(txn)) {
            let item = item?;
            while let Some((_, pick)) = wanted.next_if(|(wanted, _)| *wanted == position) {
                picked[*pick] = Some(item.clone());
            }
            if wanted.peek().is_none() {
                break;
            }
        }
        for (field, value) in picked.iter().flatten() {
            if !each(field, value) {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with `count` different fields, every choice of so many equally likely; with all if there
    /// are no more.
    ///
    /// # Errors
    /// As [`Dictionary::pick`].
    pub fn sample(&self, txn: &Txn<'_>, count: u64, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if let Body::Elements { count: len, .. } = self.body
            && count.saturating_mul(READS_OF_A_PICK) < len
        {
            let mut met = BTreeSet::new();
            while (met.len() as u64) < count {
                let Some((field, value)) = self.pick(txn)? else { break };
                if met.insert(field.to_vec()) {
                    each(&field, &value);
                }
            }
            return Ok(());
        }
        // Selection sampling (Knuth's algorithm S): each field by its chance to be among those still wanted.
        let (mut wanted, mut left) = (count.min(self.len()), self.len());
        for item in self.items(txn) {
            if wanted == 0 {
                break;
            }
            let (field, value) = item?;
            if below(txn.store(), left) < wanted {
                each(&field, &value);
                wanted -= 1;
            }
            left = left.saturating_sub(1);
        }
        Ok(())
    }
}

/// A random number below a bound that is not zero. It is uniform up to `bound / 2^64`.
fn below(store: &Store, bound: u64) -> u64 {
    ((u128::from(store.random()) * u128::from(bound)) >> 64) as u64
}

fn pick_element<'t>(txn: &'t Txn<'_>, object: u64, count: u64) -> Result<Item<'t>> {
    let store = txn.store();
    let ranges = (count / EXPECTED).max(1);
    // Where a range begins; behind the last one this is 2^64.
    let start = |range: u64| (u128::from(range) << 64) / u128::from(ranges);
    for _ in 0..TRIES {
        let range = below(store, ranges);
        let (first, last) = (start(range) as u64, (start(range + 1) - 1) as u64);
        let keys = elements::hash_range(object, first, last);
        // A single range has all elements.
        let position = below(store, if ranges == 1 { count } else { MOST });
        if let Some(item) = Items::elements(txn.range(Space::Elements, keys)).nth(position as usize) {
            return item;
        }
    }
    Err(malformed("count of a hash or set"))
}
