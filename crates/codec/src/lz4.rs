//! LZ4 blocks ([format](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md)): the fast encoder and the decoder are
//! the crate `lz4_flex`, the thorough encoder ([`high`]) is our own. What both write is read by the same decoder.

pub(crate) mod high;

use crate::compress::grown;
use crate::decompress::{DecodeError, damaged};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use std::cell::RefCell;

/// Length from which the table with wide entries is needed.
const LARGE_TABLE_LEN: usize = u16::MAX as usize;

/// Hash tables, each made on first use. They hash differently, so the table is chosen by the length of the block alone;
/// otherwise the bytes would depend on what the thread saw before.
#[derive(Default)]
struct Tables {
    small: Option<CompressTable>,
    large: Option<CompressTable>,
}

thread_local! {
    static TABLES: RefCell<Tables> = RefCell::default();
}

/// The block at the start of `scratch`.
pub(crate) fn compress(raw: &[u8], scratch: &mut Vec<u8>) -> Option<usize> {
    // The encoder insists on room for its worst case, although what is too long is thrown away.
    let out = grown(scratch, get_maximum_output_size(raw.len()));
    TABLES.with_borrow_mut(|tables| {
        let table = if raw.len() < LARGE_TABLE_LEN {
            tables.small.get_or_insert_with(CompressTable::small)
        } else {
            tables.large.get_or_insert_with(CompressTable::large)
        };
        compress_into_with_table(raw, out, table).ok()
    })
}

/// Decodes a block; answers how long it is.
pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
    decompress_into(stored, out).map_err(|error| damaged("lz4", &error))
}
