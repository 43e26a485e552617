//! An open table: identity, index and filter in memory, blocks through the cache.

use crate::filter_access::{FilterAccess, FilterDamage};
use crate::flaw::Flaw;
use crate::footer::{DIRECTORY_ENTRY_BYTES, FILE_HEADER_BYTES, FOOTER_BYTES, Footer, Section, SectionKind};
use crate::home::TableHome;
use crate::index::section::DecodedIndex;
use crate::index::{BlockIndex, IndexKind, TableShape};
use crate::isa::Isa;
use crate::mapped::VerifiedBlocks;
use crate::options::TableReading;
use crate::part::TableCache;
use crate::properties::TableProperties;
use crate::range_section;
use crate::slots::{Slots, empty_slots};
use esker_base::{Error, KeyspaceId, Result, SeqNo, TableUid};
use esker_env::File;
use esker_filter::{Filter, FilterPolicy};
use esker_iter::RangeDeletes;
use std::sync::Arc;

/// Which table a file is expected to hold, so that a swapped file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIdentity {
    /// Random number of the table, written at its creation.
    pub uid: TableUid,
    /// The keyspace that it belongs to. Not compared if the table was ingested: whoever wrote it did not know.
    pub keyspace: KeyspaceId,
    /// The sequence number that all entries count as, if the table was ingested; the file says 0.
    pub global_seqno: Option<SeqNo>,
}

/// A table file, open for reading. Index, filter and range deletes are in memory; blocks are read when needed and kept in the cache.
///
/// Everything is immutable, so a table may be used from all threads.
pub struct Table {
    pub(crate) index: Option<BlockIndex>,
    /// Which form of the index was asked for, and why it is the one it is.
    pub(crate) index_asked: IndexKind,
    pub(crate) index_reason: &'static str,
    pub(crate) filter: FilterAccess,
    /// False positives to be expected of the filter.
    pub(crate) filter_rate: f64,
    /// Which blocks of the mapped file were verified; `None` if the file is not mapped.
    pub(crate) verified: Option<VerifiedBlocks>,
    /// Blocks that are in the cache, if its kind has shortcuts; empty otherwise.
    pub(crate) slots: Slots,
    pub(crate) home: Arc<TableHome>,
    /// The home's cache and number, here because every lookup asks for them.
    pub(crate) cache: Arc<TableCache>,
    pub(crate) number: u32,
    pub(crate) isa: Isa,
    /// Blocks are likely stored raw, so that they are best read straight into their own memory.
    pub(crate) expects_raw_blocks: bool,
    pub(crate) uid: TableUid,
    /// What the entries' sequence numbers of 0 stand for; 0 unless the table was ingested.
    pub(crate) global_seqno: SeqNo,
    pub(crate) file: Arc<dyn File>,
    properties: TableProperties,
    range_deletes: Arc<RangeDeletes>,
    sections: Vec<Section>,
    file_bytes: u64,
    /// Why the filter could not be used, if the table has one.
    pub(crate) filter_damage: FilterDamage,
}

impl Table {
    /// Opens the table in `file`, which has `file_bytes`: reads its end, verifies and decodes it. No block is read.
    ///
    /// `home` is this file's: no other file may be opened with it, and no other table of it be open (HM2).
    ///
    /// A damaged filter does not keep a table from being read: it is left out, see [`Table::filter_damage`].
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is damaged or is not the expected table, [`Error::Unsupported`] if a newer
    /// version wrote it, and whatever reading meets.
    pub fn open(
        file: Arc<dyn File>,
        file_bytes: u64,
        expected: TableIdentity,
        home: Arc<TableHome>,
    ) -> Result<Table> {
        Table::open_for(file, file_bytes, Some(expected), home, TableReading::default())
    }

