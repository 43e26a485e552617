//! Rule 7: merging the operands of a key in a flush or compaction.
//!
//! The consecutive operands of one stripe are collected. Those expired for all readers are dropped, except
//! the newest above the oldest boundary (below). The result depends on how the history of the key continues
//! below them:
//!
//! * A Put that does not expire, in the same stripe: they are merged onto it.
//! * A Delete, a SingleDelete, an expired Put or a range tombstone in the same stripe, or nothing at all,
//!   neither in the inputs nor outside: they are merged onto no value.
//! * Anything else (an entry in another stripe, which some reader may see without the operands; a Put that is
//!   yet to expire; a large value; an older version outside): the value is unknown, so there is no full
//!   merge.
//!
//! The result of a full merge is a Put with the number of its newest operand. It hides older versions, as the
//! operands together with the end of their history did: a reader that could see one of them sees all, because
//! they are in one stripe.
//!
//! An operand that is yet to expire keeps its own expiry time, so it stays as it is, and so does everything
//! newer: only the operands below the oldest such one get a full merge. The others get a partial merge where
//! they are consecutive, if the operator can do that. No range tombstone outside of the job lies between two
//! of its operands: a job takes everything between its newest and its oldest input (V1).
//!
//! An expired operand has no effect on any reader, and yet it is a change: a transaction with an older
//! snapshot checks whether the key has a newer version, and the answer must not depend on a compaction in
//! between. So above the oldest boundary the newest of a stripe is kept, as a tombstone is (rule 2).
//!
//! A merge that fails changes nothing. A reader of the key gets the error.

use super::decide::EntryFate;
use super::role::Role;
use super::{CompactionIter, CompactionIterPosition};
use crate::cursor::Cursor;
use crate::full_merge::{OperandMerger, Operands};
use crate::meaning::split_expiry;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Result, SeqNo, Tag, ValueKind};
use std::ops::Range;
use std::sync::Arc;

/// Operands of one key and stripe, and the entries to write for them.
#[derive(Debug, Default)]
pub(super) struct OperandRun {
    operands: Operands,
    /// Number of operands before any partial merge.
    count: u64,
    merged_bytes: Vec<u8>,
    /// Entries to write, newest first.
    written: Vec<(Tag, Source)>,
    at: usize,
}

#[derive(Clone, Debug)]
enum Source {
    /// As stored in the operand at this index.
    Operand(usize),
    /// In the merged bytes.
    Merged(Range<usize>),
}

impl OperandRun {
    fn clear(&mut self) {
        self.operands.clear();
        self.merged_bytes.clear();
        self.written.clear();
        (self.count, self.at) = (0, 0);
    }

    pub(super) fn value(&self) -> &[u8] {
        match &self.written[self.at].1 {
            Source::Operand(at) => self.operands.stored(&self.operands.newest_first()[*at]),
            Source::Merged(range) => &self.merged_bytes[range.clone()],
        }
    }

    fn write_merged(&mut self, tag: Tag, value: &[u8]) {
        let start = self.merged_bytes.len();
        self.merged_bytes.extend_from_slice(value);
        self.written.push((tag, Source::Merged(start..self.merged_bytes.len())));
    }

    /// Writes these operands, each group without an expiring one as one operand if possible.
    fn write_operands(&mut self, operand_merger: &OperandMerger, key: &[u8], places: Range<usize>) {
        let mut at = places.start;
        while at < places.end {
            let rest = &self.operands.newest_first()[at..places.end];
            let tag = rest[0].tag;
            let lasting = rest.iter().take_while(|operand| !operand.is_expiring()).count();
            let several = Some(at..at + lasting).filter(|_| lasting > 1);
            let one = several
                .and_then(|places| operand_merger.partial_merge(key, &self.operands.oldest_first(places)));
            let passed = if one.is_some() { lasting } else { lasting.max(1) };
            match one {
                Some(one) => self.write_merged(tag, &one),
                None => self.write_as_they_are(at..at + passed),
            }
            at += passed;
        }
    }

    fn write_as_they_are(&mut self, places: Range<usize>) {
        let operands = self.operands.newest_first();
        self.written.extend(places.map(|at| (operands[at].tag, Source::Operand(at))));
    }
}

/// How the history of a key continues below its operands.
enum Below {
    /// With the value of the cursor's entry.
    Value,
    /// Without a value.
    Nothing,
    /// With an unknown value.
    Unknown,
}

