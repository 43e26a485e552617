//! Static search tree (S-tree) over the blocks' key heads: the default form of the block index in memory.
//!
//! Sixteen heads make a node of two cache lines that one or two vector instructions rank; the level above has
//! the first head of each node below. The last level is all heads in order, so the rank is the block number:
//! 8.5 bytes a block. Measured at 60,000 blocks: 10 ns a lookup with AVX-512, 35 if it depends on the
//! previous one; a binary search over whole keys takes 180.

use crate::simd::{InstructionSet, Kernel, NODE_KEYS, prefetch, with_kernel};
use esker_env::OffHeapSlice;

/// Enough for 2^32 blocks.
const MAX_LEVELS: usize = 8;

/// Two cache lines, loaded as a pair.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Node([u64; NODE_KEYS]);

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    first: u32,
    /// Number of its heads; the level below has as many nodes.
    keys: u32,
}

/// The tree.
///
/// Invariant: level 0 is the root, a single node; level `l + 1` has as many nodes as level `l` has keys; each
/// level has at least one key; nodes are padded with the greatest number.
#[derive(Debug)]
pub(crate) struct SearchTree {
    nodes: OffHeapSlice<Node>,
    levels: [Level; MAX_LEVELS],
    depth: usize,
}

impl SearchTree {
    /// A tree over ascending heads; at least one and less than 2^32.
    pub(crate) fn new(heads: &[u64]) -> SearchTree {
        assert!(!heads.is_empty() && u32::try_from(heads.len()).is_ok(), "one head for each block");
        let mut bottom_up: Vec<Vec<u64>> = vec![heads.to_vec()];
        while let Some(below) = bottom_up.last().filter(|below| below.len() > NODE_KEYS) {
            let above = below.iter().copied().step_by(NODE_KEYS).collect();
            bottom_up.push(above);
        }
        let mut levels = [Level::default(); MAX_LEVELS];
        let mut nodes =
            Vec::with_capacity(bottom_up.iter().map(|level| level.len().div_ceil(NODE_KEYS)).sum());
        for (level, keys) in levels.iter_mut().zip(bottom_up.iter().rev()) {
            *level = Level { first: nodes.len() as u32, keys: keys.len() as u32 };
            for chunk in keys.chunks(NODE_KEYS) {
                let mut node = [u64::MAX; NODE_KEYS];
                node[..chunk.len()].copy_from_slice(chunk);
                nodes.push(Node(node));
            }
        }
        SearchTree { nodes: OffHeapSlice::lasting(nodes.iter().copied()), levels, depth: bottom_up.len() }
    }

    #[inline(always)]
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.levels[self.depth - 1].keys as usize
    }

    #[inline(always)]
    fn node(&self, level: usize, position: usize) -> &Node {
        let index = self.levels[level].first as usize + position;
        debug_assert!(index < self.nodes.len());
        // SAFETY: `position` is 0 at the root, and elsewhere the result of `step` for the level above, which
        // is less than its number of keys, hence less than the number of nodes of this level.
        unsafe { self.nodes.get_unchecked(index) }
    }

    /// One level of a descent: the last of a node's keys that is at most `head`. The result is the node of
    /// the next level; at the last level it is the place of the head.
    ///
    /// # Safety
    /// The kernel's instructions must be available, `level < depth`, and `position` must be 0 at level 0 and
    /// the result of the level above elsewhere.
    #[inline(always)]
    pub(crate) unsafe fn step<K: Kernel>(&self, level: usize, position: usize, head: u64) -> usize {
        // SAFETY: the caller has the instructions.
        let rank = unsafe { K::rank_node(&self.node(level, position).0, head) };
        // The padding counts for a head equal to it.
        let last = self.levels[level].keys as usize - 1;
        (position * NODE_KEYS + rank.saturating_sub(1)).min(last)
    }

    /// Prefetches the node that [`SearchTree::step`] will read.
    ///
    /// # Safety
    /// As for [`SearchTree::step`].
    #[inline(always)]
    pub(crate) unsafe fn prefetch(&self, level: usize, position: usize) {
        let node = std::ptr::from_ref(self.node(level, position)).cast::<u8>();
        prefetch(node);
        prefetch(node.wrapping_add(64));
    }

    /// The place of the last head that is at most `head`; 0 if none is.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn find<K: Kernel>(&self, head: u64) -> usize {
        // SAFETY: the caller has the instructions.
        unsafe { self.find_near::<K>(head, |_| ()) }
    }

    /// As [`SearchTree::find`], with the best instructions of this machine.
    pub(crate) fn find_detected(&self, head: u64) -> usize {
        with_kernel!(
            InstructionSet::detect(),
            |K| (tree: &SearchTree, head: u64) -> usize {
                // SAFETY: `with_kernel` runs the code compiled for a kernel only where its instructions
                // exist.
                unsafe { tree.find::<K>(head) }
            }
            (self, head)
        )
    }

    /// As [`SearchTree::find`]; calls `near` with the first place of the last node before it is read.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn find_near<K: Kernel>(&self, head: u64, near: impl FnOnce(usize)) -> usize {
        let mut position = 0;
        for level in 0..self.depth - 1 {
            // SAFETY: the caller has the instructions; the position is the result of the level above.
            position = unsafe { self.step::<K>(level, position, head) };
        }
        near(position * NODE_KEYS);
        // SAFETY: as above.
        unsafe { self.step::<K>(self.depth - 1, position, head) }
    }

    /// The head at a place returned by [`SearchTree::find`].
    #[inline(always)]
    pub(crate) fn head(&self, place: usize) -> u64 {
        self.node(self.depth - 1, place / NODE_KEYS).0[place % NODE_KEYS]
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{InstructionSet, Portable};
    use esker_env::{Random, SeededRandom};

    fn check<K: Kernel>(seed: u64) {
        let random = SeededRandom::new(seed);
        for round in 0..120u64 {
            let count = 1 + random.below([4, 40, 300, 5_000][round as usize % 4]) as usize;
            let spread = [3, 1_000, 1 << 40, u64::MAX][random.below(4) as usize];
            let mut heads: Vec<u64> = (0..count).map(|_| random.below(spread)).collect();
            if random.below(3) == 0 {
                heads.push(u64::MAX);
            }
            heads.sort_unstable();
            let tree = SearchTree::new(&heads);
            assert_eq!(tree.len(), heads.len());
            for _ in 0..200 {
                let wanted = match random.below(4) {
                    0 => heads[random.below(heads.len() as u64) as usize],
                    1 => [0, u64::MAX][random.below(2) as usize],
                    2 => random.next_u64(),
                    _ => random.below(spread),
                };
                let place = heads.partition_point(|&head| head <= wanted).saturating_sub(1);
                // SAFETY: the callers ask for kernels of this machine only.
                assert_eq!(unsafe { tree.find::<K>(wanted) }, place, "seed {seed} {wanted} in {heads:?}");
                assert_eq!(tree.head(place), heads[place]);
            }
        }
    }

    #[test]
    fn finds_like_a_partition_point() {
        check::<Portable>(1);
        #[cfg(target_arch = "x86_64")]
        if InstructionSet::Avx2.is_available() {
            check::<crate::simd::Avx2>(2);
        }
        #[cfg(target_arch = "x86_64")]
        if InstructionSet::Avx512.is_available() {
            check::<crate::simd::Avx512>(3);
        }
    }
}
