//! Cache warming: inserts output blocks of a merge into the block cache if their input blocks are resident.
//!
//! A merge replaces tables by others with the same entries in other blocks. The cached blocks go with the old
//! tables, and the first reader of each would have to read, verify and decompress it again. The merge has the
//! new blocks uncompressed when it writes them, so an output block made of resident input blocks is inserted
//! then. Without resident inputs this costs one load of a slot for each input block; with them, also a cache
//! probe for one resident block in `SAMPLE_ONE_IN` ([`crate::input_residency`]).
//!
//! RocksDB warms the cache for flushes alone (`prepopulate_block_cache`). Ahmad and Kemme ("Compaction
//! management in distributed key-value datastores", 2015) warm it after a compaction by reading the new
//! files. LSbM (Teng et al., 2017) keeps the old files beside the new ones while they are in use, which takes
//! space on the device.
//!
//! # Which blocks
//! Each input reports, when it enters a block, whether that block is resident ([`InputResidency`]). When the
//! writer ends a block, it computes for which kind of reader most of the recently entered bytes are resident:
//! one check a block, none an entry. Bytes entered since the last output block count whole, those before that
//! half, and so on: input and output blocks begin at different keys, and blocks of different inputs are
//! entered at different times. With [`MIN_WARM_SHARE`], a single resident block among others is followed by
//! one warm output block. So as much is warmed as is resident, and runs of different sizes do not suppress
//! each other.
//!
//! # Invariants
//! * HO5. A warm block has the bytes that a reader would have loaded, header and payload, and passed the same
//!   validation (BS6). It has not passed the file's checksum: that was computed from it. Later damage of the
//!   file's copy is found when that is read, as with every cached block.
//! * HO6. It is cached under the number of its own table's identity, with which the table is opened. Until
//!   the table is in a tree no reader finds the block; if the table never gets there, the identity is dropped
//!   with the [`WarmedTable`], and so is everything under its number (BS5).
//! * HO7. Where it would evict other blocks, a merge warms no more than a share of the cache
//!   ([`MAX_DISPLACED_SHARE`]). The input blocks stay while they are in use, until the merge is installed,
//!   and further until removing them is worthwhile ([`esker_cache::BlockCache::should_remove_dropped`]); both
//!   copies exist for a while. In free space there is no limit.
//! * HO8. If no input is resident, no identity is made and no memory used and, where tables have slots, the
//!   cache is not called.
//! * HO11. A block's slot tells whether it is resident; without slots the cache is probed for each block. The
//!   cache tells for which kind of reader it is there, and whether it would be evicted next: a cache with
//!   free space is probed for one block in `SAMPLE_ONE_IN` of each
//!   input, and the answer holds for the others, because scans load consecutive blocks; a full cache is
//!   probed for each block, because others have to be evicted.
//! * HO12. A job reads a block from the cache if its slot has it: it walks over the cached block, which is
//!   verified and decompressed already (HO5, [`crate::cursor`]). If all blocks are there, the file is not
//!   read; a read window with a missing block also reads, unused, the blocks between. So a merge of data in
//!   use costs no reads. No use is recorded, and no hit is counted.
//!
//! Flushes have no inputs in the cache; their caller decides whether readers need the new blocks
//! ([`InputResidency::of_memtables`]), which evict nothing.
//!
//! Not warmed: uncompressed blocks of mapped tables, which are read in place ([`CacheWarmer::for_mapped`]);
//! blocks whose input tables were closed and so have no slots; paged filters, which the first lookup loads.
//!
//! # Rejected
//! * Reading the blocks back before the install: needs no memory beside the cache and nothing in the writer,
//!   but performs the reads and decompression that warming saves.
//! * Keeping the blocks aside until the install: uncounted memory, as much as is resident.
//! * Evicting an input's block from a full cache when its replacement is inserted: readers use it until the
//!   install, and each would load it again.
//! * The exact share of each block's entries that came from resident blocks: a check for each entry.

use crate::block::header::HEADER_BYTES;
use crate::block::{BlockBuffer, BlockHeader, BlockRef};
use crate::cached_part::CachedPart;
use crate::decode_error::DecodeError;
use crate::input_residency::InputResidency;
use crate::table_identity::{OpenTables, TableIdentity};
use esker_base::Result;
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_codec::id;
use esker_filter::FilterWatch;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Share of the recently entered bytes that must be resident, as numerator and denominator. Of blocks of one
/// size of which one in many is resident, the first that ends after it sees a half, the second a quarter.
const MIN_WARM_SHARE: (u64, u64) = (3, 8);

/// Largest part of the cache that one thread of a merge may fill by evicting other blocks: an eighth.
const MAX_DISPLACED_SHARE: usize = 8;

/// Bytes entered recently.
#[derive(Clone, Copy, Debug, Default)]
struct RecentResidency {
    points: u64,
    scans: u64,
    cold: u64,
}

impl RecentResidency {
    /// Adds what was entered since the last call.
    fn update(&mut self, residency: &InputResidency) {
        let [points, scans, cold] = residency.take_entered();
        if points + scans + cold > 0 {
            *self = RecentResidency {
                points: self.points / 2 + points,
                scans: self.scans / 2 + scans,
                cold: self.cold / 2 + cold,
            };
        }
    }

