//! How much of a table replaces something older, so that new keys may lie above the last level for longer
//! ([`esker_strategy::Shape::replaced`]).
//!
//! # What is asked
//! While a job of a strategy that wants to know writes tables above the last level, of every so many bytes
//! the entry that is written there is looked for in the older runs: in their filters, as far as these are in
//! memory. What one may hold is taken to be replaced, and so is all that is no plain put. So entries are
//! chosen in proportion to their bytes. The answer for a table is in 1/1000 of its bytes.
//!
//! A flush is asked against all tables that there are: what is older than its memtables was flushed before
//! them, and what they replace in each other is dropped on the way. A merge is asked anew, against what is
//! older than its output: what it replaced in its own inputs is gone, and where the tables that it makes lie
//! over other keys, they have shares of their own.
//!
//! # Invariants
//! * RP1. A share is not too small, but for what a sample may be off: a filter lets pass what it has, one
//!   that is not in memory counts as if it did, one entry more than were found is taken to replace something,
//!   and a slice is taken to hold all of what its file replaces.
//! * RP2. A share stays right for as long as its table is above the last level: newer runs change nothing,
//!   and what is older only moves down, because a column is taken from its oldest run on.
//! * RP3. In a merge, an entry about which no filter in memory can say anything counts as its inputs did, by
//!   the mean of their shares. Over keys that are spread evenly that is not too small either: of entries that
//!   are dropped each was replaced by a later one, which counts.
//! * RP4. What nobody has looked at is taken to replace all that it may: tables of before the database was
//!   opened, ingested ones, those with deletes, with several versions of a key, or with values in blob files,
//!   whose bytes are elsewhere.
//! * RP5. Of older tables nothing is read for it. The tables of such a strategy are opened once they are
//!   written, while the system has their bytes in memory; beyond the limit of open tables they are closed
//!   again before anybody asks, so that all counts as replacing. Where filters are in the cache, only what
//!   readers have brought there can be asked.
//!
//! # Rejected
//! * What merges into the last level found to be replaced, which is known anyway ([`crate::amplification`]):
//!   it tells of what came minutes ago, and writers who begin to overwrite what they have filled would leave
//!   three times the garbage before it shows.
//! * The shares of the inputs alone, handed on by merges: half of a flush's keys may be new and in one range,
//!   the other half overwritten in another. Then the new ones may be merged on, and what is left counts half
//!   of what it should.

use crate::keyspace::KeyspaceState;
use crate::store::Store;
use crate::tree::Tree;
use esker_base::checksum::key_hash;
use esker_base::{FileNumber, PartId, Tag};
use esker_strategy::{CompactionPlan, Position};
use esker_version::{LevelIndex, PartFlags, PartMeta, Version};
use std::collections::BTreeMap;

/// All of it.
const WHOLE_PERMILLE: u32 = 1000;

/// So many entries of a job are looked for, about.
const SAMPLES: u64 = 384;
/// And one of so many bytes at least and at most: a small flush has fewer, and each table of a large merge
/// some dozens.
const STEP_BYTES: (u64, u64) = (1 << 10, 256 << 10);

/// The shares of a keyspace's files, as far as they are known. Those of a job are noted when it installs its
/// tables, under the lock of `busy`, so whoever plans knows them.
#[derive(Debug, Default)]
pub(crate) struct ReplacedBook {
    files: BTreeMap<FileNumber, u32>,
}

impl ReplacedBook {
    /// Notes the shares of files that are about to join a version, and forgets what is gone.
    pub(crate) fn note(&mut self, version: &Version, shares: &[(FileNumber, u32)]) {
        let kept = version.parts().filter_map(|(_, _, part)| self.files.remove_entry(&part.file));
        self.files = kept.collect();
        self.files.extend(shares.iter().copied());
    }

    /// The share of so many bytes of a part. Those that its file replaces may all be among them.
    fn share(&self, part: &PartMeta, bytes: u64) -> u32 {
        let Some(&permille) = self.files.get(&part.file) else { return WHOLE_PERMILLE };
        let replaced = u128::from(permille) * u128::from(part.file_bytes);
        let share = replaced.div_ceil(u128::from(bytes.max(1)));
        u32::try_from(share).unwrap_or(WHOLE_PERMILLE).min(WHOLE_PERMILLE)
    }

    /// The mean share of what a plan takes.
    fn of_inputs(&self, plan: &CompactionPlan) -> u32 {
        let inputs = plan.parts().map(|(_, input)| (input.bytes(), self.share(&input.part, input.bytes())));
        let (bytes, replaced) = inputs.fold((0u128, 0u128), |(all, replaced), (bytes, share)| {
            (all + u128::from(bytes), replaced + u128::from(bytes) * u128::from(share))
        });
        u32::try_from(replaced.div_ceil(bytes.max(1))).unwrap_or(WHOLE_PERMILLE)
    }
}

/// Whom a job asks about what it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Older<'a> {
    keyspace: &'a KeyspaceState,
    /// The uppermost level in which everything is older.
    from: LevelIndex,
    /// How much an entry counts about which nobody can say anything, in 1/1000.
    unknown_permille: u32,
}

