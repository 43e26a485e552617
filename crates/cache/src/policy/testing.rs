//! Helpers of the policies' tests.

use super::Entry;
use crate::entry::{Admission, BlockKind, CacheKey};

/// An entry that a lookup inserted.
pub(super) fn entry(key: CacheKey, kind: BlockKind) -> Entry<u64> {
    Entry {
        key,
        value: u64::from(key.block),
        charge: 100,
        kind,
        chances: kind.initial_chances(),
        scanned: false,
        notified: false,
    }
}

/// Uses of blocks of which few are frequent; every eighth is a scan's.
pub(super) fn random_uses(seed: u64, count: usize, mut each: impl FnMut(CacheKey, Admission)) {
    println!("seed {seed:#x}");
    let mut state = seed;
    let mut random = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    for _ in 0..count {
        let block = random(30) * random(20);
        let admission = if random(8) == 0 { Admission::Scan } else { Admission::Point };
        each(CacheKey { table: 3, block: block as u32 }, admission);
    }
}
