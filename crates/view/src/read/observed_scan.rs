//! Observed scan: walks the entries of a range and notes the part of every source in it.
//!
//! The merge and the rules of visibility are those of every scan ([`super::cursor::visible`]); around each
//! source lies a cursor that counts, and tables are walked by cursors of [`ReadPurpose::Observed`]. Hints are
//! not passed on: prefetching, galloping and comparisons with a bound. They change how fast a source is
//! walked, not where it stands, so the answers are the same (OS1). It is not counted among the keyspace's
//! scans.
//!
//! * OS1. *An observed scan returns the entries that any other scan of the same moment returns.*

use super::cursor::{gaps_of, only_run_of_single_versions};
use super::observed_source::{SourcePlace, ViewSource};
use super::pinned::Pinned;
use super::range_tombstones::cover_of;
use super::source::Source;
use crate::super_version::SuperVersion;
use esker_base::{Result, SeqNo, Tag};
use esker_env::Clock;
use esker_iter::{Bounds, Cursor, MergingCursor, Visible};
use esker_sst::{BlocksRead, ObservedReads, ReadPurpose};
use std::cell::Cell;
use std::rc::Rc;

/// How far a scan goes.
#[derive(Clone, Debug)]
pub struct ScanLimits {
    /// The range.
    pub bounds: Bounds,
    /// The most entries.
    pub entries: u64,
    /// Whether from the last key to the first.
    pub is_reverse: bool,
}

/// One source of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSource {
    /// The source.
    pub place: SourcePlace,
    /// How often it was sought.
    pub seeks: u64,
    /// Entries that the scan met in it, superseded versions and tombstones included.
    pub met: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Bytes of their keys and values.
    pub met_bytes: u64,
    /// Whether it ended on an entry that the scan did not need: behind the range, or behind the limit.
    pub is_ahead: bool,
    /// Blocks that were read of it.
    pub read: BlocksRead,
    /// How long its seeks took.
    pub seek_ns: u64,
}

/// A scan, with all its sources.
#[derive(Clone, Debug)]
pub struct ObservedScan {
    /// The sources, newest first. Empty memtables are left out.
    pub sources: Vec<ScanSource>,
    /// Entries returned.
    pub returned: u64,
    /// Bytes of their keys and values.
    pub returned_bytes: u64,
    /// Whether the range has no further entry.
    pub is_complete: bool,
    /// Large values that were read, and versions that were visited to merge operands.
    pub values_read: BlocksRead,
    /// How long all of it took.
    pub took_ns: u64,
}

