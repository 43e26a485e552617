//! The user's cursor: borrowed entries, both directions, one consistent moment.

use crate::advice::ScanTally;
use crate::handle::Pinned;
use crate::holders::Holding;
use crate::read::covers;
use crate::read::source::Source;
use crate::view::SuperVersion;
use esker_base::{Result, SeqNo};
use esker_iter::{Bounds, Cover, Merge, Reader, Visible};
use esker_sst::ReadPurpose;
use esker_version::PartFlags;
use std::sync::Arc;

/// A position in a keyspace, showing the state at the moment it was made.
///
/// A cursor lends its entries instead of copying them, which makes it the fast way to scan. It holds memtables and
/// table files in place: drop it when done.
///
/// ```no_run
/// # fn main() -> esker_base::Result<()> {
/// # let db = esker_engine::Database::open("data")?;
/// # let users = db.keyspace("users")?;
/// let mut cursor = users.cursor()?;
/// cursor.seek(b"b")?;
/// while let Some((key, value)) = cursor.entry() {
///     println!("{} {}", key.escape_ascii(), value.len());
///     cursor.next()?;
/// }
/// # Ok(()) }
/// ```
pub struct Cursor {
    // Before the view: what the cursor borrows from is dropped after it.
    entries: Visible<Merge<Source>>,
    _view: Arc<SuperVersion>,
    /// Its place among the holders.
    _holding: Option<Holding>,
    /// What it returned.
    tally: ScanTally,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}

impl Cursor {
    /// A cursor within `bounds` over what a reader of that moment sees. The view holds every version that such a
    /// reader needs, so no snapshot has to be registered for it.
    pub(crate) fn new(mut pinned: Pinned, bounds: Bounds) -> Cursor {
        let reader = pinned.reader();
        Cursor {
            entries: visible(&pinned, reader, bounds),
            _view: pinned.view,
            _holding: None,
            tally: ScanTally::default(),
        }
    }

    /// This cursor, listed among the holders while it lives, and with its scans counted.
    pub(crate) fn held(self, holding: Holding, tally: ScanTally) -> Cursor {
        Cursor { _holding: Some(holding), tally, ..self }
    }

    /// A cursor over what a reader at `seqno` would see if there were only these sources of `view` and the range deletes
    /// of `cover`.
    pub(crate) fn over(
        view: Arc<SuperVersion>,
        sources: Vec<Source>,
        cover: Cover,
        seqno: SeqNo,
        reader: Reader,
    ) -> Cursor {
        let entries = Visible::new(Merge::new(sources), seqno).reading_as(reader).under(cover);
        Cursor { entries, _view: view, _holding: None, tally: ScanTally::default() }
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.tally.begin();
        self.entries.seek_to_first()
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.tally.begin();
        self.entries.seek_to_last()
    }

    /// Moves to the first entry whose key is not less than `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.tally.begin();
        self.entries.seek(key.as_ref())
    }

    /// Moves to the last entry whose key is not greater than `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.tally.begin();
        self.entries.seek_for_prev(key.as_ref())
    }

    /// Moves to the next entry; does nothing if there is no current one.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor lends its entries, which `Iterator` cannot")]
    pub fn next(&mut self) -> Result<()> {
        self.tally.count();
        if self.entries.is_valid() { self.entries.next() } else { Ok(()) }
    }

    /// Moves to the previous entry; does nothing if there is no current one.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.tally.count();
        if self.entries.is_valid() { self.entries.prev() } else { Ok(()) }
    }

    /// The current key and value; `None` before the first seek and past either end.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.entries.entry()
    }

    /// The current key.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.entries.is_valid().then(|| self.entries.key())
    }

    /// When the current value expires, in milliseconds since 1970; `None` if it does not, or if there is none.
    pub fn expiry_ms(&self) -> Option<u64> {
        if self.entries.is_valid() { self.entries.expiry_ms() } else { None }
    }

    /// The current value.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.entries.is_valid().then(|| self.entries.value())
    }
}

/// What a reader of that moment sees, merged and filtered.
pub(crate) fn visible(pinned: &Pinned, reader: Reader, bounds: Bounds) -> Visible<Merge<Source>> {
    let Pinned { view, seqno, .. } = pinned;
    let seqno = *seqno;
    if let Some(cover) = covers::cover_of(view, seqno) {
        let sources = Source::all_under(view, &cover, ReadPurpose::Scan);
        let entries = Visible::new(Merge::new(sources), seqno).reading_as(reader).within(bounds);
        return entries.minding(gaps_of(view)).under(cover);
    }
    let sources = Source::all_of(view, ReadPurpose::Scan);
    let single_version = is_single_version(view, sources.len(), seqno);
    let entries = Visible::new(Merge::new(sources), seqno).reading_as(reader).within(bounds);
    if single_version { entries.assume_single_version() } else { entries.minding(gaps_of(view)) }
}

fn gaps_of(view: &SuperVersion) -> Arc<dyn esker_iter::Gaps> {
    Arc::clone(&view.semantics.gaps) as Arc<dyn esker_iter::Gaps>
}

/// Whether the one source is a run of tables that hold one version of each key, all puts, all visible at `seqno`:
/// then there is nothing to merge and nothing to hide.
fn is_single_version(view: &SuperVersion, sources: usize, seqno: SeqNo) -> bool {
    let [run] = view.tree.runs.as_slice() else { return false };
    sources == 1
        && run
            .parts
            .iter()
            .all(|part| part.meta.flags.has(PartFlags::SINGLE_VERSION) && part.meta.max_seqno <= seqno)
}
