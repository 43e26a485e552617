//! Filter builder: collects the hashes of a table's keys, then builds the filter.

use crate::lines::LINE_BYTES;
use crate::plan::Plan;
use crate::policy::FilterPolicy;
use crate::stored::LINES_HEADER_BYTES;
use crate::{fuse, ribbon};
use esker_env::{OffHeapList, OffHeapSlice};

/// Collects the hashes of a table's keys and builds a filter of them.
///
/// The size of the filter depends on the number of keys, which is known only at the end, so all hashes are
/// kept until then: 8 bytes a key, outside of the heap ([`OffHeapList`]), released when the filter is built.
/// [`FilterBuilder::memory_bytes`] is their memory, and [`FilterBuilder::finish_bytes`] that of the build.
///
/// ```
/// use esker_filter::{Filter, FilterBuilder, FilterPolicy};
///
/// let mut builder = FilterBuilder::new(FilterPolicy::DEFAULT);
/// let hash = |number: u64| esker_base::checksum::key_hash(&number.to_le_bytes());
/// (0..1000).for_each(|number| builder.add(hash(number)));
/// let filter = Filter::decode(&builder.finish().expect("the policy has a filter"))?;
/// assert!((0..1000).all(|number| filter.may_contain(hash(number))));
/// let wrong = (1000..2000).filter(|&number| filter.may_contain(hash(number))).count();
/// assert!(wrong < 30, "about 1 % of the keys that are not there, {wrong} of 1000");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct FilterBuilder {
    policy: FilterPolicy,
    hashes: OffHeapList,
}

impl FilterBuilder {
    /// A builder for tables of one policy.
    pub fn new(policy: FilterPolicy) -> FilterBuilder {
        FilterBuilder { policy, hashes: OffHeapList::default() }
    }

    /// Adds the hash of a key that differs from the one added last.
    #[inline]
    pub fn add_new(&mut self, hash: u64) {
        if self.policy != FilterPolicy::None {
            self.hashes.push(hash);
        }
    }

    /// The policy of the next [`FilterBuilder::finish`]; levels may differ in theirs.
    pub fn set_policy(&mut self, policy: FilterPolicy) {
        if policy == FilterPolicy::None {
            self.hashes.clear();
        }
        self.policy = policy;
    }

    /// Adds the hash of a key. The versions of one key are added in sequence; only the first one counts.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.policy != FilterPolicy::None && self.hashes.last() != Some(hash) {
            self.hashes.push(hash);
        }
    }

    /// Keys added since the start or the last [`FilterBuilder::finish`]; 0 under [`FilterPolicy::None`].
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether no key was added.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Builds the filter of the keys added, or `None` under [`FilterPolicy::None`], and resets the builder
    /// for the next table.
    ///
    /// A filter without keys rejects everything. Takes 6 to 10 ns a key for the default kind, by size, 45 ns
    /// for binary fuse and some hundred for Ribbon filters. If one of these cannot be built, which does not
    /// happen with hashes of keys, the filter is a blocked Bloom filter of as many bits.
    pub fn finish(&mut self) -> Option<OffHeapSlice<u8>> {
        self.finish_as_built().0
    }

    /// As [`FilterBuilder::finish`], with the policy of what was built: that of the builder, or of its
    /// substitute. Its [`FilterPolicy::false_positive_rate`] is the expected one.
    pub fn finish_as_built(&mut self) -> (Option<OffHeapSlice<u8>>, FilterPolicy) {
        self.finish_unless(&|| false)
    }

    /// As [`FilterBuilder::finish_as_built`], with a cancellation that is polled every few milliseconds.
    pub fn finish_unless(
        &mut self,
        is_cancelled: &dyn Fn() -> bool,
    ) -> (Option<OffHeapSlice<u8>>, FilterPolicy) {
        // Shards are solved in place after a partition, which needs one contiguous list.
        let mut in_order: Vec<u64> = if self.policy.is_solved() { self.hashes.take() } else { Vec::new() };
        let solved = match self.policy {
            FilterPolicy::Ribbon { bits_per_key } => {
                ribbon::build(&mut in_order, bits_per_key, ribbon::ATTEMPTS, is_cancelled)
            }
            FilterPolicy::BinaryFuse { fingerprint_bits } => {
                fuse::build(&mut in_order, fingerprint_bits, fuse::ATTEMPTS, is_cancelled)
            }
            _ => None,
        };
        let built = if solved.is_some() { self.policy } else { self.policy.without_solving() };
        let by_lines = || {
            let plan = Plan::new(built, self.hashes.len() + in_order.len())?;
            let pieces = self.hashes.pieces().chain(std::iter::once(&in_order[..]));
            Some(plan.build(pieces, is_cancelled))
        };
        let bytes = solved.map(|solved| solved.into_boxed_slice().into()).or_else(by_lines);
        self.hashes.clear();
        (bytes, built)
    }

    /// Most bytes that [`FilterBuilder::finish`] would take now besides [`FilterBuilder::memory_bytes`], the
    /// returned filter included: twice the filter, and for kinds that solve equations the hashes once more
    /// and the memory of one shard of equations: 1 MiB for Ribbon filters, 17 MiB for binary fuse filters.
    pub fn finish_bytes(&self) -> usize {
        let keys = self.hashes.len();
        let Some(plan) = Plan::new(self.policy, keys) else { return 0 };
        let of_lines = LINES_HEADER_BYTES + 2 * plan.count as usize * LINE_BYTES;
        let in_order = keys * size_of::<u64>();
        match self.policy {
            FilterPolicy::Ribbon { bits_per_key } => {
                in_order + ribbon::build_bytes(keys, bits_per_key).max(of_lines)
            }
            FilterPolicy::BinaryFuse { fingerprint_bits } => {
                in_order + fuse::build_bytes(keys, fingerprint_bits).max(of_lines)
            }
            _ => of_lines,
        }
    }

    /// Bytes that this builder holds.
    pub fn memory_bytes(&self) -> usize {
        self.hashes.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// In polls, not time: after a cancellation at most one shard is solved, or one group of lines filled.
    #[test]
    fn a_cancelled_build_solves_no_further_shard() {
        for policy in ["ribbon:10", "binary-fuse:8", "blocked-bloom:10", "bloom:10"] {
            let policy: FilterPolicy = policy.parse().expect("a policy");
            let polls_until = |cancelled_at: usize| {
                let mut builder = FilterBuilder::new(policy);
                (0..1_500_000u64).for_each(|n| builder.add(esker_base::checksum::key_hash(&n.to_le_bytes())));
                let polled = Cell::new(0usize);
                builder.finish_unless(&|| {
                    polled.set(polled.get() + 1);
                    polled.get() >= cancelled_at
                });
                polled.get()
            };
            assert!(polls_until(usize::MAX) > 1, "{policy}");
            // Once by the solver, once by its substitute.
            assert!(polls_until(1) <= 2, "{policy}");
        }
    }
}
