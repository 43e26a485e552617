//! Output splitting: where a compaction ends one output table and begins the next.

use crate::options::StrategyOptions;
use crate::position::Position;
use crate::shape::base_run;
use esker_base::key::head;
use esker_version::{LevelIndex, Run, Version};
use std::sync::Arc;

/// The splitting rules as data, applied by the executor.
///
/// Above the last level, tables end at the part borders of the run that they will be merged into, as soon as
/// they have a minimum size. Then that merge is a column of whole tables and rewrites nothing beside it. A
/// table is never cut inside a user key (I2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The target table size. A table may grow to twice that if the remainder would be too small for another.
    pub table_bytes: u64,
    /// The run whose part borders are preferred.
    pub align: Option<Arc<Run>>,
    /// The size from which a table ends at such a border.
    pub min_aligned_bytes: u64,
    /// A table ends before it overlaps more bytes of that run.
    pub max_overlap_bytes: u64,
}

impl Cut {
    /// Tables of one size, without alignment.
    pub fn plain(table_bytes: u64) -> Cut {
        Cut { table_bytes, align: None, min_aligned_bytes: table_bytes, max_overlap_bytes: u64::MAX }
    }

    /// The rules for output of a flush or a compaction that goes to `to`.
    pub fn for_output(version: &Version, to: Position, options: &StrategyOptions) -> Cut {
        let last_bytes = version.level(LevelIndex::LAST).map_or(0, |last| last.bytes());
        let table_bytes = options.table_bytes(last_bytes).max(1);
        Cut {
            table_bytes,
            align: merge_partner(version, to.level()).cloned(),
            min_aligned_bytes: (table_bytes / 16).max(1),
            max_overlap_bytes: table_bytes.saturating_mul(10),
        }
    }
}

/// The run that output in `level` merges with next: of the next level, or the oldest run of the last one.
pub(crate) fn merge_partner(version: &Version, level: LevelIndex) -> Option<&Arc<Run>> {
    let below = version.levels().iter().find(|below| below.index > level)?;
    match below.runs() {
        [only] => Some(only),
        _ => base_run(version),
    }
}

/// Applies a [`Cut`] to a stream of keys.
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    cut: &'a Cut,
    /// Parts of the aligned run that start at or before the last key; `None` before the first key.
    reached: Option<usize>,
    /// Bytes of the aligned run that the current table overlaps.
    overlap_bytes: u64,
    /// The first eight bytes of the smallest key of that run's next part; `u64::MAX` if there is none.
    next_head: u64,
}

