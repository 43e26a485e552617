//! What a Bloom filter of a policy and a number of keys looks like before it is filled.

use crate::bits::BitsPerKey;
use crate::lines::{self, Line};
use crate::policy::FilterPolicy;
use crate::{blocked, bloom, double, local, model, stored};
use esker_env::LongSlice;

/// Sets the bits of hashes in a part of the lines: the part, the number of its first line, the number of
/// lines of the whole filter, the number of probes, and the hashes, of which any may lie elsewhere.
pub(crate) type Fill = fn(&mut [Line], usize, u32, u8, &[u64]);

/// Keys between two questions whether the filter is still wanted: some milliseconds.
const KEYS_PER_QUESTION: usize = 1 << 18;

/// Everything about a filter of lines but its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Its number in the stored form.
    pub(crate) number: u8,
    pub(crate) count: u32,
    pub(crate) probes: u8,
    pub(crate) fill: Fill,
}

impl Plan {
    /// The plan of the kinds that consist of lines, and of what stands in for others; `None` for no filter.
    pub(crate) fn new(policy: FilterPolicy, keys: usize) -> Option<Plan> {
        let nearest = |bits_per_key| lines::lines_for(keys, bits_per_key);
        let plan = |number, count, probes, fill: Fill| Some(Plan { number, count, probes, fill });
        match policy {
            FilterPolicy::BlockedBloom { bits_per_key } => Some(Plan::blocked(bits_per_key, keys)),
            FilterPolicy::Bloom { bits_per_key } => {
                plan(stored::BLOOM, nearest(bits_per_key), model::standard_probes(bits_per_key), bloom::fill)
            }
            FilterPolicy::LocalBloom { bits_per_key } => {
                let count = local::lines_for(keys, bits_per_key);
                plan(stored::LOCAL_BLOOM, count, local::probes(bits_per_key), local::fill)
            }
            FilterPolicy::DoubleProbeBloom { bits_per_key } => {
                let probes = model::double_probes(bits_per_key);
                plan(stored::DOUBLE_PROBE_BLOOM, nearest(bits_per_key), probes, double::fill)
            }
            FilterPolicy::None => None,
            // What takes the place of a filter that could not be solved.
            FilterPolicy::Ribbon { .. } | FilterPolicy::BinaryFuse { .. } => {
                Plan::new(policy.without_solving(), keys)
            }
        }
    }

    /// The plan of the kind that has no limits and never fails.
    pub(crate) fn blocked(bits_per_key: BitsPerKey, keys: usize) -> Plan {
        Plan {
            number: stored::BLOCKED_BLOOM,
            count: lines::lines_for(keys, bits_per_key),
            probes: model::best_probes(bits_per_key),
            fill: blocked::fill,
        }
    }

    /// The filter of the hashes in some pieces, as it is stored. It is incomplete if it is called off.
    pub(crate) fn build<'h>(
        &self,
        pieces: impl Iterator<Item = &'h [u64]>,
        is_called_off: &dyn Fn() -> bool,
    ) -> LongSlice<u8> {
        let mut lines = LongSlice::filled(Line::default(), self.count as usize);
        for group in pieces.flat_map(|piece| piece.chunks(KEYS_PER_QUESTION)) {
            if is_called_off() {
                break;
            }
            (self.fill)(&mut lines, 0, self.count, self.probes, group);
        }
        stored::encode_lines(self, &lines)
    }
}
