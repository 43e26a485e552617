//! Frame of a table file: file header, section directory and the footer of fixed size.
//!
//! The file header repeats the identity, so that a file without its end can be recognised and its blocks
//! verified.

use crate::block::header::placed_checksum;
use crate::decode_error::{DecodeError, damaged, unsupported};
use esker_base::TableUid;
use esker_base::checksum::xxh3_64;
use esker_base::coding::Reader;

/// The format of table files that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

const FILE_MAGIC: [u8; 8] = *b"EskerTbl";
const FOOTER_MAGIC: [u8; 8] = *b"EskerEnd";

/// Bytes in front of the first block.
pub(crate) const FILE_HEADER_BYTES: usize = 32;
pub(crate) const FOOTER_BYTES: usize = 64;
pub(crate) const DIRECTORY_ENTRY_BYTES: usize = 32;

/// Flag of a section: readers that do not know its kind may ignore it.
const SECTION_OPTIONAL: u16 = 1;

/// What a section holds. The numbers are persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionKind(pub u16);

impl SectionKind {
    /// The block index.
    pub const INDEX: SectionKind = SectionKind(1);
    /// The filter over all keys.
    pub const FILTER: SectionKind = SectionKind(2);
    /// The range tombstones.
    pub const RANGE_TOMBSTONES: SectionKind = SectionKind(3);
    /// The dictionary that blocks are compressed with.
    pub const DICTIONARY: SectionKind = SectionKind(4);
    /// The properties.
    pub const PROPERTIES: SectionKind = SectionKind(5);
    /// The block index as pages that are searched through the cache.
    pub const INDEX_PAGES: SectionKind = SectionKind(6);
    /// A hash table from keys to blocks.
    pub const LOCATOR: SectionKind = SectionKind(7);
    /// First and last keys of blocks.
    pub const BOUNDS: SectionKind = SectionKind(8);

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "index",
            2 => "filter",
            3 => "range tombstones",
            4 => "dictionary",
            5 => "properties",
            6 => "index pages",
            7 => "locator",
            8 => "bounds",
            _ => "unknown",
        }
    }

    const fn is_understood(self) -> bool {
        matches!(
            self,
            SectionKind::INDEX
                | SectionKind::FILTER
                | SectionKind::RANGE_TOMBSTONES
                | SectionKind::DICTIONARY
                | SectionKind::PROPERTIES
                | SectionKind::INDEX_PAGES
                | SectionKind::LOCATOR
                | SectionKind::BOUNDS
        )
    }
}

/// Where a section lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it holds.
    pub kind: SectionKind,
    /// Whether readers may do without it.
    pub is_optional: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    pub(crate) checksum: u64,
}

