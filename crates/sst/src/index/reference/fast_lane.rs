//! Fast-lane index: key heads in lanes, with all of them, every fourth, every sixteenth, and so on. For
//! comparison.
//!
//! Source: the skip lanes of the CS265 report, 3.4.2. A search goes along the topmost lane while heads are
//! not too great, and continues four times as finely in the lane below: at most four heads a lane, half a
//! cache line.
//!
//! Cost: 10.7 bytes a head. Its nodes of four heads instead of the search tree's sixteen
//! ([`super::super::tree`]) need twice as many steps, each without vectors.

/// Heads of a lane for one head of the lane above.
const STRIDE: usize = 4;

#[derive(Debug)]
pub(crate) struct FastLane {
    /// The lane with all heads first. The last has at most [`STRIDE`].
    lanes: Vec<Vec<u64>>,
}

impl FastLane {
    /// The lanes over ascending heads.
    pub(crate) fn new(heads: &[u64]) -> FastLane {
        let mut lanes = vec![heads.to_vec()];
        while let Some(below) = lanes.last().filter(|below| below.len() > STRIDE) {
            let above: Vec<u64> = below.iter().copied().step_by(STRIDE).collect();
            lanes.push(above);
        }
        FastLane { lanes }
    }

    /// The place of the last head that is at most `wanted`, and that head; place 0 and no head if none is.
    #[inline]
    pub(crate) fn find(&self, wanted: u64) -> (usize, Option<u64>) {
        let mut from = 0;
        for lane in self.lanes.iter().rev() {
            let some = &lane[from.min(lane.len())..(from + STRIDE).min(lane.len())];
            // Counted without a branch, which would be mispredicted.
            let passed: usize = some.iter().map(|&head| usize::from(head <= wanted)).sum();
            from = (from + passed.saturating_sub(1)) * STRIDE;
        }
        let place = from / STRIDE;
        let head = self.lanes.first().and_then(|heads| heads.get(place)).copied();
        (place, head.filter(|&head| head <= wanted))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.capacity() * size_of::<u64>()).sum::<usize>()
            + self.lanes.capacity() * size_of::<Vec<u64>>()
    }
}
