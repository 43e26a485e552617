//! An open table: identity, index and filter in memory, blocks through the cache.

use crate::block::BlockRef;
use crate::block_bounds::BoundsSection;
use crate::cached_part::TableCache;
use crate::decode_error::DecodeError;
use crate::dictionary;
use crate::filter_access::{FilterAccess, FilterDamage};
use crate::footer::{Section, SectionKind};
use crate::index::{BlockIndex, IndexKind, OpenedIndex};
use crate::options::TableReading;
use crate::properties::TableProperties;
use crate::range_tombstones;
use crate::read_pattern::ReadPatterns;
use crate::section_reader::SectionReader;
use crate::simd::InstructionSet;
use crate::slots::{Slots, empty_slots};
use crate::table_identity::TableIdentity;
use crate::verified_blocks::VerifiedBlocks;
use esker_base::{Error, KeyspaceId, Result, SeqNo, TableUid};
use esker_codec::DictionaryDecoder;
use esker_env::File;
use esker_filter::FilterPolicy;
use esker_iter::RangeTombstones;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The table that a file is expected to hold, so that a swapped file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedTable {
    /// Random number of the table, written at its creation.
    pub uid: TableUid,
    /// Its keyspace. Not compared for ingested tables, which were written without knowing it.
    pub keyspace: KeyspaceId,
    /// The sequence number of all entries, if the table was ingested; the file says 0.
    pub global_seqno: Option<SeqNo>,
}

/// A table file, open for reading. Index, filter and range tombstones are in memory; blocks are read on
/// demand and cached.
///
/// Everything is immutable, so a table may be used from all threads.
pub struct Table {
    pub(crate) index: Option<BlockIndex>,
    /// The requested index form, and the reason for the one in use.
    pub(crate) index_requested: IndexKind,
    pub(crate) index_reason: &'static str,
    /// Why the requested form could not be used, if its section is damaged.
    index_damage: Option<Error>,
    pub(crate) bounds: Option<BoundsSection>,
    pub(crate) data_end: u64,
    pub(crate) filter: FilterAccess,
    pub(crate) filter_rate: f64,
    /// Which blocks of the mapped file were verified. `None` if the file is not mapped, or if the index is
    /// not one in memory that every lookup uses: then blocks are copied from the map as from a file.
    pub(crate) verified: Option<VerifiedBlocks>,
    /// Slots of cached blocks, if the cache kind supports them; empty otherwise.
    pub(crate) slots: Slots<BlockRef>,
    pub(crate) identity: Arc<TableIdentity>,
    /// The identity's cache and number, copied here because every lookup needs them.
    pub(crate) cache: Arc<TableCache>,
    pub(crate) number: u32,
    pub(crate) isa: InstructionSet,
    /// Whether blocks are likely raw, as the last one read: then they are read straight into their memory.
    pub(crate) expects_raw_blocks: AtomicBool,
    pub(crate) uid: TableUid,
    /// What a stored sequence number of 0 stands for; 0 unless the table was ingested.
    pub(crate) global_seqno: SeqNo,
    pub(crate) file: Arc<dyn File>,
    pub(crate) patterns: Arc<ReadPatterns>,
    properties: TableProperties,
    range_tombstones: Arc<RangeTombstones>,
    pub(crate) dictionary: Option<DictionaryDecoder>,
    sections: Vec<Section>,
    file_bytes: u64,
    /// Why the filter is not used, if it is damaged.
    pub(crate) filter_damage: FilterDamage,
}

impl Table {
    /// Opens the table in `file`, which has `file_bytes`: reads its end, verifies and decodes it. No block is
    /// read.
    ///
    /// `identity` must be this file's, without another open table (HM2).
    ///
    /// A damaged filter does not keep a table from being read: it is left out, see [`Table::filter_damage`].
    /// A paged filter is not read now, so its damage shows with the first lookup that uses it.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is damaged or is not the expected table, [`Error::Unsupported`] if a
    /// newer version wrote it, and errors of reading.
    pub fn open(
        file: Arc<dyn File>,
        file_bytes: u64,
        expected: ExpectedTable,
        identity: Arc<TableIdentity>,
    ) -> Result<Table> {
        Table::open_for(file, file_bytes, Some(expected), identity, TableReading::default())
    }

