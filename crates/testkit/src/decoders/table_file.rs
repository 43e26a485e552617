//! Builds table files byte by byte: the frame around blocks and sections, written by hand where the table
//! writer cannot produce it.

use super::table::memory_file;
use super::{random_bytes, random_text};
use esker_base::checksum::xxh3_64;
use esker_base::coding::{put_prefixed, put_varint};
use esker_base::{SeqNo, TableUid, Tag, ValueKind};
use esker_codec::Codec;
use esker_env::{Random, SeededRandom};
use esker_filter::FilterPolicy;
use esker_sst::{BlockBounds, BlockLayout, IndexKind, TableOptions, TableWriter};
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes in front of the first block.
pub(super) const FILE_HEADER_LEN: usize = 32;
/// Bytes at the end.
pub(super) const FOOTER_LEN: usize = 64;
pub(super) const DIRECTORY_ENTRY_LEN: usize = 32;

/// Bytes that a checksum covers together with their position.
pub(super) struct PlacedBytes<'a> {
    pub(super) uid: TableUid,
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl<'a> PlacedBytes<'a> {
    /// Bytes that come first in the file.
    pub(super) fn behind_the_header(uid: TableUid, bytes: &'a [u8]) -> PlacedBytes<'a> {
        PlacedBytes { uid, offset: FILE_HEADER_LEN as u64, bytes }
    }

    pub(super) fn checksum(&self) -> u64 {
        let place = [self.uid.get().to_le_bytes(), self.offset.to_le_bytes()].concat();
        xxh3_64(self.bytes) ^ xxh3_64(&place)
    }

    pub(super) fn append_checksum(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.checksum().to_le_bytes());
    }
}

pub(super) fn put_field(out: &mut Vec<u8>, tag: u64, body: &[u8]) {
    put_varint(out, tag);
    put_prefixed(out, body);
}

/// A table file of these blocks, which carry their checksums, and of these sections, by kind.
pub(super) fn sealed(uid: TableUid, blocks: &[u8], sections: &[(u16, &[u8])]) -> Vec<u8> {
    let mut file = vec![0; FILE_HEADER_LEN];
    file.extend_from_slice(blocks);
    let data_end = file.len() as u64;
    let mut directory = Vec::new();
    for &(kind, bytes) in sections {
        directory.extend_from_slice(&u64::from(kind).to_le_bytes());
        directory.extend_from_slice(&(file.len() as u64).to_le_bytes());
        directory.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        directory.extend_from_slice(&[0; 8]);
        file.extend_from_slice(bytes);
    }
    let directory_offset = file.len() as u64;
    file.extend_from_slice(&directory);
    file.extend_from_slice(&uid.get().to_le_bytes());
    file.extend_from_slice(&data_end.to_le_bytes());
    file.extend_from_slice(&directory_offset.to_le_bytes());
    file.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&[0; 32]);
    repair_frame(&mut file);
    file
}

fn word(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"))
}

/// The byte ranges of the sections of this kind, as far as the directory is valid and they lie in the file.
pub(super) fn sections_of(file: &[u8], kind: u16) -> Vec<Range<usize>> {
    let Some(footer) = file.len().checked_sub(FOOTER_LEN).filter(|&footer| footer >= FILE_HEADER_LEN) else {
        return Vec::new();
    };
    let most = (footer - FILE_HEADER_LEN) / DIRECTORY_ENTRY_LEN;
    let sections = (word(file, footer + 24) as u32 as usize).min(most);
    let directory = footer - sections * DIRECTORY_ENTRY_LEN;
    (directory..footer)
        .step_by(DIRECTORY_ENTRY_LEN)
        .filter(|&entry| file[entry..entry + 2] == kind.to_le_bytes())
        .filter_map(|entry| {
            let (offset, len) = (word(file, entry + 8) as usize, word(file, entry + 16) as usize);
            Some(offset..offset.checked_add(len).filter(|&end| end <= directory)?)
        })
        .collect()
}

