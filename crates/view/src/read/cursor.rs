//! Cursor: borrowed entries, both directions, one consistent moment.

use crate::read::open_readers::ReaderSlot;
use crate::read::pinned::Pinned;
use crate::read::range_tombstones;
use crate::read::run_cursor::RunCursor;
use crate::read::scan_tally::ScanTally;
use crate::read::source::Source;
use crate::super_version::SuperVersion;
use crate::time;
use crate::tree::TreeRun;
use esker_base::{Result, SeqNo};
use esker_iter::{Bounds, MergingCursor, RangeDelAggregate, Reader, Visible};
use esker_sst::ReadPurpose;
use std::sync::Arc;
use std::time::SystemTime;

/// A position in a keyspace, showing the state at its creation.
///
/// A cursor lends its entries instead of copying them, which makes it the fast way to scan. It pins memtables
/// and table files: drop it when done.
#[doc(alias = "Iterator")]
#[doc(alias = "DBRawIterator")]
pub struct Cursor {
    // Before the view: what the cursor borrows from is dropped after it.
    entries: Entries,
    _view: Arc<SuperVersion>,
    /// Its slot among the open readers.
    _reader_slot: Option<ReaderSlot>,
    /// Counts the returned entries.
    tally: ScanTally,
}

/// The source of a cursor's entries. Boxed, so that moving a cursor moves a pointer.
enum Entries {
    /// One run with one version of each key, as in a converged tree: there is nothing to merge and nothing to
    /// hide.
    Single(Box<Visible<Box<RunCursor>>>),
    Merged(Box<Visible<MergingCursor<Source>>>),
}

macro_rules! each {
    ($self:expr, $entries:ident => $call:expr) => {
        match $self {
            Entries::Single($entries) => $call,
            Entries::Merged($entries) => $call,
        }
    };
}

impl Entries {
    fn of(pinned: &mut Pinned, bounds: Bounds) -> Entries {
        let Some(run) = only_source(&pinned.view, pinned.seqno).cloned() else {
            let reader = pinned.reader();
            return Entries::Merged(Box::new(visible(pinned, reader, bounds)));
        };
        let reader = if run.facts().all_stay { pinned.reader_of_what_stays() } else { pinned.reader() };
        // Constructed in place, not moved.
        let cursor = Box::write(Box::new_uninit(), RunCursor::new(run, ReadPurpose::Scan));
        let entries = Visible::of(cursor, pinned.seqno, reader, bounds, None);
        Entries::Single(Box::new(entries.assume_single_version()))
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}

impl Cursor {
    /// A cursor within `bounds` over the pinned view, listed among the open readers while it lives, and with
    /// its scans counted. The view holds every version that such a reader needs, so no snapshot has to be
    /// registered for it.
    pub fn new(mut pinned: Pinned, bounds: Bounds, reader_slot: ReaderSlot, tally: ScanTally) -> Cursor {
        let entries = Entries::of(&mut pinned, bounds);
        Cursor { entries, _view: pinned.view.into_arc(), _reader_slot: Some(reader_slot), tally }
    }

    /// A cursor over the given sources of `view` alone, at `seqno`, with the range tombstones of `cover`.
    pub fn over(
        view: Arc<SuperVersion>,
        sources: Vec<Source>,
        cover: RangeDelAggregate,
        seqno: SeqNo,
        reader: Reader,
    ) -> Cursor {
        let entries =
            Visible::of(MergingCursor::new(sources), seqno, reader, Bounds::all(), None).under(cover);
        Cursor {
            entries: Entries::Merged(Box::new(entries)),
            _view: view,
            _reader_slot: None,
            tally: ScanTally::default(),
        }
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.tally.begin();
        each!(&mut self.entries, entries => entries.seek_to_first())
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.tally.begin();
        each!(&mut self.entries, entries => entries.seek_to_last())
    }

    /// Moves to the first entry whose key is not less than `key`.
    #[doc(alias = "set_range")]
    #[doc(alias = "lower_bound")]
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.tally.begin();
        let key = key.as_ref();
        each!(&mut self.entries, entries => entries.seek(key))
    }