impl Older<'_> {
    /// How likely it is that something older has this key, in 1/1000.
    fn permille(&self, key: &[u8], hash: u64) -> u32 {
        let view = self.keyspace.view.load();
        let mut is_known = true;
        // What is replaced is in the oldest run, as a rule, which has most.
        for run in view.tree.runs.iter().rev().take_while(|run| run.level >= self.from) {
            let Some(part) = run.part_for(key) else { continue };
            match part.file.opened().and_then(|table| table.may_contain_by_memory(hash)) {
                Some(true) => return WHOLE_PERMILLE,
                Some(false) => {}
                None => is_known = false,
            }
        }
        if is_known { 0 } else { self.unknown_permille }
    }
}

/// Looks for some of the entries that a job writes.
#[derive(Debug)]
pub(crate) struct Sampler<'a> {
    older: Option<Older<'a>>,
    step_bytes: u64,
    /// Where the next one is looked for, in bytes of keys and values from the job's beginning.
    pub(crate) next_bytes: u64,
    /// Of the present table: what was looked for, and the sum of what was found.
    looked_for: u64,
    found_permille: u64,
}

impl<'a> Sampler<'a> {
    /// For a job of so many bytes. It looks for nothing if nobody is to be asked.
    pub(crate) fn new(older: Option<Older<'a>>, job_bytes: u64) -> Sampler<'a> {
        let step_bytes = (job_bytes / SAMPLES).clamp(STEP_BYTES.0, STEP_BYTES.1);
        let next_bytes = if older.is_some() { step_bytes / 2 } else { u64::MAX };
        Sampler { older, step_bytes, next_bytes, looked_for: 0, found_permille: 0 }
    }

    /// Looks for an entry with which the job has come to so many bytes. One that is larger than a step counts
    /// as often as it has steps.
    pub(crate) fn look(&mut self, key: &[u8], tag: Tag, end_bytes: u64) {
        let Some(older) = self.older.filter(|_| end_bytes >= self.next_bytes) else { return };
        let hash = key_hash(key);
        // Not evenly, lest it falls in with an order in the keys.
        let step_bytes = self.step_bytes / 2 + hash % self.step_bytes;
        let times = 1 + (end_bytes - self.next_bytes) / step_bytes;
        self.next_bytes += times * step_bytes;
        self.looked_for += times;
        let permille = if tag.is_plain_put() { older.permille(key, hash) } else { WHOLE_PERMILLE };
        self.found_permille += times * u64::from(permille);
    }

    /// The share of a table that has ended; what follows belongs to the next. `None` if nobody was to be
    /// asked.
    pub(crate) fn end_table(&mut self, part: &PartMeta) -> Option<(FileNumber, u32)> {
        self.older?;
        let (looked_for, found) =
            (std::mem::take(&mut self.looked_for), std::mem::take(&mut self.found_permille));
        let are_plain =
            !part.has_tombstones() && part.blobs.is_empty() && part.flags.has(PartFlags::SINGLE_VERSION);
        if !are_plain {
            return None;
        }
        // One more than was found, as if it had been looked for, too.
        let share = (found + u64::from(WHOLE_PERMILLE)).div_ceil(looked_for + 1);
        Some((part.file, u32::try_from(share).unwrap_or(WHOLE_PERMILLE).min(WHOLE_PERMILLE)))
    }
}

impl Store {
    /// Whom a flush asks, if the strategy wants to know.
    pub(crate) fn older_than_flush<'a>(&self, keyspace: &'a KeyspaceState) -> Option<Older<'a>> {
        let older = Older { keyspace, from: LevelIndex::FLUSH, unknown_permille: WHOLE_PERMILLE };
        keyspace.options().strategy.uses_replaced().then_some(older)
    }

    /// Whom a merge asks, if the strategy wants to know. What is merged into the last level or into a run is
    /// not counted.
    pub(crate) fn older_than_output<'a>(
        &self,
        keyspace: &'a KeyspaceState,
        plan: &CompactionPlan,
    ) -> Option<Older<'a>> {
        let Position::Front(from) = plan.to else { return None };
        // Then what lies in the levels from this one on is older: inputs are the oldest of the levels above.
        let are_above = plan.inputs.iter().all(|input| input.level < from);
        let wants = keyspace.options().strategy.uses_replaced() && are_above && !from.is_last();
        wants.then(|| Older { keyspace, from, unknown_permille: keyspace.replaced.lock().of_inputs(plan) })
    }

    /// How much of the parts of a tree replaces something, as [`esker_strategy::Shape::replaced`] takes it;
    /// nothing if the strategy does not ask.
    pub(crate) fn replaced(&self, keyspace: &KeyspaceState, tree: &Tree) -> Vec<(PartId, u32)> {
        if !keyspace.options().strategy.uses_replaced() {
            return Vec::new();
        }
        let book = keyspace.replaced.lock();
        let parts = tree.version.parts();
        let known = parts.filter(|(_, _, part)| book.files.contains_key(&part.file));
        let mut shares: Vec<(PartId, u32)> =
            known.map(|(_, _, part)| (part.id, book.share(part, part.bytes))).collect();
        shares.sort_unstable();
        shares
    }
}

#[cfg(test)]
mod tests;
