//! How blocks of each kind were stored last, and when to look again.

use super::cost::Way;
use super::sample::Kind;

/// After the first look at a kind of blocks, so many are stored alike before the next.
const FIRST_REST: u32 = 4;

/// Most blocks between two looks. A look costs up to 4 ns a byte (LZ4 tried in vain), so one of 64 costs a
/// fortieth of the 2.5 ns that a byte takes on a device of 400 MB/s; and a change that a glance does not see
/// goes unnoticed for 256 KiB at most.
const LONGEST_REST: u32 = 64;

/// What [`Codec::Adaptive`](crate::Codec::Adaptive) remembers from block to block of a table: a few words for
/// each kind of blocks. Other codecs leave it alone.
#[derive(Clone, Debug, Default)]
pub struct History {
    kinds: [Remembered; Kind::COUNT],
}

#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    way: Way,
    /// Blocks from one look to the next; 0 before the first.
    rest: u32,
    /// Blocks until the next look.
    left: u32,
}

impl History {
    /// How the next block of this kind is stored; `None` if it is time to look.
    pub(super) fn next(&mut self, kind: Kind) -> Option<Way> {
        let remembered = &mut self.kinds[kind as usize];
        remembered.left = remembered.left.checked_sub(1)?;
        Some(remembered.way)
    }

    /// Remembers what a look found: the longer the more looks in a row found it.
    pub(super) fn learn(&mut self, kind: Kind, way: Way) {
        let remembered = &mut self.kinds[kind as usize];
        let is_same = remembered.rest > 0 && remembered.way == way;
        let rest = if is_same { (2 * remembered.rest).min(LONGEST_REST) } else { FIRST_REST };
        *remembered = Remembered { way, rest, left: rest - 1 };
    }

    /// Looks at the next block of this kind.
    pub(super) fn forget(&mut self, kind: Kind) {
        self.kinds[kind as usize] = Remembered::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks, by number, that are looked at.
    fn looks(history: &mut History, blocks: usize, way: impl Fn(usize) -> Way) -> Vec<usize> {
        let look = |block: &usize| match history.next(Kind::Text) {
            Some(_) => false,
            None => {
                history.learn(Kind::Text, way(*block));
                true
            }
        };
        (0..blocks).filter(look).collect()
    }

    #[test]
    fn looks_get_seldom_while_they_agree() {
        let mut history = History::default();
        assert_eq!(looks(&mut history, 300, |_| Way::Lz4), [0, 4, 12, 28, 60, 124, 188, 252]);
        assert_eq!(history.next(Kind::Text), Some(Way::Lz4));
        // Of another kind nothing is known.
        assert_eq!(history.next(Kind::Binary), None);
        history.forget(Kind::Text);
        assert_eq!(looks(&mut history, 20, |_| Way::Lz4), [0, 4, 12]);
    }

    #[test]
    fn looks_that_disagree_come_often() {
        let mut history = History::default();
        let change = |block: usize| if block < 60 { Way::Raw } else { Way::Lz4 };
        assert_eq!(looks(&mut history, 80, change), [0, 4, 12, 28, 60, 64, 72]);
    }
}