impl Pinned {
    /// Passes the entries of a range to `visit`, and tells how they were found.
    ///
    /// # Errors
    /// As those of a range.
    #[cold]
    pub fn scan_observed(
        mut self,
        limits: &ScanLimits,
        clock: &dyn Clock,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<ObservedScan> {
        let began_ns = clock.monotonic_ns();
        let section = Rc::new(ObservedReads::enter());
        let reader = self.reader();
        let (view, seqno) = (&*self.view, self.seqno);
        let cover = cover_of(view, seqno);
        let sources = match &cover {
            Some(cover) => Source::all_under(view, cover, ReadPurpose::Observed),
            None => Source::all_of(view, ReadPurpose::Observed),
        };
        let counts = counts_of(view, sources.len());
        let watch = |(source, counts): (Source, &Rc<SourceCounts>)| WatchedSource {
            source,
            counts: Rc::clone(counts),
            section: Rc::clone(&section),
            clock,
        };
        let is_single = sources.len() == 1 && only_run_of_single_versions(view, seqno).is_some();
        let cursor = MergingCursor::new(sources.into_iter().zip(&counts).map(watch).collect());
        // A known span without values may lead over a part that cannot be read now (QU1).
        let is_fenced = view.tree.runs.iter().any(|run| run.unreadable.is_some());
        let spans = (!is_fenced && !is_single).then(|| gaps_of(view));
        let entries = Visible::of(cursor, seqno, reader, limits.bounds.clone(), spans);
        let entries = match cover {
            Some(cover) => entries.under(cover),
            None if is_single => entries.assume_single_version(),
            None => entries,
        };
        let (returned, returned_bytes, is_complete) = walk(entries, limits, &mut visit)?;
        Ok(ObservedScan {
            sources: counts.iter().map(|counts| counts.get()).collect(),
            returned,
            returned_bytes,
            is_complete,
            values_read: section.take(),
            took_ns: clock.monotonic_ns().saturating_sub(began_ns),
        })
    }
}

fn walk<C: Cursor>(
    mut entries: Visible<C>,
    limits: &ScanLimits,
    visit: &mut impl FnMut(&[u8], &[u8]),
) -> Result<(u64, u64, bool)> {
    let (mut returned, mut bytes) = (0, 0);
    if limits.entries == 0 {
        return Ok((0, 0, false));
    }
    if limits.is_reverse {
        entries.seek_to_last()?;
    } else {
        entries.seek_to_first()?;
    }
    while let Some((key, value)) = entries.entry() {
        visit(key, value);
        returned += 1;
        bytes += (key.len() + value.len()) as u64;
        if returned == limits.entries {
            return Ok((returned, bytes, false));
        }
        if limits.is_reverse {
            entries.prev()?;
        } else {
            entries.next()?;
        }
    }
    Ok((returned, bytes, true))
}

/// The counts of `sources` sources of a view; without those of empty memtables.
fn counts_of(view: &SuperVersion, sources: usize) -> Vec<Rc<SourceCounts>> {
    let is_full = |source: &ViewSource<'_>| !matches!(source.place, SourcePlace::Memtable { entries: 0, .. });
    let all: Vec<ViewSource<'_>> = ViewSource::all_of(view).into_iter().filter(is_full).collect();
    // The active memtable, the first, may have got its first entry since the sources were made.
    let surplus = all.len().saturating_sub(sources);
    all.into_iter().skip(surplus).map(|source| Rc::new(SourceCounts::new(source.place))).collect()
}

/// The counts of one source, which its cursor changes.
struct SourceCounts(Cell<ScanSource>);

impl SourceCounts {
    fn new(place: SourcePlace) -> SourceCounts {
        SourceCounts(Cell::new(ScanSource {
            place,
            seeks: 0,
            met: 0,
            tombstones: 0,
            met_bytes: 0,
            is_ahead: false,
            read: BlocksRead::default(),
            seek_ns: 0,
        }))
    }

    fn get(&self) -> ScanSource {
        self.0.get()
    }

    fn update(&self, change: impl FnOnce(&mut ScanSource)) {
        let mut counts = self.0.get();
        change(&mut counts);
        self.0.set(counts);
    }
}

/// A source whose steps are counted.
struct WatchedSource<'a> {
    source: Source,
    counts: Rc<SourceCounts>,
    section: Rc<ObservedReads>,
    clock: &'a dyn Clock,
}

impl WatchedSource<'_> {
    /// Moves the source, and counts the entry that it reaches. What was read before, by the reader of the
    /// entries, goes back to the section.
    fn step(&mut self, go: impl FnOnce(&mut Source) -> Result<()>) -> Result<()> {
        let before = self.section.take();
        let moved = go(&mut self.source);
        let read = self.section.take();
        self.section.put_back(before);
        let is_valid = moved.is_ok() && self.source.is_valid();
        self.counts.update(|counts| {
            counts.read += read;
            counts.is_ahead = is_valid;
            if is_valid {
                let (key, tag, value) = self.source.entry();
                counts.met += 1;
                counts.met_bytes += (key.len() + value.len()) as u64;
                counts.tombstones += u64::from(tag.is_tombstone());
            }
        });
        moved
    }

    fn seek_by(&mut self, go: impl FnOnce(&mut Source) -> Result<()>) -> Result<()> {
        let began_ns = self.clock.monotonic_ns();
        let moved = self.step(go);
        let took_ns = self.clock.monotonic_ns().saturating_sub(began_ns);
        self.counts.update(|counts| {
            counts.seeks += 1;
            counts.seek_ns += took_ns;
        });
        moved
    }
}

impl Cursor for WatchedSource<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.seek_by(Cursor::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.seek_by(Cursor::seek_to_last)
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.seek_by(|source| source.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_by(|source| source.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        self.step(Cursor::next)
    }

    fn next_key(&mut self) -> Result<()> {
        self.step(Cursor::next_key)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Cursor::prev)
    }

    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        self.step(|source| source.prev_key(seqno))
    }

    fn is_valid(&self) -> bool {
        self.source.is_valid()
    }

    fn key(&self) -> &[u8] {
        self.source.key()
    }

    fn tag(&self) -> Tag {
        self.source.tag()
    }

    fn value(&self) -> &[u8] {
        self.source.value()
    }

    fn head(&self, skip: usize) -> u64 {
        self.source.head(skip)
    }
}
