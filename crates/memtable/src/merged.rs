//! Merged position over several ordered parts: shards, and sorted runs.
//!
//! The merge is [`esker_iter::MergingCursor`], which also merges memtables and tables; it sees a part as a
//! cursor over the entries that the part's structure refers to. Where these are newest versions, their chains
//! are walked by the cursor above ([`crate::cursor`]). A part meets keys in strict order whatever is inserted
//! meanwhile, and a change of direction seeks the other parts anew, so the merge is strictly ordered too.

use crate::entry::Entry;
use crate::memory::Memory;
use crate::memtable::Memtable;
use esker_base::{Result, SeqNo, Tag};
use esker_iter::{Cursor, MergingCursor};
use std::sync::Arc;

/// A position in one part. All moves return the entry they reach, none when they leave the part.
pub(crate) trait Part: Send + std::fmt::Debug {
    fn seek_to_first(&mut self, memory: &Memory) -> Entry;
    fn seek_to_last(&mut self, memory: &Memory) -> Entry;
    /// Moves to the first entry at or after version `limit` of `key`; parts with one version may ignore it.
    fn seek(&mut self, memory: &Memory, key: &[u8], limit: Tag) -> Entry;
    fn next(&mut self, memory: &Memory) -> Entry;
    fn prev(&mut self, memory: &Memory) -> Entry;
}

#[derive(Debug)]
struct PartCursor<P> {
    part: P,
    entry: Entry,
    memtable: Arc<Memtable>,
}

impl<P: Part> Cursor for PartCursor<P> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.entry = self.part.seek_to_first(self.memtable.memory());
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.entry = self.part.seek_to_last(self.memtable.memory());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.entry = self.part.seek(self.memtable.memory(), key, Tag::visible_at(seqno));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let memory = self.memtable.memory();
        let found = self.part.seek(memory, key, Tag::NEWEST);
        let mut entry = if found.is_none() { self.part.seek_to_last(memory) } else { self.part.prev(memory) };
        // Keys may have been inserted between the two moves.
        while !entry.is_none() && entry.key(memory) >= key {
            entry = self.part.prev(memory);
        }
        self.entry = entry;
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.entry = self.part.next(self.memtable.memory());
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.entry = self.part.prev(self.memtable.memory());
        Ok(())
    }

    #[inline]
    fn is_valid(&self) -> bool {
        !self.entry.is_none()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry.key(self.memtable.memory())
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.entry.tag(self.memtable.memory())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry.value(self.memtable.memory())
    }
}

/// The merged position. Its moves are those of [`crate::cursor::Position`].
#[derive(Debug)]
pub(crate) struct Merged<P>(MergingCursor<PartCursor<P>>);

impl<P: Part> Merged<P> {
    pub(crate) fn new(memtable: &Arc<Memtable>, parts: impl Iterator<Item = P>) -> Merged<P> {
        let cursor = |part| PartCursor { part, entry: Entry::NONE, memtable: Arc::clone(memtable) };
        Merged(MergingCursor::new(parts.map(cursor).collect()))
    }

    /// Moves, and returns the entry that the move came to. Parts lie in memory: no move fails.
    #[inline]
    fn moved(&mut self, by: impl FnOnce(&mut MergingCursor<PartCursor<P>>) -> Result<()>) -> Entry {
        let moved = by(&mut self.0);
        debug_assert!(moved.is_ok(), "memory does not fail");
        self.0.current().map_or(Entry::NONE, |cursor| cursor.entry)
    }

    pub(crate) fn seek_to_first(&mut self) -> Entry {
        self.moved(|merge| merge.seek_to_first())
    }

    pub(crate) fn seek_to_last(&mut self) -> Entry {
        self.moved(|merge| merge.seek_to_last())
    }

    pub(crate) fn seek(&mut self, key: &[u8], limit: Tag) -> Entry {
        self.moved(|merge| merge.seek(key, limit.seqno()))
    }

    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Entry {
        self.moved(|merge| merge.seek_before(key))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Entry {
        self.moved(|merge| merge.next())
    }

    #[inline]
    pub(crate) fn prev(&mut self) -> Entry {
        self.moved(|merge| merge.prev())
    }
}
