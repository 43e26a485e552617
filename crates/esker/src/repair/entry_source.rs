//! Entry source: the readable entries of damaged tables as one cursor, in internal order.
//!
//! A [`TableChain`] reads tables that share no key, one after the other. [`Settled`] merges chains by key and
//! sequence number. It returns one entry for each key and sequence number: where several tables hold it, the
//! entry of the newest file counts, because a compaction may have folded operands into it or moved its large
//! value. A large value that is in no whole blob file is read and put into the entry; if it cannot be
//! read the entry is lost.
//!
//! Only a walk forwards from the first entry is possible.

use super::blob_shelf::BlobShelf;
use super::finding::{Finding, KeySpan};
use super::table_file::TableHead;
use super::table_stream::TableStream;
use super::verify::pointer_in;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo, Tag, ValueKind};
use esker_env::{Env, OpenMode};
use esker_iter::{Cursor, MergingCursor};
use esker_version::KeyRange;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

/// A table whose entries are wanted.
#[derive(Clone, Debug)]
pub(crate) struct SourceTable {
    pub(crate) number: FileNumber,
    pub(crate) path: PathBuf,
    pub(crate) uid: esker_base::TableUid,
    pub(crate) global_seqno: Option<SeqNo>,
    /// How many entries it has, if the manifest says so.
    pub(crate) entries: Option<u64>,
    /// The keys that count.
    pub(crate) range: KeyRange,
}

/// What a walk found to be lost or doubtful.
#[derive(Debug, Default)]
pub(crate) struct WalkLosses {
    pub(crate) lost: Vec<Finding>,
    pub(crate) doubtful_keys: Vec<Vec<u8>>,
    /// More keys than are listed are doubtful.
    pub(crate) are_more_doubtful: bool,
}

/// The age of what the log has: older than every file.
const IN_LOG: FileNumber = FileNumber(0);

/// Lost values and doubtful keys that are listed one by one.
const LISTED_DOUBTS: usize = 1000;

pub(crate) type Losses = Rc<RefCell<WalkLosses>>;

/// Tables in key order that share no key.
#[derive(Debug)]
pub(crate) struct TableChain {
    env: Env,
    left: VecDeque<SourceTable>,
    open: Option<(SourceTable, TableStream)>,
    losses: Losses,
}

impl TableChain {
    pub(crate) fn new(
        env: &Env,
        tables: impl IntoIterator<Item = SourceTable>,
        losses: &Losses,
    ) -> TableChain {
        let left = tables.into_iter().collect();
        TableChain { env: env.clone(), left, open: None, losses: Rc::clone(losses) }
    }

    fn file(&self) -> FileNumber {
        self.open.as_ref().map_or(FileNumber(0), |(table, _)| table.number)
    }

    /// Moves to an entry that counts, from the present one on.
    fn settle(&mut self) -> Result<()> {
        loop {
            if let Some((table, stream)) = &mut self.open {
                while let Some((key, _, _)) = stream.entry() {
                    if table.range.contains(key) {
                        return Ok(());
                    }
                    stream.advance()?;
                }
                self.note_gaps();
                self.open = None;
            }
            let Some(table) = self.left.pop_front() else { return Ok(()) };
            let file = self.env.fs.open(&table.path, OpenMode::Read)?;
            let bytes = file.len()?;
            let head = TableHead::expected(file, bytes, table.uid);
            let stream = head.stream(table.global_seqno, table.entries)?;
            self.open = Some((table, stream));
        }
    }

    fn note_gaps(&self) {
        let Some((table, stream)) = &self.open else { return };
        let span = KeySpan::of(&table.range);
        for gap in stream.gaps() {
            let keys = gap.keys(&span).to_range();
            let Some(inside) = keys.intersection(&table.range) else { continue };
            let what = "blocks of the table cannot be read";
            let meaning = "these keys have no value or an older one, and deleted keys may be back";
            let finding = Finding::new(&table.path, gap.offset, what, meaning);
            let finding = finding.over(KeySpan::of(&inside), stream.missing_at_most());
            self.losses.borrow_mut().lost.push(finding);
        }
    }
}

