//! Intersection, union and difference of sets.
//!
//! | operation | reads | memory |
//! |---|---|---|
//! | intersection | the smallest set, each member looked up in the others | a chunk of members |
//! | difference | the first set, each member looked up in the others | a chunk of members |
//! | union | all sets, once | the members of a range of hashes |
//!
//! The union takes one range of hashes after the other, and within it removes what comes twice: all sets
//! are ordered by the same hash. Each operation calls `each` with every member once.

use super::Dictionary;
use crate::txn::Txn;
use esker::Result;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Members that are looked up in other sets together.
const CHUNK: usize = 256;

/// Members of a range of hashes of a union, expected over all sets, and for each set. The first bounds the
/// memory, the second the seeks.
const MEMBERS_OF_A_RANGE: u64 = 4096;
const MEMBERS_OF_A_SET_IN_A_RANGE: u64 = 64;

/// Members that are in all of one or more sets, until `each` breaks.
///
/// # Errors
/// Those of the engine.
pub fn intersect(
    txn: &Txn<'_>,
    sets: &[Dictionary<'_>],
    each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let mut by_size: Vec<Dictionary<'_>> = sets.to_vec();
    by_size.sort_by_key(Dictionary::len);
    match by_size.split_first() {
        Some((smallest, others)) => filter(txn, smallest, others, true, each),
        None => Ok(()),
    }
}

/// Members of the first set that are in none of the others.
///
/// # Errors
/// Those of the engine.
pub fn subtract(txn: &Txn<'_>, sets: &[Dictionary<'_>], mut each: impl FnMut(&[u8])) -> Result<()> {
    let Some((first, others)) = sets.split_first() else { return Ok(()) };
    filter(txn, first, others, false, |member| {
        each(member);
        ControlFlow::Continue(())
    })
}

/// Members that are in any of the sets.
///
/// # Errors
/// Those of the engine.
pub fn unite(txn: &Txn<'_>, sets: &[Dictionary<'_>], mut each: impl FnMut(&[u8])) -> Result<()> {
    let total = sets.iter().map(Dictionary::len).fold(0, u64::saturating_add);
    let of_a_range = (sets.len() as u64 * MEMBERS_OF_A_SET_IN_A_RANGE).max(MEMBERS_OF_A_RANGE);
    let ranges = total.div_ceil(of_a_range).max(1);
    let start = |range: u64| (u128::from(range) << 64) / u128::from(ranges);
    for range in 0..ranges {
        let mut met = BTreeSet::new();
        for set in sets {
            let fields = set.fields_by_hash(txn, start(range) as u64, (start(range + 1) - 1) as u64)?;
            met.extend(fields);
        }
        met.iter().for_each(|member| each(member));
    }
    Ok(())
}

/// Members of a set that are in all others, or in none of them.
fn filter(
    txn: &Txn<'_>,
    set: &Dictionary<'_>,
    others: &[Dictionary<'_>],
    are_in_others: bool,
    mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let mut items = set.items(txn);
    loop {
        let mut members = Vec::with_capacity(CHUNK);
        for item in items.by_ref().take(CHUNK) {
            members.push(item?.0);
        }
        if members.is_empty() {
            return Ok(());
        }
        for other in others {
            let mut is_in = Vec::with_capacity(members.len());
            let fields: Vec<&[u8]> = members.iter().map(|member| &**member).collect();
            other.get_each(txn, &fields, |value| is_in.push(value.is_some()))?;
            let mut is_in = is_in.into_iter();
            members.retain(|_| is_in.next() == Some(are_in_others));
            if members.is_empty() {
                break;
            }
        }
        if members.iter().any(|member| each(member).is_break()) {
            return Ok(());
        }
    }
}
