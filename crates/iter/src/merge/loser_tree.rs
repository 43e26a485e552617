//! The loser tree: a tournament that is replayed along one path when one entrant changes.
//!
//! With k entrants, node 0 holds the winner and nodes 1 to k-1 the loser of one match each. Entrant `s`
//! starts at the leaf `k + s`, which exists in thought only, and plays at `(k + s) / 2`, `(k + s) / 4` and so
//! on down to 1. Every inner node has exactly two children for every k, not only for powers of two.
//!
//! A node holds the entrant's *rank*, so that nearly all matches are decided by two numbers that lie beside
//! each other, and the outcome is selected without a branch: which of two sources comes first is as good as
//! random, and a mispredicted branch costs more than the whole match. Equal ranks are settled by the caller.

use std::hint::select_unpredictable;

/// Number of entrants that need no allocation.
const INLINE: usize = 16;

/// A source and where its current entry stands: the lesser rank wins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant {
    /// What is compared.
    pub(super) rank: u64,
    /// Who it is.
    pub(super) source: u32,
}

/// A place in the tree where nobody waits yet.
const VACANT: Entrant = Entrant { rank: u64::MAX, source: u32::MAX };

/// The tree. It knows ranks and numbers of sources, nothing of cursors.
#[derive(Debug)]
pub(super) struct LoserTree {
    len: usize,
    inline: [Entrant; INLINE],
    /// Used instead of `inline` when there are more entrants than fit there.
    spilled: Vec<Entrant>,
}

impl LoserTree {
    /// A tree for `len` entrants, all still to be seeded.
    #[inline(always)]
    pub(super) fn new(len: usize) -> LoserTree {
        let spilled = if len > INLINE { vec![VACANT; len] } else { Vec::new() };
        LoserTree { len, inline: [VACANT; INLINE], spilled }
    }

    #[inline]
    fn nodes(&mut self) -> &mut [Entrant] {
        if self.len <= INLINE { &mut self.inline[..self.len] } else { &mut self.spilled }
    }

    /// Forgets all matches; [`seed`](LoserTree::seed) every entrant next.
    pub(super) fn clear(&mut self) {
        self.nodes().fill(VACANT);
    }

    /// Lets an entrant in: it plays upwards until it meets a match whose other side has not arrived, and
    /// waits there. After the last one has been seeded, the tree is complete.
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

    /// The winner, once all entrants have been seeded.
    #[inline]
    pub(super) fn winner(&mut self) -> Entrant {
        self.nodes()[0]
    }

    /// Plays the last winner's matches again with its new rank, and returns the new winner. `precedes(a, b)`
    /// says whether source `a` comes before source `b`; it is asked only about equal ranks.
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
            // The places are fewer than `INLINE`; saying so spares the check.
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

    /// One with the least rank of all but the winner, and whether no other of those on the winner's path has
    /// the same rank. There must be two entrants at least. Whoever is second lost to the winner directly, so
    /// it waits on the winner's path.
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

/// One match: loser and winner.
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
            // Source s holds the numbers that are s modulo len, so that every number is met once, in order.
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
