//! Range tombstone cutting: a job's range tombstones are cut at the bounds of its output tables.
//!
//! Tables of a run share no key, and a table's range tombstones belong to its range (IN5). So each table
//! takes those before the first key of the next one; the last takes the rest. A table may have range
//! tombstones alone.

use esker_base::planted;
use esker_iter::{RangeTombstones, TombstoneFragment};
use std::sync::Arc;

/// Range tombstones that no table has taken yet.
#[derive(Debug, Default)]
pub struct PendingDeletes {
    all: Vec<TombstoneFragment>,
    taken: usize,
    /// Where the next fragment was cut.
    cut: Option<Arc<[u8]>>,
}

impl PendingDeletes {
    /// All of `deletes`, none written yet.
    pub fn new(deletes: &RangeTombstones) -> PendingDeletes {
        PendingDeletes { all: deletes.fragments().to_vec(), taken: 0, cut: None }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.taken == self.all.len()
    }

    /// Takes everything before `border`, or all without one. Borders ascend.
    pub(crate) fn take_before(&mut self, border: Option<&[u8]>) -> RangeTombstones {
        let mut taken = Vec::new();
        while let Some(fragment) = self.all.get(self.taken) {
            let start = self.cut.clone().unwrap_or_else(|| Arc::clone(&fragment.start));
            let Some(border) =
                border.filter(|border| fragment.end.as_ref().is_none_or(|end| **end > **border))
            else {
                taken.push(TombstoneFragment { start, ..fragment.clone() });
                self.taken += 1;
                self.cut = None;
                continue;
            };
            if &*start < border {
                let cut: Arc<[u8]> = border.into();
                let (end, seqnos) = (Some(Arc::clone(&cut)), fragment.seqnos.clone());
                taken.push(TombstoneFragment { start, end, seqnos });
                self.cut = Some(cut);
                if planted!(LosesCutTombstone) {
                    (self.taken, self.cut) = (self.taken + 1, None);
                    continue;
                }
            }
            break;
        }
        // Slices of disjoint fragments in their order.
        RangeTombstones::from_fragments(taken).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::SeqNo;
    use esker_iter::RangeTombstone;

    #[test]
    fn pieces_add_up_to_the_whole() {
        let delete = |start: &'static [u8], end: &'static [u8], seqno| {
            RangeTombstone::stored(start, end, SeqNo::new(seqno))
        };
        let all = RangeTombstones::new([delete(b"b", b"d", 3), delete(b"c", b"k", 5), delete(b"m", b"", 4)]);
        for borders in
            [vec![], vec!["a"], vec!["b"], vec!["c", "d"], vec!["cc", "k", "l", "m"], vec!["n", "o"]]
        {
            let mut pending = PendingDeletes::new(&all);
            let mut pieces = Vec::new();
            let mut start: &[u8] = b"";
            for border in borders.iter().map(|border| Some(border.as_bytes())).chain([None]) {
                let piece = pending.take_before(border);
                for fragment in piece.fragments() {
                    assert!(&*fragment.start >= start, "{borders:?}");
                    assert!(
                        border.is_none_or(|border| fragment.end.as_ref().is_some_and(|end| **end <= *border))
                    );
                }
                start = border.unwrap_or_default();
                pieces.push(piece);
            }
            assert!(pending.is_empty());
            assert_eq!(
                RangeTombstones::new(pieces.iter().flat_map(RangeTombstones::deletes)),
                all,
                "{borders:?}"
            );
        }
    }
}
