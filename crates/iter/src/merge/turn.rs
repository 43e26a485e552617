//! Change of direction: every other source is sought anew over the current entry.

use super::MergingCursor;
use crate::cursor::Cursor;
use esker_base::{Result, SeqNo, Tag};

impl<C: Cursor> MergingCursor<C> {
    /// Steps against the direction walked so far.
    #[cold]
    pub(super) fn turn_around<const BACKWARD: bool>(&mut self) -> Result<()> {
        if self.sources.len() == 1 {
            self.backward = BACKWARD;
            return self.advance::<BACKWARD, false>(SeqNo::MAX);
        }
        let winner = self.winner;
        let tag = self.sources[winner].tag();
        let mut pivot = std::mem::take(&mut self.pivot);
        pivot.clear();
        pivot.extend_from_slice(self.sources[winner].key());
        let turned = self.place_all::<BACKWARD>(|number, source| match (BACKWARD, number == winner) {
            (false, true) => source.next(),
            (true, true) => source.prev(),
            (false, false) => seek_behind(source, &pivot, tag),
            (true, false) => seek_ahead(source, &pivot, tag),
        });
        self.pivot = pivot;
        turned
    }
}

/// Moves to the first entry that comes after version `tag` of `key`.
fn seek_behind<C: Cursor>(source: &mut C, key: &[u8], tag: Tag) -> Result<()> {
    source.seek(key, tag.seqno())?;
    // Kinds are the low bits of tags: with the same sequence number a greater kind still comes before.
    while source.is_valid() && source.tag() > tag && source.key() == key {
        source.next()?;
    }
    Ok(())
}

/// Moves to the last entry that comes before version `tag` of `key`.
fn seek_ahead<C: Cursor>(source: &mut C, key: &[u8], tag: Tag) -> Result<()> {
    seek_behind(source, key, tag)?;
    if source.is_valid() {
        source.prev()?;
    } else {
        source.seek_to_last()?;
    }
    // An entry may have been written in between since (C6).
    while source.is_valid() && source.key() >= key && !(source.key() == key && source.tag() > tag) {
        source.prev()?;
    }
    Ok(())
}
