//! Fuzz target for the range tombstone section of tables, without a table around it.

use super::random_text;
use esker_base::SeqNo;
use esker_env::SeededRandom;
use esker_iter::{RangeTombstone, RangeTombstones};
use esker_sst::{decode_range_tombstones, encode_range_tombstones};

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are range tombstones; those that are accepted must be disjoint, and come back the same
/// when they are encoded again.
///
/// # Panics
/// If reading or searching them panics, or if the decoded tombstones contradict each other.
pub fn accepts(bytes: &[u8]) -> bool {
    let Ok(deletes) = decode_range_tombstones(bytes) else { return false };
    assert_eq!(decode_range_tombstones(&encode_range_tombstones(&deletes)).ok().as_ref(), Some(&deletes));
    for fragment in deletes.fragments() {
        let newest = fragment.seqnos.first().copied().unwrap_or(SeqNo::ZERO);
        assert_eq!(deletes.newest_over(&fragment.start, SeqNo::MAX), newest);
        let interval = deletes.interval(&fragment.start, SeqNo::MAX);
        assert_eq!((interval.low, interval.high), (Some(&*fragment.start), fragment.end.as_deref()));
    }
    assert_eq!(deletes.deletes().count() as u64, deletes.len());
    true
}

/// A few range tombstones that overlap.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    encode_range_tombstones(&valid_set(random))
}

pub(super) fn valid_set(random: &SeededRandom) -> RangeTombstones {
    let borders: Vec<(Vec<u8>, Vec<u8>)> =
        (0..random.below(6)).map(|_| (random_text(random, 8), random_text(random, 8))).collect();
    let number = |at: usize| SeqNo::new((at as u64 + 1) << random.below(50));
    let deletes = borders.iter().enumerate();
    RangeTombstones::new(deletes.map(|(at, (start, end))| RangeTombstone::stored(start, end, number(at))))
}