/// The calls of a cursor that its source does not offer.
macro_rules! forwards_only {
    () => {
        fn seek_to_last(&mut self) -> Result<()> {
            Err(forwards_only())
        }

        fn seek(&mut self, _key: &[u8], _seqno: SeqNo) -> Result<()> {
            Err(forwards_only())
        }

        fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
            Err(forwards_only())
        }

        fn prev(&mut self) -> Result<()> {
            Err(forwards_only())
        }
    };
}

fn forwards_only() -> Error {
    Error::internal("the entries of a damaged table are read forwards only")
}

impl Cursor for TableChain {
    fn seek_to_first(&mut self) -> Result<()> {
        self.settle()
    }

    fn next(&mut self) -> Result<()> {
        if let Some((_, stream)) = &mut self.open {
            stream.advance()?;
        }
        self.settle()
    }

    fn is_valid(&self) -> bool {
        self.open.is_some()
    }

    fn key(&self) -> &[u8] {
        self.entry().0
    }

    fn tag(&self) -> Tag {
        self.entry().1
    }

    fn value(&self) -> &[u8] {
        self.entry().2
    }

    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        let entry = self.open.as_ref().and_then(|(_, stream)| stream.entry());
        entry.unwrap_or((&[], Tag::from_raw(0), &[]))
    }

    forwards_only!();
}

