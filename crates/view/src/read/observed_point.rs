//! Observed lookup: finds the value of one key and notes the part of every source in it.
//!
//! It is the lookup of [`super::point`], compiled with a tracer that notes each step, so it answers the same
//! (OL1). Only the search within a table is another one, [`Table::get_observed`]. It changes no statistics of
//! lookups.
//!
//! * OL1. *Which sources are asked, and what is found, is decided by the same code as in any lookup.*

use super::observed_source::{SourcePlace, ViewSource};
use super::pinned::Pinned;
use super::point::{LookupResult, search};
use super::range_tombstones::cover_at;
use crate::lookup_tracer::{INGESTED_RUN, LookupTracer};
use crate::tree::TreePart;
use crate::value::Value;
use esker_base::{FileNumber, Result, SeqNo, Tag, ValueKind, checksum};
use esker_env::Clock;
use esker_sst::{BlocksRead, ObservedReads, PreparedLookup, Table, TableHit};
use std::cell::Cell;

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    /// A value.
    Present,
    /// The newest version is a tombstone.
    Deleted,
    /// A range tombstone is newer than the newest version.
    RangeDeleted,
    /// The value has expired, or its operands come to nothing.
    Expired,
    /// No version in any source.
    Absent,
}

/// What a source contributed to a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOutcome {
    /// A newer source decided.
    NotReached,
    /// No table of the run spans the key.
    OutOfRange,
    /// A range tombstone hides all of the table, which cannot be read.
    Hidden,
    /// The filter excluded the key.
    Rejected,
    /// Everything in the table is newer than the reader.
    TooNew,
    /// It was searched and does not have the key.
    Absent,
    /// It has the newest visible version, of this kind.
    Found(ValueKind),
}

/// One source of a lookup.
#[derive(Clone, Debug)]
pub struct LookupSource {
    /// The source.
    pub place: SourcePlace,
    /// The table that spans the key.
    pub file: Option<FileNumber>,
    /// Whether that table was open before the lookup.
    pub was_open: bool,
    /// What came of it.
    pub outcome: SourceOutcome,
    /// The expected false-positive rate of the table's filter, 1 without one; `None` if it was not asked.
    pub false_positive_rate: Option<f64>,
    /// Blocks that were read for it.
    pub read: BlocksRead,
    /// How long it took.
    pub took_ns: u64,
}

/// A lookup, with all its sources.
#[derive(Debug)]
pub struct ObservedLookup {
    /// The value.
    pub value: Option<Value>,
    /// When it expires, in milliseconds since 1970.
    pub expiry_ms: Option<u64>,
    /// What was found.
    pub outcome: KeyOutcome,
    /// The sources, newest first.
    pub sources: Vec<LookupSource>,
    /// What was read to get a value out of the version that was found: a large value.
    pub value_read: BlocksRead,
    /// How long that took.
    pub value_ns: u64,
    /// How long all of it took.
    pub took_ns: u64,
}

impl Pinned {
    /// The value of a key, and how it was found.
    ///
    /// # Errors
    /// As [`Pinned::get`].
    #[cold]
    pub fn get_observed(&self, key: &[u8], clock: &dyn Clock) -> Result<ObservedLookup> {
        let cover = cover_at(&self.view, key, self.seqno)?;
        let expiry = Cell::new(None);
        let mut recorder = Recorder::new(self, key, clock);
        let began_ns = recorder.since_ns;
        let found = search(self, key, checksum::key_hash(key), &mut recorder, std::slice::from_ref(&expiry))?;
        recorder.leave();
        let outcome = outcome_of(recorder.newest, cover, &found);
        let sources = recorder.sources();
        let value = self.value_of(key, found)?;
        let ended_ns = clock.monotonic_ns();
        Ok(ObservedLookup {
            expiry_ms: expiry.get().filter(|_| value.is_some()),
            value,
            outcome,
            sources,
            value_read: recorder.section.take(),
            value_ns: ended_ns.saturating_sub(recorder.since_ns),
            took_ns: ended_ns.saturating_sub(began_ns),
        })
    }
}

fn outcome_of(newest: Option<Tag>, cover: SeqNo, found: &LookupResult<'_>) -> KeyOutcome {
    match newest {
        None => KeyOutcome::Absent,
        Some(tag) if tag.seqno() < cover => KeyOutcome::RangeDeleted,
        Some(tag) if tag.is_tombstone() => KeyOutcome::Deleted,
        Some(_) if matches!(found, LookupResult::Absent) => KeyOutcome::Expired,
        Some(_) => KeyOutcome::Present,
    }
}

