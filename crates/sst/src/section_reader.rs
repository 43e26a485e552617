//! Section reader: reads the end of a table file when it is opened (footer, section directory, needed
//! sections) and decodes sections on demand.

use crate::decode_error::DecodeError;
use crate::filter_access::{FilterAccess, FilterDamage, PagedFilter};
use crate::footer::{DIRECTORY_ENTRY_BYTES, FILE_HEADER_BYTES, FOOTER_BYTES, Footer, Section, SectionKind};
use esker_base::{Error, Result, TableUid};
use esker_env::{File, OffHeapSlice};
use esker_filter::Filter;

/// Least and most bytes of the first read at the end of the file.
const MIN_TAIL_BYTES: u64 = 16 << 10;
const MAX_TAIL_BYTES: u64 = 4 << 20;

pub(crate) struct SectionReader {
    pub(crate) footer: Footer,
    pub(crate) sections: Vec<Section>,
    bytes: OffHeapSlice<u8>,
    start: u64,
}

impl SectionReader {
    /// Reads the end of a file of `file_bytes`: all sections but those for which `is_read_later` holds. With
    /// `without_filter` the filter is not read, nor is what lies in front of it.
    pub(crate) fn read(
        file: &dyn File,
        file_bytes: u64,
        expected: Option<TableUid>,
        without_filter: bool,
        is_read_later: impl Fn(SectionKind) -> bool,
    ) -> Result<SectionReader> {
        if file_bytes < (FILE_HEADER_BYTES + FOOTER_BYTES) as u64 {
            let detail = format!("a table expected, {file_bytes} bytes found");
            return Err(Error::corruption(file.path(), 0, detail));
        }
        // Index and filter take about 1.3 % of a file of small entries, so one read mostly suffices.
        let most = if without_filter { MIN_TAIL_BYTES } else { MAX_TAIL_BYTES };
        let guess = (file_bytes / 64).clamp(MIN_TAIL_BYTES, most).min(file_bytes);
        let start = file_bytes - guess;
        let bytes = read_range(file, start, guess)?;
        let footer_at = file_bytes - FOOTER_BYTES as u64;
        let Some(footer) = bytes.last_chunk::<FOOTER_BYTES>() else {
            return Err(Error::corruption(file.path(), footer_at, "the footer is cut off"));
        };
        let footer =
            Footer::decode(footer, file_bytes).map_err(|error| error.into_error(file.path(), footer_at))?;
        if let Some(uid) = expected.filter(|&uid| uid != footer.uid) {
            let detail = format!("table {:016x} expected, table {:016x} found", uid.get(), footer.uid.get());
            return Err(Error::corruption(file.path(), footer_at, detail));
        }
        let mut reader = SectionReader { footer, sections: Vec::new(), bytes, start };
        reader.load_from(file, footer.directory_offset)?;
        let directory_bytes = u64::from(footer.directory_entries) * DIRECTORY_ENTRY_BYTES as u64;
        reader.sections = footer
            .sections(reader.range(footer.directory_offset, directory_bytes))
            .map_err(|error| error.into_error(file.path(), footer.directory_offset))?;
        let filter = reader.section(SectionKind::FILTER).filter(|_| without_filter);
        let now = reader.sections.iter().filter(|section| match filter {
            Some(filter) => section.offset > filter.offset,
            None => !is_read_later(section.kind),
        });
        if let Some(first) = now.map(|section| section.offset).min() {
            reader.load_from(file, first)?;
        }
        Ok(reader)
    }

    /// Ensures that everything from `offset` on is in memory.
    fn load_from(&mut self, file: &dyn File, offset: u64) -> Result<()> {
        if offset < self.start {
            let missing = (self.start - offset) as usize;
            let mut joined = OffHeapSlice::filled(0, missing + self.bytes.len());
            file.read_exact_at(&mut joined[..missing], offset)?;
            joined[missing..].copy_from_slice(&self.bytes);
            (self.bytes, self.start) = (joined, offset);
        }
        Ok(())
    }

    /// Bytes of a range that is in memory.
    fn range(&self, offset: u64, len: u64) -> &[u8] {
        let from = (offset - self.start) as usize;
        &self.bytes[from..from + len as usize]
    }

    pub(crate) fn section(&self, kind: SectionKind) -> Option<Section> {
        self.sections.iter().copied().find(|section| section.kind == kind)
    }

    /// The filter, in memory and verified, or paged and not read yet; and its damage, if any.
    pub(crate) fn filter(&self, file: &dyn File, paged: bool) -> (FilterAccess, FilterDamage) {
        let Some(at) = self.section(SectionKind::FILTER) else {
            return (FilterAccess::None, FilterDamage::new());
        };
        if paged {
            return (FilterAccess::Paged(PagedFilter::new(at)), FilterDamage::new());
        }
        match self.decode(file, at, |bytes| Filter::decode_lasting(bytes).map_err(DecodeError::Damaged)) {
            Ok(filter) => (FilterAccess::Kept(filter), FilterDamage::new()),
            Err(error) => (FilterAccess::None, FilterDamage::from(error)),
        }
    }

    /// As [`SectionReader::section`]; its absence is damage.
    pub(crate) fn required(&self, file: &dyn File, kind: SectionKind) -> Result<Section> {
        self.section(kind).ok_or_else(|| {
            let detail = format!("the table has no {} section", kind.name());
            Error::corruption(file.path(), self.footer.directory_offset, detail)
        })
    }

    /// Verifies and decodes a section, which is read if it is not in memory.
    pub(crate) fn decode<T>(
        &self,
        file: &dyn File,
        section: Section,
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T> {
        // Decoding the footer checked that sections lie within the file.
        let read;
        let bytes = if section.offset < self.start {
            read = read_range(file, section.offset, section.len)?;
            &read
        } else {
            self.range(section.offset, section.len)
        };
        decode_section(file, self.footer.uid, section, bytes, decode)
    }

    /// The last `N` bytes of a section, not verified.
    pub(crate) fn end_of<const N: usize>(&self, file: &dyn File, section: Section) -> Result<[u8; N]> {
        let mut end = [0; N];
        if section.len < N as u64 {
            let detail = format!("the {} section has {} bytes only", section.kind.name(), section.len);
            return Err(Error::corruption(file.path(), section.offset, detail));
        }
        file.read_exact_at(&mut end, section.offset + section.len - N as u64)?;
        Ok(end)
    }
}

pub(crate) fn decode_section<T>(
    file: &dyn File,
    uid: TableUid,
    section: Section,
    bytes: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<T> {
    section
        .verify(uid, bytes)
        .and_then(|()| decode(bytes))
        .map_err(|error| error.into_error(file.path(), section.offset))
}

pub(crate) fn read_range(file: &dyn File, offset: u64, len: u64) -> Result<OffHeapSlice<u8>> {
    let mut bytes = OffHeapSlice::filled(0, len as usize);
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
