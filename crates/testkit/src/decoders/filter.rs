//! Fuzz target for stored filters.

use esker_base::checksum::xxh3_64;
use esker_env::{Random, SeededRandom};
use esker_filter::{Filter, FilterBuilder, FilterKind, FilterPolicy};

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are a filter that this build knows.
///
/// # Panics
/// If single and batched lookups disagree, or an unknown filter refuses a key.
pub fn accepts(bytes: &[u8]) -> bool {
    let Ok(filter) = Filter::decode(bytes) else { return false };
    assert!(!filter.describe().is_empty());
    let hashes: Vec<u64> = (0..70u64)
        .map(|at| xxh3_64(&at.to_le_bytes()))
        .chain([0, 1, u64::MAX, u64::MAX << 32, u64::MAX >> 32])
        .chain(bytes.chunks(8).take(70).map(xxh3_64))
        .collect();
    let mut maybe = vec![false; hashes.len()];
    filter.may_contain_many(&hashes, &mut maybe);
    for (&hash, &maybe) in hashes.iter().zip(&maybe) {
        filter.prefetch(hash);
        assert_eq!(filter.may_contain(hash), maybe, "hash {hash:#x}");
        assert!(maybe || !filter.is_unknown());
    }
    if filter.is_unknown() {
        assert_eq!(filter.memory_bytes(), 0);
        return false;
    }
    assert!(filter.kind().is_some());
    if let Some(fill) = filter.fill_ratio() {
        assert_eq!(filter.memory_bytes() + 8, bytes.len());
        assert!((0.0..=1.0).contains(&fill));
        // An empty filter refuses everything, a full one nothing.
        assert!(fill != 0.0 || !maybe.contains(&true));
        assert!(fill != 1.0 || !maybe.contains(&false));
    }
    true
}

/// The filter of a few hundred keys, of any kind.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let kind = FilterKind::ALL[random.below(FilterKind::ALL.len() as u64) as usize];
    let policy = match kind.policy(2.0 + random.below(220) as f64 / 10.0) {
        FilterPolicy::None => FilterPolicy::DEFAULT,
        policy => policy,
    };
    let mut builder = FilterBuilder::new(policy);
    for _ in 0..random.below(300) {
        builder.add(random.next_u64());
    }
    builder.finish().expect("the policy has a filter").to_vec()
}
