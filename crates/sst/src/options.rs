//! Options of a table writer and a table reader, and the writer's summary.

use crate::block::delta_encode::DeltaOptions;
use crate::block::staged::LayoutOptions;
use crate::block::{BlockLayout, header};
use crate::block_bounds::BlockBounds;
use crate::expiring::Expiring;
use crate::footer::FILE_HEADER_BYTES;
use crate::index::IndexKind;
use crate::page_alignment::PAGE_BYTES;
use crate::properties::TableProperties;
use esker_base::{Error, KeyspaceId, Result, SeqNo, TableUid};
use esker_codec::Codec;
use esker_filter::FilterPolicy;
use esker_iter::TombstoneHull;

/// How to write a table. The defaults suit data that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Arrangement of entries in blocks.
    pub layout: BlockLayout,
    /// A block is closed before it would get larger than this, uncompressed and with its frame, in bytes. A
    /// larger entry gets a block of its own. 512 to 65,536 are sensible; 4,096 is the default, by
    /// measurement.
    pub block_size_bytes: usize,
    /// Whether a block of at most a page lies in one page of the file, with zeros before it where it would
    /// cross into the next ([`crate::page_alignment`]).
    pub aligns_blocks: bool,
    /// Entries from one restart point to the next, for [`BlockLayout::Delta`]; at least 1.
    pub restart_interval: u16,
    /// Hash slots per hundred entries of a [`BlockLayout::Delta`] block: at most 400, 0 for none.
    pub hash_slots_percent: u16,
    /// Compression of blocks.
    pub codec: Codec,
    /// The filter over all keys.
    pub filter: FilterPolicy,
    /// Bits of the whole filter, whatever number of keys the table gets; the bits a key follow from it, and
    /// the kind from `filter`. `None` to take the bits a key from `filter`.
    pub filter_bits: Option<u64>,
    /// The index kind of most reads: its pages or locator are written if it needs them.
    pub index: IndexKind,
    /// Whether the table stores where the keys of its blocks end and begin.
    pub bounds: BlockBounds,
    /// The database that the table is written for; shown by inspection.
    pub db_uuid: [u8; 16],
    /// Random number of the table. Every checksum in the file is bound to it.
    pub uid: TableUid,
    /// The keyspace that the table belongs to.
    pub keyspace: KeyspaceId,
    /// The level that the table is written for.
    pub level: u8,
    /// Creation time, in milliseconds since 1970.
    pub created_ms: u64,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            layout: BlockLayout::Flat,
            block_size_bytes: 4096,
            aligns_blocks: false,
            restart_interval: 16,
            hash_slots_percent: 100,
            codec: Codec::None,
            filter: FilterPolicy::DEFAULT,
            filter_bits: None,
            index: IndexKind::default(),
            bounds: BlockBounds::default(),
            db_uuid: [0; 16],
            uid: TableUid(0),
            keyspace: KeyspaceId(0),
            level: 0,
            created_ms: 0,
        }
    }
}

/// How a table is read: what a reader chooses each time it opens the table. The file does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableReading {
    /// The form of the block index in memory.
    pub index: IndexKind,
}

impl TableOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming what is out of range.
    pub fn validate(&self) -> Result<()> {
        if !(header::FRAME_BYTES..=MAX_BLOCK_SIZE_BYTES).contains(&self.block_size_bytes) {
            let size = self.block_size_bytes;
            return Err(Error::invalid(format!(
                "blocks have at most {MAX_BLOCK_SIZE_BYTES} bytes, not {size}"
            )));
        }
        if self.restart_interval == 0 {
            return Err(Error::invalid("restart points need an interval of at least one entry"));
        }
        if self.hash_slots_percent > DeltaOptions::MAX_HASH_SLOTS_PERCENT {
            let (most, found) = (DeltaOptions::MAX_HASH_SLOTS_PERCENT, self.hash_slots_percent);
            return Err(Error::invalid(format!(
                "hash slots are at most {most} % of the entries, not {found}"
            )));
        }
        self.codec.validate()
    }

    /// The properties that the options determine; the rest is counted while writing.
    pub(crate) fn initial_properties(&self) -> TableProperties {
        let is_delta = self.layout == BlockLayout::Delta;
        TableProperties {
            min_seqno: SeqNo::MAX,
            block_size_bytes: self.block_size_bytes as u64,
            layout: self.layout.name().to_owned(),
            restart_interval: if is_delta { u64::from(self.restart_interval) } else { 0 },
            hash_slots_percent: if is_delta { u64::from(self.hash_slots_percent) } else { 0 },
            level: u64::from(self.level),
            filter: self.filter.to_string(),
            codec: self.codec.to_string(),
            created_ms: self.created_ms,
            uid: self.uid,
            keyspace: self.keyspace,
            db_uuid: self.db_uuid,
            single_version: true,
            ..TableProperties::default()
        }
    }

    /// The limit of the first block: what the file header leaves of the first page, if blocks are aligned.
    pub(crate) fn first_block_size_bytes(&self) -> usize {
        match self.block_size_bytes {
            size if self.aligns_blocks && size <= PAGE_BYTES => size.min(PAGE_BYTES - FILE_HEADER_BYTES),
            size => size,
        }
    }

    pub(crate) fn layout_options(&self) -> LayoutOptions {
        match self.layout {
            BlockLayout::Flat => LayoutOptions::Flat,
            BlockLayout::Delta => LayoutOptions::Delta(DeltaOptions {
                restart_interval: self.restart_interval,
                hash_slots_percent: self.hash_slots_percent,
            }),
        }
    }
}

/// Largest target size of a block: the range of two-byte offsets.
pub const MAX_BLOCK_SIZE_BYTES: usize = 65_536;

/// A table that was written and synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Length of the file.
    pub file_bytes: u64,
    /// Bytes of the blocks in the file.
    pub data_bytes: u64,
    /// Bytes of all keys and values.
    pub raw_bytes: u64,
    /// Number of entries: every version counts.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Entries that expire.
    pub expiring: Expiring,
    /// Number of blocks.
    pub blocks: u32,
    /// First key; empty if there is no entry.
    pub smallest: Vec<u8>,
    /// Last key; empty if there is no entry.
    pub largest: Vec<u8>,
    /// Range tombstones: each counts once for every fragment that it covers.
    pub range_tombstones: u64,
    /// First and last key that range tombstones cover (no last key if they have no end); `None` without any.
    pub deleted: Option<TombstoneHull>,
    /// Least sequence number, including range tombstones; [`SeqNo::MAX`] if the table is empty.
    pub min_seqno: SeqNo,
    /// Greatest sequence number, including range tombstones; [`SeqNo::ZERO`] if the table is empty.
    pub max_seqno: SeqNo,
    /// Whether every key has one version only, all entries are plain puts and there are no range tombstones:
    /// readers that see `max_seqno` need not check versions at all.
    pub single_version: bool,
}
