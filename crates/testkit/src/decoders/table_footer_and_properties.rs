//! Fuzz target for whole table files, as they are and with all checksums repaired: footer, directory, index,
//! index pages, locator, filter, properties, and the blocks behind them.

use super::block::{BLOCK_HEADER_LEN, MAX_RAW_LEN, repair_header};
use super::table::{exercise, open};
use super::table_file::{FILE_HEADER_LEN, FOOTER_LEN, PlacedBytes, repair_frame, sections_of, valid_table};
use esker_base::TableUid;
use esker_env::SeededRandom;
use std::ops::Range;

/// The section of index pages: like blocks, with a trailer behind them.
const INDEX_PAGES: u16 = 6;
const TRAILER_LEN: usize = 40;
/// Bytes behind the stored bytes of a block.
const CHECKSUM_LEN: usize = 8;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the file is a good table as it is.
///
/// # Panics
/// If reading it panics or does not end, or if the ways of reading a good table disagree.
pub fn accepts(bytes: &[u8]) -> bool {
    if let Some(repaired) = repaired(bytes)
        && let Some(table) = open(&repaired)
    {
        exercise(&table);
    }
    open(bytes).is_some_and(|table| exercise(&table))
}

/// The file with all checksums right, as far as lengths are valid. `None` if a block is too long.
fn repaired(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = bytes.to_vec();
    let Some(footer) = file.len().checked_sub(FOOTER_LEN).filter(|&footer| footer >= FILE_HEADER_LEN) else {
        return Some(file);
    };
    let field =
        |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    let uid = TableUid(field(&file, footer));
    let data_end = (field(&file, footer + 8) as usize).min(footer);
    let blocks = repair_blocks(&mut file, FILE_HEADER_LEN..data_end, uid, 0)?;
    for pages in sections_of(&file, INDEX_PAGES) {
        let Some(trailer) = pages.end.checked_sub(TRAILER_LEN).filter(|&trailer| trailer >= pages.start)
        else {
            continue;
        };
        repair_blocks(&mut file, pages.start..trailer, uid, blocks)?;
        let covered = &file[trailer..trailer + TRAILER_LEN - CHECKSUM_LEN];
        let checksum = PlacedBytes { uid, offset: trailer as u64, bytes: covered }.checksum();
        file[pages.end - CHECKSUM_LEN..pages.end].copy_from_slice(&checksum.to_le_bytes());
    }
    repair_frame(&mut file);
    Some(file)
}

/// Repairs consecutive blocks, numbered from `number`; returns the next number, or `None` if too long.
fn repair_blocks(file: &mut [u8], part: Range<usize>, uid: TableUid, mut number: u32) -> Option<u32> {
    let mut at = part.start;
    while let Some(block) = file.get_mut(at..part.end).filter(|rest| rest.len() >= BLOCK_HEADER_LEN) {
        let stored_len = u32::from_le_bytes(block[12..16].try_into().expect("four bytes"));
        let covered = BLOCK_HEADER_LEN.saturating_add(stored_len as usize);
        if block.len() < covered.saturating_add(CHECKSUM_LEN) {
            break;
        }
        repair_header(&mut block[..covered], stored_len, number);
        if u32::from_le_bytes(block[8..12].try_into().expect("four bytes")) > MAX_RAW_LEN {
            return None;
        }
        let checksum = PlacedBytes { uid, offset: at as u64, bytes: &block[..covered] }.checksum();
        block[covered..covered + CHECKSUM_LEN].copy_from_slice(&checksum.to_le_bytes());
        at += covered + CHECKSUM_LEN;
        number = number.wrapping_add(1);
    }
    Some(number)
}

/// A small table of several blocks.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let block_size_bytes = [64, 128, 512, 4096][random.below(4) as usize];
    valid_table(random, block_size_bytes)
}
