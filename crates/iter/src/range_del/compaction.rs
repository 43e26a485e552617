//! Range tombstones in a flush or compaction: which versions of the inputs they hide, and which of them are
//! written.
//!
//! Let b0 be the oldest boundary (4.4).
//!
//! * A version `k@q` is dropped if a range tombstone `s` of the inputs covers k, `q < s`, and no boundary
//!   divides the two: a reader that could see the version sees the range tombstone. A version of the same
//!   number survives.
//! * A range tombstone is dropped under a newer one over the same keys in the same stripe: it hides nothing
//!   that the newer one does not hide from the same readers.
//! * A range tombstone `[x, y)@s` is elided if `s <= b0` and nothing outside of the inputs that may hold keys
//!   from x up to y has a version older than `s`. The versions it hides in the inputs are dropped by the
//!   first rule, because below b0 there is one stripe.
//!
//! Fragments make the rules independent of how the range deletes were written: each fragment is decided as a
//! whole. The owner clips the range tombstones of a sliced input to the slice, so that none reaches beyond
//! what the job replaces.

use crate::boundaries::Boundaries;
use crate::range_del::{RangeTombstone, RangeTombstones, TombstoneFragment};
use esker_base::SeqNo;

/// The range tombstones of a job's inputs, walked beside the job's keys.
#[derive(Clone, Debug, Default)]
pub struct InputRangeDels {
    all: RangeTombstones,
    kept: RangeTombstones,
    /// Fragments of `all` and of `kept` that end before the present key.
    passed: usize,
    kept_passed: usize,
    /// Whether the next fragment of `all`, and of `kept`, covers the present key.
    is_covered: bool,
    is_covered_by_kept: bool,
}

impl InputRangeDels {
    /// The range tombstones of all inputs. `older_outside` returns whether anything outside of the inputs may
    /// hold a version older than a sequence number among the keys from a first one up to an end; `true` is
    /// always safe.
    pub fn new<'a>(
        inputs: impl IntoIterator<Item = RangeTombstone<'a>>,
        boundaries: &Boundaries,
        mut older_outside: impl FnMut(&[u8], Option<&[u8]>, SeqNo) -> bool,
    ) -> InputRangeDels {
        let all = RangeTombstones::new(inputs);
        let mut kept = Vec::new();
        for fragment in all.fragments() {
            for seqno in newest_of_stripes(&fragment.seqnos, boundaries) {
                let delete = RangeTombstone { start: &fragment.start, end: fragment.end.as_deref(), seqno };
                if seqno > boundaries.oldest() || older_outside(delete.start, delete.end, seqno) {
                    kept.push(delete);
                }
            }
        }
        let kept = RangeTombstones::new(kept);
        InputRangeDels { all, kept, ..InputRangeDels::default() }
    }

    /// The range tombstones to write.
    pub fn kept(&self) -> &RangeTombstones {
        &self.kept
    }

    /// All range tombstones of the inputs.
    pub fn all(&self) -> &RangeTombstones {
        &self.all
    }

    /// Whether the inputs have none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn restart(&mut self) {
        (self.passed, self.kept_passed) = (0, 0);
        (self.is_covered, self.is_covered_by_kept) = (false, false);
    }

    pub(crate) fn advance_to(&mut self, key: &[u8]) {
        self.is_covered = advance(self.all.fragments(), &mut self.passed, key);
        self.is_covered_by_kept = advance(self.kept.fragments(), &mut self.kept_passed, key);
    }

    /// Whether the version `seqno` of the current key is hidden from all readers.
    pub(crate) fn hides(&self, seqno: SeqNo, boundaries: &Boundaries) -> bool {
        let fragment = self.all.fragments().get(self.passed).filter(|_| self.is_covered);
        // Of the newer ones the oldest has the fewest boundaries in between.
        let newer = fragment.and_then(|fragment| fragment.oldest_above(seqno));
        newer.is_some_and(|newer| boundaries.are_in_same_stripe(seqno, newer))
    }

    /// Whether every reader that sees version `seqno` of the current key also sees a range tombstone older
    /// than it: then nothing older than that matters, wherever it is.
    pub(crate) fn ends_below(&self, seqno: SeqNo, boundaries: &Boundaries) -> bool {
        let fragment = self.all.fragments().get(self.passed).filter(|_| self.is_covered);
        let older = fragment.and_then(|fragment| fragment.seqnos.iter().find(|&&older| older < seqno));
        older.is_some_and(|&older| boundaries.are_in_same_stripe(older, seqno))
    }

    /// Whether a range tombstone that is written covers the current key.
    pub(crate) fn covers_by_kept(&self) -> bool {
        self.is_covered_by_kept
    }
}

fn advance(fragments: &[TombstoneFragment], passed: &mut usize, key: &[u8]) -> bool {
    while let Some(fragment) = fragments.get(*passed) {
        if fragment.end.as_ref().is_none_or(|end| key < &**end) {
            return &*fragment.start <= key;
        }
        *passed += 1;
    }
    false
}

/// Of descending numbers the newest of each stripe; all above the visible one, which snapshots may divide.
fn newest_of_stripes(descending: &[SeqNo], boundaries: &Boundaries) -> Vec<SeqNo> {
    let mut kept: Vec<SeqNo> = Vec::new();
    for &seqno in descending {
        let hidden = kept.last().is_some_and(|&newer| {
            newer <= boundaries.visible() && boundaries.are_in_same_stripe(seqno, newer)
        });
        if !hidden {
            kept.push(seqno);
        }
    }
    kept
}
