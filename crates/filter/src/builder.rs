//! Building the filter of a table while its keys stream by.

use crate::lines::{LINE_BYTES, Line};
use crate::plan::Plan;
use crate::policy::FilterPolicy;

/// Collects the hashes of a table's keys and makes a filter of them.
///
/// The number of keys decides the size of the filter and is known only at the end, so all hashes are kept until then:
/// 8 bytes a key, and once more the size of the filter while it is made. The memory is kept for the next table;
/// [`FilterBuilder::memory_bytes`] tells how much it is.
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
    hashes: Vec<u64>,
    lines: Vec<Line>,
}

impl FilterBuilder {
    /// A builder for tables of one policy.
    pub fn new(policy: FilterPolicy) -> FilterBuilder {
        FilterBuilder { policy, hashes: Vec::new(), lines: Vec::new() }
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
        if self.policy != FilterPolicy::None && self.hashes.last() != Some(&hash) {
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

    /// The stored filter of the keys added, or `None` under [`FilterPolicy::None`], and makes ready for the next table.
    ///
    /// Without any key the filter refuses everything. Takes 6 to 10 ns a key for the default kind, by size.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let plan = Plan::new(self.policy, self.hashes.len())?;
        let bytes = plan.build(&mut self.lines, &self.hashes);
        self.hashes.clear();
        Some(bytes)
    }

    /// Bytes this builder holds.
    pub fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>() + self.lines.capacity() * LINE_BYTES
    }
}
