//! Limit of memory: records copied into touched memory, and then all of them in one go.

use super::append::{self, Append};
use crate::engine::{Abilities, Engine, EngineSettings, Result, Session};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes that a thread reserves at a time.
const PIECE_BYTES: usize = 1 << 20;

struct Copies {
    /// Free pieces, and full ones.
    pieces: Mutex<Pieces>,
}

struct Pieces {
    free: Vec<Vec<u8>>,
    full: Vec<Piece>,
}

#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    records: u64,
}

/// Memory for the data set, each page of it touched.
pub(in crate::adapters) fn open(_: &Path, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    // Two more for each thread, whose last pieces are not full.
    let count = usize::try_from(settings.expected_bytes)? / PIECE_BYTES + 16;
    let touched = || {
        let mut bytes = vec![1; PIECE_BYTES];
        bytes.clear();
        bytes
    };
    let pieces = Pieces { free: std::iter::repeat_with(touched).take(count).collect(), full: Vec::new() };
    Ok(Box::new(Copies { pieces: Mutex::new(pieces) }))
}

impl Copies {
    /// Returns a full piece and takes an empty one.
    fn exchange(&self, piece: Piece) -> Piece {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.full.push(piece);
        let bytes = pieces.free.pop().unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES));
        Piece { bytes, records: 0 }
    }
}

impl Engine for Copies {
    fn abilities(&self) -> Abilities {
        Abilities { reads: false, ..Abilities::MEMORY }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(append::session(CopyEnd { store: self, piece: Piece::default() }))
    }

    fn version(&self) -> String {
        "memcpy".to_owned()
    }

    fn copy_all(&self) -> Option<u64> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        // Into one piece after the other, so that the target's pages are touched except in the first round.
        let mut target = vec![1; PIECE_BYTES];
        let mut records = 0;
        for piece in &pieces.full {
            target[..piece.bytes.len()].copy_from_slice(&piece.bytes);
            std::hint::black_box(&mut target);
            records += piece.records;
        }
        Some(records)
    }
}

struct CopyEnd<'a> {
    store: &'a Copies,
    piece: Piece,
}

impl CopyEnd<'_> {
    fn exchange(&mut self) {
        let full = std::mem::take(&mut self.piece);
        self.piece = self.store.exchange(full);
    }
}

impl Drop for CopyEnd<'_> {
    fn drop(&mut self) {
        self.exchange();
    }
}

impl Append for CopyEnd<'_> {
    fn append<'a>(&mut self, records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        for (key, value) in records {
            let bytes = &self.piece.bytes;
            if bytes.len() + key.len() + value.len() > bytes.capacity().min(PIECE_BYTES) {
                self.exchange();
            }
            self.piece.bytes.extend_from_slice(key);
            self.piece.bytes.extend_from_slice(value);
            self.piece.records += 1;
        }
        Ok(())
    }
}
