//! Divided flushes: key ranges of one flush that are written by threads of their own.
//!
//! A flush merges sealed memtables into tables, which takes processor time for encoding, compression and
//! filters. With `flush_threads` it is divided as a merge is into subcompactions: at keys, so that all
//! versions of a key are in one piece, and the tables of all pieces are installed together by one edit. So
//! the order of installs, and what a crash may leave, is that of a flush in one piece.
//!
//! * FP1. Pieces cover all keys, share none, and are installed by one edit, oldest memtables first as ever.
//! * FP2. Memtables with range tombstones are flushed in one piece: those belong to no single key.

use esker_base::Result;
use esker_iter::Cursor;
use esker_view::MemtableView;
use std::sync::Arc;

/// Payload of a piece, at least, unless tables are smaller: writing so much takes some hundred times as long
/// as starting a thread.
const MIN_PIECE_BYTES: u64 = 1 << 20;

/// A piece of a flush: keys from the first end on and before the second.
pub(super) type Piece = (Option<Box<[u8]>>, Option<Box<[u8]>>);

/// The pieces of a flush of these memtables to tables of `table_bytes`, on at most so many threads. O(entries
/// of the largest memtable) if there are several.
pub(super) fn pieces_of(
    memtables: &[Arc<MemtableView>],
    table_bytes: u64,
    threads: usize,
) -> Result<Vec<Piece>> {
    let bytes: u64 = memtables.iter().map(|view| view.memtable.payload_bytes()).sum();
    let worthwhile = bytes / table_bytes.clamp(1, MIN_PIECE_BYTES);
    let pieces = threads.min(usize::try_from(worthwhile).unwrap_or(usize::MAX));
    let has_range_deletes = memtables.iter().any(|view| view.memtable.range_deletes_len() > 0);
    let largest = memtables.iter().max_by_key(|view| view.memtable.len());
    match largest.filter(|_| pieces > 1 && !has_range_deletes) {
        Some(largest) => Ok(between(split_keys(largest, pieces)?)),
        None => Ok(vec![(None, None)]),
    }
}

/// Keys that divide a memtable into so many pieces of about as many entries, ascending; fewer if it has few
/// keys.
fn split_keys(view: &MemtableView, pieces: usize) -> Result<Vec<Box<[u8]>>> {
    let len = view.memtable.len();
    let mut keys: Vec<Box<[u8]>> = Vec::with_capacity(pieces - 1);
    let mut cursor = view.memtable.cursor();
    cursor.seek_to_first()?;
    let mut at = 0;
    while cursor.is_valid() && keys.len() + 1 < pieces {
        if at >= len * (keys.len() as u64 + 1) / pieces as u64
            && keys.last().is_none_or(|last| **last < *cursor.key())
        {
            keys.push(cursor.key().into());
        }
        at += 1;
        cursor.next()?;
    }
    Ok(keys)
}

/// The pieces that these keys, ascending, divide all keys into.
fn between(keys: Vec<Box<[u8]>>) -> Vec<Piece> {
    let ends: Vec<_> = [None].into_iter().chain(keys.into_iter().map(Some)).chain([None]).collect();
    ends.windows(2).map(|ends| (ends[0].clone(), ends[1].clone())).collect()
}
