//! Loser tree: a tournament that is replayed along one path when one entrant changes.
//!
//! With k entrants, node 0 holds the winner and nodes 1 to k-1 the loser of one match each. Entrant `s`
//! starts at the implicit leaf `k + s` and plays at `(k + s) / 2`, `(k + s) / 4` and so on down to 1. Every
//! inner node has exactly two children for every k, not only for powers of two.
//!
//! A node holds the entrant's *rank*, so that nearly all matches are decided by two adjacent numbers, and the
//! outcome is selected without a branch: which of two sources comes first is nearly random, and a
//! mispredicted branch costs more than the whole match. The caller decides equal ranks.

use std::hint::select_unpredictable;

/// Most entrants without an allocation.
const INLINE: usize = 16;

/// A source and the rank of its current entry: the lesser rank wins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant {
    pub(super) rank: u64,
    pub(super) source: u32,
}

const VACANT: Entrant = Entrant { rank: u64::MAX, source: u32::MAX };

/// The tree. It holds ranks and numbers of sources, not cursors.
#[derive(Debug)]
pub(super) struct LoserTree {
    len: usize,
    inline: [Entrant; INLINE],
    /// Used instead of `inline` when there are more entrants than fit there.
    spilled: Vec<Entrant>,
}

impl LoserTree {
    #[inline(always)]
    pub(super) fn new(len: usize) -> LoserTree {
        let spilled = if len > INLINE { vec![VACANT; len] } else { Vec::new() };
        LoserTree { len, inline: [VACANT; INLINE], spilled }
    }

    #[inline]
    fn nodes(&mut self) -> &mut [Entrant] {
        if self.len <= INLINE { &mut self.inline[..self.len] } else { &mut self.spilled }
    }

    /// Empties all nodes; [`seed`](LoserTree::seed) every entrant next.
    pub(super) fn clear(&mut self) {
        self.nodes().fill(VACANT);
    }

    /// Adds an entrant, which plays up to an empty node; after the last one the tree is complete.
    #[inline(always)]
    pub(super) fn seed(&mut self, mut entrant: Entrant, mut precedes: impl FnMut(u32, u32) -> bool) {
        let nodes = self.nodes();
        let mut at = (nodes.len() + entrant.source as usize) / 2;
        while at > 0 {
            let waiting = nodes[at];
            if waiting.source == VACANT.source {
                nodes[at] = entrant;
                return;
            }
            let loses = waiting.rank < entrant.rank
                || (waiting.rank == entrant.rank && precedes(waiting.source, entrant.source));
            if loses {
                nodes[at] = entrant;
                entrant = waiting;
            }
            at /= 2;
        }
        nodes[0] = entrant;
    }

    #[inline]
    pub(super) fn winner(&mut self) -> Entrant {
        self.nodes()[0]
    }

    /// Replays the last winner's matches with its new rank and returns the new winner. `precedes(a, b)`
    /// returns whether source `a` comes before source `b`; it is called only for equal ranks.
    #[inline]
    pub(super) fn replay(
        &mut self,
        mut entrant: Entrant,
        mut precedes: impl FnMut(u32, u32) -> bool,
    ) -> Entrant {
        if self.len > INLINE {
            return self.replay_spilled(entrant, precedes);
        }
        let mut at = (self.len + entrant.source as usize) / 2;
        while at > 0 {
            // The index is below `INLINE`; the modulo spares the bounds check.
            let place = &mut self.inline[at % INLINE];
            (*place, entrant) = play(*place, entrant, &mut precedes);
            at /= 2;
        }
        self.inline[0] = entrant;
        entrant
    }

    #[inline(never)]
    fn replay_spilled(
        &mut self,
        mut entrant: Entrant,
        mut precedes: impl FnMut(u32, u32) -> bool,
    ) -> Entrant {
        let mut at = (self.len + entrant.source as usize) / 2;
        while at > 0 {
            let place = &mut self.spilled[at];
            (*place, entrant) = play(*place, entrant, &mut precedes);
            at /= 2;
        }
        self.spilled[0] = entrant;
        entrant
    }

    /// The least entrant but the winner, and whether no other on the winner's path has its rank. At least two
    /// entrants. The second lost to the winner directly, so it is on that path.
    pub(super) fn second(&mut self) -> (Entrant, bool) {
        let nodes = self.nodes();
        let mut at = (nodes.len() + nodes[0].source as usize) / 2;
        let (mut least, mut is_alone) = (nodes[at], true);
        while at > 1 {
            at /= 2;
            if nodes[at].rank < least.rank {
                (least, is_alone) = (nodes[at], true);
            } else if nodes[at].rank == least.rank {
                is_alone = false;
            }
        }
        (least, is_alone)
    }
}

#[inline(always)]
fn play(
    waiting: Entrant,
    entrant: Entrant,
    precedes: &mut impl FnMut(u32, u32) -> bool,
) -> (Entrant, Entrant) {
    if waiting.rank == entrant.rank {
        return if precedes(waiting.source, entrant.source) {
            (entrant, waiting)
        } else {
            (waiting, entrant)
        };
    }
    let loses = waiting.rank < entrant.rank;
    let choose = |yes: Entrant, no: Entrant| Entrant {
        rank: select_unpredictable(loses, yes.rank, no.rank),
        source: select_unpredictable(loses, yes.source, no.source),
    };
    (choose(entrant, waiting), choose(waiting, entrant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_any_number_of_lists() {
        for len in 1..70usize {
            // Source s holds the numbers that are s modulo len, so every number appears once, in order.
            let mut tree = LoserTree::new(len);
            tree.clear();
            let mut heads: Vec<u64> = (0..len as u64).rev().collect();
            for (source, &rank) in heads.iter().enumerate() {
                tree.seed(Entrant { rank, source: source as u32 }, |_, _| panic!("no equal ranks here"));
            }
            for expected in 0..10 * len as u64 {
                let winner = tree.winner();
                assert_eq!(winner.rank, expected, "{len} sources");
                if len > 1 {
                    let (second, is_alone) = tree.second();
                    assert_eq!((second.rank, is_alone), (expected + 1, true));
                }
                heads[winner.source as usize] += len as u64;
                let entrant = Entrant { rank: heads[winner.source as usize], source: winner.source };
                tree.replay(entrant, |_, _| panic!("no equal ranks here"));
            }
        }
    }

    #[test]
    fn equal_ranks_are_settled_by_the_caller() {
        for len in 2..40u32 {
            let mut tree = LoserTree::new(len as usize);
            tree.clear();
            for source in 0..len {
                tree.seed(Entrant { rank: 7, source }, |a, b| a < b);
            }
            for expected in 0..len {
                assert_eq!(tree.winner().source, expected);
                tree.replay(Entrant { rank: 8, source: expected }, |a, b| a < b);
            }
        }
    }
}