impl<C: Cursor, O: FnMut(&[u8], SeqNo) -> bool> CompactionIter<C, O> {
    /// Decides about the cursor's operand, which has this tag, and about those that follow it in its stripe.
    #[cold]
    #[inline(never)]
    pub(super) fn collect_operands(&mut self, newest: Tag) -> Result<EntryFate> {
        let Some(operand_merger) = self.operand_merger.as_ref().map(Arc::clone) else {
            self.group.is_any_kept = true;
            (self.tag, self.position) = (newest, CompactionIterPosition::OnCursor);
            return Ok(EntryFate::Write);
        };
        self.run.clear();
        let below = self.collect_below(&operand_merger, newest)?;
        if self.run.operands.is_empty() {
            return Ok(EntryFate::Passed);
        }
        self.merge_run(&operand_merger, &below);
        let written = self.run.written.len() as u64;
        self.stats.merged += self.run.count.saturating_sub(written);
        self.group.is_any_kept = true;
        // Begins with the first entry.
        (self.tag, self.position) = (self.run.written[0].0, CompactionIterPosition::OperandRun);
        Ok(EntryFate::Write)
    }

    #[cold]
    pub(super) fn next_of_run(&mut self) -> bool {
        self.run.at += 1;
        let Some((tag, _)) = self.run.written.get(self.run.at) else { return false };
        (self.tag, self.position) = (*tag, CompactionIterPosition::OperandRun);
        true
    }

    /// Moves the cursor over the operands of the stripe and returns what is below them.
    fn collect_below(&mut self, operand_merger: &OperandMerger, newest: Tag) -> Result<Below> {
        let key = self.group.key.as_slice();
        let mut tag = newest;
        loop {
            let value = self.cursor.value();
            let is_expiring = tag.kind_byte() & FLAG_EXPIRY != 0;
            let may_go = tag.seqno() <= self.oldest || !self.run.operands.is_empty();
            let is_over = is_expiring && self.boundaries.is_expired_for_all(split_expiry(tag, key, value)?.0);
            if is_over && may_go {
                self.stats.expired += 1;
            } else {
                let skipped = if is_expiring { esker_base::expiry::EXPIRY_LEN } else { 0 };
                self.run.operands.push(operand_merger, key, tag, value, skipped);
                self.run.count += 1;
            }
            let oldest = tag.seqno();
            self.cursor.next()?;
            let is_same = self.cursor.is_valid() && self.group.key.is(self.cursor.key());
            let next = if is_same { Some(self.cursor.tag()) } else { None };
            let in_stripe =
                next.filter(|next| self.boundaries.are_in_same_stripe(next.seqno(), newest.seqno()));
            let is_ended = self.deletes.as_ref().is_some_and(|deletes| {
                deletes.ends_below(oldest, &self.boundaries)
                    && next.is_none_or(|next| {
                        in_stripe.is_none() || deletes.hides(next.seqno(), &self.boundaries)
                    })
            });
            if is_ended {
                return Ok(Below::Nothing);
            }
            let Some(next) = in_stripe else {
                let may_go_on = next.is_some() || (self.older_outside)(key, oldest);
                return Ok(if may_go_on { Below::Unknown } else { Below::Nothing });
            };
            match Role::of(next) {
                // The rest is a run of its own: memory is bounded, however long the history.
                Role::Operand if self.run.operands.are_many(operand_merger) => return Ok(Below::Unknown),
                Role::Operand => tag = next,
                Role::Tombstone => return Ok(Below::Nothing),
                Role::Untouchable => return Ok(Below::Unknown),
                Role::Value if next.kind_byte() & FLAG_BLOB != 0 => return Ok(Below::Unknown),
                Role::Value if next.kind_byte() & FLAG_EXPIRY == 0 => return Ok(Below::Value),
                Role::Value => {
                    let is_past = self.is_expired(next)?;
                    return Ok(if is_past { Below::Nothing } else { Below::Unknown });
                }
            }
        }
    }

    /// Decides which entries are written for the collected operands.
    fn merge_run(&mut self, operand_merger: &OperandMerger, below: &Below) {
        let key = self.group.key.as_slice();
        let run = &mut self.run;
        let count = run.operands.newest_first().len();
        let from = count - run.operands.lasting();
        let base = match below {
            Below::Value => Some(self.cursor.value()),
            Below::Nothing | Below::Unknown => None,
        };
        if matches!(below, Below::Unknown) || from == count {
            run.write_operands(operand_merger, key, 0..count);
            return;
        }
        match operand_merger.full_merge(key, base, &run.operands.oldest_first(from..count)) {
            Ok(value) => {
                let newest = run.operands.newest_first()[from].tag.seqno();
                run.write_operands(operand_merger, key, 0..from);
                // Under operands that stay it is not the visible value, so no filter sees it.
                let left = if from == 0 { self.filter_merged(newest, value) } else { Some(value) };
                let kind = if left.is_some() { ValueKind::Put } else { ValueKind::Delete };
                self.run.write_merged(Tag::new(newest, kind), &left.unwrap_or_default());
                self.group.hidden_below = Some(newest);
            }
            Err(_) => {
                self.stats.unmergeable += 1;
                run.write_as_they_are(0..count);
            }
        }
    }
}