    /// Moves to the last entry whose key is not greater than `key`.
    #[doc(alias = "upper_bound")]
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.tally.begin();
        let key = key.as_ref();
        each!(&mut self.entries, entries => entries.seek_for_prev(key))
    }

    /// Moves to the next entry; does nothing if there is no current one.
    #[doc(alias = "next")]
    pub fn advance(&mut self) -> Result<()> {
        self.tally.count();
        each!(&mut self.entries, entries => if entries.is_valid() { entries.next() } else { Ok(()) })
    }

    /// Moves to the previous entry; does nothing if there is no current one.
    #[doc(alias = "prev")]
    pub fn retreat(&mut self) -> Result<()> {
        self.tally.count();
        each!(&mut self.entries, entries => if entries.is_valid() { entries.prev() } else { Ok(()) })
    }

    /// The current key and value; `None` before the first seek and past either end.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        each!(&self.entries, entries => entries.entry())
    }

    /// The current key.
    pub fn key(&self) -> Option<&[u8]> {
        each!(&self.entries, entries => entries.is_valid().then(|| entries.key()))
    }

    /// When the current value expires; `None` if it does not, or if there is none.
    pub fn expiry(&self) -> Option<SystemTime> {
        let expiry_ms = each!(&self.entries, entries => entries.is_valid().then(|| entries.expiry_ms()));
        expiry_ms.flatten().map(time::from_ms)
    }

    /// The current value.
    pub fn value(&self) -> Option<&[u8]> {
        each!(&self.entries, entries => entries.is_valid().then(|| entries.value()))
    }
}

/// The visible entries of a pinned view, merged and filtered. The result is large, so this is inlined and
/// constructed in the caller's place.
#[inline(always)]
pub fn visible(pinned: &Pinned, reader: Reader, bounds: Bounds) -> Visible<MergingCursor<Source>> {
    let Pinned { view, seqno, .. } = pinned;
    let seqno = *seqno;
    if let Some(cover) = range_tombstones::cover_of(view, seqno) {
        return visible_under(cover, view, seqno, reader, bounds);
    }
    let sources = Source::all_of(view, ReadPurpose::Scan);
    // The memtables are not checked again: one may have got its first entry meanwhile.
    if sources.len() == 1 && only_run_of_single_versions(view, seqno).is_some() {
        let entries = Visible::of(MergingCursor::new(sources), seqno, reader, bounds, None);
        return entries.assume_single_version();
    }
    Visible::of(MergingCursor::new(sources), seqno, reader, bounds, Some(gaps_of(view)))
}

/// The same under range tombstones.
#[cold]
fn visible_under(
    cover: RangeDelAggregate,
    view: &SuperVersion,
    seqno: SeqNo,
    reader: Reader,
    bounds: Bounds,
) -> Visible<MergingCursor<Source>> {
    let sources = Source::all_under(view, &cover, ReadPurpose::Scan);
    // A known span without values may lead over a part that cannot be read now (QU1).
    let is_fenced = view.tree.runs.iter().any(|run| run.unreadable.is_some());
    let spans = (!is_fenced).then(|| gaps_of(view));
    Visible::of(MergingCursor::new(sources), seqno, reader, bounds, spans).under(cover)
}

pub(super) fn gaps_of(view: &SuperVersion) -> Arc<dyn esker_iter::TombstoneSpans> {
    Arc::clone(&view.semantics.tombstone_spans) as Arc<dyn esker_iter::TombstoneSpans>
}

/// The only run of a view if its tables hold one version of each key, all puts, all visible at `seqno`. If it
/// is the only source as well, there is nothing to merge and nothing to hide.
#[inline]
pub(super) fn only_run_of_single_versions(view: &SuperVersion, seqno: SeqNo) -> Option<&Arc<TreeRun>> {
    let [run] = view.tree.runs.as_slice() else { return None };
    run.facts().single_version_up_to.is_some_and(|newest| newest <= seqno).then_some(run)
}

/// The only source of a view, if it is such a run.
#[inline]
fn only_source(view: &SuperVersion, seqno: SeqNo) -> Option<&Arc<TreeRun>> {
    let run = only_run_of_single_versions(view, seqno)?;
    let is_alone = view.memtables().all(|view| view.is_empty()) && !view.has_range_deletes();
    is_alone.then_some(run)
}