    /// As [`Table::open`], whichever table it is: for inspection and repair.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_any(file: Arc<dyn File>, file_bytes: u64, home: Arc<TableHome>) -> Result<Table> {
        Table::open_for(file, file_bytes, None, home, TableReading::default())
    }

    /// As [`Table::open`], or as [`Table::open_any`] without an identity, with choices of the reader.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_for(
        file: Arc<dyn File>,
        file_bytes: u64,
        expected: Option<TableIdentity>,
        home: Arc<TableHome>,
        reading: TableReading,
    ) -> Result<Table> {
        let tail = Tail::read(&*file, file_bytes, expected.map(|identity| identity.uid))?;
        let properties_at = tail.required(&*file, SectionKind::PROPERTIES)?;
        let properties = tail.decode(&*file, properties_at, TableProperties::decode)?;
        let global_seqno = expected.and_then(|identity| identity.global_seqno);
        let own = expected.filter(|_| global_seqno.is_none());
        if let Some(identity) = own.filter(|identity| identity.keyspace != properties.keyspace) {
            let (wanted, found) = (identity.keyspace, properties.keyspace);
            let detail = format!("a table of keyspace {wanted} expected, one of keyspace {found} found");
            return Err(Error::corruption(file.path(), properties_at.offset, detail));
        }
        let index_at = tail.required(&*file, SectionKind::INDEX)?;
        let (index, index_reason) = tail.decode(&*file, index_at, |section| {
            let decoded = DecodedIndex::decode(section, FILE_HEADER_BYTES as u64, tail.footer.data_end)?;
            let (kind, reason) =
                reading.index.for_table(&TableShape::of(&decoded.separators, properties.level));
            Ok((BlockIndex::new(decoded, &properties.min_key, &properties.max_key, kind), reason))
        })?;
        let (filter, paged_filter, filter_damage) = tail.filter(&*file, home.pages_filters());
        let range_deletes = match tail.section(SectionKind::RANGE_DELETES) {
            None => Arc::default(),
            Some(at) => Arc::new(tail.decode(&*file, at, range_section::decode)?),
        };
        // A policy that this build does not know belongs to a filter that it cannot read either.
        let policy = properties.filter.parse::<FilterPolicy>().unwrap_or(FilterPolicy::None);
        let slots = match home.cache().kind().has_shortcuts() {
            true => index.as_ref().map_or(0, BlockIndex::blocks),
            false => 0,
        };
        let table = Table {
            filter_rate: policy.false_positive_rate(),
            verified: file
                .mapped()
                .map(|_| VerifiedBlocks::none_of(index.as_ref().map_or(0, BlockIndex::blocks))),
            slots: empty_slots(slots),
            index,
            index_asked: reading.index,
            index_reason,
            filter,
            cache: Arc::clone(home.cache()),
            number: home.number(),
            home,
            isa: Isa::detect(),
            expects_raw_blocks: properties.codec == esker_codec::Codec::None.name(),
            uid: tail.footer.uid,
            global_seqno: global_seqno.unwrap_or(SeqNo::ZERO),
            file,
            properties,
            range_deletes,
            sections: tail.sections,
            file_bytes,
            filter_damage,
        };
        table.home.opened(&table);
        if let Some(filter) = paged_filter {
            table.admit_first_filter(filter);
        }
        Ok(table)
    }

    /// The random number that the table was given when it was made.
    pub fn uid(&self) -> TableUid {
        self.uid
    }

    /// What the table says about its contents.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The sections behind the blocks.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The range deletes, which are in memory.
    #[inline]
    pub fn range_deletes(&self) -> &Arc<RangeDeletes> {
        &self.range_deletes
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.index.as_ref().map_or(0, BlockIndex::blocks)
    }

    /// Bytes of memory that index, slots, range deletes, properties and the filter, unless it is paged, take.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.index.as_ref().map_or(0, BlockIndex::memory_bytes)
            + self.filter.memory_bytes()
            + size_of_val(&*self.slots)
            + self.verified.as_ref().map_or(0, VerifiedBlocks::memory_bytes)
            + self.properties.min_key.len()
            + self.properties.max_key.len()
            + self.range_deletes.memory_bytes()
    }

    /// Whether `key` lies between the table's first and last key.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.index.is_some() && *self.properties.min_key <= *key && *key <= *self.properties.max_key
    }

    /// Whether a reader at `seqno` may see anything of the table at all.
    #[inline]
    pub fn is_visible_at(&self, seqno: SeqNo) -> bool {
        self.properties.min_seqno.max(self.global_seqno) <= seqno
    }

    /// An error about the place of a block.
    #[cold]
    pub(crate) fn flaw_at(&self, flaw: Flaw, offset: u64) -> Error {
        flaw.into_error(self.file.path(), offset)
    }

    /// Uses other instructions than the best, so that tests compare them. They must exist on the machine.
    #[cfg(test)]
    pub(crate) fn set_isa(&mut self, isa: Isa) {
        assert!(isa.is_available());
        self.isa = isa;
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.home.closed(self);
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("file", &self.file.path())
            .field("uid", &self.uid)
            .field("entries", &self.properties.entries)
            .field("blocks", &self.blocks())
            .finish_non_exhaustive()
    }
}

