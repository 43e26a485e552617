//! Fuzz target for blocks of table files: the first byte selects whether the table's properties say that
//! blocks are raw; the rest is a block without its checksum, header in front.
//!
//! After validation the search code of blocks reads without bounds checks, so this target matters most. The
//! block becomes the only one of a table that is otherwise correct, checksums included, as if a hostile
//! writer had made it.

use super::table::{exercise, open};
use super::table_file::{PlacedBytes, put_field, sealed, valid_table};
use esker_base::TableUid;
use esker_base::coding::put_varint;
use esker_codec::id;
use esker_env::SeededRandom;

/// Bytes in front of the stored bytes.
pub(super) const BLOCK_HEADER_LEN: usize = 24;

/// Longest block that is read; longer ones are valid but too slow for a target.
pub(super) const MAX_RAW_LEN: u32 = 1 << 20;

const UID: TableUid = TableUid(0x0bad_cafe);

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the block is valid, so that its entries can be read. Their order is not checked.
///
/// # Panics
/// If reading the table panics or does not end, or accepted entries are not as many as the header says.
pub fn accepts(bytes: &[u8]) -> bool {
    let Some((&selector, bytes)) = bytes.split_first() else { return false };
    if bytes.len() < BLOCK_HEADER_LEN {
        return false;
    }
    let mut block = bytes.to_vec();
    let stored_len = (block.len() - BLOCK_HEADER_LEN) as u32;
    repair_header(&mut block, stored_len, 0);
    let raw_len = u32::from_le_bytes(block[8..12].try_into().expect("four bytes"));
    if raw_len > MAX_RAW_LEN {
        return false;
    }
    let Some(table) = open(&table_of(&block, selector % 2 == 0)) else {
        panic!("everything but the block is right");
    };
    exercise(&table);
    let stated = u32::from_le_bytes(block[16..20].try_into().expect("four bytes"));
    let mut entries = 0;
    let visited = table.visit_entries(0, |_, _, _| entries += 1);
    assert!(visited.is_err() || entries == stated);
    visited.is_ok()
}

/// Corrects magic, version, lengths and number of a block's header and leaves everything else.
pub(super) fn repair_header(block: &mut [u8], stored_len: u32, number: u32) {
    block[..5].copy_from_slice(b"EsBk\x01");
    if block[6] == id::NONE {
        block[8..12].copy_from_slice(&stored_len.to_le_bytes());
    }
    block[12..16].copy_from_slice(&stored_len.to_le_bytes());
    block[20..24].copy_from_slice(&number.to_le_bytes());
}

fn table_of(block: &[u8], says_raw: bool) -> Vec<u8> {
    let mut span = block.to_vec();
    PlacedBytes::behind_the_header(UID, block).append_checksum(&mut span);
    let mut index = Vec::new();
    put_varint(&mut index, 1);
    put_varint(&mut index, 0);
    put_varint(&mut index, 0);
    put_varint(&mut index, span.len() as u64);
    let mut properties = Vec::new();
    put_field(&mut properties, 5, b"");
    put_field(&mut properties, 6, &[0xff; 24]);
    put_field(&mut properties, 16, if says_raw { b"none" } else { b"lz4" });
    sealed(UID, &span, &[(1, &index), (5, &properties)])
}

/// The only block of a small table.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let file = valid_table(random, 1 << 16);
    let header = &file[32..32 + BLOCK_HEADER_LEN];
    let stored_len = u32::from_le_bytes(header[12..16].try_into().expect("four bytes")) as usize;
    let mut bytes = vec![random.below(2) as u8];
    bytes.extend_from_slice(&file[32..32 + BLOCK_HEADER_LEN + stored_len]);
    bytes
}
