//! The contents of simulated tables, as intervals of time.
//!
//! Time is counted in operations. The load of all keys takes the time from `-keys` to 0 and overwrites
//! follow, so an interval that begins with the load contains everything. Where entries expire, a merge turns
//! expired entries into tombstones, which an interval records as the earliest write time that was still alive
//! at the merge.

/// One past the last position of the key space. Keys are eight bytes, so their order is that of positions; 48
/// bits keep products in range and are far finer than any table.
pub(crate) const SPAN: u64 = 1 << 48;

/// A half-open interval of time, in operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ages {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Entries written before this had expired at the last merge; `from` if none had.
    pub(crate) alive_from: f64,
}

impl Ages {
    /// An interval in which nothing has expired.
    pub(crate) fn new(from: f64, to: f64) -> Ages {
        Ages { from, to, alive_from: from }
    }

    /// The interval after a merge that dropped everything written before a moment.
    #[must_use]
    pub(crate) fn without_expired(self, before: f64) -> Ages {
        Ages { alive_from: self.alive_from.max(before).clamp(self.from, self.to), ..self }
    }

    /// The smallest interval that contains both; for adjacent runs of a tree it is the union.
    #[must_use]
    pub(crate) fn hull(self, other: Ages) -> Ages {
        Ages {
            from: self.from.min(other.from),
            to: self.to.max(other.to),
            alive_from: self.alive_from.min(other.alive_from),
        }
    }
}

/// A range of positions and when its entries were written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    /// The first position that lies outside.
    pub(crate) end: u64,
    pub(crate) ages: Ages,
}

/// The parts of `segments`, which ascend, between two positions.
pub(crate) fn clipped(segments: &[Segment], start: u64, end: u64) -> impl Iterator<Item = Segment> + '_ {
    let from = segments.partition_point(|segment| segment.end <= start);
    segments[from..].iter().take_while(move |segment| segment.start < end).map(move |segment| Segment {
        start: segment.start.max(start),
        end: segment.end.min(end),
        ages: segment.ages,
    })
}

/// Merges lists of ascending segments: at every position the union of all intervals there. O(n log n) in all
/// segments, times the lists that overlap at a position.
pub(crate) fn merged(lists: &[Vec<Segment>]) -> Vec<Segment> {
    let mut borders: Vec<u64> =
        lists.iter().flatten().flat_map(|segment| [segment.start, segment.end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut reached = vec![0usize; lists.len()];
    let mut out: Vec<Segment> = Vec::new();
    for pair in borders.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let mut ages: Option<Ages> = None;
        for (list, at) in lists.iter().zip(&mut reached) {
            while list.get(*at).is_some_and(|segment| segment.end <= start) {
                *at += 1;
            }
            if let Some(segment) = list.get(*at).filter(|segment| segment.start <= start) {
                ages = Some(ages.map_or(segment.ages, |ages| ages.hull(segment.ages)));
            }
        }
        let Some(ages) = ages else { continue };
        match out.last_mut() {
            Some(last) if last.end == start && last.ages == ages => last.end = end,
            _ => out.push(Segment { start, end, ages }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: u64, end: u64, from: f64, to: f64) -> Segment {
        Segment { start, end, ages: Ages::new(from, to) }
    }

    #[test]
    fn merges_join_segments_at_a_position() {
        let newer = vec![segment(10, 30, 5.0, 6.0)];
        let older = vec![segment(0, 20, 0.0, 4.0), segment(25, 40, 4.0, 5.0)];
        let expected = vec![
            segment(0, 10, 0.0, 4.0),
            segment(10, 20, 0.0, 6.0),
            segment(20, 25, 5.0, 6.0),
            segment(25, 30, 4.0, 6.0),
            segment(30, 40, 4.0, 5.0),
        ];
        assert_eq!(merged(&[newer.clone(), older.clone()]), expected);
        assert_eq!(merged(&[older, newer]), expected);
        assert_eq!(merged(&[]), []);
    }

    #[test]
    fn equal_neighbours_become_one() {
        let parts = vec![segment(0, 10, 0.0, 4.0), segment(10, 20, 0.0, 4.0), segment(30, 40, 0.0, 4.0)];
        assert_eq!(merged(&[parts]), [segment(0, 20, 0.0, 4.0), segment(30, 40, 0.0, 4.0)]);
    }

    #[test]
    fn clips_keep_the_inside() {
        let segments = [segment(0, 10, 0.0, 1.0), segment(10, 20, 1.0, 2.0), segment(30, 40, 2.0, 3.0)];
        let inside: Vec<Segment> = clipped(&segments, 5, 35).collect();
        assert_eq!(inside, [segment(5, 10, 0.0, 1.0), segment(10, 20, 1.0, 2.0), segment(30, 35, 2.0, 3.0)]);
        assert_eq!(clipped(&segments, 20, 30).count(), 0);
    }
}
