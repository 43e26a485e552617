//! Reads of strings: whole ones from the record, of chunked ones the chunks that a range touches.

use super::{CHUNK_BYTES, chunk_key, chunks, inline, len};
use crate::layout::Space;
use crate::record::Record;
use crate::txn::Txn;
use crate::types::malformed;
use esker::Result;
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

/// What is not stored is this (ST1).
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// Hands over the bytes of a range in order, piece by piece, until `take` breaks off. The range ends at the
/// string's end at the latest.
///
/// # Errors
/// Those of the engine.
pub fn read(
    txn: &Txn<'_>,
    record: &Record,
    range: Range<u64>,
    take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let range = range.start..range.end.min(len(record)?);
    if range.is_empty() {
        return Ok(());
    }
    if let Some(bytes) = inline(record) {
        let _is_over = take(&bytes[range.start as usize..range.end as usize]);
        return Ok(());
    }
    let (object, _) = chunks(record)?;
    let chunk_of = |at: u64| (at / CHUNK_BYTES as u64) as u32;
    let (first, last) = (chunk_of(range.start), chunk_of(range.end - 1));
    let mut pieces = Pieces { range, take };
    if first == last {
        let stored = txn.get(Space::Elements, &chunk_key(object, first))?;
        let _is_over = pieces.chunk(first, stored.as_deref().unwrap_or_default());
        return Ok(());
    }
    let mut next = first;
    for entry in txn.range(Space::Elements, chunk_key(object, first)..=chunk_key(object, last)) {
        let (key, stored) = entry?;
        let number = key.get(8..).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes);
        let number = number.ok_or_else(|| malformed("chunk of a string"))?;
        for absent in next..number {
            if pieces.chunk(absent, &[]).is_break() {
                return Ok(());
            }
        }
        if pieces.chunk(number, &stored).is_break() {
            return Ok(());
        }
        next = number + 1;
    }
    for absent in next..=last {
        if pieces.chunk(absent, &[]).is_break() {
            break;
        }
    }
    Ok(())
}

struct Pieces<'t> {
    range: Range<u64>,
    take: &'t mut dyn FnMut(&[u8]) -> ControlFlow<()>,
}

impl Pieces<'_> {
    /// Hands over what the range has of a chunk.
    fn chunk(&mut self, number: u32, stored: &[u8]) -> ControlFlow<()> {
        let begin = u64::from(number) * CHUNK_BYTES as u64;
        let within = |at: u64| at.saturating_sub(begin).min(CHUNK_BYTES as u64) as usize;
        let (start, end) = (within(self.range.start), within(self.range.end));
        let split = stored.len().clamp(start, end);
        if start < split {
            (self.take)(&stored[start..split])?;
        }
        if split < end {
            (self.take)(&ZEROS[split..end])?;
        }
        ControlFlow::Continue(())
    }
}

/// Appends the bytes of a range.
///
/// # Errors
/// Those of the engine.
pub fn read_into(txn: &Txn<'_>, record: &Record, range: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
    read(txn, record, range, &mut |piece| {
        out.extend_from_slice(piece);
        ControlFlow::Continue(())
    })
}

/// The whole string.
///
/// # Errors
/// Those of the engine.
pub fn whole<'r>(txn: &Txn<'_>, record: &'r Record) -> Result<Cow<'r, [u8]>> {
    if let Some(bytes) = inline(record) {
        return Ok(Cow::Borrowed(bytes));
    }
    let len = len(record)?;
    let mut bytes = Vec::with_capacity(len as usize);
    read_into(txn, record, 0..len, &mut bytes)?;
    Ok(Cow::Owned(bytes))
}