    /// As [`Table::open`], for any table: for inspection and repair.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_any(file: Arc<dyn File>, file_bytes: u64, identity: Arc<TableIdentity>) -> Result<Table> {
        Table::open_for(file, file_bytes, None, identity, TableReading::default())
    }

    /// As [`Table::open`], or as [`Table::open_any`] without an expected table, with the reader's choices.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_for(
        file: Arc<dyn File>,
        file_bytes: u64,
        expected: Option<ExpectedTable>,
        identity: Arc<TableIdentity>,
        reading: TableReading,
    ) -> Result<Table> {
        let requested = reading.index;
        let reader = SectionReader::read(
            &*file,
            file_bytes,
            expected.map(|expected| expected.uid),
            identity.pages_filters(),
            |kind| match kind {
                SectionKind::INDEX_PAGES => true,
                SectionKind::LOCATOR => !requested.needs_locator(),
                SectionKind::INDEX => requested.needs_pages(),
                _ => false,
            },
        )?;
        let properties_at = reader.required(&*file, SectionKind::PROPERTIES)?;
        let properties = reader.decode(&*file, properties_at, TableProperties::decode)?;
        let global_seqno = expected.and_then(|expected| expected.global_seqno);
        check_keyspace(expected, &properties)
            .map_err(|detail| Error::corruption(file.path(), properties_at.offset, detail))?;
        let mut opened = OpenedIndex::open(&reader, &*file, &properties, requested)?;
        let bounds = BoundsSection::open(&reader, &*file, properties.blocks, &mut opened.damage);
        let has_locator = opened.index.as_ref().is_some_and(|index| index.locator().is_some());
        let (filter, filter_damage) = match has_locator {
            // The locator answers what the filter would be asked.
            true => (FilterAccess::None, FilterDamage::new()),
            false => reader.filter(&*file, identity.pages_filters()),
        };
        let range_tombstones = range_tombstones_of(&reader, &*file)?;
        let dictionary = reader.section(SectionKind::DICTIONARY).map(|at| {
            reader.decode(&*file, at, |section| dictionary::decode(reader.footer.uid, at.offset, section))
        });
        let slots = if identity.cache().kind().has_shortcuts() { opened.slots() } else { 0 };
        let table = Table {
            filter_rate: expected_rate(&properties),
            verified: VerifiedBlocks::begin(&*file, opened.index.as_ref()),
            slots: empty_slots(slots),
            index: opened.index,
            index_requested: requested,
            index_reason: opened.reason,
            index_damage: opened.damage,
            bounds,
            data_end: reader.footer.data_end,
            filter,
            cache: Arc::clone(identity.cache()),
            number: identity.number(),
            identity,
            isa: InstructionSet::detect(),
            expects_raw_blocks: AtomicBool::new(properties.codec == esker_codec::Codec::None.name()),
            uid: reader.footer.uid,
            global_seqno: global_seqno.unwrap_or(SeqNo::ZERO),
            // The sections were read in large pieces.
            patterns: ReadPatterns::begin(Arc::clone(&file)),
            file,
            properties,
            range_tombstones,
            dictionary: dictionary.transpose()?,
            sections: reader.sections,
            file_bytes,
            filter_damage,
        };
        table.identity.opened(&table.slots, table.memory_bytes(), table.properties().uncompressed_bytes);
        Ok(table)
    }

    /// The random number that the table was given when it was written.
    pub fn uid(&self) -> TableUid {
        self.uid
    }

    /// The table's properties.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The sections behind the blocks.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The range tombstones, which are in memory.
    #[inline]
    pub fn range_tombstones(&self) -> &Arc<RangeTombstones> {
        &self.range_tombstones
    }

    /// Damage of the index pages or the locator, if they were requested and are not used for it, or of the
    /// block bounds. Reads are right without them: they use the search tree and look into blocks.
    pub fn index_damage(&self) -> Option<&Error> {
        self.index_damage.as_ref()
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.index.as_ref().map_or(0, BlockIndex::blocks)
    }

    /// Bytes of memory of index, dictionary, slots, range tombstones, properties and the unpaged filter.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.index.as_ref().map_or(0, BlockIndex::memory_bytes)
            + self.bounds.as_ref().map_or(0, BoundsSection::memory_bytes)
            + self.filter.memory_bytes()
            + self.dictionary.as_ref().map_or(0, DictionaryDecoder::memory_bytes)
            + size_of_val(&*self.slots)
            + self.verified.as_ref().map_or(0, VerifiedBlocks::memory_bytes)
            + self.properties.min_key.len()
            + self.properties.max_key.len()
            + self.range_tombstones.memory_bytes()
    }

    /// Whether `key` lies between the table's first and last key.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.index.is_some() && *self.properties.min_key <= *key && *key <= *self.properties.max_key
    }

    /// Prefetches the line of the locator that a lookup reads first, if the table uses a locator.
    pub(crate) fn prefetch_locator(&self, hash: u64) {
        if let Some(locator) = self.index.as_ref().and_then(BlockIndex::locator) {
            locator.prefetch(hash);
        }
    }

    /// Whether a reader at `seqno` may see any entry of the table.
    #[inline]
    pub fn is_visible_at(&self, seqno: SeqNo) -> bool {
        self.properties.min_seqno.max(self.global_seqno) <= seqno
    }

    #[cold]
    pub(crate) fn decode_error_at(&self, error: DecodeError, offset: u64) -> Error {
        error.into_error(self.file.path(), offset)
    }

    /// Makes lookups use this instruction set, which must be available, so that tests compare them.
    #[cfg(test)]
    pub(crate) fn set_isa(&mut self, isa: InstructionSet) {
        assert!(isa.is_available());
        self.isa = isa;
    }
}

fn range_tombstones_of(reader: &SectionReader, file: &dyn File) -> Result<Arc<RangeTombstones>> {
    Ok(match reader.section(SectionKind::RANGE_TOMBSTONES) {
        None => Arc::default(),
        Some(at) => Arc::new(reader.decode(file, at, range_tombstones::decode)?),
    })
}

/// Expected false-positive rate of the filter; 1 for one of an unknown policy, which is unreadable.
fn expected_rate(properties: &TableProperties) -> f64 {
    properties.filter.parse::<FilterPolicy>().unwrap_or(FilterPolicy::None).false_positive_rate()
}

fn check_keyspace(expected: Option<ExpectedTable>, properties: &TableProperties) -> Result<(), String> {
    // An ingested table was written without knowing its keyspace.
    let own = expected.filter(|expected| expected.global_seqno.is_none());
    match own.map(|expected| expected.keyspace).filter(|keyspace| *keyspace != properties.keyspace) {
        Some(wanted) => Err(format!(
            "a table of keyspace {wanted} expected, one of keyspace {} found",
            properties.keyspace
        )),
        None => Ok(()),
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.identity.closed(&self.slots, self.memory_bytes());
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
