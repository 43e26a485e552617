//! Commit validation: whether anything a transaction depends on has changed since its snapshot.
//!
//! # The condition
//! A transaction reads at a registered snapshot S and depends on a *read set*: keys and ranges of keys. It
//! may commit if no key of the read set has a version newer than S. If that holds when its own batch becomes
//! visible, then everything it read is still what a reader of that moment would read, so it is equivalent to
//! a transaction that ran entirely at that moment.
//!
//! # Why checking the sources suffices
//! *A version newer than S cannot vanish while S is registered.* A job drops a version only in favour of a
//! newer one of the same key in the same stripe (RV4), and S is a boundary of every job's sample (RV5): so of
//! the versions above S the newest stays. Tombstones, expired entries and entries that a filter removes are
//! dropped without a successor only at or below the oldest boundary, which is at most S, and only there are
//! sequence numbers set to zero. Hence "some version of the key is newer than S" stays true once it is,
//! whatever is flushed or merged meanwhile.
//!
//! # The moment
//! The result must hold when the batch becomes visible. So the last check happens under the commit lock; only
//! under that lock are sequence numbers assigned (CP1) and `visible` moved (CP2): everything inserted before
//! is complete, and nothing is inserted until the batch itself is. But there must be no I/O under that lock.
//! Hence two steps and one number, `checked`: *everything with a sequence number up to `checked` has been
//! checked.*
//!
//! * **Outside of the lock** ([`Admission::prepare`]): load `visible`, *then* the views. Such a view holds
//!   every entry up to `visible` (CP4; RV2: its memtables were published before their first sequence number),
//!   except entries replaced by newer versions, which are found instead. Check every memtable and every table
//!   that may have something newer than `checked`; then `checked` becomes that `visible`.
//! * **Under the lock** ([`Admission::admit`]): if nothing was committed since `checked`, there is nothing to
//!   do. Otherwise load the views. If a tree has anything newer than `checked`, there was a flush in between,
//!   or tables were ingested: return to the step outside. Otherwise everything newer is in the memtables (an
//!   entry is always in a memtable or a table of the current view), and only those are searched.
//!
//! A repetition checks only entries written since the last check, and requires a whole flush in between;
//! short transactions never need one.
//!
//! # Bounded time under the lock
//! The search of memtables takes at most [`LOCKED_STEPS`] steps. A read set that needs more (a scan over a
//! large part of the active memtable) gives up, seals that memtable outside of the lock, searches it there,
//! and returns to a memtable that holds only what was written since. Only a memtable of some size is sealed,
//! so that scans cannot split the tree into tiny runs, and after [`MAX_RETURNS`] returns the search is
//! completed however long it takes.
//!
//! # Unordered memtables
//! Kinds that append entries unsorted sort them at the next read, which takes unbounded time. So under the
//! lock such a memtable is never searched for a key or a range. The step outside takes its [`Tail`] *before*
//! it searches, so that each entry is found by that search or is in the tail (OD5), and under the lock the
//! entries of the tail are checked one by one against the read set. A memtable whose tail was not taken,
//! because there was no step outside or because it is newer, is checked from its beginning if it has few
//! entries; otherwise it is left to the step outside.
//!
//! # What counts as a change
//! Only [`newest_in_memtable`], [`newest_in_tail`] and [`newest_in_run`] define what a change of a key or a
//! range is. Anything else that changes keys without an entry of its own at the key belongs into them.
//!
//! Rejected: a table of recent commits beside the memtables. Every put would have to fill it, and a
//! transaction that outlives it would have to be refused without a conflict.

#[cfg(test)]
mod tests;

use super::read_set::Footprint;
use esker_base::{Conflict, Error, Result, SeqNo};
use esker_engine::background::flush;
use esker_engine::state::commit_state::CommitState;
use esker_engine::state::store::Store;
use esker_engine::write::commit::Admission;
use esker_iter::{Bounds, Cursor, RangeTombstones};
use esker_memtable::{Memtable, Tail};
use esker_sst::ReadPurpose;
use esker_strategy::write_control::MAX_SEALED;
use esker_view::SuperVersion;
use esker_view::read::run_cursor::RunCursor;
use esker_view::tree::TreeRun;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Entries that may be checked under the commit lock, at 15 to 40 ns each: a quarter of a millisecond.
const LOCKED_STEPS: u64 = 8_192;

/// The steps that one memtable lookup counts for: it takes about as long.
const LOOKUP_STEPS: u64 = 4;

/// Keys of a read set that are looked up under the lock without a previous step outside: a few microseconds.
const SMALL_FOOTPRINT: usize = 32;