/// The entries of all chains, one for each key and sequence number.
#[derive(Debug)]
pub(crate) struct Settled<'a> {
    merge: MergingCursor<TableChain>,
    blobs: &'a BlobShelf,
    /// Where the entries will be: pointers to a blob file of another keyspace do not count there.
    keyspace: KeyspaceId,
    losses: Losses,
    /// The first file that was made of the log, and the greatest sequence number in the other tables: an
    /// operand of the log that is not newer may be folded into one of them.
    logged: Option<(FileNumber, SeqNo)>,
    present: Option<Tag>,
    /// Whether the large value before the present entry was lost.
    is_after_lost: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> Settled<'a> {
    pub(crate) fn new(
        chains: Vec<TableChain>,
        blobs: &'a BlobShelf,
        keyspace: KeyspaceId,
        losses: &Losses,
    ) -> Settled<'a> {
        Settled {
            merge: MergingCursor::new(chains),
            blobs,
            keyspace,
            losses: Rc::clone(losses),
            logged: None,
            present: None,
            is_after_lost: false,
            key: Vec::new(),
            value: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The same, of which files from this one on were made of the log, and other tables go up to `newest`.
    pub(crate) fn with_log(self, first: Option<FileNumber>, newest: SeqNo) -> Settled<'a> {
        Settled { logged: first.map(|first| (first, newest)), ..self }
    }

    /// Takes the next entry off the merge.
    fn take(&mut self) -> Result<()> {
        self.present = None;
        while self.merge.is_valid() {
            let Some(tag) = self.take_newest_of_equals()? else { continue };
            if let Some(tag) = self.with_value(tag) {
                self.is_after_lost &= tag.kind_byte() & FLAG_BLOB == 0;
                self.present = Some(tag);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Moves the merge behind all entries of the present key and sequence number; of those, the one of the
    /// newest file counts. `None` for an operand of the log that a table has folded already, as far as one
    /// can tell.
    fn take_newest_of_equals(&mut self) -> Result<Option<Tag>> {
        let mut age = self.age();
        let (key, mut tag, value) = self.merge.entry();
        replace(&mut self.key, key);
        replace(&mut self.value, value);
        let (mut is_doubtful, mut is_alone) = (false, true);
        self.merge.next()?;
        while self.merge.is_valid() {
            let other_age = self.age();
            let (key, other, value) = self.merge.entry();
            if key != self.key || other.seqno() != tag.seqno() {
                break;
            }
            is_alone = false;
            let differs = other != tag || *value != *self.value;
            let both_stored = age > IN_LOG && other_age > IN_LOG;
            is_doubtful |= differs && both_stored && (is_operand(tag) || is_operand(other));
            if other_age > age {
                (age, tag) = (other_age, other);
                replace(&mut self.value, value);
            }
            self.merge.next()?;
        }
        let is_in_tables = self.logged.is_some_and(|(_, newest)| tag.seqno() <= newest);
        let is_folded = age == IN_LOG && is_alone && is_operand(tag) && is_in_tables;
        if is_doubtful || is_folded {
            let mut losses = self.losses.borrow_mut();
            let is_listed = losses.doubtful_keys.last() == Some(&self.key);
            if !is_listed && losses.doubtful_keys.len() < LISTED_DOUBTS {
                losses.doubtful_keys.push(self.key.clone());
            }
            losses.are_more_doubtful |= losses.doubtful_keys.len() == LISTED_DOUBTS;
        }
        Ok((!is_folded).then_some(tag))
    }

    /// How new the file of the present entry is. What the log has is the oldest form of an entry, whatever
    /// the number of the file that was made of it: a table may hold it folded.
    fn age(&self) -> FileNumber {
        let file = self.merge.current().map_or(IN_LOG, TableChain::file);
        if self.logged.is_some_and(|(first, _)| file >= first) { IN_LOG } else { file }
    }

    /// The tag under which the present entry is written: a large value that is in no whole file is read.
    /// `None` if it cannot be.
    fn with_value(&mut self, tag: Tag) -> Option<Tag> {
        let Some(pointer) = pointer_in(tag, &self.value) else { return Some(tag) };
        // A whole file may be another one that has got its name.
        if let Err(error) = self.blobs.read(&self.key, pointer, &mut self.scratch) {
            self.lose_value(&error);
            return None;
        }
        self.is_after_lost = false;
        if BlobShelf::file_of(pointer).is_some_and(|file| self.blobs.is_whole(file, self.keyspace)) {
            return Some(tag);
        }
        let expiry = self.value.len() - pointer.len();
        self.value.truncate(expiry);
        self.value.append(&mut self.scratch);
        Some(Tag::from_parts(tag.seqno(), tag.kind_byte() & !FLAG_BLOB))
    }
}

impl Settled<'_> {
    /// Notes that the present value is lost, as part of the span of the one before it if that is, too.
    fn lose_value(&mut self, error: &Error) {
        let one = KeySpan::only(&self.key);
        let mut losses = self.losses.borrow_mut();
        let is_long = losses.lost.len() >= LISTED_DOUBTS;
        if let Some(last) = losses.lost.last_mut().filter(|_| self.is_after_lost || is_long)
            && let Some(keys) = &mut last.keys
        {
            keys.end = one.end;
            last.entries_at_most = last.entries_at_most.map(|entries| entries + 1);
        } else {
            let what = format!("a large value cannot be read: {error}");
            let meaning = "the keys have no value or an older one, where the value is a large one";
            let finding = Finding::new(&PathBuf::new(), None, what, meaning);
            losses.lost.push(finding.over(one, Some(1)));
        }
        self.is_after_lost = true;
    }
}

fn replace(to: &mut Vec<u8>, from: &[u8]) {
    to.clear();
    to.extend_from_slice(from);
}

fn is_operand(tag: Tag) -> bool {
    tag.kind_byte() & !FLAG_EXPIRY == ValueKind::Merge as u8
}

impl Cursor for Settled<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.merge.seek_to_first()?;
        self.take()
    }

    fn next(&mut self) -> Result<()> {
        self.take()
    }

    fn is_valid(&self) -> bool {
        self.present.is_some()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn tag(&self) -> Tag {
        self.present.unwrap_or(Tag::from_raw(0))
    }

    fn value(&self) -> &[u8] {
        &self.value
    }

    forwards_only!();
}
