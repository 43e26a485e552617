//! Local Bloom filter, for comparison: after RocksDB's FastLocalBloom (`util/bloom_impl.h` there, Dillinger
//! 2019): lines of 64 bytes, a key's probes all in one of them, made by multiplying a half of its hash.
//!
//! It differs from the [`crate::blocked`] kind in RocksDB's choices, so that the two can be compared: the
//! lower half of the hash chooses the line and the upper half makes the probes, the number of lines is
//! rounded up, and the number of probes follows RocksDB's table, which prefers at most eight, one vector of
//! them, up to 14 bits a key. The stored form is our own; files of RocksDB are not read.
//!
//! Cost and false positives are those of the blocked kind within a few percent.

use crate::bits::BitsPerKey;
use crate::blocked::{self, Blocked};
use crate::lines::{LINE_BITS, Line};
use crate::probe::BATCH;
use esker_env::OffHeapSlice;

/// Tenths of bits a key up to which the index plus one is RocksDB's number of probes.
const PROBES_UP_TO_TENTHS: [u16; 11] = [20, 35, 51, 66, 83, 100, 117, 140, 160, 183, 220];

/// The number of probes for filters of this size. Persisted in each filter, so the table may change.
pub(crate) fn probes(bits_per_key: BitsPerKey) -> u8 {
    PROBES_UP_TO_TENTHS.iter().take_while(|&&limit| bits_per_key.tenths() > limit).count() as u8 + 1
}

/// Number of lines for `keys` keys: rounded up, at least one.
pub(crate) fn lines_for(keys: usize, bits_per_key: BitsPerKey) -> u32 {
    let tenths_of_bits = keys as u128 * u128::from(bits_per_key.tenths());
    u32::try_from(tenths_of_bits.div_ceil(10 * LINE_BITS as u128)).unwrap_or(u32::MAX).max(1)
}

/// As [`blocked::fill`].
pub(crate) fn fill(part: &mut [Line], first: usize, count: u32, probes: u8, hashes: &[u64]) {
    in_batches(hashes, |batch, _| blocked::fill(part, first, count, probes, batch));
}

/// A filter in memory: a blocked one of hashes whose halves are exchanged.
#[derive(Clone, Debug)]
pub(crate) struct Local(Blocked);

impl Local {
    /// As [`Blocked::new`].
    pub(crate) fn new(lines: OffHeapSlice<Line>, probes: u8) -> Local {
        Local(Blocked::new(lines, probes))
    }

    pub(crate) fn lines(&self) -> &[Line] {
        self.0.lines()
    }

    pub(crate) fn probes(&self) -> u8 {
        self.0.probes()
    }

    pub(crate) fn prefetch(&self, hash: u64) {
        self.0.prefetch(hash.rotate_left(32));
    }

    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.0.may_contain(hash.rotate_left(32))
    }

    pub(crate) fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        in_batches(hashes, |batch, at| self.0.may_contain_many(batch, &mut maybe[at..at + batch.len()]));
    }
}

/// Exchanges the halves of the hashes, batch by batch; `work` also gets the position of each batch.
fn in_batches(hashes: &[u64], mut work: impl FnMut(&[u64], usize)) {
    let mut exchanged = [0; BATCH];
    for (number, batch) in hashes.chunks(BATCH).enumerate() {
        let exchanged = &mut exchanged[..batch.len()];
        for (to, from) in exchanged.iter_mut().zip(batch) {
            *to = from.rotate_left(32);
        }
        work(exchanged, number * BATCH);
    }
}
