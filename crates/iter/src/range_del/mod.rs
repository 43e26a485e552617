//! Range tombstones as a set of fragments: the form in which memtables keep them, tables store them and
//! compactions carry them along.
//!
//! A range tombstone `[start, end)@s`, written by a range delete, hides every version older than `s` of every
//! key from `start` up to, and not including, `end`. Range tombstones overlap; *fragments* do not: tombstones
//! are cut at every start and every end, so that the same range tombstones cover a fragment from its first
//! key to its last. A fragment lists their sequence numbers, newest first. The newest range tombstone over a
//! key that a reader sees takes one binary search for the fragment and one among its numbers.
//!
//! A range without an end continues behind every key. There is no greatest key that could be an exclusive
//! end, and the least key, the empty one, can never be an end, so where an end is stored the empty key means
//! "none".

pub mod aggregate;
pub mod compaction;
#[cfg(test)]
mod tests;

use esker_base::SeqNo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One range tombstone, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeTombstone<'a> {
    /// The first key that is deleted.
    pub start: &'a [u8],
    /// The first key that is not; `None` if all keys from `start` on are deleted.
    pub end: Option<&'a [u8]>,
    /// Versions older than this are deleted.
    pub seqno: SeqNo,
}

impl<'a> RangeTombstone<'a> {
    /// A range tombstone from its stored form: start, end (empty for none), sequence number.
    pub fn stored(start: &'a [u8], end: &'a [u8], seqno: SeqNo) -> RangeTombstone<'a> {
        RangeTombstone { start, end: Some(end).filter(|end| !end.is_empty()), seqno }
    }

    /// The part of it from `low` up to `high`; `None` if there is none.
    #[must_use]
    pub fn clipped(self, low: Option<&'a [u8]>, high: Option<&'a [u8]>) -> Option<RangeTombstone<'a>> {
        let start = low.map_or(self.start, |low| low.max(self.start));
        let end = least_end(self.end, high);
        let clipped = RangeTombstone { start, end, seqno: self.seqno };
        (!clipped.is_empty()).then_some(clipped)
    }

    fn is_empty(&self) -> bool {
        self.end.is_some_and(|end| end <= self.start)
    }
}

/// The earlier of two ends, of which `None` is the latest.
#[inline]
pub(crate) fn least_end<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (only, None) | (None, only) => only,
    }
}

/// From the first key that range tombstones cover up to the greatest end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneHull {
    /// The first key inside.
    pub start: Arc<[u8]>,
    /// The first key outside; `None` if there is none.
    pub end: Option<Arc<[u8]>>,
}

/// Keys covered by the same range tombstones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneFragment {
    /// The first key inside.
    pub start: Arc<[u8]>,
    /// The first key outside; `None` if there is none.
    pub end: Option<Arc<[u8]>>,
    /// Sequence numbers of its range tombstones: descending, without duplicates, never empty.
    pub seqnos: Box<[SeqNo]>,
}

impl TombstoneFragment {
    /// Whether `key`, which is not before the start, is inside.
    #[inline]
    fn ends_behind(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < &**end)
    }

    /// The newest of its range tombstones that a reader at `seqno` sees; [`SeqNo::ZERO`] if it sees none.
    #[inline]
    pub fn newest_at(&self, seqno: SeqNo) -> SeqNo {
        let at = self.seqnos.partition_point(|&own| own > seqno);
        self.seqnos.get(at).copied().unwrap_or(SeqNo::ZERO)
    }

    /// The oldest of its range tombstones that is newer than `seqno`.
    #[inline]
    pub fn oldest_above(&self, seqno: SeqNo) -> Option<SeqNo> {
        let above = self.seqnos.partition_point(|&own| own > seqno);
        self.seqnos.get(above.checked_sub(1)?).copied()
    }

    fn deletes(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.seqnos.iter().map(|&seqno| RangeTombstone {
            start: &self.start,
            end: self.end.as_deref(),
            seqno,
        })
    }
}

/// An interval of keys over which a reader sees the same newest range tombstone, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneInterval<'a> {
    /// The first key inside; `None` if it begins before every key.
    pub low: Option<&'a [u8]>,
    /// The first key outside; `None` if there is none.
    pub high: Option<&'a [u8]>,
    /// The newest range tombstone; [`SeqNo::ZERO`] if there is none.
    pub newest: SeqNo,
}

