//! Copies of strings in chunks: what is not stored, or is zero, is not stored in the copy either (ST1).

use super::{chunk_key, chunks, set_chunked};
use crate::entry::Entry;
use crate::layout::{Space, object_range};
use crate::record::Record;
use crate::txn::Txn;
use crate::types::malformed;
use esker::Result;

/// Sets the key `to`, which is not there, to a string that lies in chunks. Only the chunks that are stored
/// are read and written, one by one.
///
/// # Errors
/// Those of the engine.
pub fn copy_chunked(
    txn: &mut Txn<'_>,
    record: &Record,
    to: &mut Entry,
    expiry_ms: Option<u64>,
) -> Result<()> {
    let (object, len) = chunks(record)?;
    let copy = txn.store().new_object(to.physical())?;
    // A transaction cannot be changed while it is walked over: first the numbers, then the bytes.
    let mut stored = Vec::new();
    let (first, end) = object_range(object);
    txn.visit(Space::Elements, first..end, false, |key, bytes| {
        let number = key.get(8..).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes);
        let number = number.ok_or_else(|| malformed("chunk of a string"))?;
        if bytes.iter().any(|byte| *byte != 0) {
            stored.push(number);
        }
        Ok(true)
    })?;
    for number in stored {
        let bytes = txn.get(Space::Elements, &chunk_key(object, number))?;
        let bytes = bytes.ok_or_else(|| malformed("chunk of a string"))?;
        txn.put(Space::Elements, &chunk_key(copy, number), &bytes)?;
    }
    set_chunked(txn, to, copy, len, expiry_ms)
}
