//! Finishing a table: writes the sections, the section directory and the footer.

use super::TableWriter;
use crate::block::header::placed_checksum;
use crate::block_bounds::BoundsEncoder;
use crate::cache_warmer::WarmedTable;
use crate::dictionary;
use crate::footer::{DIRECTORY_ENTRY_BYTES, FILE_HEADER_BYTES, FOOTER_BYTES, Footer, Section, SectionKind};
use crate::index::page_format;
use crate::index::section::DecodedIndex;
use crate::options::TableSummary;
use crate::range_tombstones;
use esker_base::Result;
use esker_env::OffHeapSlice;

/// Lookups without these are slower but right.
const OPTIONAL: [SectionKind; 4] =
    [SectionKind::FILTER, SectionKind::INDEX_PAGES, SectionKind::LOCATOR, SectionKind::BOUNDS];

impl TableWriter {
    /// Completes the file and makes it durable.
    ///
    /// # Errors
    /// Errors of writing and syncing; the file is then unusable.
    pub fn finish(self) -> Result<TableSummary> {
        self.finish_warmed().map(|(summary, _)| summary)
    }

    /// As [`TableWriter::finish`]; also returns the identity of a table with warm blocks in the cache.
    ///
    /// # Errors
    /// As [`TableWriter::finish`].
    pub fn finish_warmed(mut self) -> Result<(TableSummary, Option<WarmedTable>)> {
        if !self.staged.is_empty() {
            self.close_block()?;
        }
        self.flush_buffered(true)?;
        let data_end = self.out.end();
        self.properties.max_key = std::mem::take(&mut self.closed_key);
        self.properties.blocks = u64::from(self.index.blocks());
        self.properties.data_bytes = data_end - FILE_HEADER_BYTES as u64;
        if self.properties.entries == 0 || !self.range_tombstones.is_empty() {
            self.properties.single_version = false;
        }
        self.properties.expiring = self.expiring;
        let index = std::mem::take(&mut self.index).finish();
        let filter = self.finish_filter();
        // A cancelled filter may lack keys.
        self.check_cancelled()?;
        let properties = self.properties.encode();
        let mut directory = Vec::new();
        // What most readers skip comes first, so that the rest is contiguous.
        self.append_pages(&index, data_end, &mut directory)?;
        let (blocks, check_cancelled) = (self.properties.blocks as usize, || self.check_cancelled());
        let locator = self
            .locator
            .as_ref()
            .map(|locator| locator.finish(blocks, &check_cancelled))
            .transpose()?
            .flatten();
        self.locator = None;
        if let Some(locator) = locator {
            self.append_section(SectionKind::LOCATOR, &locator, &mut directory)?;
        }
        self.append_section(SectionKind::INDEX, &index, &mut directory)?;
        if let Some(bounds) = self.bounds.take().and_then(BoundsEncoder::finish) {
            self.append_section(SectionKind::BOUNDS, &bounds, &mut directory)?;
        }
        if let Some(filter) = filter {
            self.append_section(SectionKind::FILTER, &filter, &mut directory)?;
        }
        if !self.range_tombstones.is_empty() {
            let section = range_tombstones::encode(&self.range_tombstones);
            self.append_section(SectionKind::RANGE_TOMBSTONES, &section, &mut directory)?;
        }
        if let Some(dictionary) = &self.dictionary {
            let offset = self.out.end();
            let section = dictionary::encode(self.uid, offset, dictionary.bytes());
            self.append_section(SectionKind::DICTIONARY, &section, &mut directory)?;
        }
        self.append_section(SectionKind::PROPERTIES, &properties, &mut directory)?;
        self.append_end(data_end, &directory);
        let file_bytes = self.out.finish()?;
        let warmed = self.warmer.take().and_then(|warmer| warmer.into_warmed());
        Ok((self.summary(file_bytes), warmed))
    }

    fn finish_filter(&mut self) -> Option<OffHeapSlice<u8>> {
        if self.filter_bits.is_some() {
            let policy = self.final_filter_policy();
            self.filter.set_policy(policy);
        }
        let (filter, built) = {
            let control = self.out.control();
            self.filter.finish_unless(&|| control.is_some_and(|control| control.check_cancelled().is_err()))
        };
        // The filter that was built may differ from the one requested.
        self.properties.filter = built.to_string();
        filter
    }

    /// Appends the index as pages, if they are requested and there are blocks.
    fn append_pages(&mut self, index: &[u8], data_end: u64, directory: &mut Vec<u8>) -> Result<()> {
        if !self.with_pages {
            return Ok(());
        }
        let decoded = DecodedIndex::decode(index, FILE_HEADER_BYTES as u64, data_end);
        let decoded = decoded.map_err(|error| error.into_error(self.out.path(), data_end))?;
        let offset = self.out.end();
        if let Some(pages) = page_format::encode(&decoded, self.uid, offset, &|| self.check_cancelled())? {
            self.append_section(SectionKind::INDEX_PAGES, &pages, directory)?;
        }
        Ok(())
    }

    fn append_section(&mut self, kind: SectionKind, bytes: &[u8], directory: &mut Vec<u8>) -> Result<()> {
        let offset = self.out.end();
        let is_optional = OPTIONAL.contains(&kind);
        Section::describing(kind, is_optional, self.uid, offset, bytes).encode(directory);
        self.out.append(bytes)
    }

    fn append_end(&mut self, data_end: u64, directory: &[u8]) {
        let directory_offset = self.out.end();
        self.out.bytes.extend_from_slice(directory);
        let footer = Footer {
            uid: self.uid,
            data_end,
            directory_offset,
            directory_entries: (directory.len() / DIRECTORY_ENTRY_BYTES) as u32,
            file_bytes: directory_offset + (directory.len() + FOOTER_BYTES) as u64,
            directory_checksum: placed_checksum(self.uid, directory_offset, directory),
        };
        self.out.bytes.extend_from_slice(&footer.encode());
    }

    fn summary(self, file_bytes: u64) -> TableSummary {
        let properties = self.properties;
        TableSummary {
            file_bytes,
            data_bytes: properties.data_bytes,
            raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
            entries: properties.entries,
            tombstones: properties.tombstones,
            expiring: self.expiring,
            range_tombstones: properties.range_tombstones,
            deleted: self.range_tombstones.hull(),
            blocks: properties.blocks as u32,
            smallest: properties.min_key,
            largest: properties.max_key,
            min_seqno: properties.min_seqno,
            max_seqno: properties.max_seqno,
            single_version: properties.single_version,
        }
    }
}
