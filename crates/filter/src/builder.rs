//! Building the filter of a table while its keys stream by.

use crate::blocked::{self, LINE_BYTES, Line};
use crate::policy::FilterPolicy;
use crate::reader::{KIND_BLOCKED_BLOOM, VERSION};

/// Bytes in front of the lines.
pub(crate) const HEADER_BYTES: usize = 8;

/// Collects the hashes of a table's keys and makes a filter of them.
///
/// The number of keys decides the size of the filter and is known only at the end, so all hashes are kept until then:
/// 8 bytes a key, and once more the size of the filter while it is made. The memory is kept for the next table;
/// [`FilterBuilder::memory_bytes`] tells how much it is.
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
    /// Without any key the filter refuses everything. Takes 6 to 10 ns a key, by size.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let FilterPolicy::BlockedBloom { bits_per_key } = self.policy else { return None };
        let count = blocked::lines_for(self.hashes.len(), bits_per_key);
        self.lines.clear();
        self.lines.resize(count as usize, Line::default());
        let probes = blocked::fill(&mut self.lines, &self.hashes, bits_per_key);
        self.hashes.clear();
        Some(encode(&self.lines, count, probes))
    }

    /// Bytes this builder holds.
    pub fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>() + self.lines.capacity() * LINE_BYTES
    }
}

fn encode(lines: &[Line], count: u32, probes: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + lines.len() * LINE_BYTES);
    bytes.extend_from_slice(&[KIND_BLOCKED_BLOOM, VERSION, probes, 0]);
    bytes.extend_from_slice(&count.to_le_bytes());
    for word in lines.iter().flat_map(|line| line.0) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}
