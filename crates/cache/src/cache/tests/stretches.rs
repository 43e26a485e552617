//! Giving back by stretches of memory.

use super::{cache_of, for_each_kind, key};
use crate::policy::overhead_bytes;
use crate::{Admission, BlockKind, Charge};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BYTES: usize = 4096;
/// Values that lie in one stretch.
const EACH: usize = 256;

/// A value that lies somewhere.
#[derive(Debug)]
struct Lying {
    stretch: usize,
    is_closed: Arc<Vec<AtomicBool>>,
}

impl Charge for Lying {
    fn charge_bytes(&self) -> usize {
        BYTES
    }

    fn stretch(&self) -> Option<usize> {
        Some(self.stretch)
    }

    fn close_stretch(&self, count: usize) -> bool {
        // Others have something in the first one.
        assert!(count > 0 && count <= EACH);
        self.stretch > 0 && !self.is_closed[self.stretch].swap(true, Ordering::Relaxed)
    }
}

/// ST1: what is left lies in stretches that the cache has kept whole, but for less than what is not worth a
/// walk.
#[test]
fn a_cache_that_becomes_smaller_leaves_whole_stretches() {
    for_each_kind(|kind| {
        const STRETCHES: usize = 40;
        let all = STRETCHES * EACH;
        let cache = cache_of(kind, 2 * all * BYTES, 4);
        let is_closed: Arc<Vec<AtomicBool>> =
            Arc::new((0..STRETCHES).map(|_| AtomicBool::default()).collect());
        for at in 0..all {
            // Neighbours in the cache lie apart. The seventh stretch has half of its own elsewhere.
            let stretch = at * 7 % STRETCHES;
            if stretch == 7 && at % 80 < 40 {
                continue;
            }
            let value = Arc::new(Lying { stretch, is_closed: Arc::clone(&is_closed) });
            cache.insert(key(1, at as u64), value, BlockKind::Data, Admission::Point);
        }
        let before = cache.stats();
        let charge = BYTES + overhead_bytes(kind);
        cache.set_capacity_bytes(before.used_bytes - 10 * EACH * charge);
        let after = cache.stats();
        assert!(after.used_bytes <= after.capacity_bytes, "{after:?}");
        assert_eq!(after.total().evictions as usize, before.entries - after.entries);
        let mut left = BTreeMap::new();
        for at in 0..all {
            if let Some(value) = cache.peek(&key(1, at as u64)) {
                *left.entry(value.stretch).or_insert(0) += 1;
            }
        }
        assert!(!left.contains_key(&7), "it costs least");
        assert_eq!(left[&0], EACH, "it would not go back");
        assert_eq!(left.len(), STRETCHES - 11, "half of one, and ten");
        assert!(left.values().all(|&count| count == EACH), "{left:?}");
    });
}

/// Little goes as the policy says.
#[test]
fn for_little_no_stretch_is_closed() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 64 << 20, 2);
        let is_closed: Arc<Vec<AtomicBool>> = Arc::new((0..9).map(|_| AtomicBool::default()).collect());
        for at in 0..8 * EACH {
            let value = Arc::new(Lying { stretch: 1 + at % 8, is_closed: Arc::clone(&is_closed) });
            cache.insert(key(1, at as u64), value, BlockKind::Data, Admission::Point);
        }
        cache.set_capacity_bytes(cache.used_bytes() - 100 * BYTES);
        assert!(cache.used_bytes() <= cache.capacity_bytes());
        assert!(is_closed.iter().all(|closed| !closed.load(Ordering::Relaxed)));
    });
}
