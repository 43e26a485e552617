//! Building the filter of a table while its keys stream by.

use crate::lines::LINE_BYTES;
use crate::plan::Plan;
use crate::policy::FilterPolicy;
use crate::stored::LINES_HEADER_BYTES;
use crate::{fuse, ribbon};
use esker_env::{LongSlice, NumberList};

/// Collects the hashes of a table's keys and makes a filter of them.
///
/// The number of keys decides the size of the filter and is known only at the end, so all hashes are kept
/// until then: 8 bytes a key, outside of the heap ([`NumberList`]), which are given back when the filter is
/// made. [`FilterBuilder::memory_bytes`] tells how much it is, and [`FilterBuilder::finish_bytes`] how much
/// the end takes.
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
    hashes: NumberList,
}

impl FilterBuilder {
    /// A builder for tables of one policy.
    pub fn new(policy: FilterPolicy) -> FilterBuilder {
        FilterBuilder { policy, hashes: NumberList::default() }
    }

    /// Adds the hash of a key that is not the one added last.
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

    /// Adds the hash of a key. The versions of one key come one after the other; only the first one counts.
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

    /// The stored filter of the keys added, or `None` under [`FilterPolicy::None`], and makes ready for the
    /// next table.
    ///
    /// Without any key the filter refuses everything. Takes 6 to 10 ns a key for the default kind, by size,
    /// 45 ns for binary fuse and some hundred for Ribbon filters. Where one of these cannot be made, which
    /// hashes of keys do not bring about, the filter is a blocked Bloom filter of as many bits.
    pub fn finish(&mut self) -> Option<LongSlice<u8>> {
        self.finish_as_built().0
    }

    /// As [`FilterBuilder::finish`], and the policy of what was built: that of the builder, or of what took
    /// its place. By this one [`FilterPolicy::false_positive_rate`] says what is to be expected.
    pub fn finish_as_built(&mut self) -> (Option<LongSlice<u8>>, FilterPolicy) {
        self.finish_unless(&|| false)
    }

    /// As [`FilterBuilder::finish_as_built`], unless it is called off, which is asked about after some
    /// milliseconds of work each: what it answers then is no filter of the keys.
    pub fn finish_unless(
        &mut self,
        is_called_off: &dyn Fn() -> bool,
    ) -> (Option<LongSlice<u8>>, FilterPolicy) {
        // What is solved is put into another order first, and so has to be in one piece.
        let mut in_order: Vec<u64> = if self.policy.is_solved() { self.hashes.take() } else { Vec::new() };
        let solved = match self.policy {
            FilterPolicy::Ribbon { bits_per_key } => {
                ribbon::build(&mut in_order, bits_per_key, ribbon::ATTEMPTS, is_called_off)
            }
            FilterPolicy::BinaryFuse { fingerprint_bits } => {
                fuse::build(&mut in_order, fingerprint_bits, fuse::ATTEMPTS, is_called_off)
            }
            _ => None,
        };
        let built = if solved.is_some() { self.policy } else { self.policy.without_solving() };
        let by_lines = || {
            let plan = Plan::new(built, self.hashes.len() + in_order.len())?;
            let pieces = self.hashes.pieces().chain(std::iter::once(&in_order[..]));
            Some(plan.build(pieces, is_called_off))
        };
        let bytes = solved.map(|solved| solved.into_boxed_slice().into()).or_else(by_lines);
        self.hashes.clear();
        (bytes, built)
    }

    /// Most bytes that [`FilterBuilder::finish`] would take now besides [`FilterBuilder::memory_bytes`], the
    /// filter that it answers included: twice the filter, and for kinds that solve equations the hashes once
    /// more and what one shard of equations takes, which is 1 MiB for Ribbon filters and 17 MiB for binary
    /// fuse filters.
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

    /// Bytes this builder holds.
    pub fn memory_bytes(&self) -> usize {
        self.hashes.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Counted in questions, not in time: of a filter of many shards one is solved at most, and of lines one
    /// group is filled.
    #[test]
    fn whoever_is_called_off_does_no_further_shard() {
        for policy in ["ribbon:10", "binary-fuse:8", "blocked-bloom:10", "bloom:10"] {
            let policy: FilterPolicy = policy.parse().expect("a policy");
            let asked_until = |called_off_at: usize| {
                let mut builder = FilterBuilder::new(policy);
                (0..1_500_000u64).for_each(|n| builder.add(esker_base::checksum::key_hash(&n.to_le_bytes())));
                let asked = Cell::new(0usize);
                builder.finish_unless(&|| {
                    asked.set(asked.get() + 1);
                    asked.get() >= called_off_at
                });
                asked.get()
            };
            assert!(asked_until(usize::MAX) > 1, "{policy}");
            // Once by what solves, once by what would take its place.
            assert!(asked_until(1) <= 2, "{policy}");
        }
    }
}
