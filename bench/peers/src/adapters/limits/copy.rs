//! Records copied into memory that was touched before, and then all of them in one go: what the memory allows.

use super::{boxed, no_reads};
use crate::engine::{Abilities, Batch, Engine, EngineSettings, Result, SeeEntry, SeeValue, Session};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Bytes that a thread reserves at a time.
const PIECE_BYTES: usize = 1 << 20;

struct Copies {
    /// Memory that nobody has taken yet, and what was filled.
    pieces: Mutex<Pieces>,
}

struct Pieces {
    free: Vec<Vec<u8>>,
    full: Vec<Piece>,
}

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
    /// Gives back a piece and takes an empty one.
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
        Ok(boxed(CopySession { store: self, piece: Piece { bytes: Vec::new(), records: 0 } }))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn version(&self) -> String {
        "memcpy".to_owned()
    }

    fn copy_all(&self) -> Option<u64> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        // Into one piece after the other, so that the target's pages are touched but for the first round.
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

struct CopySession<'a> {
    store: &'a Copies,
    piece: Piece,
}

impl Drop for CopySession<'_> {
    fn drop(&mut self) {
        let piece = Piece { bytes: std::mem::take(&mut self.piece.bytes), records: self.piece.records };
        self.store.exchange(piece);
    }
}

impl Session for CopySession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.piece.bytes.len() + key.len() + value.len() > self.piece.bytes.capacity().min(PIECE_BYTES) {
            let full = Piece { bytes: std::mem::take(&mut self.piece.bytes), records: self.piece.records };
            self.piece = self.store.exchange(full);
        }
        self.piece.bytes.extend_from_slice(key);
        self.piece.bytes.extend_from_slice(value);
        self.piece.records += 1;
        Ok(())
    }

    fn delete(&mut self, _: &[u8]) -> Result<()> {
        Err(no_reads())
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        batch.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn get(&mut self, _: &[u8], _: &mut SeeValue<'_>) -> Result<bool> {
        Err(no_reads())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut SeeEntry<'_>) -> Result<usize> {
        Err(no_reads())
    }

    fn scan_backward(&mut self, _: &mut SeeEntry<'_>) -> Result<usize> {
        Err(no_reads())
    }
}