/// The size from which a memtable is sealed to shorten the check under the lock.
const MIN_SEALED_ENTRIES: u64 = LOCKED_STEPS / 4;

/// Entries of an unordered memtable that are checked under the lock without a previous step outside: a few
/// microseconds.
const UNTAKEN_STEPS: u64 = 128;

/// How often a check that takes too long is moved outside.
const MAX_RETURNS: u32 = 3;

/// The validation of one commit.
pub(super) struct Validation<'a> {
    footprints: &'a [Footprint<'a>],
    snapshot: SeqNo,
    /// Nothing of the read set has changed above `snapshot` and up to here.
    checked: SeqNo,
    /// The tails of unordered memtables since the step outside began.
    tails: Vec<Tail>,
    /// A read set whose check under the lock would have taken too long.
    too_long: Option<usize>,
    /// The number of returns.
    returns: u32,
}

/// A version that the transaction has not seen.
struct KeyChange {
    key: Box<[u8]>,
    seqno: SeqNo,
}

impl<'a> Validation<'a> {
    /// Nothing is checked yet; for a small read set nothing needs to be before the lock is taken.
    pub(super) fn new(footprints: &'a [Footprint<'a>], snapshot: SeqNo) -> Validation<'a> {
        Validation { footprints, snapshot, checked: snapshot, tails: Vec::new(), too_long: None, returns: 0 }
    }

    /// Checks outside of the lock first if the check under it might be long.
    pub(super) fn begin(&mut self, store: &Store) -> Result<()> {
        let points: usize = self.footprints.iter().map(|footprint| footprint.points().len()).sum();
        let is_small = points <= SMALL_FOOTPRINT && self.footprints.iter().all(|all| all.ranges().is_empty());
        let is_quiet = store.visible.load(Ordering::Acquire) == self.checked.get();
        if is_small || is_quiet { Ok(()) } else { self.prepare(store) }
    }

    fn conflict(&self, footprint: &Footprint<'_>, change: KeyChange) -> Error {
        Error::Conflict(Box::new(Conflict {
            keyspace: footprint.keyspace.name(),
            key: change.key.into(),
            seqno: change.seqno,
            snapshot: self.snapshot,
        }))
    }

    /// Checks everything in a view that may be newer than `checked`.
    fn look_outside(&self, footprint: &Footprint<'_>, view: &SuperVersion) -> Result<Option<KeyChange>> {
        let mut unlimited = u64::MAX;
        for memtable in self.newer_memtables(view) {
            let look = newest_in_memtable(memtable, footprint, self.checked, &mut unlimited)?;
            if let Some(change) = look.into_change() {
                return Ok(Some(change));
            }
        }
        let ingested = view.sealed.iter().filter_map(|view| view.ingested.as_ref());
        for run in ingested.chain(&view.tree.runs) {
            if let Some(change) = newest_in_run(run, footprint, self.checked)? {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    /// The memtables that may have something newer than `checked`.
    fn newer_memtables<'v>(&self, view: &'v SuperVersion) -> impl Iterator<Item = &'v Arc<Memtable>> {
        let checked = self.checked;
        let is_newer = move |border: Option<SeqNo>| border.is_none_or(|border| border > checked);
        view.memtables().filter(move |view| is_newer(view.seal_seqno())).map(|view| &view.memtable)
    }

    /// Checks the memtables that may have something newer than `checked`, without sorting any.
    fn look_under_lock(
        &self,
        footprint: &Footprint<'_>,
        view: &SuperVersion,
        steps: &mut u64,
    ) -> Result<Look> {
        for memtable in self.newer_memtables(view) {
            let look = match memtable.tail() {
                None => newest_in_memtable(memtable, footprint, self.checked, steps)?,
                Some(all) => match self.tails.iter().find(|tail| tail.is_of(memtable)) {
                    Some(tail) => newest_in_tail(memtable, tail, footprint, self.checked, steps),
                    None if memtable.len() <= (*steps).min(UNTAKEN_STEPS) || *steps > LOCKED_STEPS => {
                        newest_in_tail(memtable, &all, footprint, self.checked, steps)
                    }
                    None => Look::TooLong,
                },
            };
            match look {
                Look::Unchanged => {}
                other => return Ok(other),
            }
        }
        Ok(Look::Unchanged)
    }
}

