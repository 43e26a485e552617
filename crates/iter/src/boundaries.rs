//! Snapshot boundaries: the sequence numbers at which readers may read, and the stripes between them.

use esker_base::SeqNo;

/// The sequence numbers of all registered snapshots, and V, the sequence number that was visible when they
/// were listed (RV4: after the inputs of the job were fixed). V stands for all readers without a snapshot and
/// for all snapshots to come, none of which is older (RV5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundaries {
    /// Ascending, without duplicates, never empty.
    ascending: Box<[SeqNo]>,
    visible: SeqNo,
    newest_snapshot: Option<SeqNo>,
    oldest_read_time_ms: u64,
}

impl Boundaries {
    /// Boundaries from the registered snapshots, in any order, and the visible sequence number.
    pub fn new(snapshots: impl IntoIterator<Item = SeqNo>, visible: SeqNo) -> Boundaries {
        let mut all: Vec<SeqNo> = snapshots.into_iter().collect();
        let newest_snapshot = all.iter().max().copied();
        all.push(visible);
        all.sort_unstable();
        all.dedup();
        Boundaries { ascending: all.into_boxed_slice(), visible, newest_snapshot, oldest_read_time_ms: 0 }
    }

    /// Sets the earliest time, in milliseconds since 1970, at which a present or future reader evaluates
    /// expiry times: that of the oldest snapshot, otherwise the present, because time does not run backwards.
    /// 0 means unknown: nothing has expired.
    #[must_use]
    pub fn reading_since(mut self, oldest_read_time_ms: u64) -> Boundaries {
        self.oldest_read_time_ms = oldest_read_time_ms;
        self
    }

    /// Whether an entry with this expiry time is invisible to all present and future readers.
    #[inline]
    pub fn is_expired_for_all(&self, expiry_ms: u64) -> bool {
        esker_base::expiry::is_over(expiry_ms, self.oldest_read_time_ms)
    }

    /// The smallest boundary: no reader reads at an earlier sequence number.
    #[inline]
    pub fn oldest(&self) -> SeqNo {
        self.ascending.first().copied().unwrap_or(self.visible)
    }

    /// The newest registered snapshot, if any: only readers of the present see newer entries.
    #[inline]
    pub(crate) fn newest_snapshot(&self) -> Option<SeqNo> {
        self.newest_snapshot
    }

    /// The sequence number that was visible.
    #[inline]
    pub fn visible(&self) -> SeqNo {
        self.visible
    }

    /// Whether two versions of a key are in one stripe: no boundary b has `older <= b < newer`. Every reader
    /// that could see the older version then sees the newer one.
    #[inline]
    pub fn are_in_same_stripe(&self, older: SeqNo, newer: SeqNo) -> bool {
        if newer <= self.oldest() {
            return true;
        }
        let at = self.ascending.partition_point(|&boundary| boundary < older);
        self.ascending.get(at).is_none_or(|&boundary| boundary >= newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_end_at_boundaries() {
        for set in 0..64u64 {
            let snapshots = (0..5).filter(|bit| set >> bit & 1 == 1).map(SeqNo::new);
            let boundaries = Boundaries::new(snapshots.clone().chain(snapshots.clone()), SeqNo::new(5));
            assert_eq!(boundaries.visible(), SeqNo::new(5));
            assert_eq!(boundaries.oldest(), snapshots.clone().next().unwrap_or(SeqNo::new(5)));
            for older in 0..8u64 {
                for newer in older..8 {
                    let divided = (older..newer).any(|b| b == 5 || (b < 5 && set >> b & 1 == 1));
                    let same = boundaries.are_in_same_stripe(SeqNo::new(older), SeqNo::new(newer));
                    assert_eq!(same, !divided, "set {set:#b}, {older} under {newer}");
                }
            }
        }
    }
}
