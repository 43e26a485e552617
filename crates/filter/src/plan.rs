//! Plan of a Bloom filter: kind, number of lines and of probes, by policy and number of keys.

use crate::bits::BitsPerKey;
use crate::lines::{self, Line};
use crate::policy::FilterPolicy;
use crate::reference::{double, local};
use crate::{blocked, bloom, model, stored};
use esker_env::OffHeapSlice;

/// Sets hash bits in a part of the lines: part, first line, lines in all, probes, hashes.
pub(crate) type Fill = fn(&mut [Line], usize, u32, u8, &[u64]);

/// Keys between two polls of the cancellation: some milliseconds.
const KEYS_PER_QUESTION: usize = 1 << 18;

/// Everything about a filter of lines but its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The kind's number in the stored form.
    pub(crate) number: u8,
    pub(crate) count: u32,
    pub(crate) probes: u8,
    pub(crate) fill: Fill,
}

impl Plan {
    /// The plan of the kinds that consist of lines, and of substitutes for others; `None` for no filter.
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
            // The substitute of a filter that could not be solved.
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

    /// The stored filter of the hashes, which come in pieces. Incomplete if it is cancelled.
    pub(crate) fn build<'h>(
        &self,
        pieces: impl Iterator<Item = &'h [u64]>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> OffHeapSlice<u8> {
        let mut lines = OffHeapSlice::filled(Line::default(), self.count as usize);
        for group in pieces.flat_map(|piece| piece.chunks(KEYS_PER_QUESTION)) {
            if is_cancelled() {
                break;
            }
            (self.fill)(&mut lines, 0, self.count, self.probes, group);
        }
        stored::encode_lines(self.number, self.probes, &lines)
    }
}
