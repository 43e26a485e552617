//! What a merge hands on of the cache: the blocks that take the place of those that are resident.
//!
//! A merge replaces tables by others with the same entries in other blocks. The blocks that readers had in
//! the cache go with the old tables, and each would have to be read, verified and decompressed anew by the
//! reader who wants it first. The merge has had them in hand, uncompressed, when it wrote them. So a block of
//! the output that is made of blocks which are resident goes into the cache when it is written, and nobody
//! who reads notices the merge. Where nothing is resident nothing is done: it costs a load of a slot for each
//! block that is read. Where blocks are, one of [`SAMPLE_ONE_IN`] costs a look into the cache.
//!
//! RocksDB can do as much for flushes alone (`prepopulate_block_cache`). Ahmad and Kemme ("Compaction
//! management in distributed key-value datastores", 2015) warm the cache after a compaction by reading the
//! new files; LSbM (Teng et al., 2017) keeps the old ones beside the new for as long as they are in use. The
//! one reads again what was just written, the other takes room on the device.
//!
//! # Which blocks
//! Each input tells, when it enters a block, whether that is resident ([`InputResidency`]), and the writer asks, when
//! it ends a block, for whom most of what was entered lately is there: one question a block on either side,
//! none an entry. RecentResidency means that what was entered since the block before counts whole, what came before
//! that half, and so on: blocks of inputs and output begin at different keys, and those of many inputs are
//! entered at different times. [`LEAST_WARM`] is such that a resident block among others that are not is
//! followed by one block of the output, so that as much is handed over as is resident, and that runs of
//! different sizes do not keep each other out.
//!
//! # What holds
//! * HO5. A block that is handed over has the bytes that a reader would have loaded, header and payload, and
//!   passed the same validation (BS6). It has not passed the file's checksum: it is what the checksum was
//!   computed from. If the file's copy is damaged later that is found when it is read, as with every block
//!   that is cached.
//! * HO6. It lies under the number of its own table's home, which the table is opened with. Until the table
//!   is in a tree nobody finds it; if that never happens the home goes with the [`WarmedTable`], and so does
//!   what lies under its number (BS5).
//! * HO7. Where somebody else has to go for it, a merge hands over no more than a share of the cache
//!   ([`MAX_DISPLACED_SHARE`]): the blocks that it stands for stay until the merge is installed, because they are in
//!   use until then, and until it is worth removing them ([`esker_cache::BlockCache::is_worth_removing`]), so
//!   both are there for a while. Where there is room there is no limit.
//! * HO8. Where no input is resident there is no home and no memory, and where tables have slots no call of
//!   the cache.
//! * HO11. Whether a block is resident its slot tells; without slots the cache is asked about each. For whom
//!   it is there, and whether it would go next, the cache is asked: of a cache that has room about one block
//!   in [`SAMPLE_ONE_IN`] of each input, for the others as well, because scans bring in stretches of blocks;
//!   of a full one about each, because others have to go.
//! * HO12. What its slot has a job takes from the cache: it walks over the block there, which is verified and
//!   decompressed already (HO5, [`crate::cursor`]). Where all is there nothing is read; a window of the file
//!   that holds what is not brings what lies between along, unused. So a merge of what is in use costs no
//!   reads, and what it writes is what readers saw. No use is noted, and no hit counted.
//!
//! Flushes have no inputs in the cache. Whether readers want what was just written is for their caller to say
//! ([`InputResidency::of_memtables`]), and nobody has to go for it.
//!
//! Left out on purpose: blocks of mapped tables that are stored as they are, which are entered where they lie
//! ([`CacheWarmer::for_mapped`]); blocks of tables that were closed, whose slots are gone; paged filters, which the
//! first lookup loads.
//!
//! # Rejected
//! * Reading the blocks back before the install: no memory beside the cache's, and nothing in the writer, but
//!   the reads and decompression that this is to save, by somebody else.
//! * Keeping the blocks aside until the install, to put them in where the inputs' go: memory that nobody
//!   counts, as much as is resident.
//! * Taking an input's block out of a full cache when its place is taken: readers want it until the install,
//!   each would load it for itself.
//! * The share of each block's entries that came from resident ones: exact, and a question for each entry.

use crate::block::header::HEADER_BYTES;
use crate::block::{BlockBuffer, BlockHeader, BlockRef};
use crate::cached_part::CachedPart;
use crate::decode_error::DecodeError;
use crate::read_ahead::JobControl;
use crate::table::Table;
use crate::table_identity::{OpenTables, TableIdentity};
use esker_base::Result;
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_codec::id;
use esker_filter::FilterWatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What share of what was entered lately must be resident, as numerator and denominator. Of blocks of one
/// size, of which one in many is resident, the first that ends after it sees a half, the second a quarter.
const LEAST_WARM: (u64, u64) = (3, 8);

/// Of so many resident blocks of an input, one after the other, one is looked up in the cache while that has
/// room. A look takes the lock of a shard and three lines that nobody has near.
const SAMPLE_ONE_IN: u8 = 8;

/// What part of the cache a merge fills at the cost of others, for each of its threads: an eighth.
const MAX_DISPLACED_SHARE: usize = 8;

/// What the inputs of a merge tell its output: bytes of blocks that were entered, by whom they are in the
/// cache for. Those who share one take turns, on one thread at a time.
#[derive(Debug, Default)]
pub struct InputResidency {
    points: AtomicU64,
    scans: AtomicU64,
    cold: AtomicU64,
    /// Bytes that were handed over at the cost of others.
    displacing_bytes: AtomicU64,
    /// There are no inputs in files: all that is written is wanted, as far as there is room.
    is_in_memory: bool,
}