/// Notes the steps of a lookup.
struct Recorder<'a> {
    key: &'a [u8],
    clock: &'a dyn Clock,
    section: ObservedReads,
    view: Vec<ViewSource<'a>>,
    steps: Vec<LookupSource>,
    /// The number of memtables, ingested tables in the position of one included.
    memtables: usize,
    /// The memtable that is asked next.
    next_memtable: usize,
    /// The source that is asked now.
    current: Option<usize>,
    /// Until when times are noted.
    since_ns: u64,
    /// The version that decided.
    newest: Option<Tag>,
}

impl<'a> Recorder<'a> {
    fn new(pinned: &'a Pinned, key: &'a [u8], clock: &'a dyn Clock) -> Recorder<'a> {
        let view = ViewSource::all_of(&pinned.view);
        let step = |source: &ViewSource<'_>| {
            let part = source.part_for(key);
            LookupSource {
                place: source.place,
                file: part.map(|part| part.meta.file),
                was_open: part.is_some_and(|part| part.file.opened().is_some()),
                outcome: SourceOutcome::NotReached,
                false_positive_rate: None,
                read: BlocksRead::default(),
                took_ns: 0,
            }
        };
        Recorder {
            key,
            clock,
            section: ObservedReads::enter(),
            steps: view.iter().map(step).collect(),
            view,
            memtables: 1 + pinned.view.sealed.len(),
            next_memtable: 0,
            current: None,
            since_ns: clock.monotonic_ns(),
            newest: None,
        }
    }

    /// Adds what happened since the last call to the current source.
    fn leave(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        let (read, took_ns) = (self.section.take(), now_ns.saturating_sub(self.since_ns));
        if let Some(step) = self.current.and_then(|at| self.steps.get_mut(at)) {
            step.read += read;
            step.took_ns += took_ns;
        }
        self.since_ns = now_ns;
    }

    /// Goes on to this source.
    fn enter(&mut self, at: usize, outcome: SourceOutcome) {
        if self.current != Some(at) {
            self.leave();
            self.current = Some(at);
        }
        self.note(outcome);
    }

    fn note(&mut self, outcome: SourceOutcome) {
        if let Some(step) = self.current.and_then(|at| self.steps.get_mut(at)) {
            step.outcome = outcome;
        }
    }

    fn enter_memtable(&mut self, outcome: SourceOutcome) {
        let at = self.next_memtable;
        self.next_memtable += 1;
        self.enter(at, outcome);
    }

    /// The source of a run of the tree, or of the ingested tables that are asked now.
    fn place_of(&self, run: usize) -> usize {
        if run == INGESTED_RUN { self.next_memtable - 1 } else { self.memtables + run }
    }

    /// All sources, those that were passed over included.
    fn sources(&mut self) -> Vec<LookupSource> {
        let reached = match self.newest {
            Some(_) => self.current.map_or(0, |at| at + 1),
            None => self.steps.len(),
        };
        for (step, source) in self.steps.iter_mut().zip(&self.view).take(reached) {
            if step.outcome == SourceOutcome::NotReached {
                let has_part = source.part_for(self.key).is_some();
                step.outcome = if has_part { SourceOutcome::Hidden } else { SourceOutcome::OutOfRange };
            }
            // Tables that the lookup opened are open now.
            let table = source.part_for(self.key).and_then(|part| part.file.opened());
            if !matches!(step.outcome, SourceOutcome::OutOfRange | SourceOutcome::Hidden) {
                step.false_positive_rate = table.map(|table| table.expected_false_positive_rate());
            }
        }
        std::mem::take(&mut self.steps)
    }
}

impl LookupTracer for Recorder<'_> {
    fn memtable(&mut self) {
        self.enter_memtable(SourceOutcome::Absent);
    }

    fn memtable_finds(&mut self, newest: Tag) {
        self.newest = Some(newest);
        self.note(newest.kind().map_or(SourceOutcome::Absent, SourceOutcome::Found));
    }

    fn ingested(&mut self) {
        self.enter_memtable(SourceOutcome::NotReached);
    }

    fn asks(&mut self, run: usize) {
        self.enter(self.place_of(run), SourceOutcome::Rejected);
    }

    fn searches(&mut self, run: usize) {
        self.enter(self.place_of(run), SourceOutcome::Absent);
    }

    fn search(
        &mut self,
        table: &Table,
        key: &[u8],
        hash: u64,
        seqno: SeqNo,
        _prepared: Option<&PreparedLookup<'_>>,
    ) -> Result<Option<TableHit>> {
        if !table.is_visible_at(seqno) {
            self.note(SourceOutcome::TooNew);
        }
        let hit = table.get_observed(key, hash, seqno)?;
        if let Some(hit) = &hit {
            self.newest = Some(hit.tag);
            self.note(hit.tag.kind().map_or(SourceOutcome::Absent, SourceOutcome::Found));
        }
        Ok(hit)
    }

    fn finds(&mut self, _run: usize, _part: &TreePart) {}
}
