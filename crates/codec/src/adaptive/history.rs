//! History of the adaptive choice: the encoding of each kind of blocks, and when the next trial is due.

use super::cost::Encoding;
use super::sample::DataKind;

/// Blocks from the first trial of a kind to the next.
const FIRST_INTERVAL: u32 = 4;

/// Most blocks between two trials. A trial costs up to 4 ns a byte (LZ4 in vain), so one in 64 costs a
/// fortieth of the 2.5 ns that a byte takes on a device of 400 MB/s; and a change that the classification
/// misses goes unnoticed for 256 KiB at most.
const LONGEST_INTERVAL: u32 = 64;

/// What [`Codec::Adaptive`](crate::Codec::Adaptive) remembers from block to block of a table: a few words for
/// each kind of blocks. Other codecs ignore it.
#[derive(Clone, Debug, Default)]
pub struct History {
    kinds: [KindHistory; DataKind::COUNT],
}

#[derive(Clone, Copy, Debug, Default)]
struct KindHistory {
    encoding: Encoding,
    /// Blocks from one trial to the next; 0 before the first.
    interval: u32,
    until_trial: u32,
}

impl History {
    /// The encoding of the next block of this kind; `None` if a trial is due.
    pub(super) fn next(&mut self, kind: DataKind) -> Option<Encoding> {
        let of_kind = &mut self.kinds[kind as usize];
        of_kind.until_trial = of_kind.until_trial.checked_sub(1)?;
        Some(of_kind.encoding)
    }

    /// Remembers the result of a trial: for longer, the more trials in a row agree.
    pub(super) fn remember(&mut self, kind: DataKind, encoding: Encoding) {
        let of_kind = &mut self.kinds[kind as usize];
        let is_same = of_kind.interval > 0 && of_kind.encoding == encoding;
        let interval = if is_same { (2 * of_kind.interval).min(LONGEST_INTERVAL) } else { FIRST_INTERVAL };
        *of_kind = KindHistory { encoding, interval, until_trial: interval - 1 };
    }

    pub(super) fn forget(&mut self, kind: DataKind) {
        self.kinds[kind as usize] = KindHistory::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the blocks with trials.
    fn trials(history: &mut History, blocks: usize, encoding: impl Fn(usize) -> Encoding) -> Vec<usize> {
        let try_encodings = |block: &usize| match history.next(DataKind::Text) {
            Some(_) => false,
            None => {
                history.remember(DataKind::Text, encoding(*block));
                true
            }
        };
        (0..blocks).filter(try_encodings).collect()
    }

    #[test]
    fn trials_get_rare_while_they_agree() {
        let mut history = History::default();
        assert_eq!(trials(&mut history, 300, |_| Encoding::Lz4), [0, 4, 12, 28, 60, 124, 188, 252]);
        assert_eq!(history.next(DataKind::Text), Some(Encoding::Lz4));
        // Another kind is still unknown.
        assert_eq!(history.next(DataKind::Binary), None);
        history.forget(DataKind::Text);
        assert_eq!(trials(&mut history, 20, |_| Encoding::Lz4), [0, 4, 12]);
    }

    #[test]
    fn trials_that_disagree_stay_frequent() {
        let mut history = History::default();
        let change = |block: usize| if block < 60 { Encoding::Raw } else { Encoding::Lz4 };
        assert_eq!(trials(&mut history, 80, change), [0, 4, 12, 28, 60, 64, 72]);
    }
}