/// How a job reads an input that it replaces: who is asked before each piece, and who is told what of it is
/// in the cache.
#[derive(Clone, Debug)]
pub struct InputReading {
    /// See [`JobControl`].
    pub control: Arc<dyn JobControl>,
    /// See [`InputResidency`].
    pub residency: Arc<InputResidency>,
}

/// What the cache said last of an input's blocks (HO11).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResidencySample {
    admission: Option<Admission>,
    /// For so many resident blocks more it holds.
    holds_for: u8,
}

impl InputResidency {
    /// Of memtables that are read as well as written: all of their tables is wanted as long as nobody has to
    /// go for it.
    pub fn of_memtables() -> InputResidency {
        InputResidency { is_in_memory: true, ..InputResidency::default() }
    }

    /// Block `number` of a table was entered, which has so many bytes in the file. `last` is the input's own.
    pub(crate) fn note(&self, table: &Table, number: usize, bytes: u64, last: &mut ResidencySample) {
        let entered = match table.resident_for(number, bytes, last) {
            None => &self.cold,
            Some(Admission::Point) => &self.points,
            Some(Admission::Scan) => &self.scans,
        };
        // One thread at a time.
        entered.store(entered.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

impl Table {
    /// On whose behalf block `number` is in the cache, which has so many bytes (HO11).
    fn resident_for(&self, number: usize, bytes: u64, last: &mut ResidencySample) -> Option<Admission> {
        let ask = || self.cache.wanted_by(&self.cache_key(number));
        let Some(slot) = self.slots.get(number) else { return ask() };
        if slot.address() == 0 {
            return None;
        }
        // As much as what is answered for may take: those who hand over see to it that it fits.
        let room_bytes = (bytes as usize + self.cache.entry_overhead_bytes()) * usize::from(SAMPLE_ONE_IN);
        if last.holds_for == 0 || !self.cache.has_room_for(room_bytes) {
            let admission = ask();
            *last = ResidencySample { admission, holds_for: admission.map_or(1, |_| SAMPLE_ONE_IN) };
        }
        last.holds_for -= 1;
        last.admission
    }
}

/// What was entered lately.
#[derive(Clone, Copy, Debug, Default)]
struct RecentResidency {
    points: u64,
    scans: u64,
    cold: u64,
}

impl RecentResidency {
    /// Adds what was entered since it was last asked.
    fn update(&mut self, residency: &InputResidency) {
        let take = |counter: &AtomicU64| {
            let bytes = counter.load(Ordering::Relaxed);
            if bytes > 0 {
                counter.store(0, Ordering::Relaxed);
            }
            bytes
        };
        let (points, scans, cold) = (take(&residency.points), take(&residency.scans), take(&residency.cold));
        if points + scans + cold > 0 {
            *self = RecentResidency {
                points: self.points / 2 + points,
                scans: self.scans / 2 + scans,
                cold: self.cold / 2 + cold,
            };
        }
    }

    /// For whom a block that is made of it belongs into the cache.
    fn admission(&self) -> Option<Admission> {
        let (warm, (numerator, denominator)) = (self.points + self.scans, LEAST_WARM);
        if warm == 0 || warm * denominator < (warm + self.cold) * numerator {
            return None;
        }
        Some(if self.points >= self.scans { Admission::Point } else { Admission::Scan })
    }
}

/// What a table has inherited before it was opened: its home, which has slots for those of its blocks that
/// were put into the cache (HM4).
#[derive(Debug)]
pub struct WarmedTable {
    identity: Arc<TableIdentity>,
}

impl WarmedTable {
    /// The home that the table is to be opened with.
    pub fn identity(&self) -> &Arc<TableIdentity> {
        &self.identity
    }
}

/// Hands blocks of a table to the cache while it is written.
#[derive(Debug)]
pub struct CacheWarmer {
    tables: Arc<OpenTables>,
    watch: Option<Arc<FilterWatch>>,
    residency: Arc<InputResidency>,
    recent: RecentResidency,
    /// Blocks that are stored as they are will be read where they lie.
    is_mapped: bool,
    /// From the first block on that is handed over.
    warmed: Option<WarmedTable>,
}

impl CacheWarmer {
    /// For a table that will be opened among `tables`, with somebody who counts what its filter answers.
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

    /// For a table whose file will be mapped: nobody will ask the cache for blocks that are stored as they
    /// are.
    #[must_use]
    pub fn for_mapped(self) -> CacheWarmer {
        CacheWarmer { is_mapped: true, ..self }
    }

    /// A block ends, which is to have this number: for whom it belongs into the cache. Its place there is on
    /// its way while the block is compressed.
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

    /// Puts a block into the cache, of which the file has `image`, and `payload` uncompressed.
    ///
    /// # Errors
    /// What the block's validation finds: the encoder made something that readers would refuse.
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
        let block = buffer.finish(Arc::downgrade(&warmed.identity))?;
        let key = CacheKey { table: warmed.identity.number(), block: header.number };
        let part = CachedPart::Block(BlockRef::clone(&block));
        warmed.identity.cache().hand_over(key, part, BlockKind::Data, admission);
        warmed.identity.add_warm_block(&block, header.number);
        Ok(())
    }

    /// Whether there is room for so many bytes, or others may have to go for them (HO7).
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
            None => TableIdentity::watched(&self.tables, self.watch.clone())?,
        };
        Ok(self.warmed.insert(WarmedTable { identity }))
    }

    pub(crate) fn into_warmed(self) -> Option<WarmedTable> {
        self.warmed
    }
}
