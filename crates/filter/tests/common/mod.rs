//! Helpers shared by the tests of all kinds.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use esker_base::checksum::key_hash;
use esker_filter::{FilterBuilder, FilterKind, FilterPolicy};

/// The hash of the key of this number.
pub(crate) fn key(number: u64) -> u64 {
    key_hash(format!("user:{number:010}").as_bytes())
}

/// The stored filter of these hashes.
pub(crate) fn build(policy: FilterPolicy, hashes: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut builder = FilterBuilder::new(policy);
    hashes.into_iter().for_each(|hash| builder.add(hash));
    builder.finish().expect("the policy has a filter").to_vec()
}

/// All kinds that have a filter.
pub(crate) fn kinds() -> impl Iterator<Item = FilterKind> {
    FilterKind::ALL.iter().copied().filter(|&kind| kind != FilterKind::None)
}

/// Weak, common and strong filters of each kind.
pub(crate) fn policies() -> impl Iterator<Item = FilterPolicy> {
    kinds().flat_map(|kind| {
        let mut policies: Vec<FilterPolicy> =
            [2.0, 3.7, 7.0, 10.0, 14.3, 1e9].map(|bits| kind.policy(bits)).into();
        policies.retain(|&policy| policy != FilterPolicy::None);
        policies.dedup();
        policies
    })
}