impl<'a> Cutter<'a> {
    /// A cutter before the first key.
    pub fn new(cut: &'a Cut) -> Cutter<'a> {
        let next_head = if cut.align.is_some() { 0 } else { u64::MAX };
        Cutter { cut, reached: None, overlap_bytes: 0, next_head }
    }

    /// Whether the current table may end before `key` for another reason than its size; if so, the caller
    /// calls [`Cutter::ends_before`]. One comparison of two integers for keys that differ in their first
    /// eight bytes.
    #[inline]
    pub fn is_at_border(&self, key: &[u8]) -> bool {
        head(key, 0) >= self.next_head && self.reaches_next(key)
    }

    fn reaches_next(&self, key: &[u8]) -> bool {
        let Some(run) = &self.cut.align else { return false };
        let Some(reached) = self.reached else { return true };
        run.parts().get(reached).is_some_and(|part| part.smallest() <= key)
    }

    /// Interval of the size checks, in bytes of keys and values: tables exceed their size by at most this.
    pub fn step_bytes(&self) -> u64 {
        (self.cut.table_bytes / 64).clamp(1, 64 << 10)
    }

    /// Whether the current table, of `written_bytes`, ends before `key`. Called with ascending user keys
    /// where [`Cutter::is_at_border`] is true, and at least once every [`Cutter::step_bytes`]; `left_bytes`
    /// estimates the remaining input. Amortised O(1).
    pub fn ends_before(&mut self, key: &[u8], written_bytes: u64, left_bytes: u64) -> bool {
        let (crossed, entered_bytes) = self.advance(key);
        let overlap_bytes = self.overlap_bytes.saturating_add(entered_bytes);
        let cut = self.cut;
        let ends = written_bytes > 0
            && (written_bytes >= cut.table_bytes.saturating_mul(2)
                || (written_bytes >= cut.table_bytes && left_bytes >= cut.table_bytes / 4)
                || (crossed && written_bytes >= cut.min_aligned_bytes)
                || (entered_bytes > 0 && overlap_bytes > cut.max_overlap_bytes));
        self.overlap_bytes = if ends { self.overlapped_by(key) } else { overlap_bytes };
        ends
    }

    /// Advances to `key`: whether a border was crossed, and the bytes of the parts entered.
    fn advance(&mut self, key: &[u8]) -> (bool, u64) {
        let Some(run) = &self.cut.align else { return (false, 0) };
        let Some(before) = self.reached else {
            self.reached = Some(run.parts().partition_point(|part| part.smallest() <= key));
            self.note_next();
            return (false, self.overlapped_by(key));
        };
        let reached = run.parts()[before..].iter().take_while(|part| part.smallest() <= key);
        let (count, bytes) =
            reached.fold((0, 0u64), |(count, bytes), part| (count + 1, bytes.saturating_add(part.bytes)));
        self.reached = Some(before + count);
        self.note_next();
        // Keys before the first part belong to its partition, so its start is no border.
        (count > 0 && before > 0, bytes)
    }

    fn note_next(&mut self) {
        let next =
            self.cut.align.as_ref().zip(self.reached).and_then(|(run, reached)| run.parts().get(reached));
        self.next_head = next.map_or(u64::MAX, |part| head(part.smallest(), 0));
    }

    /// Bytes of the part of the aligned run that `key` lies in.
    fn overlapped_by(&self, key: &[u8]) -> u64 {
        let run = self.cut.align.as_ref();
        let last = run.zip(self.reached).and_then(|(run, reached)| run.parts().get(reached.checked_sub(1)?));
        last.filter(|part| part.contains(key)).map_or(0, |part| part.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{FileNumber, PartId, RunId, TableUid};
    use esker_version::{KeyRange, PartMeta, Place};

    /// Parts `a-c`, `e-g`, `i-k`, ... of 100 bytes in the last level.
    fn version() -> Version {
        let place = Place { level: LevelIndex::LAST, run: RunId(1), order: 1 };
        let parts = (0..6u8).map(|at| {
            let range = KeyRange::inclusive(vec![b'a' + 4 * at], vec![b'c' + 4 * at]);
            let id = u64::from(at) + 1;
            (place, Arc::new(PartMeta::new(PartId(id), FileNumber(id), 100, TableUid(id), range)))
        });
        Version::from_parts(parts).unwrap()
    }

    /// Cuts one entry per letter, each of `entry_bytes`; tables as strings of their keys.
    fn tables(cut: &Cut, entry_bytes: u64) -> Vec<String> {
        let mut cutter = Cutter::new(cut);
        let mut tables = vec![String::new()];
        for key in b'a'..=b'x' {
            let written = tables.last().unwrap().len() as u64 * entry_bytes;
            let left = u64::from(b'x' + 1 - key) * entry_bytes;
            // The reported borders are exactly the parts reached.
            let (is_at_border, reached) = (cutter.is_at_border(&[key]), cutter.reached);
            let ends = cutter.ends_before(&[key], written, left);
            assert_eq!(is_at_border, cutter.reached != reached);
            if ends {
                tables.push(String::new());
            }
            tables.last_mut().unwrap().push(key.into());
        }
        tables
    }

    fn cut_for(table_bytes: u64) -> Cut {
        let options = StrategyOptions { table_bytes: Some(table_bytes), ..StrategyOptions::default() };
        Cut::for_output(&version(), Position::Front(LevelIndex::FLUSH), &options)
    }

    #[test]
    fn tables_end_at_the_borders_below_as_soon_as_they_are_worth_it() {
        assert_eq!(tables(&cut_for(160), 10), ["abcd", "efgh", "ijkl", "mnop", "qrst", "uvwx"]);
        // A sixteenth of 640 are four entries, of 1280 eight.
        assert_eq!(tables(&cut_for(640), 10), ["abcd", "efgh", "ijkl", "mnop", "qrst", "uvwx"]);
        assert_eq!(tables(&cut_for(1280), 10), ["abcdefgh", "ijklmnop", "qrstuvwx"]);
    }

    #[test]
    fn tables_end_before_they_overlap_too_much() {
        // Twelve bytes of entries: only the overlap limit of ten times 20 ends them, after two parts of 100.
        let cut = Cut { min_aligned_bytes: 1000, ..cut_for(20) };
        assert_eq!(cut.max_overlap_bytes, 200);
        let mut cutter = Cutter::new(&cut);
        let ends: Vec<char> =
            (b'a'..=b'x').filter(|key| cutter.ends_before(&[*key], 1, 1)).map(char::from).collect();
        assert_eq!(ends, ['i', 'q']);
    }

    #[test]
    fn sizes_bound_tables_and_a_short_rest_joins_the_last() {
        let plain = Cut::plain(100);
        assert_eq!(tables(&plain, 10), ["abcdefghij", "klmnopqrst", "uvwx"]);
        // 24 entries of 11 are 264 bytes: 24 are left after two tables, less than a quarter.
        let rest = Cut::plain(121);
        assert_eq!(tables(&rest, 11), ["abcdefghijk", "lmnopqrstuvwx"]);
        // Never more than twice the size, even if the estimate of the remainder is zero.
        let mut cutter = Cutter::new(&plain);
        assert!(!cutter.ends_before(b"k", 199, 0));
        assert!(cutter.ends_before(b"l", 200, 0));
        assert!(!cutter.ends_before(b"m", 0, 1000), "an empty table never ends");
    }

    #[test]
    fn the_partner_is_the_run_that_output_will_be_merged_with() {
        let version = version();
        let align = |level| merge_partner(&version, level).map(|run| run.id);
        assert_eq!(align(LevelIndex::FLUSH), Some(RunId(1)));
        assert_eq!(align(LevelIndex::LAST), None);
    }
}