impl Admission for Validation<'_> {
    fn admit(&mut self, state: &CommitState) -> Result<bool> {
        // A drop takes no sequence number, so it is checked even if nothing was committed.
        self.footprints.iter().try_for_each(|footprint| state.check_keyspace(footprint.keyspace.id))?;
        if state.end().0 == self.checked {
            return Ok(true);
        }
        let mut steps = if self.returns < MAX_RETURNS { LOCKED_STEPS } else { u64::MAX };
        for (at, footprint) in self.footprints.iter().enumerate() {
            let view = footprint.keyspace.view.load();
            // An ingest is a change like any other, and its tables cannot be read here.
            let ingested = view.sealed.iter().filter(|view| view.ingested.is_some());
            let newest = ingested.filter_map(|view| view.seal_seqno()).fold(view.tree.max_seqno, SeqNo::max);
            if newest > self.checked {
                return Ok(false);
            }
            match self.look_under_lock(footprint, &view, &mut steps)? {
                Look::Unchanged => {}
                Look::Changed(change) => return Err(self.conflict(footprint, change)),
                Look::TooLong => {
                    self.too_long = Some(at);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    #[cold]
    fn prepare(&mut self, store: &Store) -> Result<()> {
        if let Some(at) = self.too_long.take() {
            self.returns += 1;
            let keyspace = self.footprints[at].keyspace;
            let view = keyspace.view.load();
            let active = &view.active.memtable;
            // A full queue takes no more: its memtables are checked below, which may be sufficient. The same
            // holds where only a tail is checked under the lock.
            if view.sealed.len() < MAX_SEALED && active.len() >= MIN_SEALED_ENTRIES && active.tail().is_none()
            {
                flush::seal_if_filled(store, keyspace)?;
            }
        }
        // Before the views, never after: a view older than this may lack entries written between.
        let visible = SeqNo::new(store.visible.load(Ordering::Acquire));
        self.tails.clear();
        for footprint in self.footprints {
            let view = footprint.keyspace.view.load();
            // Before the search, never after: entries written between would be in neither (OD5).
            let tails = self.newer_memtables(&view).filter_map(Memtable::tail).map(Tail::from_now);
            self.tails.extend(tails.collect::<Vec<_>>());
            if let Some(change) = self.look_outside(footprint, &view)? {
                return Err(self.conflict(footprint, change));
            }
        }
        self.checked = visible;
        Ok(())
    }
}

/// The result of a check.
enum Look {
    Unchanged,
    Changed(KeyChange),
    /// Not completed.
    TooLong,
}

impl Look {
    fn into_change(self) -> Option<KeyChange> {
        match self {
            Look::Changed(change) => Some(change),
            Look::Unchanged | Look::TooLong => None,
        }
    }
}

/// A change newer than `checked` among the range tombstones of a memtable.
fn newest_range_delete(
    memtable: &Memtable,
    footprint: &Footprint<'_>,
    checked: SeqNo,
    steps: &mut u64,
) -> Look {
    if !memtable.has_range_deletes() {
        return Look::Unchanged;
    }
    let sets = memtable.range_deletes();
    let places = (footprint.points().len() + footprint.ranges().len()) as u64;
    if !spend(steps, sets.len() as u64 * places * LOOKUP_STEPS) {
        return Look::TooLong;
    }
    let change = sets.iter().find_map(|set| newest_delete(set, footprint, checked));
    change.map_or(Look::Unchanged, Look::Changed)
}

/// A change newer than `checked` in the tail of a memtable, of a key or a range of the read set. Range
/// tombstones are stored separately and always in order, so they need no tail.
fn newest_in_tail(
    memtable: &Memtable,
    tail: &Tail,
    footprint: &Footprint<'_>,
    checked: SeqNo,
    steps: &mut u64,
) -> Look {
    match newest_range_delete(memtable, footprint, checked, steps) {
        Look::Unchanged => {}
        other => return other,
    }
    for (key, tag) in tail.entries() {
        if tag.seqno() > checked && footprint.contains(key) {
            return Look::Changed(KeyChange { key: key.into(), seqno: tag.seqno() });
        }
        if !spend(steps, 1) {
            return Look::TooLong;
        }
    }
    Look::Unchanged
}

/// A change newer than `checked` in a memtable, of a key or a range of the read set. It may sort the
/// memtable.
fn newest_in_memtable(
    memtable: &Arc<Memtable>,
    footprint: &Footprint<'_>,
    checked: SeqNo,
    steps: &mut u64,
) -> Result<Look> {
    match newest_range_delete(memtable, footprint, checked, steps) {
        Look::Unchanged => {}
        other => return Ok(other),
    }
    if memtable.is_empty() {
        return Ok(Look::Unchanged);
    }
    let lookups = footprint.points().len() as u64 * LOOKUP_STEPS;
    if lookups > memtable.len() {
        // More keys than entries: iterate over the entries and search the keys.
        let everything = Bounds::all();
        return walk(memtable.cursor(), &everything, checked, steps, |key| footprint.contains(key));
    }
    if !spend(steps, lookups) {
        return Ok(Look::TooLong);
    }
    for key in footprint.points() {
        if let Some((tag, _)) = memtable.get(key, SeqNo::MAX)
            && tag.seqno() > checked
        {
            return Ok(Look::Changed(KeyChange { key: (*key).into(), seqno: tag.seqno() }));
        }
    }
    for range in footprint.ranges() {
        match walk(memtable.cursor(), range, checked, steps, |_| true)? {
            Look::Unchanged => {}
            other => return Ok(other),
        }
    }
    Ok(Look::Unchanged)
}

/// A change newer than `checked` in a run, of a key or a range of the read set.
fn newest_in_run(run: &TreeRun, footprint: &Footprint<'_>, checked: SeqNo) -> Result<Option<KeyChange>> {
    let newer = run.parts.iter().filter(|part| part.meta.max_seqno > checked).cloned();
    let newer = Arc::new(TreeRun::new(run.level, newer.collect()));
    if newer.parts.is_empty() {
        return Ok(None);
    }
    for part in newer.parts.iter().filter(|part| part.meta.range_tombstones > 0) {
        // A slice may include keys just outside of it: that can refuse a commit, never wrongly allow one.
        if let Some(change) = newest_delete(part.file.range_deletes()?, footprint, checked) {
            return Ok(Some(change));
        }
    }
    let mut cursor = RunCursor::new(Arc::clone(&newer), ReadPurpose::Scan);
    for key in footprint.points() {
        if newer.part_for(key).is_some() {
            cursor.seek(key, SeqNo::MAX)?;
            if cursor.is_valid() && cursor.key() == *key && cursor.tag().seqno() > checked {
                return Ok(Some(KeyChange { key: (*key).into(), seqno: cursor.tag().seqno() }));
            }
        }
    }
    for range in footprint.ranges() {
        let mut unlimited = u64::MAX;
        let cursor = RunCursor::new(Arc::clone(&newer), ReadPurpose::Scan);
        if let Some(change) = walk(cursor, range, checked, &mut unlimited, |_| true)?.into_change() {
            return Ok(Some(change));
        }
    }
    Ok(None)
}

/// A range tombstone newer than `checked` that overlaps a key or a range of the read set. Over a key without
/// a value it changes as little as a delete does, and conflicts as a delete would.
fn newest_delete(deletes: &RangeTombstones, footprint: &Footprint<'_>, checked: SeqNo) -> Option<KeyChange> {
    let change = |key: &[u8], seqno: SeqNo| (seqno > checked).then(|| KeyChange { key: key.into(), seqno });
    let point = footprint.points().iter().find_map(|key| change(key, deletes.newest_over(key, SeqNo::MAX)));
    point.or_else(|| {
        footprint.ranges().iter().find_map(|range| {
            let lower = match range.lower() {
                Bound::Unbounded => &[],
                Bound::Included(key) | Bound::Excluded(key) => key,
            };
            deletes
                .fragments_from(lower)
                .take_while(|fragment| !range.is_behind(&fragment.start))
                .find_map(|fragment| change(lower.max(&*fragment.start), fragment.newest_at(SeqNo::MAX)))
        })
    })
}

/// The first entry of a range that is newer than `checked` and satisfies the predicate.
fn walk(
    mut cursor: impl Cursor,
    range: &Bounds,
    checked: SeqNo,
    steps: &mut u64,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<Look> {
    match range.lower() {
        Bound::Unbounded => cursor.seek_to_first()?,
        Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key, SeqNo::MAX)?,
    }
    while cursor.is_valid() && !range.is_behind(cursor.key()) {
        let (key, seqno) = (cursor.key(), cursor.tag().seqno());
        if seqno > checked && !range.is_before(key) && is_wanted(key) {
            return Ok(Look::Changed(KeyChange { key: key.into(), seqno }));
        }
        if !spend(steps, 1) {
            return Ok(Look::TooLong);
        }
        cursor.next()?;
    }
    Ok(Look::Unchanged)
}

/// Subtracts `count` steps; `false` if too few are left.
fn spend(steps: &mut u64, count: u64) -> bool {
    let left = steps.checked_sub(count);
    *steps = left.unwrap_or(0);
    left.is_some()
}
