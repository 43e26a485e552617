//! Hit rates of the kinds for skewed lookups: the default stays close to S3-FIFO, with far fewer evictions.

use super::{Random, cache_of, key};
use crate::policy::overhead_bytes;
use crate::{Admission, BlockKind, CacheKind, Charge};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCKS: u64 = 2_000;
const CACHED_BLOCKS: u64 = 200;
const LOOKUPS: u64 = 200_000;

/// A block with a reference bit, as tables have them behind their slots.
#[derive(Default)]
struct Slotted {
    is_cached: AtomicBool,
    is_used: AtomicBool,
}

impl Charge for Slotted {
    fn charge_bytes(&self) -> usize {
        4096
    }

    fn entered(&self) {
        self.is_cached.store(true, Ordering::Relaxed);
    }

    fn left(&self) {
        self.is_cached.store(false, Ordering::Relaxed);
    }

    fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }
}

/// Hits in percent and evictions, in the second half of Zipf lookups (exponent 0.99).
fn measure(kind: CacheKind) -> (f64, u64) {
    let cache = cache_of(kind, CACHED_BLOCKS as usize * (4096 + overhead_bytes(kind)), 1);
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=BLOCKS)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    let mut slots: Vec<Option<Arc<Slotted>>> = vec![None; BLOCKS as usize];
    let mut random = Random(0x5eed_0060);
    let (mut hits, mut evictions) = (0, 0);
    let evicted = |stats: crate::CacheStats| stats.total().evictions - stats.not_admitted;
    for lookup in 0..LOOKUPS {
        if lookup == LOOKUPS / 2 {
            (hits, evictions) = (0, evicted(cache.stats()));
        }
        let point = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * sum;
        let block = sums.partition_point(|&upto| upto <= point) as u64;
        let slot = &mut slots[block as usize];
        let is_cached = |value: &&Arc<Slotted>| value.is_cached.load(Ordering::Relaxed);
        if let Some(value) = slot.as_ref().filter(|_| kind.has_shortcuts()).filter(is_cached) {
            value.is_used.store(true, Ordering::Relaxed);
            hits += 1;
        } else if let Some(value) = cache.find(&key(1, block), BlockKind::Data, Admission::Point) {
            *slot = Some(value);
            hits += 1;
        } else {
            let value = Arc::new(Slotted::default());
            *slot = Some(cache.insert(key(1, block), value, BlockKind::Data, Admission::Point));
        }
    }
    (hits as f64 * 200.0 / LOOKUPS as f64, evicted(cache.stats()) - evictions)
}

#[test]
fn the_default_hits_nearly_as_often_as_s3_fifo_and_evicts_far_less() {
    let [slots, clock, s3_fifo] = [CacheKind::Slots, CacheKind::Clock, CacheKind::S3Fifo].map(measure);
    println!("slots {slots:?}, clock {clock:?}, s3-fifo {s3_fifo:?}");
    assert!(slots.0 > s3_fifo.0 - 2.0 && slots.0 > clock.0 + 3.0);
    assert!(slots.1 * 5 < s3_fifo.1);
}