/// Least and most bytes read at once from the end of the file.
const MIN_TAIL_BYTES: u64 = 16 << 10;
const MAX_TAIL_BYTES: u64 = 4 << 20;

/// The end of the file in memory: everything behind the blocks.
struct Tail {
    footer: Footer,
    sections: Vec<Section>,
    bytes: Vec<u8>,
    /// Offset of `bytes` in the file.
    start: u64,
}

impl Tail {
    fn read(file: &dyn File, file_bytes: u64, expected: Option<TableUid>) -> Result<Tail> {
        if file_bytes < (FILE_HEADER_BYTES + FOOTER_BYTES) as u64 {
            let detail = format!("a table expected, {file_bytes} bytes found");
            return Err(Error::corruption(file.path(), 0, detail));
        }
        // Index and filter take about 1.3 % of a file of small entries, so that this is one read as a rule.
        let guess = (file_bytes / 64).clamp(MIN_TAIL_BYTES, MAX_TAIL_BYTES).min(file_bytes);
        let mut start = file_bytes - guess;
        let mut bytes = read_range(file, start, guess)?;
        let footer_at = file_bytes - FOOTER_BYTES as u64;
        let Some(footer) = bytes.last_chunk::<FOOTER_BYTES>() else {
            return Err(Error::corruption(file.path(), footer_at, "the footer is cut off"));
        };
        let footer =
            Footer::decode(footer, file_bytes).map_err(|flaw| flaw.into_error(file.path(), footer_at))?;
        if let Some(uid) = expected.filter(|&uid| uid != footer.uid) {
            let detail = format!("table {:016x} expected, table {:016x} found", uid.get(), footer.uid.get());
            return Err(Error::corruption(file.path(), footer_at, detail));
        }
        if footer.data_end < start {
            let mut joined = read_range(file, footer.data_end, start - footer.data_end)?;
            joined.extend_from_slice(&bytes);
            bytes = joined;
            start = footer.data_end;
        }
        let mut tail = Tail { footer, sections: Vec::new(), bytes, start };
        let directory_bytes = u64::from(footer.directory_entries) * DIRECTORY_ENTRY_BYTES as u64;
        tail.sections = footer
            .sections(tail.range(footer.directory_offset, directory_bytes))
            .map_err(|flaw| flaw.into_error(file.path(), footer.directory_offset))?;
        Ok(tail)
    }

    /// Bytes of a part that the footer was checked to place behind the blocks.
    fn range(&self, offset: u64, len: u64) -> &[u8] {
        let from = (offset - self.start) as usize;
        &self.bytes[from..from + len as usize]
    }

    fn section(&self, kind: SectionKind) -> Option<Section> {
        self.sections.iter().copied().find(|section| section.kind == kind)
    }

    /// The filter, in memory or paged; a paged one that is now in memory; and what is wrong with it. Paged or not, it is
    /// verified, so that damage is told early.
    fn filter(&self, file: &dyn File, paged: bool) -> (FilterAccess, Option<Filter>, FilterDamage) {
        let Some(at) = self.section(SectionKind::FILTER) else {
            return (FilterAccess::None, None, FilterDamage::new());
        };
        match self.decode(file, at, |bytes| Filter::decode(bytes).map_err(Flaw::Damaged)) {
            Ok(filter) if paged => (FilterAccess::Paged(at), Some(filter), FilterDamage::new()),
            Ok(filter) => (FilterAccess::Kept(filter), None, FilterDamage::new()),
            Err(error) => (FilterAccess::None, None, FilterDamage::from(error)),
        }
    }

    fn required(&self, file: &dyn File, kind: SectionKind) -> Result<Section> {
        self.section(kind).ok_or_else(|| {
            let detail = format!("the table has no {} section", kind.name());
            Error::corruption(file.path(), self.footer.directory_offset, detail)
        })
    }

    fn decode<T>(
        &self,
        file: &dyn File,
        section: Section,
        decode: impl FnOnce(&[u8]) -> Result<T, Flaw>,
    ) -> Result<T> {
        let bytes = self.range(section.offset, section.len);
        section
            .verify(self.footer.uid, bytes)
            .and_then(|()| decode(bytes))
            .map_err(|flaw| flaw.into_error(file.path(), section.offset))
    }
}

fn read_range(file: &dyn File, offset: u64, len: u64) -> Result<Vec<u8>> {
    // The length is that of a part of the file, which exists.
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
