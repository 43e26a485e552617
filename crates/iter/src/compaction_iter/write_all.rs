//! Writing all retained entries to a sink in one loop: [`CompactionIter::write_all`].
//!
//! Stepping with `next`, `tag` and `entry` is expensive where the caller only writes: each call dispatches on
//! the entry's location again. In one loop, an entry is examined once; a plain Put that is visible and the
//! first of its key passes with one comparison of numbers, and only rule 3 remains to be decided. All other
//! entries take the path of [`CompactionIter::next`]. Whether a key has one version or many, its newest takes
//! the fast path.
//!
//! * WP1: while entries pass, the state of the last key is in `Passed`, and the key group lags behind. Every
//!   reader of the group updates it first; after an error it is not read.
//! * WP2: an older version of the key that passed last is dropped in the same loop if it is a plain Put as
//!   well, by rule 1: where updates are merged with the versions they replace, both take the fast path. The
//!   group is updated with the newer one alone.

use super::{CompactionIter, CompactionIterStats, KeyGroup};
use crate::boundaries::Boundaries;
use crate::cursor::Cursor;
use esker_base::key::leading;
use esker_base::{Result, SeqNo, Tag};

/// Receives the entries of [`CompactionIter::write_all`].
pub trait EntrySink {
    /// Writes the next entry; `begins_key` is whether it is the first one written of its
    /// key. Should be `#[inline(always)]`: it is called from two places, and only one of them is hot.
    ///
    /// # Errors
    /// Any error, which ends the writing.
    fn write(&mut self, key: &[u8], tag: Tag, value: &[u8], begins_key: bool) -> Result<()>;
}

impl<C: Cursor, O: FnMut(&[u8], SeqNo) -> bool> CompactionIter<C, O> {
    /// Writes all entries to `sink`, in order: the same as [`seek_to_first`](CompactionIter::seek_to_first)
    /// and [`next`](CompactionIter::next) until the end, in a third of the time. There is no current entry
    /// afterwards.
    ///
    /// # Errors
    /// Those of the cursor, and of the sink.
    pub fn write_all(&mut self, sink: &mut impl EntrySink) -> Result<()> {
        self.restart();
        self.cursor.seek_to_first()?;
        loop {
            if self.is_plain {
                self.write_plain(sink)?;
            }
            self.find_and_note()?;
            if !self.is_valid() {
                return Ok(());
            }
            loop {
                let (key, tag, value) = self.entry();
                write_any(sink, key, tag, value, self.begins_key)?;
                if !self.leave()? {
                    break;
                }
            }
        }
    }

    /// Writes entries to `sink` as long as they are plain Puts, visible, and the newest of their key, which
    /// most are: only their sequence number can change. Ends on the first other entry, which was not
    /// examined, or on none.
    #[inline]
    fn write_plain(&mut self, sink: &mut impl EntrySink) -> Result<()> {
        let mut passed = Passed::none_since(&self.group);
        while self.cursor.is_valid() {
            let (key, mut tag, value) = self.cursor.entry();
            let seqno = tag.seqno();
            if !tag.is_plain_put() || seqno > self.boundaries.visible() {
                break;
            }
            let leading = leading(key);
            if leading <= passed.leading {
                if passed.hides(&self.group, &self.boundaries, leading, key, seqno) {
                    // Rule 1 for an update and the version it replaces, without updating the group.
                    self.stats.hidden += 1;
                    self.cursor.pass()?;
                    continue;
                }
                // Possibly the same key: compare with the group, once that is the last entry's again.
                passed.tell(&mut self.group, &mut self.stats);
                if self.group.is_begun && self.group.key.is(key) {
                    break;
                }
            }
            let zeroes = self.zeroes_seqnos
                && seqno <= self.oldest
                && seqno > SeqNo::ZERO
                && !(self.older_outside)(key, seqno);
            if zeroes {
                tag = Tag::from_parts(SeqNo::ZERO, tag.kind_byte());
                self.stats.zeroed += 1;
            }
            passed = Passed { leading, key_len: key.len(), seqno, is_zeroed: zeroes, is_any: true };
            if key.len() > LEADING_BYTES {
                self.group.key.set(key);
            }
            sink.write(key, tag, value, true)?;
            self.cursor.pass()?;
        }
        passed.tell(&mut self.group, &mut self.stats);
        Ok(())
    }
}