    /// The kind of reader to cache the present output block for; `None` if it is not to be cached.
    fn admission(&self) -> Option<Admission> {
        let (warm, (numerator, denominator)) = (self.points + self.scans, MIN_WARM_SHARE);
        if warm == 0 || warm * denominator < (warm + self.cold) * numerator {
            return None;
        }
        Some(if self.points >= self.scans { Admission::Point } else { Admission::Scan })
    }
}

/// The identity of a table that was warmed before it is opened; it has slots for the warm blocks (HM4).
#[derive(Debug)]
pub struct WarmedTable {
    identity: Arc<TableIdentity>,
}

impl WarmedTable {
    /// The identity to open the table with.
    pub fn identity(&self) -> &Arc<TableIdentity> {
        &self.identity
    }
}

/// Inserts a table's blocks into the cache while the table is written.
#[derive(Debug)]
pub struct CacheWarmer {
    tables: Arc<OpenTables>,
    watch: Option<Arc<FilterWatch>>,
    residency: Arc<InputResidency>,
    recent: RecentResidency,
    /// Blocks stored uncompressed will be read from the mapped file.
    is_mapped: bool,
    /// Set by the first warm block.
    warmed: Option<WarmedTable>,
}

impl CacheWarmer {
    /// For a table that will be opened among `tables`; `watch` counts the answers of its filter.
    pub fn new(
        tables: &Arc<OpenTables>,
        watch: Option<Arc<FilterWatch>>,
        residency: &Arc<InputResidency>,
    ) -> CacheWarmer {
        let (tables, residency) = (Arc::clone(tables), Arc::clone(residency));
        CacheWarmer {
            tables,
            watch,
            residency,
            recent: RecentResidency::default(),
            is_mapped: false,
            warmed: None,
        }
    }

    /// For a table whose file will be mapped: its uncompressed blocks are not read through the cache.
    #[must_use]
    pub fn for_mapped(self) -> CacheWarmer {
        CacheWarmer { is_mapped: true, ..self }
    }

    /// The admission of block `number`, which ends now. Prefetches its cache bucket during compression.
    pub(crate) fn end_block(&mut self, number: u32) -> Option<Admission> {
        let admission = match self.residency.is_in_memory {
            true => Some(Admission::Point),
            false => {
                self.recent.update(&self.residency);
                self.recent.admission()
            }
        };
        if let (Some(_), Some(warmed)) = (admission, &self.warmed) {
            let identity = &warmed.identity;
            identity.cache().prefetch(&CacheKey { table: identity.number(), block: number });
        }
        admission
    }

    /// Inserts a block into the cache whose file image is `image` and whose uncompressed payload is
    /// `payload`.
    ///
    /// # Errors
    /// What the block's validation finds: the encoder produced something that readers would refuse.
    pub(crate) fn insert_warm(
        &mut self,
        header: &BlockHeader,
        image: &[u8],
        payload: &[u8],
        admission: Admission,
    ) -> std::result::Result<(), DecodeError> {
        if self.is_mapped && header.codec_id == id::NONE || !self.may_insert(payload.len()) {
            return Ok(());
        }
        let Ok(warmed) = self.warmed() else { return Ok(()) };
        let mut buffer = BlockBuffer::new(payload.len());
        let bytes = buffer.bytes_mut();
        bytes[..HEADER_BYTES].copy_from_slice(&image[..HEADER_BYTES]);
        bytes[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
        let block = buffer.finish(Arc::downgrade(warmed.identity.slots()))?;
        let key = CacheKey { table: warmed.identity.number(), block: header.number };
        let part = CachedPart::Block(BlockRef::clone(&block));
        warmed.identity.cache().insert_warm(key, part, BlockKind::Data, admission);
        warmed.identity.add_warm_block(&block, header.number);
        Ok(())
    }

    /// Whether there is free space for so many bytes, or other blocks may be evicted for them (HO7).
    fn may_insert(&self, bytes: usize) -> bool {
        let cache = self.tables.cache();
        if cache.has_room_for(bytes + cache.entry_overhead_bytes()) {
            return true;
        }
        if self.residency.is_in_memory {
            return false;
        }
        let displacing_bytes = self.residency.displacing_bytes.load(Ordering::Relaxed) + bytes as u64;
        if displacing_bytes > (cache.capacity_bytes() / MAX_DISPLACED_SHARE) as u64 {
            return false;
        }
        self.residency.displacing_bytes.store(displacing_bytes, Ordering::Relaxed);
        true
    }

    fn warmed(&mut self) -> Result<&mut WarmedTable> {
        let identity = match self.warmed.take() {
            Some(warmed) => return Ok(self.warmed.insert(warmed)),
            None => TableIdentity::with_filter_watch(&self.tables, self.watch.clone())?,
        };
        Ok(self.warmed.insert(WarmedTable { identity }))
    }

    pub(crate) fn into_warmed(self) -> Option<WarmedTable> {
        self.warmed
    }
}