impl Section {
    /// The section of these bytes at `offset`.
    pub(crate) fn describing(
        kind: SectionKind,
        is_optional: bool,
        uid: TableUid,
        offset: u64,
        bytes: &[u8],
    ) -> Section {
        let checksum = placed_checksum(uid, offset, bytes);
        Section { kind, is_optional, offset, len: bytes.len() as u64, checksum }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.is_optional { SECTION_OPTIONAL } else { 0 };
        out.extend_from_slice(&self.kind.0.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Option<(Section, u16)> {
        let (kind, flags, _zero) = (SectionKind(reader.u16()?), reader.u16()?, reader.u32()?);
        let (offset, len, checksum) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let is_optional = flags & SECTION_OPTIONAL != 0;
        Some((Section { kind, is_optional, offset, len, checksum }, flags & !SECTION_OPTIONAL))
    }

    pub(crate) fn verify(&self, uid: TableUid, bytes: &[u8]) -> Result<(), DecodeError> {
        let computed = placed_checksum(uid, self.offset, bytes);
        if computed != self.checksum {
            let (name, stored) = (self.kind.name(), self.checksum);
            return damaged(format!(
                "{name} section: checksum {stored:016x} expected, {computed:016x} computed"
            ));
        }
        Ok(())
    }
}

pub(crate) fn encode_file_header(uid: TableUid) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&uid.get().to_le_bytes());
    let checksum = xxh3_64(&bytes[..24]);
    bytes[24..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(crate) fn decode_file_header(bytes: &[u8; FILE_HEADER_BYTES]) -> Result<TableUid, DecodeError> {
    let mut reader = Reader::new(bytes);
    let magic = reader.take(8);
    let fields = (reader.u32(), reader.u32(), reader.u64(), reader.u64());
    let (Some(version), Some(_), Some(uid), Some(stored)) = fields else {
        return damaged("the file header is cut off");
    };
    if magic != Some(&FILE_MAGIC[..]) || stored != xxh3_64(&bytes[..24]) {
        return damaged("the file has no header of a table");
    }
    check_version(version)?;
    Ok(TableUid(uid))
}

fn check_version(version: u32) -> Result<(), DecodeError> {
    if version == 0 || version > FORMAT_VERSION {
        return unsupported(format!(
            "the table has format {version}, this build reads up to {FORMAT_VERSION}"
        ));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) uid: TableUid,
    /// Where the blocks end and the sections start.
    pub(crate) data_end: u64,
    pub(crate) directory_offset: u64,
    pub(crate) directory_entries: u32,
    pub(crate) file_bytes: u64,
    pub(crate) directory_checksum: u64,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.uid.get().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.data_end.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.directory_offset.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.directory_entries.to_le_bytes());
        bytes[28..32].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.directory_checksum.to_le_bytes());
        let checksum = xxh3_64(&bytes[..48]);
        bytes[48..56].copy_from_slice(&checksum.to_le_bytes());
        bytes[56..].copy_from_slice(&FOOTER_MAGIC);
        bytes
    }

    /// Decodes the footer of a file of `file_bytes`.
    ///
    /// Magic, version and checksum lie in the same place in all versions, so that damage is told from a newer
    /// version.
    pub(crate) fn decode(bytes: &[u8; FOOTER_BYTES], file_bytes: u64) -> Result<Footer, DecodeError> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if bytes[56..] != FOOTER_MAGIC {
            return damaged("the file has no footer of a table: it is cut off, or it is none");
        }
        let computed = xxh3_64(&bytes[..48]);
        if word(48) != computed {
            return damaged(format!("footer checksum {:016x} expected, {computed:016x} computed", word(48)));
        }
        check_version((word(24) >> 32) as u32)?;
        let footer = Footer {
            uid: TableUid(word(0)),
            data_end: word(8),
            directory_offset: word(16),
            directory_entries: word(24) as u32,
            file_bytes: word(32),
            directory_checksum: word(40),
        };
        if footer.file_bytes != file_bytes {
            return damaged(format!("the table has {} bytes, the file {file_bytes}", footer.file_bytes));
        }
        let directory_bytes = u64::from(footer.directory_entries) * DIRECTORY_ENTRY_BYTES as u64;
        let end = footer.directory_offset.checked_add(directory_bytes + FOOTER_BYTES as u64);
        if footer.data_end < FILE_HEADER_BYTES as u64
            || footer.data_end > footer.directory_offset
            || end != Some(file_bytes)
        {
            return damaged("the footer places the sections outside of the file");
        }
        Ok(footer)
    }

    pub(crate) fn sections(&self, directory: &[u8]) -> Result<Vec<Section>, DecodeError> {
        let computed = placed_checksum(self.uid, self.directory_offset, directory);
        if computed != self.directory_checksum {
            let stored = self.directory_checksum;
            return damaged(format!(
                "section directory: checksum {stored:016x} expected, {computed:016x} computed"
            ));
        }
        let mut reader = Reader::new(directory);
        let mut sections = Vec::with_capacity(directory.len() / DIRECTORY_ENTRY_BYTES);
        while !reader.is_empty() {
            let Some((section, unknown_flags)) = Section::decode(&mut reader) else {
                return damaged("the section directory ends within an entry");
            };
            let end = section.offset.checked_add(section.len);
            if section.offset < self.data_end || end.is_none_or(|end| end > self.directory_offset) {
                return damaged(format!("the {} section lies outside of the file", section.kind.name()));
            }
            let is_known = section.kind.is_understood() && unknown_flags == 0;
            if !is_known && !section.is_optional {
                let (number, name) = (section.kind.0, section.kind.name());
                return unsupported(format!(
                    "the table needs section {number} ({name}) with flags {unknown_flags:#x}"
                ));
            }
            sections.push(section);
        }
        Ok(sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Footer, Vec<u8>) {
        let uid = TableUid(0x0123_4567_89ab_cdef);
        let mut directory = Vec::new();
        Section::describing(SectionKind::INDEX, false, uid, 100, b"index").encode(&mut directory);
        Section::describing(SectionKind(77), true, uid, 105, b"later").encode(&mut directory);
        let footer = Footer {
            uid,
            data_end: 100,
            directory_offset: 110,
            directory_entries: 2,
            file_bytes: 110 + 64 + 64,
            directory_checksum: placed_checksum(uid, 110, &directory),
        };
        (footer, directory)
    }

    #[test]
    fn footers_round_trip_and_notice_every_bit() {
        let (footer, directory) = sample();
        let bytes = footer.encode();
        assert_eq!(Footer::decode(&bytes, footer.file_bytes), Ok(footer));
        let sections = footer.sections(&directory).unwrap();
        assert_eq!((sections[0].kind, sections[1].is_optional), (SectionKind::INDEX, true));
        sections[0].verify(footer.uid, b"index").unwrap();
        assert!(sections[0].verify(footer.uid, b"indez").is_err());
        for bit in 0..8 * FOOTER_BYTES {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Footer::decode(&flipped, footer.file_bytes), Err(DecodeError::Damaged(_))),
                "bit {bit}"
            );
        }
        for bit in 0..8 * directory.len() {
            let mut flipped = directory.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(footer.sections(&flipped).is_err(), "bit {bit}");
        }
        let header = encode_file_header(footer.uid);
        assert_eq!(decode_file_header(&header), Ok(footer.uid));
        for bit in 0..8 * FILE_HEADER_BYTES {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode_file_header(&flipped), Err(DecodeError::Damaged(_))), "bit {bit}");
        }
    }

    #[test]
    fn unknown_sections_are_skipped_only_if_optional() {
        let (mut footer, _) = sample();
        let mut directory = Vec::new();
        Section::describing(SectionKind(77), false, footer.uid, 100, b"").encode(&mut directory);
        footer.directory_checksum = placed_checksum(footer.uid, footer.directory_offset, &directory);
        assert!(matches!(footer.sections(&directory), Err(DecodeError::Unsupported(_))));
    }

    #[test]
    fn every_understood_section_has_a_name_of_its_own() {
        let understood = (0..=u16::MAX).map(SectionKind).filter(|kind| kind.is_understood());
        let mut names: Vec<&str> = understood.map(SectionKind::name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), names.contains(&"unknown")), (count, false), "{names:?}");
        assert_eq!((SectionKind::FILTER.name(), SectionKind(77).name()), ("filter", "unknown"));
    }

    /// A checksum says nothing about places that no writer chooses.
    #[test]
    fn sections_among_the_blocks_or_behind_the_directory_are_refused() {
        let (mut footer, _) = sample();
        let mut place = |offset: u64, len: u64| {
            let section = Section { kind: SectionKind::INDEX, is_optional: false, offset, len, checksum: 0 };
            let mut directory = Vec::new();
            section.encode(&mut directory);
            footer.directory_checksum = placed_checksum(footer.uid, footer.directory_offset, &directory);
            footer.sections(&directory).map(|sections| sections[0].offset)
        };
        let (first, end) = (100, 110);
        assert_eq!((place(first, end - first), place(end, 0)), (Ok(first), Ok(end)));
        for (offset, len) in [(first - 1, 1), (0, 0), (first, end - first + 1), (end, 1), (first, u64::MAX)] {
            assert!(matches!(place(offset, len), Err(DecodeError::Damaged(_))), "{len} bytes at {offset}");
        }
    }

    #[test]
    fn a_newer_format_is_unsupported() {
        let (footer, _) = sample();
        let mut bytes = footer.encode();
        bytes[28..32].copy_from_slice(&2u32.to_le_bytes());
        let checksum = xxh3_64(&bytes[..48]);
        bytes[48..56].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(Footer::decode(&bytes, footer.file_bytes), Err(DecodeError::Unsupported(_))));
    }
}