/// Bytes of a key that [`leading`] covers.
const LEADING_BYTES: usize = 16;

/// The last entry that passed, as numbers; the group is updated from it on demand.
#[derive(Clone, Copy)]
struct Passed {
    /// The leading bytes of its key; greater ones belong to another key.
    leading: u128,
    key_len: usize,
    seqno: SeqNo,
    is_zeroed: bool,
    /// Whether the group does not reflect it yet.
    is_any: bool,
}

impl Passed {
    fn none_since(group: &KeyGroup) -> Passed {
        let leading = if group.is_begun { leading(group.key.as_slice()) } else { 0 };
        Passed { leading, key_len: 0, seqno: SeqNo::ZERO, is_zeroed: false, is_any: false }
    }

    /// Whether a plain Put with these leading bytes, key and number is an older version of the last entry,
    /// which hides it (rule 1). `group` has the last entry's key, if that is longer than its leading bytes.
    #[inline]
    fn hides(
        &self,
        group: &KeyGroup,
        boundaries: &Boundaries,
        leading: u128,
        key: &[u8],
        seqno: SeqNo,
    ) -> bool {
        self.is_any
            && (leading, key.len()) == (self.leading, self.key_len)
            && (key.len() <= LEADING_BYTES || group.key.is(key))
            && boundaries.are_in_same_stripe(seqno, self.seqno)
    }

    /// Updates the group to the last entry's key, if needed. Longer keys are set already.
    #[inline(never)]
    fn tell(&mut self, group: &mut KeyGroup, stats: &mut CompactionIterStats) {
        if !std::mem::take(&mut self.is_any) {
            return;
        }
        stats.tombstones += u64::from(group.withheld.is_some());
        if self.key_len <= LEADING_BYTES {
            group.key.set(&self.leading.to_be_bytes()[..self.key_len]);
        }
        group.begin_with_its_key();
        group.hidden_below = Some(self.seqno);
        (group.is_any_kept, group.is_any_given) = (true, true);
        group.is_any_zeroed = self.is_zeroed;
    }
}