impl TombstoneInterval<'_> {
    /// All keys, without a range tombstone.
    pub const NOTHING: TombstoneInterval<'static> =
        TombstoneInterval { low: None, high: None, newest: SeqNo::ZERO };
}

/// Disjoint fragments in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    fragments: Vec<TombstoneFragment>,
}

impl RangeTombstones {
    /// The fragments of range tombstones in any order; empty ranges are left out.
    ///
    /// O(n log n) for n of them, and the sum of their overlaps in memory: n nested ones give about n squared
    /// sequence numbers, so owners bound n.
    pub fn new<'a>(deletes: impl IntoIterator<Item = RangeTombstone<'a>>) -> RangeTombstones {
        RangeTombstones::reduced(deletes, |_| {})
    }

    /// As [`RangeTombstones::new`], where `reduce` removes the sequence numbers of each fragment that need
    /// not be kept. It gets them in descending order; a fragment without any is left out.
    pub fn reduced<'a>(
        deletes: impl IntoIterator<Item = RangeTombstone<'a>>,
        mut reduce: impl FnMut(&mut Vec<SeqNo>),
    ) -> RangeTombstones {
        let deletes: Vec<RangeTombstone<'a>> =
            deletes.into_iter().filter(|delete| !delete.is_empty()).collect();
        let mut borders: Vec<(&[u8], bool, SeqNo)> = Vec::with_capacity(2 * deletes.len());
        for delete in &deletes {
            borders.push((delete.start, true, delete.seqno));
            borders.extend(delete.end.map(|end| (end, false, delete.seqno)));
        }
        borders.sort_unstable();
        let mut set = RangeTombstones::default();
        // Open range tombstones of each sequence number; a set that was fragmented before has several.
        let mut open: BTreeMap<SeqNo, usize> = BTreeMap::new();
        let (mut start, mut seqnos): (&[u8], Vec<SeqNo>) = (&[], Vec::new());
        for (key, opens, seqno) in borders {
            if key != start {
                set.push(start, Some(key), &open, &mut seqnos, &mut reduce);
                start = key;
            }
            let count = open.entry(seqno).or_insert(0);
            *count = if opens { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                open.remove(&seqno);
            }
        }
        set.push(start, None, &open, &mut seqnos, &mut reduce);
        set
    }

    fn push(
        &mut self,
        start: &[u8],
        end: Option<&[u8]>,
        open: &BTreeMap<SeqNo, usize>,
        seqnos: &mut Vec<SeqNo>,
        reduce: &mut impl FnMut(&mut Vec<SeqNo>),
    ) {
        seqnos.clear();
        seqnos.extend(open.keys().rev());
        reduce(seqnos);
        if seqnos.is_empty() {
            return;
        }
        match self.fragments.last_mut() {
            // Adjacent fragments with equal numbers need no cut.
            Some(last) if last.end.as_deref() == Some(start) && *last.seqnos == **seqnos => {
                last.end = end.map(Arc::from);
            }
            Some(last) if last.end.as_deref() == Some(start) => {
                let start = last.end.clone().unwrap_or_default();
                self.fragments.push(TombstoneFragment {
                    start,
                    end: end.map(Arc::from),
                    seqnos: seqnos[..].into(),
                });
            }
            _ => self.fragments.push(TombstoneFragment {
                start: start.into(),
                end: end.map(Arc::from),
                seqnos: seqnos[..].into(),
            }),
        }
    }

    /// Fragments that are disjoint and ascending already, each with its numbers descending.
    ///
    /// # Errors
    /// What is wrong with them, as a sentence.
    pub fn from_fragments(fragments: Vec<TombstoneFragment>) -> Result<RangeTombstones, String> {
        let mut before: Option<&TombstoneFragment> = None;
        for fragment in &fragments {
            let start = &*fragment.start;
            if fragment.end.as_ref().is_some_and(|end| **end <= *start) {
                return Err(format!("the fragment from {} ends before it starts", start.escape_ascii()));
            }
            if before.is_some_and(|before| before.ends_behind(start)) {
                return Err(format!("the fragment from {} begins inside another", start.escape_ascii()));
            }
            let descends = fragment.seqnos.windows(2).all(|pair| pair[0] > pair[1]);
            if fragment.seqnos.is_empty() || !descends {
                let text = "has no sequence numbers in falling order";
                return Err(format!("the fragment from {} {text}", start.escape_ascii()));
            }
            before = Some(fragment);
        }
        Ok(RangeTombstones { fragments })
    }

    /// The fragments in key order.
    pub fn fragments(&self) -> &[TombstoneFragment] {
        &self.fragments
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Pairs of a fragment and a sequence number: what tables count as range tombstones.
    pub fn len(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.seqnos.len() as u64).sum()
    }

    /// The first key covered, and the end of the last fragment; `None` if there is no fragment.
    pub fn hull(&self) -> Option<TombstoneHull> {
        let (first, last) = (self.fragments.first()?, self.fragments.last()?);
        Some(TombstoneHull { start: Arc::clone(&first.start), end: last.end.clone() })
    }

    /// The oldest and the newest sequence number; `None` if there is no fragment.
    pub fn seqnos(&self) -> Option<(SeqNo, SeqNo)> {
        let oldest = self.fragments.iter().filter_map(|fragment| fragment.seqnos.last()).min()?;
        let newest = self.fragments.iter().filter_map(|fragment| fragment.seqnos.first()).max()?;
        Some((*oldest, *newest))
    }

    /// Approximate bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let of = |fragment: &TombstoneFragment| {
            let keys = fragment.start.len() + fragment.end.as_ref().map_or(0, |end| end.len());
            size_of::<TombstoneFragment>() + keys + size_of_val(&*fragment.seqnos)
        };
        self.fragments.iter().map(of).sum()
    }

    /// Every range tombstone, once for each fragment it was cut into.
    pub fn deletes(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.fragments.iter().flat_map(TombstoneFragment::deletes)
    }

    /// The fragment that covers `key`.
    #[inline]
    pub fn fragment_over(&self, key: &[u8]) -> Option<&TombstoneFragment> {
        let at = self.fragments.partition_point(|fragment| &*fragment.start <= key);
        self.fragments.get(at.checked_sub(1)?).filter(|fragment| fragment.ends_behind(key))
    }

    /// The fragments that do not end before `key`, in order.
    pub fn fragments_from(&self, key: &[u8]) -> impl Iterator<Item = &TombstoneFragment> {
        let from = self.fragments.partition_point(|fragment| !fragment.ends_behind(key));
        self.fragments[from..].iter()
    }

    /// The newest range tombstone over `key` visible at `seqno`, or [`SeqNo::ZERO`]. O(log n).
    #[inline]
    pub fn newest_over(&self, key: &[u8], seqno: SeqNo) -> SeqNo {
        self.fragment_over(key).map_or(SeqNo::ZERO, |fragment| fragment.newest_at(seqno))
    }

    /// The interval around `key` for a reader at `seqno`: one fragment, or the keys between two. O(log n).
    pub fn interval(&self, key: &[u8], seqno: SeqNo) -> TombstoneInterval<'_> {
        let behind = self.fragments.partition_point(|fragment| &*fragment.start <= key);
        let high = self.fragments.get(behind).map(|next| &*next.start);
        let Some(fragment) = behind.checked_sub(1).map(|at| &self.fragments[at]) else {
            return TombstoneInterval { low: None, high, newest: SeqNo::ZERO };
        };
        if fragment.ends_behind(key) {
            let newest = fragment.newest_at(seqno);
            return TombstoneInterval { low: Some(&fragment.start), high: fragment.end.as_deref(), newest };
        }
        TombstoneInterval { low: fragment.end.as_deref(), high, newest: SeqNo::ZERO }
    }

    /// Whether a key from `low` up to `high` may be covered.
    pub fn touches(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> bool {
        let behind = high.map_or(self.fragments.len(), |high| {
            self.fragments.partition_point(|fragment| &*fragment.start < high)
        });
        let last = behind.checked_sub(1).map(|at| &self.fragments[at]);
        last.is_some_and(|last| low.is_none_or(|low| last.ends_behind(low)))
    }
}
