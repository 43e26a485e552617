//! Eytzinger layout: key heads in the breadth-first order of a balanced binary search tree. For comparison.
//!
//! Source: M. Eytzinger's numbering of ancestors (1590), as a search layout in Khuong and Morin, "Array
//! Layouts for Comparison-Based Searching" (2017). The root is node 1, the children of node `k` are `2k` and
//! `2k + 1`, and an in-order walk meets the heads in ascending order. The first steps of all searches share
//! few lines, and the eight nodes three steps down lie in one line, which is prefetched. The step has no
//! branch to mispredict.
//!
//! Cost: eight bytes a head; the rank of a node follows from its number. (The recursion printed in the CS265
//! report copies the array unchanged; the order that it names, 04261537, is bit reversal.)

use crate::simd::prefetch;

const LINE_HEADS: usize = 8;

/// A cache line, so that the descendants three steps down share one.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; LINE_HEADS]);

#[derive(Debug)]
pub(crate) struct Eytzinger {
    /// Node `k` is head `k % 8` of line `k / 8`; number 0 is unused.
    lines: Vec<Line>,
    len: usize,
}

impl Eytzinger {
    pub(crate) fn new(heads: &[u64]) -> Eytzinger {
        let mut lines = vec![Line([u64::MAX; LINE_HEADS]); heads.len() / LINE_HEADS + 1];
        for node in 1..=heads.len() {
            lines[node / LINE_HEADS].0[node % LINE_HEADS] = heads[rank(node, heads.len())];
        }
        Eytzinger { lines, len: heads.len() }
    }

    #[inline(always)]
    fn node(&self, node: usize) -> u64 {
        debug_assert!(node <= self.len);
        // SAFETY: `node` is at most `len`, and there is a line for each number up to it.
        unsafe { self.lines.get_unchecked(node / LINE_HEADS).0[node % LINE_HEADS] }
    }

    /// The place of the last head that is at most `wanted`, and that head; place 0 and no head if none is.
    #[inline]
    pub(crate) fn find(&self, wanted: u64) -> (usize, Option<u64>) {
        let lines = self.lines.as_ptr().cast::<u64>();
        let mut node = 1;
        while node <= self.len {
            // Node `8 node` starts the line of the descendants three steps down.
            prefetch(lines.wrapping_add(LINE_HEADS * node).cast());
            node = 2 * node + usize::from(self.node(node) <= wanted);
        }
        // The last right step was at the greatest head at most `wanted`; the left steps after it are trailing
        // zeros.
        node >>= node.trailing_zeros() + 1;
        if node == 0 {
            return (0, None);
        }
        (rank(node, self.len), Some(self.node(node)))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

/// How many of `len` nodes an in-order walk meets before this one.
#[inline]
fn rank(node: usize, len: usize) -> usize {
    let (depth, deepest) = (node.ilog2(), len.ilog2());
    // A full deepest level would have every second place, the level above every fourth, and so on.
    let in_full = ((2 * (node - (1 << depth)) + 1) << (deepest - depth)) - 1;
    // It is filled from the left; the missing nodes lie behind its last one.
    let deepest_nodes = len + 1 - (1 << deepest);
    in_full - in_full.div_ceil(2).saturating_sub(deepest_nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_breadth_first() {
        let layout = |len: u64| {
            let eytzinger = Eytzinger::new(&(0..len).collect::<Vec<u64>>());
            (1..=len as usize).map(|node| eytzinger.node(node)).collect::<Vec<u64>>()
        };
        assert_eq!(layout(1), [0]);
        assert_eq!(layout(6), [3, 1, 5, 0, 2, 4]);
        assert_eq!(layout(7), [3, 1, 5, 0, 2, 4, 6]);
        assert_eq!(layout(10), [6, 3, 8, 1, 5, 7, 9, 0, 2, 4]);
        // At all sizes: nodes to the left are less, nodes to the right greater.
        for len in 1..300 {
            let layout = layout(len);
            let node = |number: usize| layout.get(number - 1).copied();
            for number in 1..=len as usize {
                assert!(node(2 * number).is_none_or(|left| left < layout[number - 1]), "{len}: {number}");
                assert!(
                    node(2 * number + 1).is_none_or(|right| right > layout[number - 1]),
                    "{len}: {number}"
                );
            }
        }
    }
}