/// Writes out of line, so that the sink is inlined only into the hot loop.
#[inline(never)]
fn write_any(sink: &mut impl EntrySink, key: &[u8], tag: Tag, value: &[u8], begins_key: bool) -> Result<()> {
    sink.write(key, tag, value, begins_key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_merge::OperandMerger;
    use crate::merge::MergingCursor;
    use crate::operator::MergeOperator;
    use crate::slice::{Entry, SliceCursor};
    use crate::testing::{Rng, deal, random_entries};
    use esker_base::ValueKind;
    use esker_base::kind::FLAG_EXPIRY;
    use std::sync::Arc;

    /// Entries written, and their maximum number.
    struct Given(Vec<(Entry, bool)>, usize);

    impl EntrySink for Given {
        fn write(&mut self, key: &[u8], tag: Tag, value: &[u8], begins_key: bool) -> Result<()> {
            if self.0.len() == self.1 {
                return Err(esker_base::Error::Closed);
            }
            self.0.push((Entry { key: key.to_vec(), tag, value: value.to_vec() }, begins_key));
            Ok(())
        }
    }

    /// Makes some entries expire, others operands, and a few of unknown kind.
    fn vary(rng: &mut Rng, entries: &mut [Entry]) {
        for entry in entries {
            let (seqno, is_put) = (entry.tag.seqno(), entry.tag.kind_byte() == ValueKind::Put as u8);
            match rng.below(40) {
                0 | 1 if is_put => {
                    entry.tag = Tag::from_parts(seqno, ValueKind::Put as u8 | FLAG_EXPIRY);
                    let expiry_ms = [5u64, 15][rng.below(2)];
                    entry.value.splice(..0, expiry_ms.to_le_bytes());
                }
                2..=5 if is_put => entry.tag = Tag::new(seqno, ValueKind::Merge),
                6 => entry.tag = Tag::from_parts(seqno, 0x0c),
                _ => {}
            }
        }
    }

    /// WP2: equal leading bytes are not equal keys.
    #[test]
    fn keys_with_equal_leading_bytes_are_distinguished() {
        for keys in [
            [&b"k"[..], b"k\0", b"k\0\0"],
            [b"sixteen bytes of", b"sixteen bytes of\0", b"sixteen bytes of it"],
        ] {
            let entry = |&key: &&[u8], seqno: u64| Entry {
                key: key.to_vec(),
                tag: Tag::new(SeqNo::new(seqno), ValueKind::Put),
                value: vec![],
            };
            let runs: Vec<Vec<Entry>> = [9, 5]
                .map(|newest| keys.iter().zip(0..).map(|(key, at)| entry(key, newest - at)).collect())
                .into();
            let merge = MergingCursor::new(runs.iter().map(|run| SliceCursor::new(run)).collect());
            let boundaries = Boundaries::new([], SeqNo::new(10));
            let mut iter = CompactionIter::new(merge, boundaries, |_: &[u8], _| true);
            let mut given = Given(Vec::new(), usize::MAX);
            iter.write_all(&mut given).unwrap();
            assert_eq!(given.0, runs[0].iter().map(|entry| (entry.clone(), true)).collect::<Vec<_>>());
            assert_eq!(iter.stats().hidden, 3);
        }
    }

    #[test]
    fn write_all_equals_stepping() {
        let (mut plain, mut all) = (0, 0);
        for seed in 0..600 {
            let mut rng = Rng::new(seed);
            let space = 1 + rng.below(120);
            let mut entries = random_entries(&mut rng, 150, space);
            if rng.chance(70) {
                vary(&mut rng, &mut entries);
            }
            // Keys whose leading bytes are equal, or nearly so.
            let shared = &b"leading bytes 16"[..[0, 0, 12, 16][rng.below(4)]];
            entries.iter_mut().for_each(|entry| drop(entry.key.splice(..0, shared.iter().copied())));
            let count = 1 + rng.below(4);
            let sources = deal(&mut rng, &entries, count);
            // Sometimes entries are newer than the visible number.
            let visible = if rng.chance(30) { 100 } else { 150 };
            let snapshots: Vec<SeqNo> =
                (0..rng.below(4)).map(|_| SeqNo::new(rng.below(150) as u64)).collect();
            let boundaries = Boundaries::new(snapshots, SeqNo::new(visible)).reading_since(10);
            let (zeroes, folds, vague) = (rng.chance(50), rng.chance(50), rng.below(5) as u8);
            let make = || {
                let merge =
                    MergingCursor::new(sources.iter().map(|source| SliceCursor::new(source)).collect());
                let outside =
                    |key: &[u8], _: SeqNo| key.last().is_some_and(|last| last % 5 == vague && vague > 0);
                let operand_merger = Arc::new(OperandMerger::new(MergeOperator::append(b""), "k".into()));
                let iter = CompactionIter::new(merge, boundaries.clone(), outside)
                    .operand_merger(Some(operand_merger).filter(|_| folds));
                if zeroes { iter.zeroing_seqnos() } else { iter }
            };
            let mut stepping = make();
            let mut found = Given(Vec::new(), usize::MAX);
            let mut ended = stepping.seek_to_first();
            while ended.is_ok() && stepping.is_valid() {
                let (key, tag, value) = stepping.entry();
                ended = found.write(key, tag, value, stepping.begins_key()).and_then(|()| stepping.next());
            }
            let mut giving = make();
            let mut given = Given(Vec::new(), usize::MAX);
            let gave = giving.write_all(&mut given);
            assert_eq!(given.0, found.0, "seed {seed}");
            assert_eq!(giving.stats(), stepping.stats(), "seed {seed}");
            assert_eq!(gave.map_err(|e| e.to_string()), ended.map_err(|e| e.to_string()), "seed {seed}");
            plain += found.0.iter().filter(|(entry, begins)| entry.tag.is_plain_put() && *begins).count();
            all += found.0.len();
            // The sink's error ends the writing at once.
            if let Some(enough) = found.0.len().checked_sub(1) {
                let mut given = Given(Vec::new(), enough);
                assert!(matches!(make().write_all(&mut given), Err(esker_base::Error::Closed)));
                assert_eq!(given.0, found.0[..enough]);
            }
        }
        assert!(plain > 10_000 && all - plain > 10_000, "{plain} plain entries of {all}");
    }
}