/// Corrects magic, length and all checksums of file header, sections, directory and footer, as far as the
/// footer says where they are. Does nothing to files too short for them.
pub(super) fn repair_frame(file: &mut [u8]) {
    let Some(footer) = file.len().checked_sub(FOOTER_LEN).filter(|&footer| footer >= FILE_HEADER_LEN) else {
        return;
    };
    let uid = TableUid(word(file, footer));
    file[..12].copy_from_slice(b"EskerTbl\x01\0\0\0");
    file[16..24].copy_from_slice(&uid.get().to_le_bytes());
    let checksum = xxh3_64(&file[..24]);
    file[24..32].copy_from_slice(&checksum.to_le_bytes());

    let sections = u64::from(word(file, footer + 24) as u32)
        .min(((footer - FILE_HEADER_LEN) / DIRECTORY_ENTRY_LEN) as u64);
    let directory = footer - sections as usize * DIRECTORY_ENTRY_LEN;
    for entry in (directory..footer).step_by(DIRECTORY_ENTRY_LEN) {
        let (offset, len) = (word(file, entry + 8), word(file, entry + 16));
        let range = offset
            .checked_add(len)
            .filter(|&end| end <= directory as u64)
            .map(|end| offset as usize..end as usize);
        if let Some(range) =
            range.clone().filter(|_| file[entry..entry + 2] == DICTIONARY_SECTION.to_le_bytes())
        {
            repair_dictionary(&mut file[range], uid, offset);
        }
        if let Some(bytes) = range.and_then(|range| file.get(range)) {
            let checksum = PlacedBytes { uid, offset, bytes }.checksum();
            file[entry + 24..entry + 32].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    let checksum = PlacedBytes { uid, offset: directory as u64, bytes: &file[directory..footer] }.checksum();
    let file_bytes = file.len() as u64;
    file[footer + 16..footer + 24].copy_from_slice(&(directory as u64).to_le_bytes());
    file[footer + 24..footer + 28].copy_from_slice(&(sections as u32).to_le_bytes());
    file[footer + 32..footer + 40].copy_from_slice(&file_bytes.to_le_bytes());
    file[footer + 40..footer + 48].copy_from_slice(&checksum.to_le_bytes());
    let checksum = xxh3_64(&file[footer..footer + 48]);
    file[footer + 48..footer + 56].copy_from_slice(&checksum.to_le_bytes());
    file[footer + 56..].copy_from_slice(b"EskerEnd");
}

const DICTIONARY_SECTION: u16 = 4;

/// Corrects magic, length and checksum in a dictionary's section.
fn repair_dictionary(section: &mut [u8], uid: TableUid, offset: u64) {
    let Some(covered) = section.len().checked_sub(8).filter(|&covered| covered >= 16) else { return };
    section[..8].copy_from_slice(b"EskerDic");
    section[8..12].copy_from_slice(&((covered - 16) as u32).to_le_bytes());
    let checksum = PlacedBytes { uid, offset, bytes: &section[..covered] }.checksum();
    section[covered..].copy_from_slice(&checksum.to_le_bytes());
}

/// A small table with deletes and several versions of some keys, as the writer makes it.
pub(super) fn valid_table(random: &SeededRandom, block_size_bytes: usize) -> Vec<u8> {
    // Half of the tables are raw: damage then reaches the block decoder directly.
    let codec = Codec::ALL[(random.below(2) * random.below(Codec::ALL.len() as u64)) as usize];
    let filters = [FilterPolicy::None, FilterPolicy::DEFAULT, FilterPolicy::blocked_bloom(4.0)];
    let options = TableOptions {
        layout: if random.below(2) == 0 { BlockLayout::Flat } else { BlockLayout::Delta },
        block_size_bytes,
        restart_interval: 1 + random.below(16) as u16,
        hash_slots_percent: [0, 50, 100, 200][random.below(4) as usize],
        codec,
        filter: filters[random.below(3) as usize],
        index: IndexKind::ALL[random.below(IndexKind::ALL.len() as u64) as usize],
        bounds: BlockBounds::ALL[random.below(3) as usize],
        uid: TableUid(random.next_u64()),
        ..TableOptions::default()
    };
    let file = memory_file();
    let mut writer = TableWriter::new(file.clone(), options).expect("options in range");
    for (key, tag, value) in valid_entries(random) {
        writer.add(&key, tag, &value).expect("in order");
    }
    writer.set_range_tombstones(super::range_deletes::valid_set(random));
    let len = writer.finish().expect("memory").file_bytes as usize;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).expect("it was written");
    bytes
}

fn valid_entries(random: &SeededRandom) -> Vec<(Vec<u8>, Tag, Vec<u8>)> {
    let fixed_len = (random.below(3) == 0).then(|| 1 + random.below(12) as usize);
    let keys: BTreeSet<Vec<u8>> = (0..1 + random.below(40))
        .map(|_| match fixed_len {
            Some(len) => (0..len).map(|_| b'a' + random.below(6) as u8).collect(),
            None => random_text(random, 16),
        })
        .collect();
    // As in tables of records, whose blocks have no offsets.
    let value_len = (fixed_len.is_some() && random.below(3) != 0).then(|| random.below(20) as usize);
    let mut entries = Vec::new();
    for key in keys {
        let mut seqno = 1 + random.below(1000);
        for _ in 0..1 + random.below(8) / 6 * random.below(12) {
            let is_delete = random.below(5) == 0 && value_len.is_none();
            let kind = if is_delete { ValueKind::Delete } else { ValueKind::Put };
            let value = match value_len {
                Some(len) => (0..len).map(|_| random.next_u64() as u8).collect(),
                None if is_delete => Vec::new(),
                None => random_bytes(random, 40),
            };
            entries.push((key.clone(), Tag::new(SeqNo::new(seqno), kind), value));
            let step = 1 + random.below(100);
            if seqno <= step {
                break;
            }
            seqno -= step;
        }
    }
    entries
}
