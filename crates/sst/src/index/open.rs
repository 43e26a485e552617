//! Opening the index of a table in the requested form, or else in one that the file allows.

use super::locator::Locator;
use super::page_format::{TRAILER_BYTES, Trailer};
use super::page_search::PagedIndex;
use super::section::DecodedIndex;
use super::{BlockIndex, IndexKind, TableShape};
use crate::footer::{FILE_HEADER_BYTES, Section, SectionKind};
use crate::properties::TableProperties;
use crate::section_reader::SectionReader;
use esker_base::{Error, Result};
use esker_env::File;

/// The index of a table, and the reason for its form.
pub(crate) struct OpenedIndex {
    /// `None` without blocks.
    pub(crate) index: Option<BlockIndex>,
    pub(crate) reason: &'static str,
    /// Why the requested form could not be used, if its section is damaged.
    pub(crate) damage: Option<Error>,
}

impl OpenedIndex {
    /// Reads what the form `requested` needs.
    ///
    /// # Errors
    /// Damage of the index section. Damage of pages and locators is kept: the table can be read without them.
    pub(crate) fn open(
        reader: &SectionReader,
        file: &dyn File,
        properties: &TableProperties,
        requested: IndexKind,
    ) -> Result<OpenedIndex> {
        let mut missing =
            OpenedIndex { index: None, reason: "the table was written without index pages", damage: None };
        if requested.needs_pages() {
            match reader.section(SectionKind::INDEX_PAGES).map(|at| open_pages(reader, file, properties, at))
            {
                Some(Ok(pages)) => {
                    let index = Some(BlockIndex::of_pages(pages));
                    return Ok(OpenedIndex { index, reason: "it was requested", damage: None });
                }
                Some(Err(damage)) => {
                    (missing.reason, missing.damage) = ("the index pages are damaged", Some(damage));
                }
                None => {}
            }
        }
        let (index, kind, reason) = open_section(reader, file, properties, requested)?;
        let Some(index) = index else { return Ok(OpenedIndex { reason, ..missing }) };
        match kind {
            IndexKind::BTreePages => Ok(OpenedIndex { index: Some(index), ..missing }),
            IndexKind::HashLocator => Ok(locate_by_hash(reader, file, index, reason)),
            _ => Ok(OpenedIndex { index: Some(index), reason, damage: None }),
        }
    }

    /// Slots of the table: none if its index is paged, because then it keeps no block pointers in memory.
    pub(crate) fn slots(&self) -> usize {
        self.index.as_ref().filter(|index| index.pages().is_none()).map_or(0, BlockIndex::blocks)
    }
}

/// The index in memory, in the requested form if that needs no section of its own.
fn open_section(
    reader: &SectionReader,
    file: &dyn File,
    properties: &TableProperties,
    requested: IndexKind,
) -> Result<(Option<BlockIndex>, IndexKind, &'static str)> {
    let at = reader.required(file, SectionKind::INDEX)?;
    reader.decode(file, at, |section| {
        let decoded = DecodedIndex::decode(section, FILE_HEADER_BYTES as u64, reader.footer.data_end)?;
        let has_locator = reader.section(SectionKind::LOCATOR).is_some();
        let shape = TableShape::of(&decoded.separators, properties.level, has_locator);
        let (kind, reason) = requested.for_table(&shape);
        Ok((BlockIndex::new(decoded, &properties.min_key, &properties.max_key, kind), kind, reason))
    })
}

fn open_pages(
    reader: &SectionReader,
    file: &dyn File,
    properties: &TableProperties,
    at: Section,
) -> Result<PagedIndex> {
    let trailer = reader.end_of::<TRAILER_BYTES>(file, at)?;
    let section = at.offset..at.offset + at.len;
    let trailer = Trailer::decode(&trailer, reader.footer.uid, &section, properties.blocks)
        .map_err(|error| error.into_error(file.path(), at.offset))?;
    let pages = section.start..section.end - TRAILER_BYTES as u64;
    Ok(PagedIndex::new(trailer, pages, FILE_HEADER_BYTES as u64..reader.footer.data_end))
}

/// Makes lookups use the table's locator, if there is one without damage.
fn locate_by_hash(
    reader: &SectionReader,
    file: &dyn File,
    index: BlockIndex,
    reason: &'static str,
) -> OpenedIndex {
    let blocks = index.blocks();
    let decoded = reader
        .section(SectionKind::LOCATOR)
        .map(|at| reader.decode(file, at, |section| Locator::decode(section, blocks)));
    let (index, reason, damage) = match decoded {
        Some(Ok(locator)) => (index.with_locator(locator), reason, None),
        Some(Err(damage)) => (index, "the locator is damaged", Some(damage)),
        None => (index, "the table was written without a locator", None),
    };
    OpenedIndex { index: Some(index), reason, damage }
}
